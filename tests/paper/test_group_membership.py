"""Groups across changes of the daemon membership, sentence by sentence: thesis 6.4.4 to 6.4.7.

Deviations are listed in `antiphon.core.groups.membership`; the tests that show one say so.
"""

import pytest
from packets_seen import bundles_sent, carries, proposal_in
from small_worlds import Cluster

from antiphon.core.changeover import DONE
from antiphon.service import Service
from antiphon.types import Cause, TransitionalSignal, View
from antiphon.wire.bundle import Flag

DELAY_US = 1_000


def world(sites: int, **options: object) -> Cluster:
    """Every two sites joined, a LAN's timing and delay."""
    wanted: dict[str, object] = {"mesh": True, "membership": "lan", **options}
    return Cluster(sites, DELAY_US, **wanted)  # type: ignore[arg-type]


def with_members(sites: int) -> tuple[Cluster, list[str]]:
    """And a member of group g at each, whose joins are forgotten."""
    cluster = world(sites)
    clients = cluster.members()
    forget(cluster)
    return cluster, clients


def forget(cluster: Cluster) -> None:
    """Let the story begin here."""
    for name in cluster.events:
        cluster.events[name].clear()
        cluster.times[name].clear()
    cluster.crossed.clear()


def torn_into(cluster: Cluster, *parts: set[int]) -> None:
    """All lose the view at once; then those of each part find each other."""
    cluster.partition(*parts)
    cluster.lose_view()
    cluster.settle(*parts)


# GOP ------------------------------------------------------------------------------------------------------


def test_groups_begin_and_end_with_their_members():
    """A group is implicitly created when the first member joins the group and destroyed when the last member
    leaves the group. (thesis 6.4.4; also when the last one is lost)"""
    cluster = world(2)
    far = cluster.client(1, "far")
    cluster.join(far, "g")
    cluster.settle()
    assert all("g" in node.delivery.membership.groups for node in cluster.nodes)
    cluster.crash(1)
    cluster.settle()
    assert "g" not in cluster.nodes[0].delivery.membership.groups
    near = cluster.client(0, "near")
    cluster.join(near, "g")
    cluster.settle()
    assert cluster.story(near) == ["join near"]


def test_only_groups_with_lost_members_get_the_signal():
    """for each g in G: if m.server not in TMemb: transsig. (figure 6.19)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.settle()
    signal, view = cluster.events[clients[0]]
    assert isinstance(signal, TransitionalSignal) and isinstance(view, View)
    assert signal.group == view.group == "g"
    assert signal.id < view.id
    assert (view.cause, view.changed) == (Cause.NETWORK, (clients[2],))


def test_groups_untouched_by_a_change_see_nothing():
    """Some groups may not even see a group view change when a server view changes as groups which have no
    members on the daemons who failed, partitioned, or merged will not need to see that any membership change
    occurred at all. (thesis 6.4)"""
    cluster = world(4)
    pair = [cluster.client(number, f"c{number}") for number in (0, 1)]
    alone = cluster.client(2, "alone")
    for client in pair:
        cluster.join(client, "pair")
    cluster.join(alone, "elsewhere")
    cluster.settle()
    forget(cluster)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    cluster.crash(3)
    cluster.settle()
    cluster.restart(3)
    cluster.settle()
    assert [cluster.events[client] for client in (*pair, alone)] == [[], [], []]
    cluster.send(pair[0], "pair", b"still the same view")
    cluster.settle()
    assert cluster.payloads(pair[1]) == [b"still the same view"]


# GTRANS ---------------------------------------------------------------------------------------------------


def test_a_join_before_the_certain_part_is_over_is_a_join_as_any_other():
    """If no previous view change has marked the group as inconsistent, the index can be incremented and a
    view delivered to the group just like in GOP state. (thesis 6.4.5)"""
    cluster, clients = with_members(4)
    newcomer = cluster.client(0, "newcomer")
    cluster.join(newcomer, "g")
    cluster.until(lambda: cluster.views(clients[1]))
    torn_into(cluster, {0, 1}, {2, 3})
    assert cluster.story(clients[1])[:2] == ["join c0 c1 c2 c3 newcomer", "signal"]
    assert cluster.story(clients[0]) == cluster.story(clients[1])
    assert cluster.story(newcomer) == cluster.story(clients[0])


def test_a_join_of_one_who_comes_along_after_the_signal():
    """If the index is negative, the view with the joining member can be delivered only with the transitional
    set consisting of only ESTABLISHED members of the group. A transsig event must be immediately delivered.
    (thesis 6.4.5)"""
    cluster, clients = with_members(4)
    newcomer = cluster.client(0, "newcomer")
    cluster.partition({0, 1}, {2, 3})
    cluster.join(newcomer, "g")
    cluster.settle({0, 1}, {2, 3})
    expected = ["signal", "join c0 c1 c2 c3 newcomer", "signal", "network c0 c1 newcomer"]
    assert cluster.story(clients[0]) == cluster.story(clients[1]) == expected
    assert cluster.story(newcomer) == expected[1:]
    joined, last = cluster.views(clients[0])
    assert joined.transitional == (clients[0], clients[1])
    assert last.transitional == (clients[0], clients[1], newcomer)
    assert cluster.views(newcomer)[0].transitional == ()
    ids = [cluster.views(clients[0])[0].id, cluster.views(clients[0])[1].id]
    assert ids == sorted(ids)


def test_a_join_of_one_who_is_lost_after_the_signal():
    """If the originating server is not in the TMemb set, then the new member is considered to be a
    PARTITIONED member; the delivered view has a transitional set consisting of only those members who are in
    ESTABLISHED state. A transsig event is immediately generated. (thesis 6.4.5)"""
    cluster, clients = with_members(3)
    newcomer = cluster.client(2, "newcomer")
    cluster.join(newcomer, "g")
    cluster.run(DELAY_US + 100)
    assert cluster.views(clients[0]) == []
    torn_into(cluster, {0, 1}, {2})
    expected = ["signal", "join c0 c1 c2 newcomer", "signal", "network c0 c1"]
    assert cluster.story(clients[0]) == cluster.story(clients[1]) == expected
    joined = cluster.views(clients[0])[0]
    assert joined.transitional == (clients[0], clients[1])
    assert joined.changed == (newcomer,)
    assert cluster.views(clients[0])[1].changed == (clients[2], newcomer)


def test_a_join_to_a_group_of_those_who_come_along_needs_no_signal():
    """(the same: the group itself has lost nobody)"""
    cluster = world(3)
    old, newcomer = cluster.client(0, "old"), cluster.client(1, "newcomer")
    cluster.join(old, "h")
    cluster.settle()
    forget(cluster)
    cluster.partition({0, 1}, {2})
    cluster.join(newcomer, "h")
    cluster.settle({0, 1}, {2})
    assert cluster.story(old) == cluster.story(newcomer) == ["join old newcomer"]


def test_a_leave_after_the_signal_is_followed_by_a_view():
    """In this case the delivery of the view showing the departure of the leaving member is unnecessary.
    (thesis 6.4.5; deviation: it is delivered, with a signal after it, as for a join, because messages between
    the two are no longer for the one who left)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.leave(clients[1], "g")
    cluster.settle({0, 1}, {2, 3})
    assert cluster.story(clients[0]) == ["signal", "leave c0 c2 c3", "signal", "network c0"]
    assert cluster.story(clients[1]) == ["signal", "left g"]


