"""The two lines that decide delivery and discard.

Follows: thesis 5.1. C[i] is the lts up to which everything from source i has come; HA[i] is the aru that it
last announced. The agreed line is the smallest C, the stable line the smallest HA. Sources are the segments
of the view, each called by its first daemon.
Deviation: the daemon stands in the last bits of an lts. Lamport's rule is kept, no two bundles share an lts,
and one number is the whole place in the order, where the thesis breaks ties by site.
"""

from collections.abc import Iterable

_DAEMON_BITS = 10
_NO_SOURCE = 1 << 63
"""The lts of a daemon that is no source of the view: no line waits for it."""


def stamp_after(lts: int, daemon: int) -> int:
    """The first stamp of a daemon that is greater than `lts`.

    >>> [divmod(stamp, 1024) for stamp in (stamp_after(0, 3), stamp_after(stamp_after(0, 3), 7))]
    [(1, 3), (2, 7)]
    """
    return ((lts >> _DAEMON_BITS) + 1 << _DAEMON_BITS) | daemon


def round_of(stamp: int) -> int:
    """A stamp without the daemon in it: smaller than every stamp that another daemon makes after it.

    >>> round_of(stamp_after(4_711, 3)) == stamp_after(4_711, 0)
    True
    """
    return stamp >> _DAEMON_BITS << _DAEMON_BITS


def stamp_at(number: int, daemon: int) -> int:
    """The stamp that a daemon makes in a round of the Lamport clock.

    >>> stamp_at(2, 7) == stamp_after(stamp_after(0, 3), 7)
    True
    """
    return number << _DAEMON_BITS | daemon


def number_of_round(stamp: int) -> int:
    """The number of the round in which a stamp was made.

    >>> number_of_round(stamp_at(5, 3))
    5
    """
    return stamp >> _DAEMON_BITS


def daemon_of(lts: int) -> int:
    """The daemon whose stamp this is.

    >>> daemon_of(stamp_after(4_711, 3))
    3
    """
    return lts & (1 << _DAEMON_BITS) - 1


class Lines:
    """What each source of a view is known to have sent and received, as lts values."""

    def __init__(
        self, daemons: int, me: int, sources: Iterable[int], start: int, clock: int, own: int, is_alone: bool
    ) -> None:
        """`own` is the source to which this daemon belongs, `is_alone` whether no other daemon does."""
        self.clock = clock
        """Lamport's: this daemon's next bundle is born with a greater lts."""
        self.agreed = start
        """Every bundle with an lts up to this has come or has no receiver here."""
        self.stable = start
        """Every bundle with an lts up to this is known to have come everywhere it had to."""
        self.stable_elsewhere = start
        """The stable line of the other sources: our own is not counted."""
        self.aru = start
        """What this daemon acknowledges: the agreed line, or less while `capped_below` is set."""
        self.capped_below: int | None = None
        """While set, this daemon acknowledges nothing from this lts on."""
        self._me = me
        self._own = own
        self._is_alone = is_alone
        self._received = [_NO_SOURCE] * daemons
        self._arus = [_NO_SOURCE] * daemons
        for source in sources:
            self._received[source] = self._arus[source] = start

    def tick(self) -> int:
        """The lts of a new bundle of this daemon."""
        clock = self.clock = ((self.clock >> _DAEMON_BITS) + 1 << _DAEMON_BITS) | self._me  # `stamp_after`
        return clock

    def saw(self, lts: int) -> None:
        """A bundle with this lts came in, or was announced."""
        if lts > self.clock:
            self.clock = lts

    def claim(self, source: int, lts: int, aru: int) -> None:
        """Everything from `source` up to `lts` has come here; it has everything up to `aru`."""
        if lts > self._received[source]:
            self._received[source] = lts
        if aru > self._arus[source]:
            self._arus[source] = aru

    def complete(self, source: int) -> int:
        """The lts up to which everything from `source` has come."""
        return self._received[source]

    @property
    def own_aru(self) -> int:
        """What our source announces: each of its daemons has everything up to this."""
        return self._arus[self._own]

    def advance(self, is_complete: bool) -> None:
        """Draw both lines again. `is_complete`: no other daemon of our source can send before this one
        does, and all that our source has sent so far is here."""
        own = self._own
        if is_complete:
            self._received[own] = self.clock
        self.agreed = min(self._received)
        aru = self.agreed
        if self.capped_below is not None and aru >= self.capped_below:
            aru = self.capped_below - 1
        self.aru = max(aru, self.aru)
        own_aru = self._arus[own] = self.aru if self._is_alone else self._arus[own]
        self.stable = min(self._arus)
        self._arus[own] = _NO_SOURCE
        self.stable_elsewhere = min(self._arus)
        self._arus[own] = own_aru

    def announced_aru(self, source: int) -> int:
        """The lts up to which a source has announced that it has everything."""
        return self._arus[source]

    def unacknowledged(self, lts: int) -> list[tuple[int, int]]:
        """The sources that have not acknowledged everything up to `lts`, each with its aru."""
        return [(source, aru) for source, aru in enumerate(self._arus) if aru < lts]

    def slowest(self) -> tuple[int, int]:
        """The sources for which the agreed and the stable line wait."""
        return self._received.index(min(self._received)), self._arus.index(min(self._arus))
