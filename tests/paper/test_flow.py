"""Limits on what is under way: what keeps every buffer bounded. (ours; the paper leaves it open)"""

from small_worlds import Cluster


def members(sites: int, **settings: float) -> tuple[Cluster, list[str]]:
    cluster = Cluster(sites, **settings)
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
