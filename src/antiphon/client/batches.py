"""What a receiver has had of the batches that senders may repeat, so that nothing is handed out twice.

A sender that must not lose a batch, such as Spark after a crash, sends it again when it does not know how far
it came. Each bundle says where it belongs (`BatchStamp`); this memory says what of it is new. It keeps, of
each of the latest batches of each query, the ranges of messages that have come in each part. The numbers of
batches have no order here: a batch that is older than others, such as one of a backfill, is as new as any.

Only what is known to be a copy is dropped. Of a batch that came so long ago that its ranges are forgotten,
the number is known, not what came: it is delivered as a whole, counted, and logged.

The memory lasts as long as its session, through every reconnection. A program that needs a longer one gives
`connect(batches=...)` one of its own: a journal fills it from the rows that it has written.
"""

import logging
from bisect import bisect_left
from collections import OrderedDict
from itertools import islice

from antiphon import limits
from antiphon.types import BatchStamp

_log = logging.getLogger(__name__)

Range = tuple[int, int]
"""First number, and one past the last."""


class _Part:
    """The ranges that have come of a part of a batch, sorted and apart from each other."""

    __slots__ = ("is_doubtful", "ranges", "shape")

    def __init__(self, shape: int, *, is_doubtful: bool) -> None:
        self.shape = shape
        self.is_doubtful = is_doubtful
        """Some of it may have come before, in another shape or longer ago than this memory reaches."""
        self.ranges: list[Range] = []


class _Batch:
    """What has come of a batch."""

    __slots__ = ("is_doubtful", "parts", "range_count")

    def __init__(self, *, is_doubtful: bool) -> None:
        self.is_doubtful = is_doubtful
        """It may have come before, and what came of it is forgotten."""
        self.parts: dict[int, _Part] = {}
        self.range_count = 0

    def part(self, stamp: BatchStamp) -> _Part:
        """The part that a stamp belongs to; a new one if there was none of this shape."""
        part = self.parts.get(stamp.partition)
        if part is not None and part.shape == stamp.shape:
            return part
        if part is not None:
            _warn_of_shape(stamp)
            self.range_count -= len(part.ranges)
        is_doubtful = self.is_doubtful or part is not None
        part = self.parts[stamp.partition] = _Part(stamp.shape, is_doubtful=is_doubtful)
        return part


class _Query:
    """The batches of a query."""

    __slots__ = ("batches", "forgotten", "range_count")

    def __init__(self) -> None:
        self.batches: OrderedDict[int, _Batch] = OrderedDict()  # by number, the least recent first
        self.forgotten: list[Range] = []
        """The numbers of batches that came before those, or may have come."""
        self.range_count = 0

    def note(self, stamp: BatchStamp, count: int) -> _Part:
        """These messages have come; the part to which they belong."""
        batch = self.batch(stamp)
        batch_before = batch.range_count
        part = batch.part(stamp)
        part_before = len(part.ranges)
        _add(part.ranges, stamp.index, stamp.index + count)
        batch.range_count += len(part.ranges) - part_before
        self.range_count += batch.range_count - batch_before
        return part

    def batch(self, stamp: BatchStamp) -> _Batch:
        """The batch of a stamp, which is now the most recent one."""
        batch = self.batches.get(stamp.batch)
        if batch is None:
            is_doubtful = not _without(self.forgotten, stamp.batch, 1)
            if is_doubtful:
                _warn_of_age(stamp)
            batch = self.batches[stamp.batch] = _Batch(is_doubtful=is_doubtful)
        self.batches.move_to_end(stamp.batch)
        return batch

    def forget_batch(self) -> None:
        """Forget what came of the least recent batch, but not its number."""
        number, batch = self.batches.popitem(last=False)
        _add(self.forgotten, number, number + 1)
        if len(self.forgotten) > limits.BATCHES_KEPT:  # the numbers between the lowest two are doubtful, too
            self.forgotten[:2] = [(self.forgotten[0][0], self.forgotten[1][1])]
        self.range_count -= batch.range_count


