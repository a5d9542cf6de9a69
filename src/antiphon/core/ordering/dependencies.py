"""What is not ordered goes without a ticket, also from a passive source: whoever comes after it says so.

Nobody waits for a passive source. But a session that got a reliable, FIFO or causal message of one may send
an ordered message, and that must not be delivered where the first one has not come (2.12); nor may anything
that comes after it in the agreed order, also where it was not sent to (2.13). So each daemon notes the
*loose* bundles that it gets: those of passive sources that have no ticket. Before it sends a bundle for
members it tells all daemons which ones it has got since it last did so; what has a later place is delivered
only where these have come. Unreliable bundles may be lost, and what comes before them has to be told by those
who get them: they name all of it (`wire.after`), and while their source is passive, its own bundles.

Checked by: tests/unit/test_dependencies.py, the oracle's properties 2.12 and 2.13, planted bugs in
`simulator.mutants.roles`.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.told import Newest
from antiphon.wire.after import After, Loose, after_of, extension
from antiphon.wire.bundle import Header
from antiphon.wire.extensions import Extension

Key = tuple[int, int]
"""A source, and the number of one of its bundles."""


class Dependencies:
    """The loose bundles that one daemon knows of in one view."""

    def __init__(self, source: int, contiguous: Callable[[int], int]) -> None:
        """`source` is our own; `contiguous` has the number up to which a source's bundles have come."""
        self._source = source
        self._contiguous = contiguous
        self._untold: dict[int, Loose] = {}
        self._needs: list[tuple[int, int, int]] = []
        # A heap: what has a place after this lts comes after this source's bundles up to this number.

    @property
    def has_needs(self) -> bool:
        """Whether anything may have to wait."""
        return bool(self._needs)

    def came(self, entry: Entry, after: After) -> None:
        """A bundle has come in that says something of passive sources. What our own source sends comes after
        it in any case: its bundles are numbered together."""
        if after.is_loose and entry.source != self._source:
            self._note(Loose(entry.source, entry.header.number, entry.header.lts))

    def saw_unreliable(self, header: Header) -> None:
        """An unreliable bundle has come in: who got it may send what comes after all that it names."""
        after = after_of(header)
        for loose in after.needs if after is not None else ():
            self._note(loose)

    def _note(self, loose: Loose) -> None:
        known = self._untold.get(loose.source)
        if known is None or known.number < loose.number:
            self._untold[loose.source] = loose

    def need(self, lts: int, seen: Iterable[Newest]) -> None:
        """Some daemon has said, in a bundle with this lts, which loose bundles it has got."""
        for source, number in seen:
            if self._contiguous(source) < number:
                heappush(self._needs, (lts, source, number))

    def is_met(self, place: int) -> bool:
        """Whether everything has come that comes before what has this place."""
        needs = self._needs
        while needs and needs[0][0] < place:
            _, source, number = needs[0]
            if self._contiguous(source) < number:
                return False
            heappop(needs)
        return True

    def untold(self, stable: int) -> tuple[Newest, ...]:
        """What must be told before the next bundle for members; everything up to `stable` is everywhere."""
        if not self._untold:
            return ()
        return tuple((one.source, one.number) for one in self._untold.values() if one.lts > stable)

    def told(self) -> None:
        """It is told."""
        self._untold.clear()

    def has_room(self, stable: int) -> bool:
        """Whether an unreliable bundle can name all that was not told."""
        untold = self._untold
        if len(untold) >= limits.AFTER_SOURCES_MAX:
            self._untold = {one.source: one for one in untold.values() if one.lts > stable}
        return len(self._untold) < limits.AFTER_SOURCES_MAX

    def named(self, own: Loose | None) -> Extension | None:
        """What an unreliable bundle says; `own` is what is under way of our source, if that is passive: what
        this daemon has told is part of it."""
        needs = (*self._untold.values(), *(() if own is None else (own,)))
        return extension(After(False, needs)) if needs else None
