"""A journal's folder after whatever happened to it: segments in order, a tail that is whole, an index for
each.

A writer that is killed leaves the beginning of a batch at the end of the last segment: it is cut off. No
reader can have got it. Other damage at the end (a flipped bit, zeros after a loss of power) is cut off as
well and kept beside the segment, and the journal gets another name, because offsets that a reader has got may
now be given to other rows. Damage anywhere else is reported and left alone.
"""

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from antiphon.journal.errors import JournalError
from antiphon.journal.schema import GAP, MESSAGE, VIEW
from antiphon.journal.sealing import HAS_EVENTS, METADATA_MAX_BYTES, Damaged, Torn, state_of_stream
from antiphon.journal.segment import (
    INDEX_SUFFIX,
    SEGMENT_SUFFIX,
    Index,
    Scan,
    Summary,
    damage,
    mapped,
    read_index,
    scan,
    write_index,
)
from antiphon.journal.state import Gap, JournalState, decode_state


class Recovered(Struct, frozen=True):
    """What was found in a folder."""

    segments: list[Summary]
    """Each has a good index; in order, without holes between them."""
    cut: tuple[str, ...]
    """What had to be cut off, in words."""
    is_damaged: bool
    """Whether that may include rows which were readable before."""


def recover(folder: Path) -> Recovered:
    """Bring the segments of a folder in order; JournalError if some in the middle are missing or damaged."""
    for leftover in folder.glob("*.new"):
        leftover.unlink()
    segments: list[Summary] = []
    cut: list[str] = []
    is_damaged = False
    paths = sorted(folder.glob(f"*{SEGMENT_SUFFIX}"))
    for path in paths:
        indexed = read_index(path)
        if indexed is not None:
            segments.append(indexed[0])
        else:
            found = _recover_segment(path, is_last=path == paths[-1])
            if found.fault is not None:
                cut.append(f"{path.name}: {found.fault}")
                is_damaged = is_damaged or not found.is_torn
            if found.summary.next_offset > found.summary.first_offset:
                segments.append(found.summary)
    for before, after in pairwise(segments):
        if before.next_offset != after.first_offset:
            raise JournalError(
                f"{folder}: the rows from {before.next_offset} to {after.first_offset - 1} are missing "
                f"between {before.path.name} and {after.path.name}; put the missing file back"
            )
    _remove_stray_indexes(folder)
    return Recovered(segments, tuple(cut), is_damaged)


def _recover_segment(path: Path, *, is_last: bool) -> Scan:
    """A segment without a good index: cut off its bad tail, if it is the last, and index it."""
    first_offset = _first_offset(path)
    try:
        head_bytes = _head_bytes(path)
    except (Torn, Damaged) as error:
        fault = "not even its start is whole" if isinstance(error, Torn) else f"its start is wrong: {error}"
        found = Scan(Summary(path, 0, 0, first_offset, first_offset), [], fault, isinstance(error, Torn))
    else:
        found = scan(path, head_bytes, first_offset)
    summary = found.summary
    if found.fault is not None:
        if not is_last:
            raise damage(path, summary.size_bytes, summary.next_offset, found.fault)
        if not found.is_torn:
            _keep_aside(path, summary.size_bytes)
        os.truncate(path, summary.size_bytes)
    if summary.next_offset == first_offset:
        path.unlink()
    else:
        write_index(summary, found.blocks, sync=True)
    return found


def _first_offset(path: Path) -> int:
    if not (path.stem.isascii() and path.stem.isdigit()):
        raise JournalError(f"{path} is not a segment: its name should be its first offset")
    return int(path.stem)


def _head_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return state_of_stream(file.read(METADATA_MAX_BYTES + 8))[1]


def _keep_aside(path: Path, position: int) -> None:
    """Damaged bytes are evidence, and there may be good rows behind the damage."""
    with path.open("rb") as file:
        file.seek(position)
        path.with_suffix(".damaged").write_bytes(file.read())


def _remove_stray_indexes(folder: Path) -> None:
    for index in folder.glob(f"*{INDEX_SUFFIX}"):
        if not index.with_suffix(SEGMENT_SUFFIX).exists():
            index.unlink()


def last_state(segments: list[Summary]) -> JournalState:
    """What the journal was a member of when its last row was written."""
    if not segments:
        return JournalState()
    last = segments[-1]
    data = mapped(last.path)
    state = decode_state(state_of_stream(memoryview(data)[: last.head_bytes])[0])
    indexed = read_index(last.path)
    index = Index(last.path, [] if indexed is None else indexed[1])
    for block, end in index.parts(last.size_bytes):
        if block.flags & HAS_EVENTS:
            for batch in index.batches(data, block, end, last.first_offset, last.next_offset):
                state = _follow(state, batch)
    return state


def groups_of(segments: list[Summary], last: JournalState) -> tuple[str, ...]:
    """Every group that these segments may have rows of: each segment begins with what the journal was a
    member of then, and `last` is what it was a member of at the end. A segment whose start is damaged tells
    of none; whoever reads its rows is told of the damage."""
    states = [last]
    for part in segments:
        with suppress(Torn, Damaged):
            states.append(decode_state(state_of_stream(memoryview(mapped(part.path))[: part.head_bytes])[0]))
    return tuple(sorted({name for state in states for name in (*state.groups, *state.views)}))


def _follow(state: JournalState, batch: pa.RecordBatch) -> JournalState:
    """The state after the views and gaps of a batch."""
    rows = batch.select(["kind", "group", "view", "payload"])
    for row in rows.filter(pc.not_equal(rows.column(0), MESSAGE)).to_pylist():
        if row["kind"] == GAP:
            state = msgspec.json.decode(row["payload"], type=Gap).after
        elif row["kind"] == VIEW:
            state = state.with_view(row["group"], row["view"])
    return state
