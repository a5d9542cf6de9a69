"""How daemons agree on a view, sentence by sentence: thesis 6.1.7 to 6.1.9.

Deviations are listed in the parts of `antiphon.core.membership`; the tests that show one say so.
"""

import pytest
from meshes import marks, states_since, world
from packets_seen import beat_in, bundles_sent, carries, proposal_in

from antiphon.config.timing import PRESETS
from antiphon.wire.bundle import Flag

LAN = PRESETS["lan"]


# GATHER -----------------------------------------------------------------------------------------------------


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


# STATETRANS -------------------------------------------------------------------------------------------------


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
