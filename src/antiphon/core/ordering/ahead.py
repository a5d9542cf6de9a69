"""Places ahead of a sequencer's clock: a ticket waits for its confirmation, and what follows must not.

A bundle with a ticket is delivered once its sender has confirmed the ticket, which takes the way there and
back. If it had the sequencer's next place, everything that the sequencer sends meanwhile would wait behind
it. So its place is as far ahead as the clock is expected to come until then. Bundles of the sequencer's own
have the places before it; when their stamps reach one that is reserved they pass it.

If the sequencer falls silent its clock does not get there by itself. But the sender of the bundle takes the
place into its own clock with the ticket, and its confirmation carries that to all others.

Follows: nothing in NAVTECH 5, which has no confirmations.
Checked by: tests/unit/test_ahead.py, tests/paper/test_adaptive.py, tests/paper/test_adaptive_loads.py.
"""

from collections.abc import Mapping, Set

from antiphon import limits

_WINDOW_US = 50_000
_SECOND_US = 1_000_000


class Tempo:
    """How fast the clock of a view goes: as fast as its busiest active source sends."""

    def __init__(self) -> None:
        self.bundles_per_s = 0
        self._since_us = 0
        self._counts: dict[int, int] = {}

    def look(self, sent: Mapping[int, int], active: Set[int], now_us: int) -> None:
        """Each source has sent so many bundles so far."""
        passed_us = now_us - self._since_us
        if passed_us < _WINDOW_US:
            return
        if self._counts:
            most = max(sent[source] - self._counts.get(source, 0) for source in active)
            self.bundles_per_s = (self.bundles_per_s + most * _SECOND_US // passed_us) // 2
        self._since_us = now_us
        self._counts = dict(sent)

    def rounds_in(self, time_us: int) -> int:
        """How many stamps one after another fit into this time."""
        return min(self.bundles_per_s * time_us // _SECOND_US, limits.PLACES_AHEAD_MAX // 2)


class Reservations:
    """The rounds of the Lamport clock that tickets have, and this daemon's own bundles must not get."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []  # ascending

    def take(self, first: int, count: int) -> int:
        """Reserve so many rounds in a row, from `first` on or as soon after it as they are free; which one
        is the first."""
        at = 0
        for begin, end in self._ranges:
            if first + count <= begin:
                break
            first = max(first, end + 1)
            at += 1
        self._ranges.insert(at, (first, first + count - 1))
        return first

    def free_from(self, number: int) -> int:
        """The first round from this one on that is not reserved; the clock has passed all before it."""
        ranges = self._ranges
        while ranges and ranges[0][0] <= number:
            number = max(number, ranges.pop(0)[1] + 1)
        return number
