"""When daemons that have nothing to send announce their lts and aru."""

import pytest
from small_worlds import Cluster

from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay.delta import DELTA_FLOOR_US, DELTA_SHARE, Delta
from antiphon.service import Service
from antiphon.wire import packet
from antiphon.wire.packet import Data, Update

DELAY_US = 10_000


def with_members(sites: int, **options: float) -> tuple[Cluster, list[str]]:
    """Sites in a mesh, a member of group g at each."""
    cluster = Cluster(sites, delay_us=DELAY_US, mesh=True, **options)  # type: ignore[arg-type]
    clients = cluster.members()
    cluster.run(1_000_000)
    cluster.crossed.clear()
    return cluster, clients


def updates_from(cluster: Cluster, site: int) -> int:
    found = 0
    for sender, _, data in cluster.crossed:
        parsed = packet.parse(memoryview(data))
        if sender == site and isinstance(parsed, Data):
            found += sum(isinstance(item, Update) and item.source == site for item in parsed.items)
    return found


def test_updates_come_at_once_but_never_more_often_than_delta():
    """ARU_Updates are only sent immediately if one has not been sent in "delta" time. (thesis 5.2)"""
    cluster, clients = with_members(2, delta_ms=50.0)
    for _ in range(1_000):
        cluster.send(clients[0], "g", b"tick")
        cluster.run(1_000)
    cluster.run(1_000_000)
    delta_us = DELAY_US // DELTA_SHARE
    assert 10 <= updates_from(cluster, 1) <= 1_000_000 // delta_us + 4


def test_when_nothing_is_sent_nobody_speaks():
    """(ours: updates stop when everybody has said everything)"""
    cluster, clients = with_members(3)
    cluster.send(clients[0], "g", b"last")
    cluster.run(1_000_000)
    cluster.crossed.clear()
    cluster.run(10_000_000)
    assert [updates_from(cluster, site) for site in range(3)] == [0, 0, 0]


def test_delta_is_a_share_of_the_delay_between_floor_and_ceiling():
    """(ours; thesis 5.2 has a constant)"""
    delta = Delta(5_000, 3)
    assert delta.now_us == 5_000  # before anything is measured
    for delay_us, delta_us in ((10, DELTA_FLOOR_US), (4_000, 4_000 // DELTA_SHARE), (100_000, 5_000)):
        delta.measured(delay_us)
        assert delta.now_us == delta_us
    cluster, clients = with_members(2, delta_ms=50.0)
    cluster.send(clients[0], "g", b"one")
    cluster.run(1_000_000)
    assert abs(cluster.nodes[1].engine.delta.now_us - DELAY_US // DELTA_SHARE) < 100


def test_announcements_cost_more_among_many_sources():
    """Every source's update goes to all others: the floor grows with the number of pairs. (ours)"""
    waits = [Delta(1_000_000, sources) for sources in (1, 2, 3, 10)]
    for delta in waits:
        delta.measured(0)
    assert [delta.now_us for delta in waits] == [100, 100, 100, 1_500]


def test_what_comes_in_postpones_the_next_update_up_to_the_ceiling():
    """(ours: under a flood there are as few updates as with a constant delta)"""
    delta = Delta(5_000, 3)
    delta.measured(0)
    assert [delta.wait_us(came) for came in (0, 1, 10, 1_000)] == [100, 200, 1_100, 5_000]
    cluster, clients = with_members(2, delta_ms=50.0)
    for _ in range(300):
        for _ in range(40):
            cluster.send(clients[0], "g", b"tick")
        cluster.run(1_000)
    cluster.run(1_000_000)
    assert updates_from(cluster, 1) <= 300_000 // 50_000 + 4


def test_an_aru_for_which_no_message_waits_is_announced_after_the_ceiling():
    """(ours: only safe messages and those of daemons wait for an aru)"""
    delta = Delta(5_000, 3)
    delta.measured(0)
    announcer = Announcer(delta, now_us=0)
    announcer.announced(1_000_000, lts=10, aru=5, came=0)
    assert not announcer.has_news(highest_lts=5, lts=10, aru=10)
    assert announcer.has_news(highest_lts=10, lts=10, aru=10)
    assert announcer.due_us(needs_lts=10, needs_aru=0, lts=10, aru=10, came=0) == 1_005_000
    assert announcer.due_us(needs_lts=10, needs_aru=10, lts=10, aru=10, came=0) == 1_000_100
    assert announcer.due_us(needs_lts=11, needs_aru=0, lts=11, aru=10, came=2) == 1_000_300


@pytest.mark.parametrize(
    ("service", "delays"), [(Service.RELIABLE, 1), (Service.AGREED, 2), (Service.SAFE, 3)]
)
def test_light_load_waits_for_packets_and_for_nothing_else(service: Service, delays: int):
    """With three sources, a single message is delivered after D, 2D and 3D, and a quarter of D at most for
    each round of announcements. (ours; thesis table 5.1 adds delta and 2 delta)"""
    cluster, clients = with_members(3, delta_ms=50.0)
    for number in range(20):
        sent_us = cluster.now_us
        cluster.send(clients[0], "g", b"ping%d" % number, service=service)
        cluster.run(100_000 + 700 * number)
        longest_us = delays * DELAY_US + (delays - 1) * (DELAY_US // DELTA_SHARE) + 1_000
        for client in clients:
            assert cluster.delay_of(client, b"ping%d" % number, sent_us) <= longest_us
