"""The ordering algorithm, sentence by sentence: thesis chapter 5 and Spread paper 3.3."""

import pytest
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import packet
from antiphon.wire.packet import Data, Fragment

HOP_US = 30_000
DELTA_MS = 100.0
EVERY = [Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE]


def cluster_with_members(sites: int, **settings: float) -> tuple[Cluster, list[str]]:
    cluster = Cluster(sites, **settings)
    clients = [cluster.client(site, f"c{site}") for site in range(sites)]
    for client in clients:
        cluster.join(client, "g")
    cluster.run(2_000_000)
    return cluster, clients


def loses_first_packet_with(payload: bytes, receiver: int):
    """Lose the first packet to `receiver` that carries `payload`."""
    lost = []

    def lose(to: int, data: bytes) -> bool:
        if to == receiver and payload in data and not lost:
            lost.append(data)
            return True
        return False

    return lose


def test_reliable_messages_are_never_delayed_by_others():
    """Reliable messages are delivered as soon as the complete message is received; their delivery is never
    delayed due to other messages. (paper 3.3)"""
    cluster, (first, second) = cluster_with_members(2)
    cluster.lose = loses_first_packet_with(b"lost", 1)
    cluster.send(first, "g", b"lost", service=Service.RELIABLE)
    cluster.send(first, "g", b"found", service=Service.RELIABLE)
    cluster.run(1_000_000)
    assert cluster.payloads(second) == [b"found", b"lost"]


def test_fifo_waits_for_the_same_session_only():
    """FIFO messages are delivered after all messages from the same session with lower session sequence
    values. (paper 3.3)"""
    cluster, (first, second) = cluster_with_members(2)
    third = cluster.client(0, "third")
    cluster.lose = loses_first_packet_with(b"lost", 1)
    cluster.send(first, "g", b"lost", service=Service.FIFO)
    cluster.send(first, "g", b"after", service=Service.FIFO)
    cluster.send(third, "g", b"other", service=Service.FIFO)
    cluster.run(1_000_000)
    assert cluster.payloads(second) == [b"other", b"lost", b"after"]


@pytest.mark.parametrize("earlier", EVERY)
def test_fifo_comes_after_anything_sent_before(earlier):
    """If a process sends a FIFO message after sending a previous message, then all processes which deliver
    both deliver them in the order in which they were sent. (property 2.11)"""
    cluster, (first, second, third) = cluster_with_members(3)
    cluster.lose = loses_first_packet_with(b"earlier", 1)
    cluster.send(first, "g", b"earlier", service=earlier)
    cluster.send(first, "g", b"later", service=Service.FIFO)
    cluster.run(1_000_000)
    assert cluster.payloads(second) == cluster.payloads(third) == [b"earlier", b"later"]


def test_everybody_delivers_agreed_messages_in_one_order():
    """Everyone who receives the messages receives them in the same order, no matter who sent them.
    (thesis 5)"""
    cluster, clients = cluster_with_members(4)
    for round_number in range(20):
        for index, client in enumerate(clients):
            cluster.send(client, "g", b"%d from %d" % (round_number, index))
        cluster.run(3_000)
    cluster.run(2_000_000)
    orders = [cluster.payloads(client) for client in clients]
    assert len(orders[0]) == 80
    assert all(order == orders[0] for order in orders)


def test_the_order_holds_across_groups():
    """All messages are globally ordered across groups. (thesis 5)"""
    cluster = Cluster(3)
    clients = [cluster.client(site, f"c{site}") for site in range(3)]
    for client in clients:
        cluster.join(client, "g")
        cluster.join(client, "h")
    cluster.run(2_000_000)
    for number in range(10):
        cluster.send(clients[0], "g", b"g%d" % number)
        cluster.send(clients[2], "h", b"h%d" % number)
        cluster.run(5_000)
    cluster.run(2_000_000)
    orders = [cluster.payloads(client) for client in clients]
    assert len(orders[0]) == 20
    assert all(order == orders[0] for order in orders)


def test_ties_are_broken_by_the_daemon():
    """Ties in lts timestamp are broken by the server identifier. (thesis 5.1.1; ours is part of the lts)"""
    cluster, clients = cluster_with_members(2)
    cluster.send(clients[1], "g", b"from 1")
    cluster.send(clients[0], "g", b"from 0")
    cluster.run(1_000_000)
    messages = [event for event in cluster.events[clients[0]] if isinstance(event, Message)]
    (one_time, one), (other_time, other) = (divmod(message.envelope.lts, 1_024) for message in messages)
    assert one_time == other_time
    assert (one, other) == (0, 1)
    assert cluster.payloads(clients[0]) == cluster.payloads(clients[1]) == [b"from 0", b"from 1"]


def test_the_daemons_of_a_site_number_their_bundles_together():
    """A message can be completely ordered based strictly on information contained in the message: a site id,
    a site sequence, a Lamport time stamp. (paper 3.3; here the stamp also names the daemon)"""
    cluster = Cluster(2, daemons=2)
    clients = cluster.members()
    for number, client in enumerate(clients):
        cluster.send(client, "g", b"from %d" % number)
    cluster.settle()
    messages = [event for event in cluster.events[clients[3]] if isinstance(event, Message)]
    assert sorted(message.envelope.daemon for message in messages) == [0, 1, 2, 3]
    assert all(message.envelope.lts % 1_024 == message.envelope.daemon for message in messages)
    assert [node.order.source for node in cluster.nodes] == [0, 0, 2, 2]
    assert all(cluster.payloads(client) == cluster.payloads(clients[0]) for client in clients)


