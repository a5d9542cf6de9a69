"""Waiting for slow receivers, but not for ever.

A daemon whose client does not keep up asks all senders to hold: those of its segment by the token, others by
the updates of its segment. A session may hold the senders for a limited time, after that only its own queue
grows.
"""

from collections import Counter

from antiphon.wire.packet import Update


class Hold:
    """Who must be waited for before new messages are ordered."""

    def __init__(self, me: int) -> None:
        self.sources: set[int] = set()
        """Other segments that asked to hold."""
        self.mates: frozenset[int] = frozenset()
        """Daemons of our segment that asked to hold."""
        self._me = me
        self._slow: dict[int, int] = {}  # our session with too much output -> until when it is waited for
        self._serials: Counter[int] = Counter()  # of each segment's newest update

    @property
    def is_wanted_here(self) -> bool:
        """Whether a client of ours is behind."""
        return bool(self._slow)

    @property
    def is_wanted_in_segment(self) -> bool:
        """Whether a client of any daemon of our segment is behind."""
        return bool(self._slow or self.mates)

    @property
    def daemons(self) -> set[int]:
        """Those on whose behalf we wait, others than us; of other segments their first daemon."""
        return self.sources | self.mates

    @property
    def slow_sessions(self) -> set[int]:
        """Our sessions because of which all senders wait."""
        return set(self._slow)

    def __bool__(self) -> bool:
        return bool(self._slow or self.mates or self.sources)

    def behind(self, session: int, until_us: int) -> None:
        """Too much output waits for a session of ours; it is waited for until then at the latest."""
        self._slow.setdefault(session, until_us)

    def caught_up(self, session: int) -> None:
        """It has read enough, or is gone."""
        self._slow.pop(session, None)

    def take_over(self, before: "Hold") -> None:
        """Our own slow sessions are as slow in the next view, and until it is installed in this one, too."""
        self._slow = before._slow

    def due_us(self) -> int | None:
        """When patience with a session ends."""
        return min(self._slow.values()) if self._slow else None

    def timeout(self, now_us: int) -> None:
        for session in [session for session, until_us in self._slow.items() if until_us <= now_us]:
            del self._slow[session]

    def heard(self, update: Update) -> None:
        """A segment's update: the newest word counts, whatever order they come in."""
        if update.serial <= self._serials[update.source]:
            return
        self._serials[update.source] = update.serial
        if update.hold:
            self.sources.add(update.source)
        else:
            self.sources.discard(update.source)

    def next_serial(self) -> int:
        """For an update of ours."""
        self._serials[self._me] += 1
        return self._serials[self._me]