def test_a_disconnect_after_the_signal_is_followed_by_a_view():
    """LEAVE and KILL messages are handled similarly. (thesis 6.4.5)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.disconnect(clients[1])
    cluster.settle({0, 1}, {2, 3})
    assert cluster.story(clients[0]) == ["signal", "disconnect c0 c2 c3", "signal", "network c0"]


def test_the_one_who_leaves_gets_nothing_more():
    """A leaving member expects nothing subsequent to their leave. (thesis 6.4.5)"""
    cluster, clients = with_members(3)
    cluster.partition({0, 1}, {2})
    cluster.leave(clients[1], "g")
    cluster.run(5 * DELAY_US)  # the leave is known at 0: what it sends comes later
    cluster.send(clients[0], "g", b"after the leave")
    cluster.settle({0, 1}, {2})
    assert cluster.story(clients[1]) == ["signal", "left g"]
    assert cluster.payloads(clients[0]) == [b"after the leave"]


def test_a_pure_loss_needs_no_exchange():
    """This knowledge of transitional sets allows a view event to be immediately generated without any
    synchronization when the TMemb set equals the RMemb set. (thesis 6.4.5)"""
    cluster, clients = with_members(4)
    cluster.partition({0, 1}, {2, 3})
    cluster.settle({0, 1}, {2, 3})
    assert bundles_sent(cluster, Flag.GROUPS) == []
    assert cluster.story(clients[0]) == ["signal", "network c0 c1"]


# GGATHER --------------------------------------------------------------------------------------------------


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


# GGT: another change before the groups are whole ----------------------------------------------------------


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
        held = cluster.nodes[daemon].order.held()
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


# What clients can rely on ---------------------------------------------------------------------------------


def test_view_identifiers_of_a_group_grow_at_every_member():
    """Local monotonicity. (property 2.20; the thesis gives views after the signal negative indices, ours have
    a branch, see `antiphon.types.ViewId`)"""
    cluster, clients = with_members(4)
    newcomer = cluster.client(1, "newcomer")
    cluster.partition({0, 1}, {2, 3})
    cluster.join(newcomer, "g")
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    cluster.leave(newcomer, "g")
    cluster.partition({0}, {1, 2, 3})
    cluster.settle({0}, {1, 2, 3})
    cluster.heal()
    cluster.settle()
    for client in clients:
        ids = [view.id for view in cluster.views(client)]
        assert len(ids) >= 4
        assert ids == sorted(set(ids)), client


def test_the_two_sides_of_a_cut_never_share_a_view():
    """(property 2.3: if two processes install views with the same identifier, they are the same view)"""
    cluster, clients = with_members(4)
    newcomers = [cluster.client(number, f"n{number}") for number in (0, 2)]
    cluster.partition({0, 1}, {2, 3})
    for newcomer in newcomers:
        cluster.join(newcomer, "g")
    cluster.settle({0, 1}, {2, 3})
    cluster.heal()
    cluster.settle()
    seen: dict[object, tuple[str, ...]] = {}
    for client in (*clients, *newcomers):
        for view in cluster.views(client):
            assert seen.setdefault(view.id, view.members) == view.members
    (last,) = {cluster.views(client)[-1].members for client in (*clients, *newcomers)}
    assert set(last) == {*clients, *newcomers}


def test_sessions_without_views_get_no_signals():
    """(ours: a session may decline views, and with them the signals that speak of views)"""
    cluster = world(2)
    plain = cluster.client(0, "plain", views=False)
    other = cluster.client(1, "other")
    for client in (plain, other):
        cluster.join(client, "g")
        cluster.settle()
    forget(cluster)
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    cluster.heal()
    cluster.settle()
    assert cluster.events[plain] == []
    assert cluster.story(other) == ["signal", "network other", "merge plain other"]


def test_private_messages_follow_their_receiver():
    """(ours: a private name is a group of one, which exists while its daemon is in the view)"""
    cluster, clients = with_members(2)
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    cluster.send(clients[0], clients[1], b"to nobody here")
    cluster.settle({0}, {1})
    cluster.heal()
    cluster.settle()
    cluster.send(clients[0], clients[1], b"there you are")
    cluster.settle()
    assert cluster.payloads(clients[1]) == [b"there you are"]


def test_two_members_at_one_daemon_come_along_together():
    """(transitional sets are sets of members, not of daemons)"""
    cluster, clients = with_members(2)
    second = cluster.client(0, "second")
    cluster.join(second, "g")
    cluster.settle()
    forget(cluster)
    cluster.crash(1)
    cluster.settle()
    view = cluster.views(second)[-1]
    assert view.members == view.transitional == (clients[0], second)
    assert cluster.story(second) == cluster.story(clients[0]) == ["signal", "network c0 second"]


def test_daemons_that_only_lost_each_other_for_a_moment_change_nothing_for_groups():
    """TMemb = RMemb and nobody is PARTITIONED. (thesis 6.4.5: a daemon view with the same members; groups see
    nothing, and messages under way are delivered)"""
    cluster, clients = with_members(3)
    before = cluster.nodes[0].view
    cluster.lose_view()
    cluster.settle()
    assert cluster.nodes[0].view.id > before.id
    assert [cluster.events[client] for client in clients] == [[], [], []]
    assert bundles_sent(cluster, Flag.GROUPS) == []


def test_installing_waits_for_everybody():
    """When a server's ARU reaches WaitLTS it can install the new membership. (thesis 6.1.3: ours waits for
    the word "done" of every member; until then no group sees anything)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.lose = lambda receiver, data: carries(data, Flag.PHASE, DONE, source=1)
    cluster.until(lambda: cluster.nodes[0].state == "evs")
    cluster.run(20 * DELAY_US)
    assert cluster.nodes[0].state == "evs"
    assert cluster.story(clients[0]) == []
    cluster.lose = lambda receiver, data: False
    cluster.settle()
    assert cluster.story(clients[0]) == ["signal", "network c0 c1"]


