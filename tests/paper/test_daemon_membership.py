"""The membership of daemons, sentence by sentence: thesis 6.1.3 to 6.1.7, all but agreeing
on a view.

Deviations are listed in the parts of `antiphon.core.membership`; the tests that show one say so.
"""

from itertools import pairwise

from meshes import DELAY_US, marks, states_since, world
from packets_seen import beat_in, proposal_in
from small_worlds import Cluster

from antiphon.config.timing import PRESETS
from antiphon.wire.packet import Data, parse

LAN = PRESETS["lan"]


# Start ------------------------------------------------------------------------------------------------------


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


# OP: finding others, losing others --------------------------------------------------------------------------


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


# SEG --------------------------------------------------------------------------------------------------------


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
    assert [node.membership.standing.representative for node in cluster.nodes] == [0, 0, 0, 3, 3, 3]


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


# REP --------------------------------------------------------------------------------------------------------


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
