"""Back-pressure and holding: what keeps every buffer bounded. (ours; the paper leaves it open)"""

from small_worlds import Cluster

from antiphon.core.ordering.hold import Hold
from antiphon.limits import SLOW_RECEIVER_PATIENCE_US
from antiphon.service import Service
from antiphon.wire import frames
from antiphon.wire.packet import Update

SOFT_BYTES = 100_000


def members(sites: int, **settings: float) -> tuple[Cluster, list[str]]:
    cluster = Cluster(sites, output_soft_bytes=SOFT_BYTES, **settings)
    clients = [cluster.client(site, f"c{site}") for site in range(sites)]
    for client in clients:
        cluster.join(client, "g")
    cluster.run(2_000_000)
    return cluster, clients


def test_a_daemon_stops_reading_its_clients_when_too_much_is_unstable():
    cluster, clients = members(2, unstable_bytes=100_000)
    for _ in range(30):
        cluster.send(clients[0], "g", b"x" * 40_000)
    assert not cluster.nodes[0].reads(1)
    assert not cluster.nodes[0].admission.is_accepting
    assert cluster.nodes[0].order.own_unstable_bytes < 100_000 + 41_000
    cluster.run(10_000_000)
    assert cluster.nodes[0].reads(1)
    assert len(cluster.payloads(clients[1])) == 30


def test_a_slow_client_holds_the_senders_of_all_sites():
    cluster, clients = members(3)
    cluster.nodes[2].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(2)
    cluster.run(100_000)
    assert [node.admission.is_accepting for node in cluster.nodes] == [False, False, False]
    cluster.send(clients[0], "g", b"must wait")
    cluster.run(1_000_000)
    assert cluster.payloads(clients[1]) == []
    cluster.nodes[2].backlog(1, 0, cluster.now_us)
    cluster._drain(2)
    cluster.run(1_000_000)
    assert cluster.payloads(clients[1]) == [b"must wait"]


def test_a_daemon_alone_goes_on_as_soon_as_its_slow_client_has_caught_up():
    cluster, clients = members(1)
    cluster.nodes[0].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster.send(clients[0], "g", b"must wait")
    assert cluster.payloads(clients[0]) == []
    cluster.nodes[0].backlog(1, 0, cluster.now_us)
    cluster._drain(0)
    assert cluster.payloads(clients[0]) == [b"must wait"]


def test_patience_with_a_slow_client_ends():
    cluster, clients = members(2)
    cluster.nodes[1].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.send(clients[1], "g", b"must wait")
    cluster.run(SLOW_RECEIVER_PATIENCE_US - 100_000)
    assert cluster.payloads(clients[0]) == []
    cluster.run(1_000_000)
    assert cluster.payloads(clients[0]) == [b"must wait"]


