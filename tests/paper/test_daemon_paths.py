"""Paths that work in one direction, now and then, or not at all; pauses and restarts (ours)."""

from meshes import marks, states_since, world

from antiphon.config.timing import PRESETS

LAN = PRESETS["lan"]


def test_a_pair_that_hears_in_one_direction_only_is_routed_around():
    """(ours: evidence works in both directions; the thesis does not speak of such links)"""
    cluster = world(3)
    cluster.block((0, 2))
    cluster.until(lambda: cluster.is_whole({0, 1, 2}) and (0, 2) not in cluster.nodes[0].view.links)
    stable = cluster.nodes[0].view
    assert stable.links == ((0, 1), (1, 2))
    cluster.run(60_000_000)
    assert [node.view for node in cluster.nodes] == [stable] * 3


def test_a_daemon_that_is_only_heard_is_left_out_and_nobody_is_disturbed():
    """(ours: the same; a daemon that hears nobody speaks to everybody)"""
    cluster = world(3)
    cluster.block((0, 2), (1, 2))
    cluster.settle({0, 1}, {2})
    views = [node.view for node in cluster.nodes]
    cluster.run(60_000_000)
    assert [node.view for node in cluster.nodes] == views


def test_daemons_that_reach_each_other_through_a_third_are_in_one_view():
    """(ours: members are those whom a chain of working pairs connects)"""
    cluster = world(4)
    cluster.cut((0, 3), (0, 2), (1, 3))
    cluster.until(
        lambda: cluster.is_whole({0, 1, 2, 3}) and cluster.nodes[0].view.links == ((0, 1), (1, 2), (2, 3))
    )
    clients = cluster.members()
    cluster.send(clients[0], "g", b"over three links")
    cluster.settle()
    assert cluster.payloads(clients[3]) == [b"over three links"]


def test_a_broken_path_between_representatives_is_routed_around():
    """(ours: sites are joined by any pair that works)"""
    cluster = world(2, daemons=2)
    assert (0, 2) in cluster.nodes[0].view.links
    cluster.cut((0, 2))
    cluster.until(lambda: cluster.is_whole({0, 1, 2, 3}) and (0, 2) not in cluster.nodes[0].view.links)


def test_a_link_that_comes_and_goes_is_damped():
    """(ours: each further loss of a link keeps it out for twice as long)"""
    cluster = world(2)
    for _ in range(20):
        cluster.cut((0, 1))
        cluster.run(1_000_000)
        cluster.heal()
        cluster.run(2_000_000)
    losses = sum(view.members == (0,) for view in cluster.diaries[0].views[1:])
    assert 2 <= losses <= 8, "a path that failed every 3 s for a minute"
    damped_us = cluster.nodes[0].membership.peers[1].damping.remaining_us(cluster.now_us)
    assert 0 < damped_us <= LAN.damp_max_us
    cluster.settle(within_us=LAN.damp_max_us + 2 * LAN.probe_max_us)


def test_a_member_behind_a_link_that_comes_and_goes_stays():
    """(ours: the same; it is reached over another link, and the bad one is tried less and less often)"""
    cluster = world(3)
    for _ in range(40):
        cluster.cut((0, 2))
        cluster.run(1_000_000)
        cluster.heal()
        cluster.run(2_000_000)
    views = cluster.diaries[1].views[1:]
    assert {view.members for view in views} == {(0, 1, 2)}
    lost_us = [now_us for state, _, now_us in cluster.diaries[1].of("entered") if state == "seg"]
    assert len(lost_us) <= 6, "of 40 failures"


def test_a_link_that_works_again_is_used_again():
    """(ours: members that should have a link and have none are asked, and a better view is proposed)"""
    cluster = world(3)
    clients = cluster.members()
    cluster.cut((0, 2))
    cluster.until(lambda: cluster.is_whole({0, 1, 2}) and (0, 2) not in cluster.nodes[0].view.links)
    cluster.events[clients[1]].clear()
    cluster.heal()
    cluster.until(lambda: cluster.is_whole({0, 1, 2}) and (0, 2) in cluster.nodes[0].view.links)
    record = cluster.nodes[0].membership.rounds.past[-1]
    assert (record.lost, record.joined) == ((), ())
    assert cluster.events[clients[1]] == [], "groups see nothing of it"


def test_a_pause_of_ones_own_is_no_silence_of_others():
    """(ours: a daemon that was itself paused adds the pause to its patience with everybody)"""
    cluster = world(3)
    mark = marks(cluster)
    cluster.pause(2, LAN.suspect_us // 2)
    cluster.run(5_000_000)
    assert [states_since(cluster, number, mark[number]) for number in range(3)] == [[], [], []]


def test_a_pause_is_excused_once():
    """(ours: the same, however many packets have waited for the end of the pause)"""
    cluster = world(4, formed=False)
    cluster.pause(3, 1_000_000)
    cluster.settle({0, 1, 2})
    waited = sum(receiver == 3 for _, receiver, _ in cluster.crossed)
    assert waited > 10
    assert cluster.settle() < 2_500_000, (
        "it looks around for as long as the pause lasted, not for many times that"
    )


def test_a_daemon_that_was_paused_for_long_comes_back():
    """(ours: the others have gone on without it; it does not suspect them, they tell it)"""
    cluster = world(3)
    mark = marks(cluster)
    cluster.pause(2, 5_000_000)
    cluster.settle({0, 1})
    cluster.settle()
    assert states_since(cluster, 2, mark[2])[0][0] != "op"
    assert ("seg", "silence") not in states_since(cluster, 2, mark[2])


def test_a_restarted_daemon_is_noticed_before_its_silence():
    """receive(s, ALIVE): if s in Memb then DECLAREMEMBLOSS. (figure 6.3: a member that looks around has lost
    its view; ours: another incarnation says so, too)"""
    cluster = world(3)
    mark = marks(cluster)
    cluster.restart(2)
    assert cluster.settle() < LAN.suspect_us
    assert states_since(cluster, 0, mark[0])[0] == ("seg", "restarted")
    assert cluster.nodes[0].view.incarnation(2) == cluster.nodes[2].incarnation == 202
