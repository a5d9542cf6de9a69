"""Reading a log: ranges of rows, and the places that times and anchors name.

All of it works on a picture of the log taken at the start, reads from mapped files, and holds no lock while
it does so: the writer never waits for a reader.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from antiphon import limits
from antiphon.errors import UsageError
from antiphon.journal.anchors import Anchor, first_anchor, last_anchor, offset_in
from antiphon.journal.errors import JournalError, NoSuchPlace, OffsetsRemoved
from antiphon.journal.log import Log
from antiphon.journal.schema import COLUMN, GAP, SCHEMA
from antiphon.journal.sealing import HAS_EVENTS
from antiphon.journal.segment import Block, Summary, mapped
from antiphon.wire.bundle import sane_sent_us

BATCH_ROWS = 8_192
BATCH_BYTES = 4 * 1024 * 1024
"""Small batches are put together for a reader until they reach one of these."""

_Found = TypeVar("_Found")


class Positions(Struct, frozen=True):
    """What a journal has: the offsets from `earliest` up to, but without, `latest`."""

    journal: str
    earliest: int
    latest: int
    groups: tuple[str, ...] = ()
    """The groups that it records, or has recorded; none if that is not known."""


def positions(log: Log, groups: Sequence[str] = ()) -> Positions:
    """What the log has at this moment, and `groups`, which are recorded now, with those of before."""
    segments = log.segments()
    first = segments[0].first_offset if segments else log.latest
    last = segments[-1].next_offset if segments else log.latest
    every = dict.fromkeys((*groups, *log.groups_before)) if groups else ()
    return Positions(log.journal, first, last, tuple(every))


def check_range(log: Log, start: int, end: int) -> None:
    """Whether these rows can be had; a JournalError that says what can be had otherwise."""
    have = positions(log)
    if not 0 <= start <= end:
        raise JournalError(f"no range of offsets: from {start} to {end}")
    if end > have.latest:
        raise JournalError(f"offset {end} is not written yet: the journal ends before {have.latest}")
    if start < have.earliest and start < end:
        raise _removed(log, start)


def read(
    log: Log,
    start: int,
    end: int,
    groups: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows with offsets from `start` up to `end`, in order, in batches of a good size.

    With `groups`, only what was sent to one of these groups, their views and signals, and every gap. With
    `columns`, only these, in this order.
    """
    check_range(log, start, end)
    schema = schema_of(columns)
    segments = [part for part in log.segments() if part.next_offset > start and part.first_offset < end]
    wanted = None if groups is None else pa.array(groups, pa.string())

    def batches() -> Iterator[pa.RecordBatch]:
        for segment in segments:
            for _, part in _blocks(log, segment, start, end):
                yield from part()

    def chosen(batch: pa.RecordBatch) -> pa.RecordBatch:
        sane = _with_sane_times(batch)
        rows = sane if wanted is None else _of_groups(sane, wanted)
        return rows if columns is None else rows.select(schema.names)

    return _gathered(map(chosen, batches()), schema)


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """The schema of these columns, or of all of them; UsageError if a journal has no such column."""
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in COLUMN]
    if unknown or not columns or len(set(columns)) < len(columns):
        what = f"no column {unknown[0][:40]!r}" if unknown else "each column once, and at least one"
        raise UsageError(f"{what}: the columns of a journal are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def gaps(log: Log, start: int, end: int) -> list[int]:
    """The offsets of the gaps from `start` up to `end`."""
    check_range(log, start, end)
    found: list[int] = []
    for segment in log.segments():
        if segment.next_offset <= start or segment.first_offset >= end or not segment.flags & HAS_EVENTS:
            continue
        for block, batches in _blocks(log, segment, start, end):
            if block.flags & HAS_EVENTS:
                for batch in batches():
                    is_gap = pc.equal(batch.column("kind"), GAP)
                    found += batch.column("offset").filter(is_gap).to_pylist()
    return found


def offset_at(log: Log, time_us: int) -> int:
    """The first offset that was delivered at or after a time; the end of the log if there is none yet."""
    for segment in log.segments():
        if segment.last_us < time_us:
            continue
        for block, batches in _blocks(log, segment, segment.first_offset, segment.next_offset):
            if block.last_us < time_us:
                continue
            for batch in batches():
                late = pc.greater_equal(batch.column("delivered").cast(pa.int64()), time_us)
                offsets = batch.column("offset").filter(late)
                if len(offsets):
                    return int(offsets[0].as_py())
    return log.latest


def offset_before(log: Log, time_us: int) -> int:
    """One past the last offset that was delivered before a time; the start of the log if there is none.

    It may be more than `offset_at` the same time: the journal's clock may have been set back in between.
    """
    for segment in reversed(log.segments()):
        if segment.first_us >= time_us:
            continue
        blocks = list(_blocks(log, segment, segment.first_offset, segment.next_offset))
        for block, batches in reversed(blocks):
            if block.first_us >= time_us:
                continue
            for batch in reversed(list(batches())):
                early = pc.less(batch.column("delivered").cast(pa.int64()), time_us)
                offsets = batch.column("offset").filter(early)
                if len(offsets):
                    return int(offsets[-1].as_py()) + 1
    return log.earliest


def anchor(log: Log, offset: int) -> Anchor:
    """What names the place just before `offset` in every journal of the same groups."""
    have = positions(log)
    if offset > have.latest:
        raise JournalError(f"offset {offset} is not written yet: the journal ends before {have.latest}")
    if offset < have.earliest:
        raise _removed(log, offset)
    before = _search(log, 0, offset, last_anchor, newest_first=True)
    if before is not None:
        return before
    after = _search(log, offset, have.latest, first_anchor, newest_first=False)
    return after or Anchor("begin")


def locate(log: Log, anchor: Anchor) -> int:
    """The offset of the place that an anchor names; NoSuchPlace if this journal does not have that row."""
    if anchor.kind == "begin":
        return positions(log).earliest

    def find(batch: pa.RecordBatch) -> int | None:
        return offset_in(batch, anchor)

    found = _search(log, 0, log.latest, find, newest_first=True, lts=anchor.lts)
    if found is None:
        raise NoSuchPlace(
            f"journal {log.journal} does not have the {anchor}: it was no member then, was on the other side "
            "of a partition, or has removed it"
        )
    return found + 1 if anchor.side == "after" else found


# Walking --------------------------------------------------------------------------------------------------


def _search(
    log: Log,
    start: int,
    end: int,
    find: Callable[[pa.RecordBatch], _Found | None],
    *,
    newest_first: bool,
    lts: int | None = None,
) -> _Found | None:
    """What `find` finds in the first batch that has it; looks only where ordered rows are, or this lts."""

    def may_have(part: Summary | Block) -> bool:
        return part.lts_max > 0 if lts is None else part.lts_min <= lts <= part.lts_max

    segments = [part for part in log.segments() if part.next_offset > start and part.first_offset < end]
    for segment in reversed(segments) if newest_first else segments:
        if not may_have(segment):
            continue
        blocks = list(_blocks(log, segment, start, end))
        for block, batches in reversed(blocks) if newest_first else blocks:
            if not may_have(block):
                continue
            found_batches = list(batches())
            for batch in reversed(found_batches) if newest_first else found_batches:
                found = find(batch)
                if found is not None:
                    return found
    return None


def _blocks(
    log: Log, segment: Summary, start: int, end: int
) -> Iterator[tuple[Block, Callable[[], Iterator[pa.RecordBatch]]]]:
    """Each block of a segment that has rows from `start` up to `end`, and what reads these."""
    try:
        index, data = log.index(segment), mapped(segment.path)
    except FileNotFoundError:  # retention is removing it at this moment
        raise _removed(log, max(start, segment.first_offset)) from None
    parts = index.parts(segment.size_bytes)
    afters = [block.offset for block, _ in parts[1:]] + [segment.next_offset]
    for (block, block_end), after in zip(parts, afters, strict=True):
        if block.offset < end and after > start:
            yield block, partial(index.batches, data, block, block_end, start, end)


def _removed(log: Log, offset: int) -> OffsetsRemoved:
    earliest = positions(log).earliest
    return OffsetsRemoved(f"offset {offset} was removed: the journal begins with {earliest} now", earliest)


# Batches for readers --------------------------------------------------------------------------------------


def _with_sane_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with times of sending that every reader can represent.

    A journal writes no others. One that was written before that rule may hold any time that fits the column,
    at which Python's and Spark's types would fail.
    """
    column = batch.column(COLUMN["sent"])
    extremes = pc.min_max(column.cast(pa.int64()))
    earliest, latest = extremes["min"].as_py(), extremes["max"].as_py()
    if earliest is None or (earliest >= 0 and latest <= limits.SENT_MAX_US):
        return batch
    sane = pa.array([None if us is None else sane_sent_us(us) for us in column.cast(pa.int64()).to_pylist()])
    return batch.set_column(COLUMN["sent"], SCHEMA.field("sent"), sane.cast(column.type))


def _of_groups(batch: pa.RecordBatch, wanted: pa.StringArray) -> pa.RecordBatch:
    """The rows that concern one of these groups; a gap concerns all."""
    lists = batch.column("groups")
    hits = pc.is_in(pc.list_flatten(lists), value_set=wanted)
    rows = pc.unique(pc.list_parent_indices(lists).filter(hits))
    numbers = pa.array(range(batch.num_rows), pa.int64())
    keep = pc.or_(pc.is_in(numbers, value_set=rows.cast(pa.int64())), pc.equal(batch.column("kind"), GAP))
    return batch.filter(keep)


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are neither tiny nor, because of this, larger than they were; what comes
    before an error is handed out before it is."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if rows and (rows + batch.num_rows > BATCH_ROWS or size_bytes + batch.nbytes > BATCH_BYTES):
                yield _joined(waiting, schema)
                waiting, rows, size_bytes = [], 0, 0
            waiting.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
    except JournalError:
        if waiting:
            yield _joined(waiting, schema)
        raise
    if waiting:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    return table.to_batches()[0]
