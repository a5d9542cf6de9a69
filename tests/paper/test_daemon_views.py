"""The theorems about views of daemons: thesis 6.1, in one eventful story."""

import pytest
from meshes import world
from small_worlds import Cluster, Diary

from antiphon.wire.packet import PacketKind, parse


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


def test_the_clock_goes_on_from_view_to_view():
    """A daemon stamps a bundle later than all that it sent before, in whichever view: its clock may be ahead
    of the identifier of its new view, which another daemon chose without knowing. (ours; 2.12 for daemons)"""
    cluster = world(2)
    clients = cluster.members()
    cluster.partition({0}, {1})
    cluster.settle({0}, {1})
    cluster.heal()
    cluster.until(lambda: cluster.nodes[0].state == "statetrans")
    for _ in range(50):
        cluster.send(clients[1], "g", b"before the proposal comes")
    old = cluster.nodes[1].view.id
    cluster.settle()
    cluster.send(clients[1], "g", b"in the new view")
    cluster.settle()
    sent = [(view_id, header.lts) for view_id, header in cluster.diaries[1].of("sent")]
    assert max(lts for view_id, lts in sent if view_id == old) > cluster.nodes[1].view.id
    stamps = [lts for _, lts in sent]
    assert stamps == sorted(stamps)
