"""Pairs, daemons and sites that flap, and those who are well meanwhile (ours; the thesis has no damping)."""

from itertools import product

from meshes import marks, states_since, world
from small_worlds import Cluster

from antiphon.config.timing import PRESETS
from antiphon.core.membership.damping import TRIED_AFTER_TERMS

LAN = PRESETS["lan"]


def flap(cluster: Cluster, sick: set[int], well: set[int], *, down_us: int, up_us: int, for_us: int) -> None:
    """The pairs between the two sets come and go for so long."""
    end_us = cluster.now_us + for_us
    while cluster.now_us < end_us:
        cluster.cut(*product(sick, well))
        cluster.run(down_us)
        cluster.heal()
        cluster.run(up_us)


def views_of(cluster: Cluster, daemon: int) -> int:
    return len(cluster.diaries[daemon].views)


def test_a_pair_that_flaps_gets_no_link_while_it_does():
    """(ours: a missing link is added when the path has worked for 30 s without a break)"""
    cluster = world(4)
    flap(cluster, {0}, {3}, down_us=1_500_000, up_us=6_000_000, for_us=20_000_000)
    assert cluster.is_whole({0, 1, 2, 3})
    before = [views_of(cluster, daemon) for daemon in range(4)]
    flap(cluster, {0}, {3}, down_us=1_500_000, up_us=6_000_000, for_us=180_000_000)
    assert [views_of(cluster, daemon) for daemon in range(4)] == before
    cluster.until(lambda: (0, 3) in cluster.nodes[1].view.links)


def test_a_daemon_that_flaps_with_all_others_costs_one_episode_for_each_doubling():
    """(ours: all who go on together count the same losses, with a link to it or without)"""
    cluster = world(4)
    before = views_of(cluster, 1)
    flap(cluster, {3}, {0, 1, 2}, down_us=1_500_000, up_us=6_000_000, for_us=240_000_000)
    episodes = 2 + 4  # without damping; then after 2 and 4 s of proof, and after 8 times 8 and 16 s without
    assert views_of(cluster, 1) - before <= 2 * episodes
    counts = [cluster.nodes[daemon].membership.peers[3].damping.losses for daemon in (0, 1, 2)]
    assert max(counts) - min(counts) <= 1, "they come to the same decision"


def test_what_flaps_is_back_soon_when_it_has_stopped_to():
    """(ours: it is taken back when it has held for its term, however long it flapped)"""
    cluster = world(4)
    flap(cluster, {3}, {0, 1, 2}, down_us=1_500_000, up_us=6_000_000, for_us=120_000_000)
    cluster.settle(within_us=LAN.damp_max_us + 2 * LAN.probe_max_us)


def test_a_site_whose_path_flaps_does_not_keep_the_others_from_working():
    """(ours: two daemons of a site that flap stand for the path to it)"""
    cluster = world(3, daemons=2)
    flap(cluster, {4, 5}, {0, 1, 2, 3}, down_us=700_000, up_us=700_000, for_us=10_000_000)
    assert cluster.is_whole({0, 1, 2, 3})
    mark = marks(cluster)
    flap(cluster, {4, 5}, {0, 1, 2, 3}, down_us=700_000, up_us=700_000, for_us=5_000_000)
    lost = [state for state, _ in states_since(cluster, 0, mark[0]) if state == "seg"]
    assert len(lost) <= 1
    cluster.heal()
    cluster.settle(within_us=LAN.damp_max_us + 2 * LAN.probe_max_us)


def test_two_daemons_with_nothing_but_a_bad_path_try_again_now_and_then():
    """(ours: a path that never holds for its term is tried after eight of them)"""
    cluster = world(2)
    flap(cluster, {0}, {1}, down_us=1_000_000, up_us=1_000_000, for_us=20_000_000)
    damping = cluster.nodes[0].membership.peers[1].damping
    assert damping.term_us
    losses = damping.losses
    flap(
        cluster,
        {0},
        {1},
        down_us=1_000_000,
        up_us=1_000_000,
        for_us=TRIED_AFTER_TERMS * damping.term_us + 4_000_000,
    )
    assert losses < damping.losses <= losses + 2


def test_a_daemon_that_joins_learns_what_flaps_from_the_members_of_its_view():
    """(ours: members tell in their stations whom they keep out)"""
    cluster = world(4)
    flap(cluster, {3}, {0, 1, 2}, down_us=1_500_000, up_us=6_000_000, for_us=30_000_000)
    cluster.until(lambda: cluster.is_whole({0, 1, 2}))
    dampings = {daemon: cluster.nodes[daemon].membership.peers[3].damping for daemon in (0, 1, 2)}
    dampings[2].term_us = 0  # as if it had just been started and had seen nothing of it
    before = views_of(cluster, 0)
    cluster.run(min(dampings[daemon].own_us(cluster.now_us) for daemon in (0, 1)) // 2)
    assert views_of(cluster, 0) == before, "it does not bring it back"