def test_patience_is_not_renewed_while_a_slow_client_falls_further_behind():
    cluster, clients = members(2)
    cluster.nodes[1].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.run(SLOW_RECEIVER_PATIENCE_US + 100_000)
    cluster.nodes[1].backlog(1, 2 * SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.send(clients[1], "g", b"waits for nobody")
    cluster.run(1_000_000)
    assert cluster.payloads(clients[0]) == [b"waits for nobody"]


def test_patience_is_renewed_when_a_slow_client_has_taken_half_of_the_limit():
    cluster, _ = members(2)
    node = cluster.nodes[1]
    node.backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.run(SLOW_RECEIVER_PATIENCE_US + 100_000)
    assert node.admission.is_accepting
    node.backlog(1, SOFT_BYTES // 2, cluster.now_us)
    node.backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    assert not node.admission.is_accepting


def test_a_slow_client_may_go_without_unreliable_messages_instead_of_holding_the_senders():
    cluster = Cluster(2, output_soft_bytes=SOFT_BYTES)
    ada, bob = cluster.client(0, "ada"), cluster.client(1, "bob", slow="drop-unreliable")
    eve = cluster.client(1, "eve")
    for client in (ada, bob, eve):
        cluster.join(client, "g")
    cluster.run(2_000_000)
    node = cluster.nodes[1]
    number = next(session.number for session in node.sessions if session.name == "bob")
    node.backlog(number, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.send(ada, "g", b"left", b"out", service=Service.UNRELIABLE)
    cluster.send(ada, "g", b"ordered", service=Service.AGREED)
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"ordered"]
    assert sorted(cluster.payloads(eve)) == [b"left", b"ordered", b"out"]
    told = node.status(cluster.now_us)
    assert told["slow_receivers"]["now"] == told["slow_receivers"]["warned"] == 1
    assert told["slow_receivers"]["dropped_messages"] == 2
    assert told["slow_sessions"] == []
    node.backlog(number, 2 * SOFT_BYTES + 1, cluster.now_us)
    assert not node.admission.is_accepting
    node.backlog(number, SOFT_BYTES, cluster.now_us)
    assert node.admission.is_accepting
    node.backlog(number, SOFT_BYTES // 2, cluster.now_us)
    cluster.send(ada, "g", b"again", service=Service.UNRELIABLE)
    cluster.run(1_000_000)
    assert cluster.payloads(bob) == [b"ordered", b"again"]


def test_the_policy_for_slow_clients_is_that_of_the_configuration_unless_they_choose():
    cluster = Cluster(1, slow_policy="drop-unreliable")
    for name, slow in (("ada", ""), ("bob", "disconnect"), ("eve", "drop-unreliable")):
        cluster.client(0, name, slow=slow)
    assert [session.slow for session in cluster.nodes[0].sessions] == [
        "drop-unreliable", "disconnect", "drop-unreliable"
    ]  # fmt: skip
    refusal = cluster.nodes[0].connect(
        frames.Connect(frames.PROTOCOL_VERSION, "odd", slow="ignore"), cluster.now_us
    )
    assert isinstance(refusal, frames.Refuse) and "known: disconnect, drop-unreliable" in refusal.reason


def test_an_old_update_does_not_bring_a_hold_back():
    hold = Hold(me=0)
    hold.heard(Update(1, hold=False, serial=2, number=0, lts=0, aru=0))
    hold.heard(Update(1, hold=True, serial=1, number=0, lts=0, aru=0))
    assert not hold
    hold.heard(Update(1, hold=True, serial=3, number=0, lts=0, aru=0))
    assert hold


def test_a_slow_client_holds_the_senders_in_the_next_view_too():
    cluster, clients = members(3)
    cluster.nodes[1].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(1)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].view.members == cluster.nodes[1].view.members == (0, 1))
    cluster.send(clients[0], "g", b"must wait")
    cluster.run(500_000)
    assert [node.admission.is_accepting for node in cluster.nodes[:2]] == [False, False]
    assert cluster.payloads(clients[1]) == []
    cluster.nodes[1].backlog(1, 0, cluster.now_us)
    cluster._drain(1)
    cluster.settle()
    assert cluster.payloads(clients[1]) == [b"must wait"]


def test_a_daemon_that_is_lost_holds_nobody():
    """No wish to hold outlives the view in which it was made."""
    cluster, clients = members(3)
    cluster.nodes[2].backlog(1, SOFT_BYTES + 1, cluster.now_us)
    cluster._drain(2)
    cluster.run(100_000)
    assert not cluster.nodes[0].admission.is_accepting
    cluster.crash(2)
    cluster.settle()
    assert cluster.nodes[0].admission.is_accepting
    cluster.send(clients[0], "g", b"on we go")
    cluster.settle()
    assert cluster.payloads(clients[1]) == [b"on we go"]


def test_what_waits_for_a_lost_daemon_is_free_again():
    """A sender at its limit, because one daemon no longer vouches for anything, goes on in the next view."""
    cluster, clients = members(3, unstable_bytes=100_000)
    cluster.crash(2)
    for number in range(10):
        cluster.send(clients[0], "g", b"%d" % number + b"." * 40_000)
    cluster.run(100_000)
    assert not cluster.nodes[0].admission.is_accepting
    cluster.settle()
    assert [payload[:1] for payload in cluster.payloads(clients[1])] == [
        b"%d" % number for number in range(10)
    ]
    assert cluster.nodes[0].reads(1)
