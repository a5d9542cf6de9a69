"""The membership of daemons, sentence by sentence: thesis 6.1.4 to 6.1.9, and the theorems about views.

Deviations are listed in `antiphon.core.membership.daemons`; the tests that show one say so.
"""

from itertools import pairwise

import pytest
from packets_seen import beat_in, bundles_sent, carries, proposal_in
from small_worlds import Cluster, Diary

from antiphon.config.timing import PRESETS
from antiphon.wire.bundle import Flag
from antiphon.wire.packet import Data, PacketKind, parse

LAN = PRESETS["lan"]
DELAY_US = 1_000


def world(sites: int, **options: object) -> Cluster:
    """Every two sites joined, a LAN's timing and delay."""
    wanted: dict[str, object] = {"mesh": True, "membership": "lan", **options}
    return Cluster(sites, DELAY_US, **wanted)  # type: ignore[arg-type]


def states_since(cluster: Cluster, daemon: int, mark: int) -> list[tuple[str, str]]:
    """(state, reason) that a daemon's membership entered after so many entries of its diary."""
    return [entry[1:3] for entry in cluster.diaries[daemon].entries[mark:] if entry[0] == "entered"]  # type: ignore[misc]


def marks(cluster: Cluster) -> list[int]:
    return [len(diary.entries) for diary in cluster.diaries]


# Start ----------------------------------------------------------------------------------------------------


def test_a_daemon_starts_alone_and_declares_a_loss():
    """A recover event consists of initializing the membership set to contain only the local process and
    triggering a membership change by declaring a failure. (thesis 6.1.4)"""
    cluster = world(2, formed=False)
    for number, diary in enumerate(cluster.diaries):
        (first, transitional), *_ = diary.of("installed")
        assert (first.members, first.links, transitional) == ((number,), (), ())
        assert diary.entries[1][:3] == ("entered", "seg", "started")


def test_the_first_view_is_older_than_all_others():
    """The membership id of a recovery membership is considered older than all other possible membership ids.
    (thesis 6.1.4; ours is a stamp of the Lamport clock, which starts at Unix time: older than all that follow
    at this daemon, and newer than all of its former lives)"""
    cluster = world(2)
    first, second = cluster.diaries[1].views
    assert first.id < second.id
    cluster.run(5_000_000)
    cluster.restart(1)
    cluster.settle()
    _, _, third, fourth = cluster.diaries[1].views
    assert second.id < third.id < fourth.id
    assert third.members == (1,)


# OP: finding others, losing others ------------------------------------------------------------------------


def test_a_daemon_that_starts_announces_itself():
    """When a server starts up it announces itself to both the local network with broadcasts and to a subset
    of the potential other sites with unicast messages. (thesis 6.1.5; ours: with a unicast packet to every
    daemon with which the configuration lets it speak)"""
    cluster = Cluster(3, DELAY_US, daemons=2, formed=False, membership="lan")
    asked = {
        (sender, receiver)
        for sender, receiver, data in cluster.crossed
        if (beat := beat_in(data)) is not None and beat.question
    }
    assert {receiver for sender, receiver in asked if sender == 0} == {1, 2, 3}
    assert {receiver for sender, receiver in asked if sender == 3} == {0, 1, 2, 4, 5}


def test_a_newcomer_that_is_heard_is_merged_with():
    """If any existing server hears these announcements they will initiate a merge with this new server.
    (thesis 6.1.5)"""
    cluster = world(3)
    cluster.crash(1)
    cluster.settle()
    mark = marks(cluster)
    cluster.restart(1)
    took_us = cluster.settle()
    assert took_us < LAN.probe_max_us
    assert ("gather", "found") in states_since(cluster, 0, mark[0])


