"""Locks of a group, sentence by sentence: RMP 3.3 and 4.3.

Deviations are listed in `antiphon.core.groups.locks`; the tests that show one say so.
"""

from meshes import forget, with_members
from small_worlds import Cluster

from antiphon import limits
from antiphon.types import Lock, LockCause, LockChanged, View
from antiphon.wire import frames

Parts = tuple[set[int], ...]
HALVES: Parts = ({0, 1}, {2, 3})


def lock(cluster: Cluster, client: str, name: str = "a", *, wait: bool = True, parts: Parts = ()) -> None:
    cluster.ask(client, frames.AskLock("g", name, wait))
    cluster.settle(*parts)


def unlock(cluster: Cluster, client: str, name: str = "a") -> None:
    cluster.ask(client, frames.Unlock("g", name))
    cluster.settle()


def changes(cluster: Cluster, client: str) -> list[LockChanged]:
    return [event.change for event in cluster.events[client] if isinstance(event, frames.LockFrame)]


def seen(cluster: Cluster, client: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """The cause, the holder and who waits, of each change."""
    return [
        (change.cause.value, change.lock.holder, change.lock.waiting) for change in changes(cluster, client)
    ]


def held(cluster: Cluster, client: str) -> dict[str, Lock]:
    """The locks in the last view of a client."""
    views = [event for event in cluster.events[client] if isinstance(event, View)]
    return {lock.name: lock for lock in views[-1].locks}


def test_all_members_see_the_holder_at_the_same_place():
    """A group has locks that exclude one another's holders; members ask for them and give them back. (3.3)"""
    cluster, (one, two, three) = with_members(3)
    lock(cluster, one)
    cluster.send(two, "g", b"after")
    cluster.settle()
    assert seen(cluster, one) == seen(cluster, two) == seen(cluster, three) == [("asked", one, ())]
    assert [type(event).__name__ for event in cluster.events[three]] == ["LockFrame", "Message"]


def test_a_lock_that_is_held_is_refused():
    """Nobody is granted a lock that another member has when the request takes effect. (4.3)"""
    cluster, (one, two, _) = with_members(3)
    lock(cluster, one)
    lock(cluster, two, wait=False)
    assert seen(cluster, two) == [("asked", one, ()), ("refused", one, ())]


def test_who_waits_has_it_next_in_the_order_of_asking():
    """Deviation: RMP refuses, and the member asks again."""
    cluster, (one, two, three) = with_members(3)
    lock(cluster, one)
    lock(cluster, three)
    lock(cluster, two)
    unlock(cluster, one)
    unlock(cluster, three)
    assert seen(cluster, two)[-3:] == [
        ("asked", one, (three, two)),
        ("released", three, (two,)),
        ("released", two, ()),
    ]
    fences = [change.lock.fence for change in changes(cluster, two)]
    assert fences == sorted(fences) and len(set(fences)) == 3


def test_who_waits_may_give_up():
    cluster, (one, two, three) = with_members(3)
    for client in (one, two, three):
        lock(cluster, client)
    unlock(cluster, two)
    unlock(cluster, one)
    assert seen(cluster, one)[-1] == ("released", three, ())


def test_locks_of_one_who_leaves_pass_on():
    cluster, (one, two, three) = with_members(3)
    lock(cluster, one)
    lock(cluster, two)
    cluster.leave(one, "g")
    cluster.settle()
    assert held(cluster, three)["a"].holder == two
    cluster.disconnect(two)
    cluster.settle()
    assert held(cluster, three) == {}


def test_locks_of_a_lost_daemon_pass_on_with_the_view():
    """A new holder is known when those who remain have their view: no second message is needed."""
    cluster, (one, two, three) = with_members(3)
    lock(cluster, one)
    lock(cluster, three)
    before = changes(cluster, two)[-1].lock.fence
    cluster.crash(0)
    cluster.settle({1, 2})
    assert held(cluster, two)["a"].holder == held(cluster, three)["a"].holder == three
    assert held(cluster, two)["a"].fence > before


def test_after_a_merge_one_holder_remains_and_the_number_grows():
    """Deviation: RMP has no merging. The part whose view has the smaller identifier keeps the lock."""
    cluster, clients = with_members(4)
    one, _, three, four = clients
    lock(cluster, one)
    lock(cluster, three)
    cluster.partition(*HALVES)
    cluster.settle(*HALVES)
    assert held(cluster, four)["a"].holder == three
    lock(cluster, three, "b", parts=HALVES)
    fences = [changes(cluster, one)[0].lock.fence, held(cluster, four)["a"].fence]
    first, second = (cluster.views(client)[-1].id for client in (one, three))
    cluster.heal()
    cluster.settle()
    locks = [held(cluster, client) for client in clients]
    assert locks == [locks[0]] * 4
    assert locks[0]["a"].holder == (one if first < second else three)
    assert locks[0]["b"].holder == three
    assert min(locks[0]["a"].fence, locks[0]["b"].fence) > max(fences)


def test_those_who_wait_in_both_parts_go_on_waiting():
    cluster, (one, two, three, four) = with_members(4)
    lock(cluster, one)
    cluster.partition(*HALVES)
    cluster.settle(*HALVES)
    for client in (two, three, four):
        lock(cluster, client, parts=HALVES)
    cluster.heal()
    cluster.settle()
    found = held(cluster, one)["a"]
    assert {found.holder, *found.waiting} in ({one, two, four}, {two, three, four})
    assert found == held(cluster, four)["a"]


def test_only_members_lock():
    cluster, (one, *_) = with_members(2)
    stranger = cluster.client(1, "stranger")
    lock(cluster, stranger)
    assert [event.code for event in cluster.events[stranger]] == ["not-joined"]
    lock(cluster, one, "no spaces")
    assert [event.code for event in cluster.events[one]] == ["lock-name"]


def test_a_session_has_a_bounded_number_of_locks():
    cluster, (one, _) = with_members(2)
    for number in range(limits.LOCKS_PER_SESSION_MAX + 1):
        cluster.ask(one, frames.AskLock("g", f"lock{number}", True))
    cluster.settle()
    problems = [event.code for event in cluster.events[one] if isinstance(event, frames.Problem)]
    assert problems == ["too-many-locks"]
    unlock(cluster, one, "lock0")
    forget(cluster)
    lock(cluster, one, "another")
    assert [change.cause for change in changes(cluster, one)] == [LockCause.ASKED]
