"""What one session has sent through its attachments, under which numbers, and what became of it.

A client numbers its messages, joins and leaves from 1. Joins and leaves do not leave the edge, and every
attachment numbers what it gets anew: so an attachment's answer is translated.
"""

from collections import deque

from msgspec import Struct

from antiphon.errors import BadFrame

Range = tuple[int, int]
"""The first of some numbers, and how many."""


class Run(Struct):
    """Messages that followed one another."""

    there: int
    """The attachment's number of the first one."""
    here: int
    """The client's."""
    count: int
    is_promised: bool
    """Whether anybody is to be told of their fate: unreliable messages promise nothing."""

    def cut(self, first: int, last: int) -> "list[Run]":
        """What is left without the attachment's numbers from `first` to `last`."""
        end = self.there + self.count - 1
        before = Run(self.there, self.here, min(end, first - 1) - self.there + 1, self.is_promised)
        skipped = max(self.there, last + 1) - self.there
        after = Run(self.there + skipped, self.here + skipped, self.count - skipped, self.is_promised)
        return [run for run in (before, after) if run.count > 0]


class OpenBundles:
    """The size of what an attachment was given of one session and has not answered for: what it may have to
    keep. Unreliable bundles have no answer, and count as long as one is open that went before them."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._open: deque[tuple[int, int, bool]] = (
            deque()
        )  # last number there, size, whether it is answered for

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, last: int, size_bytes: int, is_answered: bool) -> None:
        """A bundle with this last number goes to the attachment."""
        if is_answered or self._open:
            self._open.append((last, size_bytes, is_answered))
            self.size_bytes += size_bytes

    def settle(self, first: int, last: int) -> None:
        """There is an answer for these numbers."""
        kept: list[tuple[int, int, bool]] = []
        while self._open and (self._open[0][0] <= last or not (kept or self._open[0][2])):
            one = self._open.popleft()
            if one[0] < first and (kept or one[2]):
                kept.append(one)
            else:
                self.size_bytes -= one[1]
        self._open.extendleft(reversed(kept))


class Account:
    """The messages of one session at one attachment that are not known to be accepted."""

    def __init__(self) -> None:
        self.next = 1
        """The attachment's number of the next message."""
        self.open = OpenBundles()
        self._runs: deque[Run] = deque()
        self._seen: list[Range] = []
        """What came back in the feed, by the attachment's numbers."""

    def __bool__(self) -> bool:
        """Whether the fate of something is not known."""
        return bool(self._runs)

    def sent(self, here: int, count: int, is_promised: bool, size_bytes: int = 0) -> None:
        """A bundle goes to the attachment."""
        self.open.add(self.next + count - 1, size_bytes, is_promised)
        last = self._runs[-1] if self._runs else None
        if last is not None and last.here + last.count == here and last.is_promised == is_promised:
            last.count += count
        else:
            self._runs.append(Run(self.next, here, count, is_promised))
        self.next += count

    def accepted(self, there: int) -> int | None:
        """Everything up to the attachment's number is accepted: the client's first number that is not; None
        if nothing is open."""
        if not 0 <= there < self.next:
            raise BadFrame("accepted: what was not sent")
        self._forget(0, there)
        return self._runs[0].here if self._runs else None

    def refused(self, there: int, count: int) -> list[Range]:
        """The attachment did not send so many from its number on: which these are here."""
        if not (there > 0 and count > 0 and there + count <= self.next):
            raise BadFrame("not sent: what was not given")
        last = there + count - 1
        found = [
            (run.here + max(there, run.there) - run.there, overlap)
            for run in self._runs
            if (overlap := min(last, run.there + run.count - 1) - max(there, run.there) + 1) > 0
        ]
        self._forget(there, last)
        return found

    def came_back(self, there: int, count: int) -> None:
        """These came in the feed, so they were sent. That says nothing about others: what was sent before may
        be lost with the daemon that sent it."""
        count = min(count, self.next - there)
        if not self._runs or there <= 0 or count <= 0:
            return
        last = self._seen[-1] if self._seen else None
        if last is not None and sum(last) == there:
            self._seen[-1] = (last[0], last[1] + count)
        else:
            self._seen.append((there, count))

    def doubtful(self) -> list[Range]:
        """What nobody knows the fate of."""
        found: list[Range] = []
        seen = deque(sorted(self._seen))
        for run in self._runs:
            start, end = run.there, run.there + run.count
            while run.is_promised and start < end:
                while seen and sum(seen[0]) <= start:
                    seen.popleft()
                stop = min(seen[0][0], end) if seen else end
                if start < stop:
                    here = run.here + start - run.there
                    if found and sum(found[-1]) == here:
                        found[-1] = (found[-1][0], found[-1][1] + stop - start)
                    else:
                        found.append((here, stop - start))
                start = sum(seen[0]) if seen else end
        return found

    @property
    def seen_here(self) -> int:
        """The client's number of the last open message that came back in the feed; 0 if none did."""
        last = max((first + count - 1 for first, count in self._seen), default=0)
        for run in reversed(self._runs):
            if run.there <= last:
                return run.here + min(run.count, last - run.there + 1) - 1
        return 0

    def _forget(self, first: int, last: int) -> None:
        """What has these numbers there is not open any more."""
        self.open.settle(first, last)
        runs = self._runs
        while runs and runs[0].there + runs[0].count - 1 <= last and runs[0].there >= first:
            runs.popleft()
        if runs and runs[0].there <= last:
            self._runs = deque(rest for run in runs for rest in run.cut(first, last))
        first_open = self._runs[0].there if self._runs else self.next
        self._seen = [seen for seen in self._seen if sum(seen) > first_open]
