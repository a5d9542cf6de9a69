"""Sites of several daemons, sentence by sentence: the Ring with order and membership above it.

Spread paper 3.2 and 3.3, thesis 4.1.
"""

import pytest
from packets_seen import bundles_in
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import packet, token
from antiphon.wire.packet import Data, PacketKind, Update

LAN_US = 200
IN_TURN = (Service.AGREED, Service.CAUSAL)
"""What differs in its service is not gathered: each message is a bundle of its own."""


def world(sites: int = 1, daemons: int = 3, **options: bool) -> Cluster:
    return Cluster(sites, LAN_US, daemons=daemons, membership="lan", **options)


def updates_in(data: bytes) -> list[Update]:
    parsed = packet.parse(memoryview(data))
    if not isinstance(parsed, Data):
        return []
    return [item for item in parsed.items if isinstance(item, Update)]


def kind_of(data: bytes) -> int:
    return packet.parse(memoryview(data)).head.kind


def holder(cluster: Cluster) -> int | None:
    """Who has the token of a single site."""
    return next(
        (
            number
            for number in sorted(cluster.alive)
            if (ring := cluster.nodes[number].working_site_link) and ring.has_turn
        ),
        None,
    )


def ordered(cluster: Cluster, client: str, prefix: bytes = b"") -> list[bytes]:
    return [payload for payload in cluster.payloads(client) if payload.startswith(prefix)]


# One source, one order ------------------------------------------------------------------------------------


def test_the_ring_is_used_where_a_site_has_more_than_one_daemon():
    """The Ring protocol is used when there is more than one active daemon in a site. (paper 3.2)"""
    cluster = world(2, daemons=2)
    assert all(node.working_site_link is not None for node in cluster.nodes)
    assert {number for number, node in enumerate(cluster.nodes) if node.working_links} == {0, 2}
    cluster.crash(1)
    cluster.settle()
    assert cluster.nodes[0].working_site_link is None
    assert cluster.nodes[2].working_site_link is not None


def test_numbers_run_through_the_daemons_of_a_site():
    """Site_seq is local to the site and combined with the site id provides a unique identifier of every
    message sent in the system. (paper 3.2)"""
    cluster = world(2)
    clients = cluster.members()
    cluster.crossed.clear()
    for turn in range(4):
        for client in clients[:3]:
            cluster.send(client, "g", b"%d" % turn, service=IN_TURN[turn % 2])
    cluster.settle()
    seen = {
        (carried.header.number, carried.header.daemon)
        for _, _, data in cluster.crossed
        for carried in bundles_in(data)
    }
    numbers = sorted(number for number, _ in seen)
    assert len(numbers) == 12
    assert numbers == list(range(numbers[0], numbers[0] + 12))
    assert {daemon for _, daemon in seen} == {0, 1, 2}


def test_later_numbers_of_a_site_have_later_stamps():
    """Site_lts: used to provide a causally consistent ordering for Agreed and Safe messages. (paper 3.2)"""
    cluster = world()
    clients = cluster.members()
    cluster.crossed.clear()
    for turn in range(6):
        for client in clients:
            cluster.send(client, "g", b"%d" % turn, service=IN_TURN[turn % 2])
        cluster.run(turn * 300)
    cluster.settle()
    stamps = {
        carried.header.number: carried.header.lts
        for _, _, data in cluster.crossed
        for carried in bundles_in(data)
    }
    assert len(stamps) == 18
    in_order = [stamps[number] for number in sorted(stamps)]
    assert in_order == sorted(in_order)


@pytest.mark.parametrize("service", [Service.AGREED, Service.SAFE])
def test_all_daemons_of_all_sites_deliver_in_one_order(service: Service):
    cluster = world(2)
    clients = cluster.members()
    for turn in range(20):
        for client in clients:
            cluster.send(client, "g", b"%s %d" % (client.encode(), turn), service=service)
        cluster.run(500)
    cluster.settle()
    orders = [cluster.payloads(client) for client in clients]
    assert len(orders[0]) == 120
    assert all(order == orders[0] for order in orders)


def test_safe_waits_for_every_daemon_of_every_site():
    """Each site uses the Site_aru field of the local ring to generate a site-wide All-Received-Upto value.
    (paper 3.3)"""
    cluster = world(2)
    clients = cluster.members()
    cluster.lose = lambda receiver, data: receiver == 5 and b"everywhere" in data
    cluster.send(clients[0], "g", b"everywhere", service=Service.SAFE)
    cluster.run(400_000)
    assert all(cluster.payloads(client) == [] for client in clients)
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert all(cluster.payloads(client) == [b"everywhere"] for client in clients)


