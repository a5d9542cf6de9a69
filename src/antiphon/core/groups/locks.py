"""The locks of one group: who holds each, who waits for it, and the numbers of grants.

Follows: RMP 3.3 and 4.3: members ask for mutually exclusive locks and give them back by messages in the one
order, so that all daemons know the same holder at the same place of the stream.
Deviations:
- locks have names, and there may be any number of them; RMP's handlers are the locks `handler/0` and so on
- who asks may wait: the lock passes on in the order of asking. RMP refuses, and the member asks again.
- a grant is an event of its own and no new view of the group, which is as long as the group is
- every grant has a *fence*, which grows: a resource that remembers the greatest one it has seen can refuse
  a holder that does not know yet that it has lost the lock. It is the place of the event that made the grant
  in the one order, or, when a holder is lost, the round of the Lamport clock in which the next daemon view
  begins, with the first daemon of this part of the group: so it grows even if all daemons are started anew,
  and no two parts give the same one.
- RMP has no merging: there, a holder that was cut off is no member any more. Here parts merge, and a lock may
  have a holder in each of them. The one in the part with quorum keeps it, else the one in the part whose view
  has the smaller identifier (`merged`). Held locks get a new fence then, because the fences that other parts
  have given may be greater.
- a part without quorum has no holders: see `quorum`
"""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from antiphon.types import Lock, LockCause
from antiphon.wire.events import HostedLock

Member = tuple[int, int]
"""Daemon number and session number."""


class _Lock(Struct):
    holder: Member | None = None
    fence: int = 0
    waiting: dict[Member, None] = {}


class Locks:
    """The locks of one group that somebody holds or waits for."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    def __bool__(self) -> bool:
        return bool(self._locks)

    def ask(self, member: Member, name: str, waits: bool, fence: int, may_grant: bool) -> LockCause:
        """A member asks for a lock: it has it now, waits, or is refused."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = _Lock()
        if lock.holder == member or member in lock.waiting:
            return LockCause.ASKED
        if waits or (may_grant and lock.holder is None and not lock.waiting):
            lock.waiting[member] = None
            if may_grant:
                self._grant(lock, fence)
            return LockCause.ASKED
        self._tidy(name)
        return LockCause.REFUSED

    def release(self, member: Member, name: str, fence: int, may_grant: bool) -> None:
        """A member gives a lock back, or waits for it no longer."""
        lock = self._locks.get(name)
        if lock is not None:
            self._take(lock, member)
            if may_grant:
                self._grant(lock, fence)
            self._tidy(name)

    def forget(self, members: Collection[Member]) -> None:
        """Members are gone: what they held is free until `resume`."""
        for name in list(self._locks):
            for member in members:
                self._take(self._locks[name], member)
            self._tidy(name)

    def stop(self) -> None:
        """The group has no quorum: nobody holds a lock. Who waits goes on waiting."""
        for name in list(self._locks):
            self._locks[name].holder = None
            self._tidy(name)

    def resume(self, fence: int) -> None:
        """The group may go on: who waits for a lock that nobody holds has it."""
        for lock in self._locks.values():
            self._grant(lock, fence)

    @staticmethod
    def _take(lock: _Lock, member: Member) -> None:
        if lock.holder == member:
            lock.holder = None
        lock.waiting.pop(member, None)

    def _grant(self, lock: _Lock, fence: int) -> None:
        """Give a free lock to the first that waits."""
        if lock.holder is None and lock.waiting:
            lock.holder = next(iter(lock.waiting))
            del lock.waiting[lock.holder]
            lock.fence = fence

    def _tidy(self, name: str) -> None:
        lock = self._locks[name]
        if lock.holder is None and not lock.waiting:
            del self._locks[name]

    # For members and other daemons ------------------------------------------------------------------------

    def show(self, name: str, name_of: Callable[[Member], str]) -> Lock:
        """One lock as members see it, also one that is free."""
        lock = self._locks.get(name)
        if lock is None:
            return Lock(name)
        waiting = tuple(map(name_of, lock.waiting))
        if lock.holder is None:
            return Lock(name, waiting=waiting)
        return Lock(name, name_of(lock.holder), lock.fence, waiting)

    def show_all(self, name_of: Callable[[Member], str]) -> tuple[Lock, ...]:
        """All locks, as they stand in a view."""
        return tuple(self.show(name, name_of) for name in sorted(self._locks))

    def hosted(self, daemon: int) -> tuple[HostedLock, ...]:
        """What a daemon announces of its sessions."""
        found: list[HostedLock] = []
        for name in sorted(self._locks):
            lock = self._locks[name]
            waiting = tuple(
                (place, session) for place, (host, session) in enumerate(lock.waiting) if host == daemon
            )
            if lock.holder is not None and lock.holder[0] == daemon:
                found.append((name, lock.holder[1], lock.fence, waiting))
            elif waiting:
                found.append((name, 0, 0, waiting))
        return tuple(found)


def announced(rows: Iterable[tuple[int, tuple[HostedLock, ...]]], members: Collection[Member]) -> Locks:
    """The locks of one part of a group, from what each of its daemons has announced of `members`."""
    locks = Locks()
    waiting: dict[str, list[tuple[int, Member]]] = {}
    for daemon, held in rows:
        for name, holder, fence, waiters in held:
            lock = locks._locks.setdefault(name, _Lock())
            if (daemon, holder) in members:
                lock.holder, lock.fence = (daemon, holder), fence
            waiting.setdefault(name, []).extend(
                (place, (daemon, session)) for place, session in waiters if (daemon, session) in members
            )
    for name, waiters_here in waiting.items():
        locks._locks[name].waiting = {member: None for _, member in sorted(waiters_here)}
        locks._tidy(name)
    return locks


def merged(parts: Iterable[Locks], fence: int, may_grant: bool) -> Locks:
    """The locks of a group from those of its parts; the holder of the first part that has one keeps it. Those
    who wait in earlier parts come first. All held locks have the new fence."""
    locks = Locks()
    for part in parts:
        for name, theirs in part._locks.items():
            lock = locks._locks.setdefault(name, _Lock())
            if lock.holder is None:
                lock.holder = theirs.holder
            lock.waiting.update(theirs.waiting)
    for name in list(locks._locks):
        lock = locks._locks[name]
        lock.fence = fence if lock.holder is not None else 0
        if may_grant:
            locks._grant(lock, fence)
        locks._tidy(name)
    if not may_grant:
        locks.stop()
    return locks
