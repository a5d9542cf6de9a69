"""The adaptive order: active and passive sources, tickets, and who decides."""

import pytest
from small_worlds import Cluster

from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.told import Reason
from antiphon.service import Service

DELAY_US = 50_000


def order_of(cluster: Cluster, daemon: int) -> AdaptiveOrder:
    order = cluster.nodes[daemon].order
    assert isinstance(order, AdaptiveOrder)
    return order


def cluster_of(sites: int, order: str = "adaptive") -> tuple[Cluster, list[str]]:
    cluster = Cluster(sites, delay_us=DELAY_US, mesh=True, order=order)
    return cluster, cluster.members()


def load(cluster: Cluster, client: str, every_us: int, times: int, service: Service = Service.AGREED) -> None:
    for number in range(times):
        cluster.send(client, "g", b"%s %d" % (client.encode(), number), service=service)
        cluster.run(every_us)


def latency_us(cluster: Cluster, sender: str, receiver: str, name: bytes) -> int:
    since_us = cluster.now_us
    cluster.send(sender, "g", name)
    cluster.run(20 * DELAY_US)
    return cluster.delay_of(receiver, name, since_us)


def test_a_view_begins_with_all_sources_active():
    """An initial configuration was used where all processes are active.

    NAVTECH 5.3, Initial Configuration.
    """
    cluster, _ = cluster_of(3)
    assert [order_of(cluster, daemon).roles.active for daemon in range(3)] == [{0, 1, 2}] * 3


def test_silent_sources_become_passive_and_the_last_active_one_stays_active():
    """At least one active process must exist, the last one will fail.

    NAVTECH 5.3, Transition from active to passive.
    """
    cluster, clients = cluster_of(4)
    load(cluster, clients[3], 100_000, 20)
    cluster.run(10_000_000)
    active = {frozenset(order_of(cluster, daemon).roles.active) for daemon in range(4)}
    assert len(active) == 1 and len(active.pop()) == 1
    reasons = [role.reason for role in order_of(cluster, 0).roles_now() if not role.is_active]
    assert len(reasons) == 3 and {Reason.SILENT.text, Reason.RARE.text}.issuperset(reasons)


def test_a_busy_source_becomes_active_and_is_waited_for_alone():
    """If its inter-message transmission time is smaller than the delay to the closest active, it should
    switch to active mode.

    NAVTECH 5.4, Switching Heuristic.
    """
    cluster, clients = cluster_of(4)
    cluster.run(10_000_000)
    load(cluster, clients[2], 10_000, 600)
    assert [order_of(cluster, daemon).roles.active for daemon in range(4)] == [{2}] * 4


@pytest.mark.parametrize(
    ("order", "least_us", "most_us"), [("adaptive", 50_000, 51_000), ("symmetric", 100_000, 106_000)]
)
def test_with_one_busy_site_agreed_takes_one_delay(order: str, least_us: int, most_us: int):
    """So with one busy site, agreed takes D there instead of 2D + delta.

    NAVTECH 5.1 and 5.2; a sender that is active alone waits for nobody.
    """
    cluster, clients = cluster_of(4, order)
    load(cluster, clients[2], 10_000, 1_000)
    took_us = [latency_us(cluster, clients[2], clients[to], b"to %d" % to) for to in (0, 1, 3)]
    print(order, [f"{one / 1000:.1f} ms" for one in took_us])
    assert all(least_us <= one <= most_us for one in took_us)


def test_a_passive_source_gets_its_places_with_tickets():
    """Passive processes multicast their messages to all group processes which then wait for a ticket.

    NAVTECH 5.2. Deviation: and for the word of its sender that it has the ticket, too; its place is so far
    ahead that what the busy source sends does not wait for that.
    """
    cluster, clients = cluster_of(4)
    load(cluster, clients[2], 10_000, 1_000)
    since_us = cluster.now_us
    cluster.send(clients[0], "g", b"rare")
    load(cluster, clients[2], 10_000, 100)
    took_us = cluster.delay_of(clients[1], b"rare", since_us)
    assert 3 * DELAY_US <= took_us <= 4 * DELAY_US
    assert order_of(cluster, 0).source not in order_of(cluster, 0).roles.active


def test_what_a_busy_source_sends_does_not_wait_for_the_tickets_of_others():
    """(ours) Their places are ahead of its clock, by as much as it sends until they are confirmed."""
    cluster, clients = cluster_of(4)
    load(cluster, clients[2], 10_000, 1_000)
    cluster.send(clients[0], "g", b"rare")
    cluster.run(DELAY_US + 5_000)
    took_us = []
    for number in range(20):
        since_us = cluster.now_us
        cluster.send(clients[2], "g", b"busy %d" % number)
        cluster.run(10_000)
        took_us.append(since_us)
    cluster.run(20 * DELAY_US)
    late_us = [cluster.delay_of(clients[1], b"busy %d" % at, since) for at, since in enumerate(took_us)]
    assert max(late_us) <= DELAY_US + 15_000


def test_what_is_not_ordered_takes_one_delay_from_a_passive_source_too():
    """(ours) Reliable, FIFO and causal messages need no ticket: who comes after them says so."""
    cluster, clients = cluster_of(4)
    load(cluster, clients[2], 10_000, 1_000)
    for service in (Service.RELIABLE, Service.FIFO, Service.CAUSAL):
        since_us = cluster.now_us
        cluster.send(clients[0], "g", service.name.encode(), service=service)
        cluster.run(10 * DELAY_US)
        assert cluster.delay_of(clients[1], service.name.encode(), since_us) <= DELAY_US + 1_000
    assert order_of(cluster, 0).source not in order_of(cluster, 0).roles.active


