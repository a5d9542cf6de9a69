"""Groups put together again after daemons have come, sentence by sentence: thesis 6.4.6 and 6.4.7.

Deviations are listed in `antiphon.core.groups.membership`; the tests that show one say so.
"""

import pytest
from meshes import DELAY_US, forget, torn_into, with_members, world
from packets_seen import bundles_sent, carries
from small_worlds import Cluster

from antiphon.service import Service
from antiphon.types import Cause
from antiphon.wire.bundle import Flag

# GGATHER ----------------------------------------------------------------------------------------------------


def test_each_daemon_tells_its_members_once():
    """The server then sends a GROUPS message. (thesis 6.4.5; ours is an agreed message, not a safe one: what
    is sent after the merge is ordered after it)"""
    cluster, _ = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    cluster.crossed.clear()
    cluster.heal()
    cluster.settle()
    groups = bundles_sent(cluster, Flag.GROUPS)
    assert sorted(carried.header.daemon for carried in groups) == [0, 1, 2]
    assert {carried.header.service for carried in groups} == {Service.AGREED}


def test_the_transitional_set_of_a_merge():
    """The transitional set of the new view is set to the membership sets of those servers who had the same
    previous view id for the particular group as the executing server. (thesis 6.4.6)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    merged = [cluster.views(client)[-1] for client in clients]
    assert {view.id for view in merged} == {merged[0].id}
    assert {view.members for view in merged} == {tuple(clients)}
    assert [view.cause for view in merged] == [Cause.MERGE] * 4
    first, second = tuple(clients[:2]), tuple(clients[2:])
    assert [view.transitional for view in merged] == [first, first, second, second]
    assert [view.changed for view in merged] == [second, second, first, first]


def test_a_merge_has_no_signal():
    """If servers only come, nobody is lost. (figure 6.24: transsig is for groups that have lost members)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.heal()
    cluster.settle()
    assert cluster.story(clients[0]) == ["merge c0 c1 c2"]


def test_clients_wait_while_groups_are_put_together():
    """The server stops accepting new client requests by blocking all connected clients. (thesis 6.4.6)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.lose = lambda receiver, data: receiver == 0 and carries(data, Flag.GROUPS, source=2)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].group_state == "ggather")
    newcomer = cluster.client(0, "newcomer")
    cluster.send(clients[0], "g", b"patience", service=Service.RELIABLE)
    cluster.join(newcomer, "g")
    cluster.run(20 * DELAY_US)
    assert cluster.nodes[0].group_state == "ggather"
    assert cluster.events[clients[0]] == []
    assert not cluster.nodes[0].admission.is_accepting
    assert "d2" in cluster.nodes[0].status(cluster.now_us)["view"]["groups_wait_for"]
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    expected = ["merge c0 c1 c2", "patience", "join c0 c1 c2 newcomer"]
    assert [cluster.story(client) for client in clients] == [expected] * 3
    assert cluster.story(newcomer) == expected[2:]


def test_what_others_send_after_the_merge_comes_after_it_here():
    """(the same: a daemon that has all GROUPS messages may send already)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.lose = lambda receiver, data: receiver == 0 and carries(data, Flag.GROUPS, source=1)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[2].group_state == "ggather")
    cluster.until(lambda: cluster.nodes[2].group_state == "gop")
    assert cluster.nodes[0].group_state == "ggather"
    cluster.send(clients[2], "g", b"early", service=Service.RELIABLE)
    cluster.send(clients[2], "g", b"bird", service=Service.UNRELIABLE)
    cluster.run(5 * DELAY_US)
    assert cluster.nodes[0].group_state == "ggather"
    assert cluster.payloads(clients[0]) == []
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert cluster.story(clients[0]) == ["merge c0 c1 c2", "early"], "unreliable ones may be lost"
    assert cluster.story(clients[2]) == ["merge c0 c1 c2", "early", "bird"]