def test_probing_never_stops():
    """The representative of an existing set of servers will probe for other servers every 90 seconds or so.
    (thesis 6.1.5; ours: every daemon, every second or two, for ever, all with which it is not in a view)"""
    cluster = world(3)
    cluster.crash(2)
    cluster.settle()
    cluster.run(100_000_000)
    cluster.crossed.clear()
    began_us, asked_us = cluster.now_us, []
    while cluster.step(began_us + 20_000_000):
        asked_us += [
            cluster.now_us for sender, receiver, _ in cluster.crossed if (sender, receiver) == (0, 2)
        ]
        cluster.crossed.clear()
    gaps_us = [later - earlier for earlier, later in pairwise(asked_us)]
    assert len(gaps_us) >= 18
    assert max(gaps_us) <= LAN.probe_max_us


def test_a_healed_partition_is_found_whatever_its_age():
    """(the same sentence: partitions that never heal are what users of such systems complain about)"""
    cluster = world(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    cluster.run(300_000_000)
    cluster.heal()
    assert cluster.settle() <= 2 * LAN.probe_max_us


def test_a_silent_neighbour_is_a_failed_link():
    """linkfailed: DECLAREMEMBLOSS. (figure 6.3; that silence is a failure is ours)"""
    cluster = world(3)
    mark = marks(cluster)
    cluster.crash(2)
    took_us = cluster.settle()
    assert states_since(cluster, 0, mark[0])[0] == ("seg", "silence")
    assert LAN.suspect_us - LAN.hello_us <= took_us <= LAN.suspect_us + 1_000_000
    record = cluster.nodes[0].membership.rounds.past[-1]
    assert (record.reason.value, record.peer, record.lost) == ("silence", 2, (2,))
    assert "d2 was silent for 0.6" in record.detail


def test_a_link_over_which_nothing_gets_is_a_failed_link():
    """Locally detect a link failed. (thesis 6.1.3: Hop's own detection, thesis 4.3)"""
    cluster = world(2)
    clients = cluster.members()
    mark = marks(cluster)
    cluster.lose = lambda receiver, data: receiver == 1 and isinstance(parse(memoryview(data)), Data)
    cluster.send(clients[0], "g", b"does not get through")
    cluster.until(lambda: cluster.nodes[0].state != "op")
    assert ("seg", "link-failed") in states_since(cluster, 0, mark[0]) + states_since(cluster, 1, mark[1])


def test_a_member_that_has_lost_the_view_takes_the_others_along():
    """receive(s, ALIVE): if s in Memb then DECLAREMEMBLOSS. (figure 6.3; ours: also a member that says so in
    its beats, which it sends to its neighbours at once)"""
    cluster = Cluster(4, DELAY_US, membership="lan")  # a chain: only 2 hears 3
    mark = marks(cluster)
    cluster.crash(3)
    cluster.until(lambda: cluster.nodes[2].state == "seg")
    cluster.run(3 * DELAY_US)
    assert states_since(cluster, 1, mark[1]) == [("seg", "abandoned")]
    assert states_since(cluster, 0, mark[0]) == [("seg", "abandoned")]


def test_a_view_goes_on_working_while_daemons_gather_to_merge():
    """Even if a daemon answers by sending a referral, the daemon will continue to work in the old membership.
    (thesis 6.1.8; ours: all of them, the gathering ones, too, until a view is proposed)"""
    cluster = world(3)
    clients = cluster.members()
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    old = cluster.nodes[0].view
    cluster.lose = lambda receiver, data: proposal_in(data) is not None
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].state == cluster.nodes[1].state == "gather")
    cluster.send(clients[0], "g", b"in the old view")
    cluster.until(lambda: b"in the old view" in cluster.payloads(clients[1]))
    assert cluster.nodes[0].state == "gather"
    assert cluster.nodes[0].view == cluster.nodes[1].view == old


# SEG ------------------------------------------------------------------------------------------------------


def test_a_daemon_alone_in_its_site_speaks_for_it():
    """If the server is alone in the site it will not receive any ALIVE messages from any other servers and
    will switch to Gather. (thesis 6.1.6)"""
    cluster = world(2)
    for diary in cluster.diaries:
        assert [entry[:2] for entry in diary.of("entered")[:2]] == [["seg", "started"], ["gather", "alone"]]