def test_a_newcomers_empty_groups_do_not_disturb():
    """(a daemon without clients comes and goes: one GROUPS message says that it has nobody)"""
    cluster, clients = with_members(2)
    cluster.crash(1)
    cluster.settle()
    forget(cluster)
    cluster.restart(1)
    cluster.until(lambda: proposal_in(cluster.crossed[-1][2]) is not None)
    cluster.settle()
    assert cluster.events[clients[0]] == []


@pytest.mark.parametrize("state", ["seg", "statetrans", "evs"])
def test_clients_may_come_and_go_during_a_change(state):
    """connect, join, leave, disconnect: disabled. (figures 6.21 and 6.25; ours: they wait for their turn, in
    the order in which they were asked for)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == state and not cluster.nodes[1].membership.is_active)
    newcomer = cluster.client(0, "newcomer")
    cluster.join(newcomer, "g")
    cluster.send(newcomer, "g", b"hello")
    cluster.leave(clients[0], "g")
    cluster.disconnect(clients[1])
    cluster.settle()
    assert cluster.story(clients[0])[:2] == ["signal", "network c0 c1"]
    assert cluster.story(newcomer)[0].startswith("join")
    assert b"hello" in cluster.payloads(newcomer)
    assert cluster.views(newcomer)[-1].members == (newcomer,)
    assert cluster.story(clients[0])[-1] == "left g"
    assert [node.delivery.membership.groups["g"].mask for node in cluster.nodes[:2]] == [0b001, 0b001]


def test_a_client_that_is_lost_during_a_change_is_lost_after_it():
    """(the same, for a connection that breaks)"""
    cluster, clients = with_members(3)
    cluster.crash(2)
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    cluster.nodes[0].lost(1, cluster.now_us)
    cluster._drain(0)
    cluster.settle()
    assert cluster.story(clients[1]) == ["signal", "network c0 c1", "disconnect c1"]
    assert len(cluster.nodes[0].sessions) == 0
