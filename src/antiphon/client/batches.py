"""What a receiver has had of the batches that senders may repeat, so that nothing is handed out twice.

A sender that must not lose a batch, such as Spark after a crash, sends it again when it does not know how far
it came. Each bundle says where it belongs (`BatchStamp`); this memory says what of it is new. It keeps, for
each query, its newest batch, and of each part of that batch the ranges of messages that have come. A query
begins a batch only when the one before is accepted everywhere, so whatever comes of an older one is a copy.

The memory lasts as long as its session, through every reconnection. Whoever needs a longer one gives
`connect(batches=...)` one of its own: a journal fills it from the rows that it has written.
"""

import logging
from bisect import bisect_left
from collections import OrderedDict

from antiphon import limits
from antiphon.types import BatchStamp

_log = logging.getLogger(__name__)

Range = tuple[int, int]
"""First message, and one past the last."""


class _Part:
    """The ranges that have come of a part of a batch, sorted and apart from each other."""

    def __init__(self, shape: int) -> None:
        self.shape = shape
        self.ranges: list[Range] = []


class _Batch:
    """The newest batch of a query."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.parts: dict[int, _Part] = {}
        self.range_count = 0


class BatchMemory:
    """Tells what is new; bounded by `limits.BATCH_QUERIES_KEPT` and `limits.BATCH_RANGES_KEPT`.

    >>> memory = BatchMemory()
    >>> first = BatchStamp("daily", batch=7, partition=0, shape=1, index=0)
    >>> memory.take(first, 10)
    [(0, 10)]
    >>> memory.take(first.moved(5), 10)
    [(5, 10)]
    >>> memory.is_new(first, 15)
    False
    """

    def __init__(self) -> None:
        self.dropped = 0
        """Messages that came again and were not handed out."""
        self._queries: OrderedDict[str, _Batch] = OrderedDict()  # the least recent first
        self._range_count = 0

    def is_new(self, stamp: BatchStamp, count: int) -> bool:
        """Whether any of the `count` messages that begin with `stamp` has not come before."""
        return bool(self.missing(stamp, count))

    def missing(self, stamp: BatchStamp, count: int) -> list[Range]:
        """Which of the `count` messages that begin with `stamp` are new: ranges of places in their bundle."""
        batch = self._queries.get(stamp.query)
        if batch is None or stamp.batch > batch.number:
            return [(0, count)]
        if stamp.batch < batch.number:
            return []
        part = batch.parts.get(stamp.partition)
        if part is None or part.shape != stamp.shape:
            return [(0, count)]
        return _without(part.ranges, stamp.index, count)

    def note(self, stamp: BatchStamp, count: int) -> None:
        """These messages have been handed out."""
        batch = self._queries.get(stamp.query)
        if batch is not None and stamp.batch < batch.number:
            return
        if batch is not None and stamp.batch > batch.number:
            self._forget(stamp.query)
            batch = None
        if batch is None:
            batch = self._queries[stamp.query] = _Batch(stamp.batch)
        self._queries.move_to_end(stamp.query)
        part = batch.parts.get(stamp.partition)
        before = len(part.ranges) if part is not None else 0
        if part is None or part.shape != stamp.shape:
            if part is not None:
                _warn_of_shape(stamp)
            part = batch.parts[stamp.partition] = _Part(stamp.shape)
        _add(part.ranges, stamp.index, stamp.index + count)
        batch.range_count += len(part.ranges) - before
        self._range_count += len(part.ranges) - before
        self._stay_within_bounds()

    def take(self, stamp: BatchStamp, count: int) -> list[Range]:
        """`missing`, and from now on none of these is new."""
        found = self.missing(stamp, count)
        if found:
            self.note(stamp, count)
        self.dropped += count - sum(end - start for start, end in found)
        return found

    def _forget(self, query: str) -> None:
        self._range_count -= self._queries.pop(query).range_count

    def _stay_within_bounds(self) -> None:
        """Forget the least recent queries; in the end the last one, too: rather a copy too many than memory
        without end."""
        while len(self._queries) > limits.BATCH_QUERIES_KEPT or self._range_count > limits.BATCH_RANGES_KEPT:
            self._forget(next(iter(self._queries)))


def _warn_of_shape(stamp: BatchStamp) -> None:
    _log.warning(
        "part %d of batch %d of query %s comes again in another shape: what is a copy cannot be told, "
        "so all of it is delivered",
        stamp.partition,
        stamp.batch,
        stamp.query,
    )


def _without(had: list[Range], start: int, count: int) -> list[Range]:
    """The places, counted from `start`, of the `count` numbers from there on that are in no range of `had`.

    >>> _without([(0, 3), (5, 6)], 2, 6)
    [(1, 3), (4, 6)]
    """
    end = start + count
    found = []
    at = start
    for first, last in had[max(0, bisect_left(had, (start, start)) - 1) :]:
        if first >= end:
            break
        if first > at:
            found.append((at - start, first - start))
        at = max(at, last)
    if at < end:
        found.append((at - start, count))
    return found


def _add(ranges: list[Range], start: int, end: int) -> None:
    """Add a range to sorted ranges and join what touches.

    >>> ranges = [(0, 3), (5, 6)]
    >>> _add(ranges, 3, 5)
    >>> ranges
    [(0, 6)]
    """
    if ranges and ranges[-1][0] <= start <= ranges[-1][1]:  # nearly always
        ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
        return
    low = bisect_left(ranges, (start, start))
    if low and ranges[low - 1][1] >= start:
        low -= 1
        start = ranges[low][0]
    high = low
    while high < len(ranges) and ranges[high][0] <= end:
        end = max(end, ranges[high][1])
        high += 1
    ranges[low:high] = [(start, end)]