def test_the_smallest_daemon_of_a_site_speaks_for_it():
    """If the other servers have larger ids, then this server will become the representative; the server
    transitions to Represented state if it has heard an Alive message from some other server who has a smaller
    id. (thesis 6.1.6)"""
    cluster = world(2, daemons=3)
    second = [diary.states[1] for diary in cluster.diaries]
    assert second == ["gather", "rep", "rep", "gather", "rep", "rep"]
    assert [node.membership.representative for node in cluster.nodes] == [0, 0, 0, 3, 3, 3]


def test_daemons_of_an_active_membership_do_not_speak_for_a_newcomer():
    """Even if there are other servers running on the site and they are reachable, they will ignore the ALIVE
    message sent by the sender if they already belong to an active membership. Therefore, the sender will
    switch to Gather. (thesis 6.1.6)"""
    cluster = world(2, daemons=2)
    cluster.crash(1)
    cluster.settle()
    mark = marks(cluster)
    cluster.restart(1)
    cluster.settle()
    assert states_since(cluster, 1, mark[1])[:2] == [("seg", "started"), ("gather", "alone")]


def test_seg_lasts_for_its_time():
    """It sets a timeout of Seg_timeout after which it will switch to either Gather or Represented state.
    (thesis 6.1.6)"""
    cluster = world(1, daemons=2)
    (_, _, began_us), (_, _, ended_us), *_ = cluster.diaries[1].of("entered")
    assert ended_us - began_us == LAN.segment_us


# REP ------------------------------------------------------------------------------------------------------


def test_represented_daemons_leave_the_wide_area_to_their_representative():
    """The purpose of the Represented state is to suppress all servers in a site except one from sending
    wide-area messages between sites. (thesis 6.1.7; ours: they still ask whether others are there, so that a
    broken path between representatives is routed around; what is gathered goes through representatives)"""
    cluster = world(2, daemons=3, formed=False, gather_ms=8_000)
    cluster.run(LAN.segment_us + 5 * LAN.join_us)  # they have to learn first who represents whom
    cluster.crossed.clear()
    cluster.run(10 * LAN.join_us)
    assert [node.state for node in cluster.nodes] == ["gather", "rep", "rep", "gather", "rep", "rep"]
    told = {
        (sender, receiver)
        for sender, receiver, data in cluster.crossed
        if (beat := beat_in(data)) is not None and beat.stations
    }
    assert told
    assert not {pair for pair in told if not set(pair) & {0, 3}}


def test_a_silent_representative_is_replaced():
    """If they fail to receive these JOIN messages for more than Rep_timeout seconds, they shift to Seg state.
    (thesis 6.1.7)"""
    cluster = world(1, daemons=3, formed=False)
    cluster.lose = lambda receiver, data: proposal_in(data) is not None
    cluster.until(lambda: cluster.nodes[1].state == cluster.nodes[2].state == "rep")
    mark = marks(cluster)
    cluster.crash(0)
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert states_since(cluster, 1, mark[1])[0] == ("seg", "silence")
    assert ("gather", "alone") in states_since(cluster, 1, mark[1])
    assert ("rep", "represented") in states_since(cluster, 2, mark[2])


def test_a_represented_daemon_follows_a_proposal():
    """If they receive a NEWMEMB message then they process it normally and shift to Statetrans state.
    (thesis 6.1.7)"""
    cluster = world(1, daemons=2)
    assert cluster.diaries[1].states == ["seg", "rep", "statetrans", "evs", "op", "ggather", "gop"]


# GATHER ---------------------------------------------------------------------------------------------------


def test_what_is_gathered_is_repeated():
    """While in Gather state a JOIN message is sent every Join_timeout seconds. (thesis 6.1.8)"""
    cluster = world(2, formed=False)
    cluster.lose = lambda receiver, data: proposal_in(data) is not None
    cluster.run(LAN.segment_us + LAN.join_us)
    assert cluster.nodes[1].state == "gather"
    cluster.crossed.clear()
    cluster.run(10 * LAN.join_us)
    joins = [
        data
        for sender, _, data in cluster.crossed
        if sender == 1 and (beat := beat_in(data)) is not None and beat.stations
    ]
    assert 10 <= len(joins) <= 14  # sooner after news