def test_all_services_go_through_tickets_in_the_order_of_their_session():
    """FIFO of a session holds, whatever the role of its source.

    NAVTECH 5.3, Change of sequencer: to avoid disturbances in FIFO ordering.
    """
    cluster, clients = cluster_of(3)
    load(cluster, clients[2], 10_000, 1_000)
    services = [Service.FIFO, Service.AGREED, Service.FIFO, Service.SAFE, Service.CAUSAL, Service.FIFO]
    for number, service in enumerate(services * 3):
        cluster.send(clients[0], "g", b"mixed %d" % number, service=service)
        cluster.run(7_000)
    cluster.run(2_000_000)
    wanted = [b"mixed %d" % number for number in range(len(services) * 3)]
    for client in clients:
        assert [one for one in cluster.payloads(client) if one.startswith(b"mixed")] == wanted


def test_roles_do_not_outlive_their_view():
    """View changes also trigger installation of a new system configuration.

    NAVTECH 5.3, System Reconfiguration. Deviation: all sources are active in it.
    """
    cluster, clients = cluster_of(3)
    load(cluster, clients[2], 10_000, 500)
    assert order_of(cluster, 0).roles.active == {2}
    cluster.crash(2)
    cluster.settle({0, 1})
    assert order_of(cluster, 0).roles.active == {0, 1}


def test_a_source_that_falls_silent_hands_over():
    """Its traffic load has decreased to a rate where it is more advantageous to request a ticket from another
    process.

    NAVTECH 5.3, Transition from active to passive.
    """
    cluster, clients = cluster_of(3)
    load(cluster, clients[2], 10_000, 500)
    load(cluster, clients[0], 10_000, 500)
    assert [order_of(cluster, daemon).roles.active for daemon in range(3)] == [{0}] * 3


def test_one_rare_sender_becomes_the_active_source():
    """(ours) A source that sends while all active ones are silent becomes active."""
    cluster, clients = cluster_of(3)
    load(cluster, clients[0], 100_000, 30)
    cluster.run(10_000_000)
    assert order_of(cluster, 0).roles.active == {0}
    load(cluster, clients[1], 300_000, 60)
    assert [order_of(cluster, daemon).roles.active for daemon in range(3)] == [{1}] * 3
    took_us = latency_us(cluster, clients[1], clients[0], b"rare")
    assert took_us <= DELAY_US + 1_000


def test_status_tells_who_is_active_and_why():
    """Every change of role has a reason, and it is shown. (ours)"""
    cluster, clients = cluster_of(3)
    load(cluster, clients[2], 10_000, 500)
    ordering = cluster.nodes[0].status(cluster.now_us)["ordering"]
    assert isinstance(ordering, dict) and ordering["order"] == "adaptive"
    roles = {row["source"]: row for row in ordering["roles"]}
    assert roles["d2"]["role"] == "active" and roles["d0"]["role"] == "passive"
    assert roles["d0"]["sequencer"] == "d2" and roles["d0"]["reason"] == Reason.SILENT.text


DATA = 2
"""The kind of packets with reliable bundles."""


@pytest.mark.parametrize("is_told_before", [False, True])
def test_what_comes_after_an_unreliable_message_comes_after_its_past(is_told_before: bool):
    """(ours) A passive daemon's own tellings may be on their way when it sends an unreliable message."""
    cluster = Cluster(4, delay_us=10_000, mesh=True, order="adaptive")
    clients = cluster.members()
    other = cluster.client(1, "other")
    for number in range(1_000):  # site 2 is busy: it alone is active
        cluster.send(clients[2], "g", b"load %d" % number)
        cluster.run(5_000)
    for daemon in range(4):
        order = cluster.nodes[daemon].order
        assert isinstance(order, AdaptiveOrder) and order.roles.active == {2}
    cluster.run(200_000)

    lost = {(0, 2), (0, 3)}  # what daemon 0 sends comes to daemon 1 alone for a while

    def lose(receiver: int, data: bytes) -> bool:
        return data[2] == DATA and (int.from_bytes(data[8:10]), receiver) in lost

    cluster.lose = lose
    cluster.send(clients[0], "g", b"X", service=Service.RELIABLE)
    cluster.run(11_000)
    assert cluster.payloads(clients[1])[-1] == b"X"
    lost |= {(1, 0), (1, 2), (1, 3)}  # and what daemon 1 sends is lost, unless it is unreliable
    if is_told_before:
        cluster.send(other, "g", b"R")  # needs a ticket; before it, daemon 1 tells that it has got X
    cluster.send(clients[1], "g", b"U", service=Service.UNRELIABLE)
    cluster.run(11_000)
    assert cluster.payloads(clients[2])[-1] == b"U"
    cluster.send(clients[2], "g", b"Y")
    cluster.run(30_000)
    cluster.lose = lambda receiver, data: False
    cluster.run(1_000_000)
    for receiver in (2, 3):
        got = cluster.payloads(clients[receiver])
        assert got.index(b"X") < got.index(b"Y")