def test_a_loss_inside_a_site_delays_nobody_for_long():
    """What a daemon lacks is asked for with the token, however quiet the ring is."""
    cluster = world()
    clients = cluster.members()
    cluster.run(1_000_000)
    lost: set[bytes] = set()

    def lose_once(receiver: int, data: bytes) -> bool:
        words = {word for word in (b"only 0", b"only 1", b"only 2") if word in data} - lost
        lost.update(words)
        return bool(words)

    cluster.lose = lose_once
    for number, client in enumerate(clients):
        word = b"only %d" % number
        since_us = cluster.now_us
        cluster.send(client, "g", word)
        cluster.settle()
        assert word in lost
        assert max(cluster.delay_of(other, word, since_us) for other in clients) < 60_000


# What leaves a site ---------------------------------------------------------------------------------------


def test_only_the_representative_speaks_for_a_site():
    """Each site has one daemon that acts as the representative of the site, participating in the wide area
    dissemination. (paper 2)"""
    cluster = world(2)
    clients = cluster.members()
    cluster.crossed.clear()
    cluster.send(clients[2], "g", b"from the last one", service=Service.SAFE)
    cluster.settle()
    home = {number: number // 3 for number in range(6)}
    between = [
        (sender, receiver, data)
        for sender, receiver, data in cluster.crossed
        if home[sender] != home[receiver] and kind_of(data) in (PacketKind.DATA, PacketKind.UNRELIABLE)
    ]
    assert {(sender, receiver) for sender, receiver, _ in between} == {(0, 3), (3, 0)}
    told = [update for _, _, data in between for update in updates_in(data)]
    assert {update.source for update in told} <= {0, 3}
    assert told


def test_what_a_site_says_is_true_of_all_its_daemons():
    """The aru that leaves a site is never more than any of its daemons has."""
    cluster = world(2)
    clients = cluster.members()
    cluster.lose = lambda receiver, data: receiver == 2 and b"withheld" in data
    cluster.send(clients[0], "g", b"withheld")
    cluster.run(300_000)
    assert cluster.nodes[2].order.ahead_count or cluster.nodes[2].order.lines.agreed < max(
        node.order.highest_lts for node in cluster.nodes
    )
    told = max(
        (update.aru for _, _, data in cluster.crossed for update in updates_in(data) if update.source == 0),
        default=0,
    )
    assert told <= cluster.nodes[2].order.lines.aru


def test_what_is_for_other_sites_only_is_not_kept_by_mates():
    """Pruning: data messages are only sent to the minimal necessary set of network components. (paper 3.2)"""
    cluster = world(2)
    sender = cluster.client(2, "sender")
    member = cluster.client(3, "member")
    cluster.join(member, "there")
    cluster.settle()
    cluster.send(sender, "there", b"to the other site")
    cluster.settle()
    assert cluster.payloads(member) == [b"to the other site"]


# Faults ---------------------------------------------------------------------------------------------------


def flood(cluster: Cluster, clients: list[str], turns: int = 10) -> None:
    for turn in range(turns):
        for client in clients:
            cluster.send(client, "g", b"%s %d" % (client.encode(), turn), service=Service.SAFE)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_any_daemon_of_a_site_may_crash(victim: int):
    """Nothing of those who stay is lost, whoever it was: the representative, or one who has the token."""
    cluster = world(2)
    clients = cluster.members()
    flood(cluster, clients)
    cluster.crash(victim)
    staying = [client for number, client in enumerate(clients) if number != victim]
    cluster.settle()
    flood(cluster, staying, turns=3)
    cluster.settle()
    for client in staying:
        for other in staying:
            prefix = other.encode() + b" "
            expected = [b"%s%d" % (prefix, turn) for turns in (10, 3) for turn in range(turns)]
            assert ordered(cluster, client, prefix) == expected
    speaks = [number for number in cluster.alive if cluster.nodes[number].engine.speaks]
    assert speaks == [1 if victim == 0 else 0, 3]


@pytest.mark.parametrize("steps", range(12))
def test_whoever_has_the_token_may_crash_with_it(steps: int):
    cluster = world(1, daemons=4)
    clients = cluster.members()
    flood(cluster, clients, turns=2)
    for _ in range(3 * steps):
        cluster.step(cluster.now_us + 1_000_000)
    cluster.until(lambda: holder(cluster) is not None, within_us=2_000_000)
    victim = holder(cluster)
    assert victim is not None
    cluster.crash(victim)
    cluster.settle()
    staying = [client for number, client in enumerate(clients) if number != victim]
    orders = [cluster.payloads(client) for client in staying]
    assert all(order == orders[0] for order in orders)
    for client in staying:
        prefix = client.encode() + b" "
        assert ordered(cluster, staying[0], prefix) == [prefix + b"0", prefix + b"1"]


def test_a_daemon_that_comes_back_joins_the_ring():
    cluster = world()
    clients = cluster.members()
    cluster.crash(0)
    cluster.settle()
    cluster.restart(0)
    cluster.settle()
    rings = [node.working_site_link for node in cluster.nodes]
    assert [ring.members for ring in rings if ring] == [(0, 1, 2)] * 3
    cluster.send(clients[1], "g", b"after")
    cluster.settle()
    assert ordered(cluster, clients[2], b"after") == [b"after"]


def test_a_broken_path_inside_a_site_makes_two_segments():
    """A site is a collection of machines which can potentially reach the other machines by one message
    (paper 2): where they cannot, each part that can has a ring of its own."""
    cluster = world(1, daemons=4)
    clients = cluster.members()
    cluster.cut((1, 3))
    flood(cluster, clients, turns=3)  # the token does not use that path, and shows that all are there
    cluster.until(lambda: cluster.is_whole(cluster.alive) and len(cluster.nodes[0].engine.segments) == 2)
    assert cluster.nodes[0].engine.segments == ((0, 1, 2), (3,))
    assert cluster.nodes[3].working_site_link is None
    flood(cluster, clients, turns=3)
    cluster.settle()
    orders = [cluster.payloads(client) for client in clients]
    assert len(orders[0]) == 24
    assert all(order == orders[0] for order in orders)


def test_a_path_that_loses_all_data_is_given_up():
    """One daemon's packets do not reach another one, and the token does: the view ends, and the next one does
    without that path."""
    cluster = world()
    clients = cluster.members()
    before = cluster.nodes[0].view.id
    cluster.block((0, 2))
    cluster.send(clients[0], "g", b"not for all")
    cluster.until(lambda: cluster.nodes[2].view.id != before and cluster.is_whole(cluster.alive))
    assert all(cluster.payloads(client) == [b"not for all"] for client in clients)


# Late joins -----------------------------------------------------------------------------------------------


def test_what_was_pruned_from_a_joining_site_is_sent_again_through_the_ring():
    """The decision is conservative: every site that is interested is guaranteed to get it. (paper 3.2)"""
    cluster = world(2)
    joiner = cluster.client(4, "joiner")
    senders = [cluster.client(number, "sender") for number in range(3)]
    cluster.join(joiner, "g")
    for turn in range(5):
        for sender in senders:
            cluster.send(sender, "g", b"%d %s" % (turn, sender.encode()))
        cluster.run(LAN_US // 3)
    cluster.settle()
    messages = [event for event in cluster.events[joiner] if isinstance(event, Message)]
    assert [message.envelope.lts for message in messages] == sorted(
        message.envelope.lts for message in messages
    )
    for sender in senders:
        turns = [message.payload for message in messages if message.envelope.sender == sender]
        assert turns == [b"%d %s" % (turn, sender.encode()) for turn in range(5 - len(turns), 5)]
        assert turns


# Slow clients and strangers -------------------------------------------------------------------------------


def test_those_who_send_to_a_slow_client_of_their_site_wait_for_it():
    cluster = world()
    clients = cluster.members()
    number = next(iter(cluster.nodes[2].sessions)).number
    cluster.nodes[2].backlog(number, cluster.config.settings.output_soft_bytes + 1, 0, cluster.now_us)
    cluster._drain(2)
    cluster.until(lambda: all(cluster.nodes[number].backpressure for number in (0, 1)))
    cluster.send(clients[0], "g", b"waits")
    cluster.run(50_000)
    assert cluster.payloads(clients[1]) == []
    cluster.nodes[2].backlog(number, 0, 0, cluster.now_us)
    cluster._drain(2)
    cluster.settle()
    assert cluster.payloads(clients[1]) == [b"waits"]


def test_a_bad_token_is_counted_and_changes_nothing():
    cluster = world()
    clients = cluster.members()
    node = cluster.nodes[1]
    prefix = packet.prefix(
        PacketKind.TOKEN,
        digest=cluster.config.digest,
        sender=0,
        receiver=1,
        incarnation=100,
        view=node.view.id,
    )
    bad = token.Token(1 << 40, 1 << 40, 0, token.NOBODY, token.NOBODY, 1 << 31, 1 << 40, 1, 1)
    for body in (b"", b"junk", token.encode_token(bad)):
        data = packet.whole(prefix, body, counter=1)
        node.receive(memoryview(data), len(data), cluster.now_us)
        cluster._drain(1)
    assert node.counters["token: cut short"] == 2
    assert node.counters["token: counts too fast"] == 1
    flood(cluster, clients, turns=2)
    cluster.settle()
    assert len(cluster.payloads(clients[0])) == 6
    assert len({tuple(cluster.payloads(client)) for client in clients}) == 1