def test_the_smallest_daemon_proposes():
    """If this server is the network representative and new servers have been found, this server sends a
    NEWMEMB message and shifts to Statetrans state. (thesis 6.1.8)"""
    cluster = world(4)
    proposals = [
        (sender, proposal)
        for sender, _, data in cluster.crossed
        if (proposal := proposal_in(data)) is not None
    ]
    assert proposals[0][0] == 0
    assert {proposal.id for _, proposal in proposals} == {cluster.nodes[0].view.id}
    assert proposals[0][1].members == (0, 1, 2, 3)
    assert proposals[0][1].incarnations == tuple(node.incarnation for node in cluster.nodes)


def test_when_nobody_comes_of_it_the_view_goes_on():
    """If no new servers have been found and a current active membership exists, the server shifts to OP state
    and continues normal execution. (thesis 6.1.8)"""
    cluster = world(3)
    clients = cluster.members()
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    old = cluster.nodes[0].view
    mark = marks(cluster)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].state == "gather")
    cluster.partition({0, 1}, {2})
    cluster.until(lambda: cluster.nodes[0].state == cluster.nodes[1].state == "op")
    assert states_since(cluster, 0, mark[0]) == [("gather", "found"), ("op", "nothing-new")]
    assert cluster.nodes[0].view == cluster.nodes[1].view == old
    assert cluster.nodes[0].membership.rounds.past[-1].ended == "nothing new"
    cluster.send(clients[0], "g", b"still here")
    cluster.settle({0, 1})
    assert cluster.payloads(clients[1]) == [b"still here"]


def test_a_working_view_does_not_wait_for_ever_for_a_proposal():
    """If this server is not the network representative, but its current membership is still marked active, it
    then shifts to OP and continues normal operation. (thesis 6.1.8)"""
    cluster = world(3)
    cluster.partition({0}, {1, 2})
    cluster.settle({0}, {1, 2})
    old = cluster.nodes[1].view
    cluster.lose = lambda receiver, data: proposal_in(data) is not None
    cluster.heal()
    cluster.until(lambda: cluster.nodes[1].state == "gather")
    cluster.crash(0)
    cluster.until(lambda: cluster.nodes[1].state == cluster.nodes[2].state == "op")
    assert cluster.nodes[1].view == cluster.nodes[2].view == old


def test_without_a_view_gathering_begins_anew():
    """If this server is not the network representative, and no membership is active, then the attempt to form
    a membership has failed, possibly because the smallest id server crashed, so restart. (thesis 6.1.8)"""
    cluster = world(3, formed=False)
    cluster.until(lambda: cluster.nodes[2].state == "gather")
    cluster.crash(0)
    cluster.settle({1, 2})


def test_a_lost_proposal_is_repeated():
    """receive(s, JOIN) in Statetrans: if s in FMemb then mcast(s, newmemb). (figure 6.13; ours: repeated to
    every neighbour whose end of the link does not answer)"""
    cluster = world(3, formed=False)
    lost: list[int] = []

    def lose(receiver: int, data: bytes) -> bool:
        if receiver == 2 and proposal_in(data) is not None and len(lost) < 3:
            lost.append(receiver)
            return True
        return False

    cluster.lose = lose
    cluster.settle()
    assert len(lost) == 3
    assert [len(diary.views) for diary in cluster.diaries] == [2, 2, 2]


def test_an_old_proposal_is_ignored():
    """if newmemb.stid <= FMemb_id then ignore. (figure 6.4)"""
    cluster = world(2)
    kept = [data for _, receiver, data in cluster.crossed if receiver == 1 and proposal_in(data) is not None]
    mark = marks(cluster)
    for data in kept:
        cluster.nodes[1].receive(memoryview(data), len(data), cluster.now_us)
    cluster.run(100_000)
    assert cluster.nodes[1].state == "op"
    assert states_since(cluster, 1, mark[1]) == []


