"""The locks that one session asks for, as what comes from its daemon shows them.

A daemon answers every request for a lock, and every release, with a `LockChanged` in the stream, in the order
in which they were made. So a request counts from its own answer on, and what was granted before it is not
taken for a grant of it.
"""

import threading
from collections import deque
from collections.abc import Callable

from antiphon import limits
from antiphon.client.events import LockGone, LockGranted
from antiphon.errors import NotAllowed, UsageError
from antiphon.types import Lock, LockCause, LockChanged, View

_Key = tuple[str, str]


class OwnLock:
    """One request for a lock, from asking to losing or releasing it."""

    def __init__(self, group: str, name: str) -> None:
        self.group = group
        self.name = name
        self.fence = 0
        self.is_effective = False
        """Whether the daemons know of it."""
        self.is_held = False
        self.is_refused = False
        self.is_over = False
        """Whether it is lost, refused or given back."""
        self.reason = ""
        """Why it is lost."""
        self.denial: NotAllowed | None = None
        """Why the session may not have it."""
        self.on_lost: Callable[[], object] = lambda: None

    def granted(self, lock: Lock) -> None:
        self.is_held = True
        self.fence = lock.fence

    def lose(self, reason: str) -> None:
        """It is not held any more, and will not be."""
        self.is_held = False
        self.is_over = True
        self.reason = reason
        self.on_lost()


class LockTable:
    """The locks of one session object."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._guard = threading.RLock()  # a blocking session asks in one thread and reads in another
        self._own: dict[_Key, OwnLock] = {}
        self._requests: dict[_Key, deque[OwnLock | None]] = {}
        """What was asked for and not answered yet, oldest first; None stands for a release."""

    def ask(self, group: str, name: str) -> OwnLock:
        """The session asks for a lock. UsageError if it has or wants it already."""
        with self._guard:
            key = (group, name)
            if key in self._own:
                state = "holds" if self._own[key].is_held else "waits for"
                raise UsageError(f"this session {state} the lock {name!r} of {group!r} already")
            if len(self._own) >= limits.LOCKS_PER_SESSION_MAX:
                most = limits.LOCKS_PER_SESSION_MAX
                raise UsageError(f"a session holds or waits for at most {most:,} locks")
            own = self._own[key] = OwnLock(group, name)
            self._requests.setdefault(key, deque()).append(own)
            return own

    def release(self, own: OwnLock) -> bool:
        """The session gives a lock back, or waits no longer; whether its daemon must be told."""
        with self._guard:
            key = (own.group, own.name)
            if self._own.get(key) is not own:
                return False
            del self._own[key]
            self._requests.setdefault(key, deque()).append(None)
            own.is_held = False
            own.is_over = True
            return True

    # What comes -------------------------------------------------------------------------------------------

    def change(self, change: LockChanged) -> None:
        """A lock has changed."""
        with self._guard:
            key = (change.group, change.lock.name)
            own = self._own.get(key)
            if change.session == self._me:
                requests = self._requests.get(key)
                if requests:
                    request = requests.popleft()
                    if request is not None:
                        request.is_effective = True
                        request.is_refused = change.cause is LockCause.REFUSED
                    if not requests:
                        del self._requests[key]
            if own is None or not own.is_effective:
                return
            if own.is_refused:
                own.is_over = True
                del self._own[key]
            elif change.lock.holder == self._me:
                own.granted(change.lock)
            elif own.is_held:
                self._lose(own, f"{change.lock.holder or 'no session'} holds it now")

    def deny(self, group: str, name: str, error: NotAllowed) -> None:
        """The session may not use a lock."""
        with self._guard:
            key = (group, name)
            requests = self._requests.get(key)
            request = requests.popleft() if requests else None
            if requests is not None and not requests:
                del self._requests[key]
            if request is not None and self._own.get(key) is request:
                request.denial = error
                request.is_over = True
                del self._own[key]

    def view(self, view: View) -> list[LockGranted | LockGone]:
        """What a view has done to this session's locks."""
        with self._guard:
            if not self._own:
                return []
            events: list[LockGranted | LockGone] = []
            shown = {lock.name: lock for lock in view.locks}
            for own in [own for own in self._own.values() if own.group == view.group and own.is_effective]:
                lock = shown.get(own.name)
                if lock is not None and lock.holder == self._me:
                    if not own.is_held or own.fence != lock.fence:
                        own.granted(lock)
                        events.append(LockGranted(own.group, own.name, own.fence, view.id))
                elif own.is_held:
                    why = "the group has no quorum" if not view.has_quorum else f"a view ({view.cause.value})"
                    events.append(self._lose(own, why))
            return events

    def left(self, group: str) -> list[LockGone]:
        """The session is not a member of the group any more."""
        with self._guard:
            return self._lose_all("this session has left the group", group)

    def lost(self, reason: str) -> list[LockGone]:
        """The connection is lost, and with it all locks."""
        with self._guard:
            return self._lose_all(f"the connection was lost: {reason}")

    def reconnected(self, me: str) -> None:
        """The session has another connection."""
        with self._guard:
            self._me = me

    def ended(self, reason: str) -> None:
        """The session is over."""
        with self._guard:
            self._lose_all(reason)

    def _lose_all(self, reason: str, group: str | None = None) -> list[LockGone]:
        found = [own for own in self._own.values() if group is None or own.group == group]
        events = [event for own in found if (event := self._lose(own, reason)).fence]
        for key in [key for key in self._requests if group is None or key[0] == group]:
            del self._requests[key]
        return events

    def _lose(self, own: OwnLock, reason: str) -> LockGone:
        event = LockGone(own.group, own.name, own.fence if own.is_held else 0, reason)
        del self._own[own.group, own.name]
        own.lose(reason)
        return event
