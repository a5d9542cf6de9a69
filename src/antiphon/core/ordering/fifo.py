"""FIFO: a session's bundles in the order in which it sent them.

Follows: thesis 5.1 (rule 3) and property 2.11.
Deviations: sessions' bundles are chained by `previous`, the number of the session's bundle before, because
pruning leaves gaps in a session's sequence at most sites. Where the one before was pruned, the site's numbers
decide: once everything up to it has come or was skipped, only undelivered ones can still be in the way.
"""

import bisect
from collections import deque
from collections.abc import Callable

from antiphon.core.ordering.entry import Entry


class Chain:
    """One session's bundles, as one receiving daemon sees them."""

    __slots__ = ("_undelivered", "done", "early", "waiting")

    def __init__(self) -> None:
        self.done = 0
        """Everything of this session up to this number is delivered or was not for this site."""
        self._undelivered: deque[int] = deque()  # in order
        self.early: dict[int, int] = {}
        """Previous -> number of bundles that were delivered before their `previous` was done."""
        self.waiting: list[Entry] = []
        """Bundles that are not ready, in order."""

    @property
    def is_blocked(self) -> bool:
        """Whether news about other numbers of the source could matter here."""
        return bool(self.waiting or self.early)

    def received(self, number: int) -> None:
        undelivered = self._undelivered
        if undelivered and number < undelivered[-1]:
            bisect.insort(undelivered, number)
        else:
            undelivered.append(number)

    def is_ready(self, previous: int, contiguous: int) -> bool:
        """Whether everything up to `previous` is done, given that the source's bundles up to `contiguous`
        have all come or were skipped."""
        undelivered = self._undelivered
        if undelivered and undelivered[0] <= previous:
            return False
        return self.done >= previous or contiguous >= previous

    def wait(self, entry: Entry) -> None:
        """A FIFO entry that is not ready."""
        bisect.insort(self.waiting, entry, key=lambda waiting: waiting.header.number)

    def delivered(self, entry: Entry, contiguous: int) -> None:
        header = entry.header
        undelivered = self._undelivered
        if undelivered[0] == header.number:
            undelivered.popleft()
        else:
            undelivered.remove(header.number)
        if self.is_ready(header.previous, contiguous):
            if header.number > self.done:
                self.done = header.number
        else:
            self.early[header.previous] = header.number

    def release(self, contiguous: int, deliver: Callable[[Entry], object]) -> None:
        """Deliver the waiting entries that have become ready; `deliver` reports back through `delivered`."""
        if self.early:
            self._follow_early(contiguous)
        while self.waiting and self.is_ready(self.waiting[0].header.previous, contiguous):
            deliver(self.waiting.pop(0))
            self._follow_early(contiguous)

    def _follow_early(self, contiguous: int) -> None:
        for previous in sorted(self.early):
            if self.is_ready(previous, contiguous):
                self.done = max(self.done, self.early.pop(previous))
