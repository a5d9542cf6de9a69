"""What clients can rely on when the daemon membership changes: views, signals, requests meanwhile."""

import pytest
from meshes import DELAY_US, forget, with_members, world
from packets_seen import bundles_sent, carries, proposal_in

from antiphon.core.membership.changeover import DONE
from antiphon.types import Cause
from antiphon.wire.bundle import Flag


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


def test_observers_are_told_which_sessions_a_view_means():
    """Daemon 2 is cut off. On the other side c0 ends and another session takes its name: what daemon 2 loses
    is the session that it knew. (ours: a name is not an identity)"""
    cluster, _ = with_members(3)
    (first,) = (session.number for session in cluster.nodes[0].sessions)
    cluster.partition({0, 1}, {2})
    cluster.settle({0, 1}, {2})
    cluster.disconnect("#c0#d0")
    cluster.settle({0, 1}, {2})
    cluster.join(cluster.client(0, "c0"), "g")
    cluster.heal()
    cluster.settle()
    told = cluster.diaries[2].of("regrouped")
    lost = next((view, sessions) for view, sessions in told if view.cause is Cause.NETWORK)
    merged = next((view, sessions) for view, sessions in told if view.cause is Cause.MERGE)
    assert lost[0].members + lost[0].changed == ("#c2#d2", "#c0#d0", "#c1#d1")
    assert [session for session in lost[1] if session[0] == 0] == [(0, first)]
    assert [session for session in merged[1] if session[0] == 0] == [(0, first + 1)]
    for view, sessions in told:
        gone = view.changed if view.cause in (Cause.NETWORK, Cause.LEAVE, Cause.DISCONNECT) else ()
        names = [f"d{daemon}" for daemon, _ in sessions]
        assert names == [name.rpartition("#")[2] for name in (*view.members, *gone)]
