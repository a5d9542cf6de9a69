"""Groups when daemons are lost, sentence by sentence: thesis 6.4.4 and 6.4.5.

Deviations are listed in `antiphon.core.groups.membership`; the tests that show one say so.
"""

from meshes import DELAY_US, forget, torn_into, with_members, world
from packets_seen import bundles_sent

from antiphon.types import Cause, TransitionalSignal, View
from antiphon.wire.bundle import Flag

# GOP --------------------------------------------------------------------------------------------------------


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


# GTRANS -----------------------------------------------------------------------------------------------------


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