def test_a_proposal_for_a_former_life_is_ignored():
    """(ours: a proposal names processes, not only daemons)"""
    cluster = world(2)
    kept = [data for _, receiver, data in cluster.crossed if receiver == 1 and proposal_in(data) is not None]
    cluster.partition({0}, {1})
    cluster.restart(1)
    cluster.settle({1})
    for data in kept:
        cluster.nodes[1].receive(memoryview(data), len(data), cluster.now_us)
    assert cluster.nodes[1].state == "op"


# STATETRANS -----------------------------------------------------------------------------------------------


def test_each_member_tells_its_state_once():
    """Creating a new STATETRANS message and sending it to all of the other servers who are in the new
    membership through the new overlay network. (thesis 6.1.9)"""
    cluster = world(4)
    told = bundles_sent(cluster, Flag.STATE)
    assert sorted(carried.header.daemon for carried in told) == [0, 1, 2, 3]
    assert {carried.view for carried in told} == {cluster.nodes[0].view.id}
    assert all(carried.header.destinations == 0b1111 for carried in told)


def test_packets_of_other_views_are_rejected():
    """Spread usually rejects messages which arrive with a membership id that is not equal to the current
    membership. (thesis 6.1.9)"""
    cluster = world(2)
    clients = cluster.members()
    cluster.crossed.clear()
    cluster.send(clients[0], "g", b"once")
    cluster.settle()
    data = next(data for _, receiver, data in cluster.crossed if receiver == 1 and b"once" in data)
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    cluster.heal()
    cluster.settle()
    before = cluster.nodes[1].counters["packet: of another view"]
    cluster.nodes[1].receive(memoryview(data), len(data), cluster.now_us)
    cluster.settle()
    assert cluster.nodes[1].counters["packet: of another view"] == before + 1
    assert cluster.payloads(clients[1]) == [b"once"]


def test_a_view_that_cannot_be_formed_is_given_up():
    """Statetrans Timeout: DECLAREMEMBLOSS. (figure 6.14; here its link fails first)"""
    cluster = world(3, formed=False)
    cluster.lose = lambda receiver, data: receiver == 2 and carries(data, Flag.STATE)
    cluster.until(lambda: cluster.diaries[2].states.count("seg") >= 2)
    assert [len(diary.views) for diary in cluster.diaries] == [1, 1, 1]
    cluster.lose = lambda receiver, data: False
    cluster.settle(within_us=120_000_000)