def test_a_join_while_daemons_merge():
    """(a join that is under way when the merge is proposed takes effect before it, in its own view)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].state == "gather")
    newcomer = cluster.client(1, "newcomer")
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    assert cluster.nodes[1].state == "gather"
    cluster.join(newcomer, "g")
    cluster.settle()
    for client in (*clients[:2], newcomer):
        joined, merged = cluster.views(client)
        assert (joined.cause, joined.members) == (Cause.JOIN, (clients[0], clients[1], newcomer))
        assert (merged.cause, merged.transitional) == (Cause.MERGE, joined.members)
        assert set(merged.members) == {*clients, newcomer}
    (only,) = cluster.views(clients[2])
    assert only.cause is Cause.MERGE and only.transitional == (clients[2],)


def test_everybody_lists_the_members_alike():
    """The membership sets reported by all of the servers are merged. (thesis 6.4.6)"""
    cluster = world(4)
    joiners = [cluster.client(number, f"c{number}") for number in (3, 1, 2, 0)]
    for client in joiners:
        cluster.join(client, "g")
        cluster.settle()
    cluster.partition({0, 3}, {1, 2})
    cluster.settle({0, 3}, {1, 2})
    assert cluster.views(joiners[0])[-1].members == (joiners[0], joiners[3]), "in the order of their joins"
    cluster.heal()
    cluster.settle()
    lists = {cluster.views(client)[-1].members for client in joiners}
    assert len(lists) == 1
    assert set(lists.pop()) == set(joiners)


def test_a_loss_and_a_merge_at_once_are_two_views():
    """(deviation from figure 6.22: the thesis installs one view after the merge; two daemons that were cut
    off from each other could then both come from the same view without having delivered the same messages in
    it. Ours: first the view of those who remain, then the merged one)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.partition({0, 2}, {1})
    cluster.settle({0, 2}, {1})
    assert cluster.story(clients[0])[:2] == ["signal", "network c0"]
    lone, merged = cluster.views(clients[0])
    assert merged.cause is Cause.MERGE and lone.id < merged.id
    assert merged.transitional == (clients[0],)
    assert set(merged.members) == {clients[0], clients[2]}
    (only,) = cluster.views(clients[2])
    assert (only.id, only.members, only.transitional) == (merged.id, merged.members, (clients[2],))


def test_members_are_told_alike_on_both_sides_of_such_a_change():
    """(the same)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    forget(cluster)
    cluster.partition({0, 2}, {1, 3})
    cluster.settle({0, 2}, {1, 3})
    for one, other in ((0, 2), (1, 3)):
        first, second = (cluster.views(clients[number]) for number in (one, other))
        assert (
            [view.cause for view in first] == [view.cause for view in second] == [Cause.NETWORK, Cause.MERGE]
        )
        assert first[-1].id == second[-1].id and first[-1].members == second[-1].members
        assert first[0].id != second[0].id
        assert first[-1].transitional == (clients[one],) and second[-1].transitional == (clients[other],)


# GGT: another change before the groups are whole ------------------------------------------------------------


def held_in_ggather(cluster: Cluster, *receivers: int) -> None:
    """Merge {0, 1} with {2}, and keep d1's GROUPS message from some: they stay in GGATHER."""
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.lose = lambda receiver, data: (
        receiver in receivers and carries(data, Flag.GROUPS, source=1) and not carries(data, Flag.RECOVERED)
    )
    cluster.heal()
    cluster.until(lambda: all(cluster.nodes[number].group_state == "ggather" for number in receivers))
    cluster.run(20 * DELAY_US)


def test_a_merge_that_nobody_has_completed_is_begun_anew():
    """If an sview event occurs then the current set of received GROUPS messages is flushed. Then a new GROUPS
    message is sent and the state switches to GGATHER. (thesis 6.4.7)"""
    cluster, clients = with_members(3)
    held_in_ggather(cluster, 0, 2)
    assert [node.group_state for node in cluster.nodes] == ["ggather", "gop", "ggather"]
    cluster.crash(1)
    cluster.settle()
    groups = bundles_sent(cluster, Flag.GROUPS)
    view = cluster.nodes[0].view.id
    assert sorted(carried.header.daemon for carried in groups if carried.view == view) == [0, 2]
    assert cluster.story(clients[0])[:2] == ["signal", "network c0"]
    assert [view.cause for view in cluster.views(clients[2])] == [Cause.MERGE]
    assert cluster.views(clients[0])[-1].members == cluster.views(clients[2])[-1].members
    assert set(cluster.views(clients[2])[-1].members) == {clients[0], clients[2]}