class BatchMemory:
    """Tells what is new. Bounded by `limits.BATCHES_KEPT`, `BATCH_QUERIES_KEPT`, `BATCH_OLDER_RANGES_KEPT`
    and `BATCH_RANGES_KEPT`.

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
        self.doubtful = 0
        """Messages that may have come before and were handed out; a warning in the log says why."""
        self._queries: OrderedDict[str, _Query] = OrderedDict()  # the least recent first
        self._batch_count = 0
        self._range_count = 0

    def is_new(self, stamp: BatchStamp, count: int) -> bool:
        """Whether any of the `count` messages that begin with `stamp` is not known to have come before."""
        return bool(self.missing(stamp, count))

    def missing(self, stamp: BatchStamp, count: int) -> list[Range]:
        """Which of the `count` messages that begin with `stamp` are new: ranges of places in their bundle."""
        query = self._queries.get(stamp.query)
        batch = None if query is None else query.batches.get(stamp.batch)
        part = None if batch is None else batch.parts.get(stamp.partition)
        if part is None or part.shape != stamp.shape:
            return [(0, count)]
        return _without(part.ranges, stamp.index, count)

    def note(self, stamp: BatchStamp, count: int) -> None:
        """These messages have been handed out."""
        self._noted(stamp, count)

    def take(self, stamp: BatchStamp, count: int) -> list[Range]:
        """`missing`, and from now on none of these is new."""
        found = self.missing(stamp, count)
        new = sum(end - start for start, end in found)
        if found and self._noted(stamp, count).is_doubtful:
            self.doubtful += new
        self.dropped += count - new
        return found

    def doubt_older(self) -> None:
        """The memory is not whole: each query may have had any batch up to its newest one."""
        for query in self._queries.values():
            query.forgotten = [(0, max(query.batches) + 1)]

    def _noted(self, stamp: BatchStamp, count: int) -> _Part:
        """`note`; the part to which the messages belong."""
        query = self._queries.get(stamp.query)
        if query is None:
            query = self._queries[stamp.query] = _Query()
        self._queries.move_to_end(stamp.query)
        self._count(query, -1)
        part = query.note(stamp, count)
        if len(query.batches) > limits.BATCHES_KEPT:
            query.forget_batch()
        self._count(query, 1)
        self._stay_within_bounds()
        return part

    def _stay_within_bounds(self) -> None:
        """Forget batches but for the most recent one of each query, then whole queries; in the end the last
        one, too: rather a copy too many than memory without end."""
        while self._range_count > limits.BATCH_OLDER_RANGES_KEPT and self._batch_count > len(
            self._queries
        ):  # some query has more than one batch
            largest = max(
                (query for query in self._queries.values() if len(query.batches) > 1),
                key=lambda query: query.range_count,
            )
            self._count(largest, -1)
            largest.forget_batch()
            self._count(largest, 1)
        while len(self._queries) > limits.BATCH_QUERIES_KEPT or self._range_count > limits.BATCH_RANGES_KEPT:
            self._count(self._queries.pop(self._dispensable()), -1)

    def _dispensable(self) -> str:
        """The least recent query; before it, if it has several batches, one of the less recent half that has
        one: jobs without a name have one each, and must not make a daily one forgotten."""
        older = islice(self._queries.items(), (len(self._queries) + 1) // 2)
        single = (name for name, query in older if len(query.batches) == 1 and not query.forgotten)
        return next(single, next(iter(self._queries)))

    def _count(self, query: _Query, sign: int) -> None:
        """Count what a query has, or, before it changes, count it no more."""
        self._batch_count += sign * len(query.batches)
        self._range_count += sign * query.range_count


def _warn_of_age(stamp: BatchStamp) -> None:
    _log.warning(
        "batch %d of query %s may have come before: what came of it is not remembered any more, so what is a "
        "copy cannot be told, and all of it is delivered",
        stamp.batch,
        stamp.query,
    )


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