def test_safe_waits_until_every_site_has_it():
    """The message will only be delivered to an application after it has reached all daemons. (thesis 5)"""
    cluster, clients = cluster_with_members(3)
    cluster.lose = lambda receiver, data: receiver == 2 and b"everywhere" in data
    cluster.send(clients[0], "g", b"everywhere", service=Service.SAFE)
    cluster.run(1_500_000)
    assert all(cluster.payloads(client) == [] for client in clients)
    cluster.lose = lambda receiver, data: False
    cluster.run(3_000_000)
    assert all(cluster.payloads(client) == [b"everywhere"] for client in clients)


def test_agreed_after_safe_waits_for_it():
    """Safe messages are delivered in order consistent with Agreed ordering. (paper 3.3)"""
    cluster, clients = cluster_with_members(2)
    cluster.send(clients[0], "g", b"safe", service=Service.SAFE)
    cluster.send(clients[0], "g", b"agreed", service=Service.AGREED)
    cluster.run(1_000_000)
    assert cluster.payloads(clients[1]) == [b"safe", b"agreed"]


def test_stable_messages_are_discarded():
    """All delivered messages equal to or below this can be discarded. (paper 3.3)"""
    cluster, clients = cluster_with_members(3)
    cluster.send(clients[0], "g", b"x" * 5_000, service=Service.RELIABLE)
    assert cluster.nodes[0].order.retained_bytes > 5_000
    cluster.run(1_000_000)
    assert [node.order.retained_bytes for node in cluster.nodes] == [0, 0, 0]
    assert all(node.is_quiet for node in cluster.nodes)


@pytest.mark.parametrize(
    ("service", "bound_us"),
    [
        (Service.RELIABLE, 3 * HOP_US),
        (Service.FIFO, 3 * HOP_US),
        (Service.AGREED, 2 * 3 * HOP_US + 100_000),
        (Service.SAFE, 3 * 3 * HOP_US + 2 * 100_000),
    ],
)
def test_latency_on_the_chain_of_four(service, bound_us):
    """D, D, 2D + delta, 3D + 2 delta. (thesis table 5.1, figure 5.3: 30 ms a hop, delta 100 ms)"""
    cluster = Cluster(4, delay_us=HOP_US, delta_ms=DELTA_MS)
    clients = [cluster.client(site, f"c{site}") for site in range(4)]
    for client in clients:
        cluster.join(client, "g")
    cluster.run(5_000_000)
    for number in range(25):
        sent_us = cluster.now_us
        cluster.send(clients[0], "g", b"ping%d" % number, service=service)
        cluster.run(1_000_000 + 7_000 * number)
        for client in clients:
            assert cluster.delay_of(client, b"ping%d" % number, sent_us) <= bound_us


def test_a_message_of_many_packets_arrives_whole():
    """Spread will both fragment and reassemble large messages. (paper 3.2)"""
    cluster, clients = cluster_with_members(3)
    large = bytes(range(256)) * 8_192
    cluster.send(clients[0], "g", large, service=Service.AGREED)
    cluster.run(20_000_000)
    assert cluster.payloads(clients[2]) == [large]


def test_unreliable_messages_stand_outside_of_the_order():
    """Unreliable messages are delivered as soon as the full message arrives and do not take part in the main
    delivery protocol. (paper 3.3)"""
    cluster, (first, second) = cluster_with_members(2)
    cluster.lose = lambda receiver, data: b"gone" in data
    cluster.send(first, "g", b"gone", service=Service.UNRELIABLE)
    cluster.send(first, "g", b"kept", service=Service.UNRELIABLE)
    cluster.run(2_000_000)
    assert cluster.payloads(second) == [b"kept"]
    assert all(node.is_quiet for node in cluster.nodes)


def test_fragments_travel_on_despite_missing_ones():
    """Packets are forwarded despite the loss of packets ordered earlier. (paper 3.2, at an inner site)"""
    cluster, clients = cluster_with_members(3, packet_bytes=1_400)
    cluster.crossed.clear()
    lost: list[bytes] = []

    def lose(receiver: int, data: bytes) -> bool:
        parsed = packet.parse(memoryview(data))
        if receiver != 1 or lost or not isinstance(parsed, Data):
            return False
        if any(isinstance(item, Fragment) and item.offset > 0 for item in parsed.items):
            lost.append(data)
            return True
        return False

    cluster.lose = lose
    cluster.send(clients[0], "g", b"y" * 10_000)
    cluster.run(cluster.delay_us + 100)
    assert lost
    assert sum(1 for sender, receiver, data in cluster.crossed if (sender, receiver) == (1, 2)) >= 5
    assert cluster.payloads(clients[1]) == []
    cluster.run(2_000_000)
    assert cluster.payloads(clients[2]) == [b"y" * 10_000]