def test_a_merge_that_one_has_completed_is_completed_by_all():
    """When the required GROUPS messages are received in the GGT state, a new view is computed and delivered;
    this server must deliver the view because some other server may have received the GROUPS messages prior to
    the transitional signal and also delivered the view. (thesis 6.4.7)"""
    cluster, clients = with_members(3)
    held_in_ggather(cluster, 0)
    assert [node.group_state for node in cluster.nodes] == ["ggather", "gop", "gop"]
    assert cluster.story(clients[2]) == ["merge c0 c1 c2"]
    assert cluster.story(clients[0]) == []
    cluster.crash(1)
    cluster.settle()
    expected = ["merge c0 c1 c2", "signal", "network c0 c2"]
    assert cluster.story(clients[0]) == cluster.story(clients[2]) == expected
    assert cluster.views(clients[0])[0].transitional == (clients[0], clients[1])


def test_a_merge_whose_messages_all_are_there_is_completed():
    """This handles the case where all of the required GROUPS messages were received, but some were delivered
    after the transitional signal. (thesis 6.4.7: the merged view, its signal, the view without the lost)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    forget(cluster)
    cluster.heal()
    cluster.until(lambda: [node.group_state for node in cluster.nodes] == ["ggather"] * 3)

    def have(daemon: int) -> set[int]:
        held = cluster.nodes[daemon].order.retained()
        return {entry.source for entry in held if entry.header.flags & Flag.GROUPS}

    cluster.until(lambda: have(0) == have(1) == {0, 1, 2})
    assert [node.group_state for node in cluster.nodes] == ["ggather"] * 3
    cluster.crash(2)
    torn_into(cluster, {0, 1})
    expected = ["merge c0 c1 c2", "signal", "network c0 c1"]
    assert cluster.story(clients[0]) == cluster.story(clients[1]) == expected
    merged, last = cluster.views(clients[0])
    assert merged.transitional == last.transitional == (clients[0], clients[1])
    assert merged.id < last.id


@pytest.mark.parametrize("is_delivered", [False, True])
def test_sends_of_a_daemon_that_had_merged_are_delivered_after_the_merge(is_delivered):
    """(the same: what it has sent meanwhile comes after it, before the signal if it has delivered it)"""
    cluster, clients = with_members(3)
    held_in_ggather(cluster, 0)
    cluster.send(clients[2], "g", b"message")
    if is_delivered:
        cluster.until(lambda: cluster.payloads(clients[2]))
    else:
        cluster.run(DELAY_US + 100)
    assert cluster.payloads(clients[0]) == []
    cluster.crash(1)
    torn_into(cluster, {0, 2})
    middle = ["message", "signal"] if is_delivered else ["signal", "message"]
    expected = ["merge c0 c1 c2", *middle, "network c0 c2"]
    assert cluster.story(clients[2]) == expected
    assert cluster.story(clients[0]) == expected


def test_a_cascade_of_merges():
    """When cascaded membership changes occur a stranssig event will be received in the GGATHER state.
    (thesis 6.4.6: here another daemon comes before the groups are whole)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2}, {3})
    cluster.settle({0, 1}, {2}, {3})
    forget(cluster)
    cluster.lose = lambda receiver, data: carries(data, Flag.GROUPS, source=2)
    cluster.partition({0, 1, 2}, {3})
    cluster.until(lambda: all(cluster.nodes[number].group_state == "ggather" for number in (0, 1, 2)))
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    (last,) = {cluster.views(client)[-1].id for client in clients}
    assert all(cluster.views(client)[-1].id == last for client in clients)
    for client in clients:
        assert set(cluster.views(client)[-1].members) == set(clients)
    assert cluster.story(clients[0]) == cluster.story(clients[1])