@pytest.mark.parametrize("state", ["statetrans", "evs"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_crash_while_a_view_is_formed(state, victim):
    """linkfailed: DECLAREMEMBLOSS. (figures 6.13 and 6.15)"""
    cluster = world(3, formed=False)
    cluster.until(lambda: cluster.nodes[victim].state == state)
    cluster.crash(victim)
    cluster.settle()
    others = [number for number in range(3) if number != victim]
    assert all(cluster.diaries[number].states.count("seg") >= 2 for number in others)


def test_every_state_is_entered_and_left():
    """The membership algorithm can be expressed as a state-machine with 6 states. (thesis 6.1)"""
    cluster = world(2, daemons=2)
    entered = {state for diary in cluster.diaries for state in diary.states}
    assert entered == {"op", "seg", "rep", "gather", "statetrans", "evs", "ggather", "gop"}
    assert [node.state for node in cluster.nodes] == ["op"] * 4
    assert [node.group_state for node in cluster.nodes] == ["gop"] * 4


# Paths that work in one direction, now and then, or not at all --------------------------------------------


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
    damped_us = cluster.nodes[0].membership.peers[1].damped_until_us - cluster.now_us
    assert damped_us <= LAN.damp_max_us
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


# The theorems about views ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def eventful() -> Cluster:
    """A world to which much has happened: partitions, a merge, crashes, restarts, cascades."""
    cluster = world(3, daemons=2)
    cluster.partition({0, 1, 2}, {3, 4}, {5})
    cluster.settle({0, 1, 2}, {3, 4}, {5})
    cluster.heal()
    cluster.until(lambda: cluster.nodes[4].state == "statetrans")
    cluster.partition({0, 3}, {1, 2, 4, 5})
    cluster.settle({0, 3}, {1, 2, 4, 5})
    cluster.crash(2)
    cluster.restart(5)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[1].state == "evs")
    cluster.crash(0)
    cluster.settle()
    cluster.restart(0)
    cluster.restart(2)
    cluster.settle()
    return cluster


def test_all_events_happen_in_a_view(eventful):
    """Every send, deliver, and transsig event occurs in some view. (theorem 6.1)"""
    for diary in eventful.diaries:
        current = None
        for kind, what, *_ in diary.entries:
            if kind == "installed":
                current = what.id
            elif kind in ("delivered", "signalled"):
                assert what == current
        assert diary.entries[0][0] == "installed"


def test_every_view_includes_its_daemon(eventful):
    """All view events include Self in the set of members. (theorem 6.2)"""
    for number, diary in enumerate(eventful.diaries):
        assert all(number in view.members for view in diary.views)


def test_a_view_identifier_stands_for_one_view(eventful):
    """If server s installs a view with identifier id and server t installs a view with the same identifier,
    then the membership sets of the views are identical. (theorem 6.3)"""
    seen = {}
    for diary in eventful.diaries:
        for view in diary.views:
            assert seen.setdefault(view.id, view) == view


def test_view_identifiers_grow(eventful):
    """If server s installs a view with identifier id' after installing a view with identifier id, then id' is
    greater than id. (theorem 6.4; here also across a crash)"""
    for diary in eventful.diaries:
        ids = [view.id for view in diary.views]
        assert ids == sorted(set(ids))


def previous_views(diary: Diary) -> dict[int, tuple[int | None, tuple[int, ...]]]:
    """By view: the view before it (None for the first of a life) and the transitional set."""
    found: dict[int, tuple[int | None, tuple[int, ...]]] = {}
    before: int | None = None
    for view, transitional in diary.of("installed"):
        found[view.id] = (before if transitional else None, transitional)  # type: ignore[attr-defined,assignment]
        before = view.id  # type: ignore[attr-defined]
    return found


def test_transitional_sets(eventful):
    """The transitional set for v' at s is a subset of the intersection of M_v and M_v'; t is included if and
    only if s's previous view was identical to t's; if it was, they have the same transitional sets.
    (theorem 6.5; a: of the first view after a recover event it is the server itself: ours is empty)"""
    members = {view.id: set(view.members) for diary in eventful.diaries for view in diary.views}
    before = [previous_views(diary) for diary in eventful.diaries]
    compared = 0
    for one, views in enumerate(before):
        for view, (previous, transitional) in views.items():
            if previous is None:
                continue
            assert set(transitional) <= members[previous] & members[view]
            for other in members[view]:
                same = before[other].get(view, (None, ()))[0] == previous
                assert (other in transitional) == same, (one, other, view)
                compared += 1
    assert compared > 50


def test_each_view_ends_with_one_signal(eventful):
    """At most one transsig event occurs at a server during a view. (theorem 6.14; and one does, lemma 6.2)"""
    for diary in eventful.diaries:
        signals = 0
        for kind, *rest in diary.entries:
            if kind == "signalled" and not rest[2]:
                signals += 1
            elif kind == "installed":
                assert signals == (1 if rest[1] else 0)
                signals = 0


def test_the_kind_of_every_packet_without_a_view(eventful):
    """(ours: only beats and proposals travel outside of a view's links)"""
    for _, _, data in eventful.crossed:
        head = parse(memoryview(data)).head
        assert (head.view == 0) == (head.kind in (PacketKind.BEAT, PacketKind.PROPOSAL))
