"""What a journal has had of batches that may be sent again, found in its own rows after a restart.

The memory is made from the last `REACH_BYTES` of what has batches in it. If that is not all that the journal
ever had, because there is more or because retention has removed rows, the memory is not whole: a batch that
it does not know, older than one of the same query that it knows, may have come.
"""

import logging
from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from antiphon.client.batches import BatchMemory
from antiphon.errors import UsageError
from antiphon.journal.errors import JournalError
from antiphon.journal.log import Log
from antiphon.journal.sealing import HAS_BATCHES
from antiphon.journal.segment import Block, Summary, mapped
from antiphon.types import BatchStamp

REACH_BYTES = 1024 * 1024 * 1024
"""How much is read, of what has batches in it. Damage as near to the end of the journal as that is an error,
because a batch that is being sent may be there; further back only the batches from there on are known."""

_log = logging.getLogger(__name__)


class _Stamped(Struct, frozen=True):
    """The blocks of a segment that have batches in them and are to be read."""

    segment: Summary
    blocks: list[tuple[Block, int]]
    """Each with the position at which it ends."""
    is_near: bool
    """Whether it is so near to the end of the journal that damage is an error."""


def remembered(log: Log) -> BatchMemory:
    """The memory of a journal that begins again."""
    memory = BatchMemory()
    stamped, is_whole = _reach(log)
    for one in stamped:
        try:
            _note_segment(memory, log, one)
        except JournalError as error:
            if one.is_near:
                raise
            _log.warning("batches that came before are not remembered: %s", error)
            memory, is_whole = BatchMemory(), False
    if not is_whole:
        memory.doubt_older()
    return memory


def _reach(log: Log) -> tuple[list[_Stamped], bool]:
    """What is to be read, oldest first, and whether that is everything that ever had batches in it."""
    found: list[_Stamped] = []
    segments = log.segments()
    back_bytes = read_bytes = 0
    for segment in reversed(segments):
        if read_bytes > REACH_BYTES:
            return found[::-1], False
        is_near = back_bytes <= REACH_BYTES
        back_bytes += segment.size_bytes
        if segment.flags & HAS_BATCHES:
            parts = log.index(segment).parts(segment.size_bytes)
            blocks = [(block, end) for block, end in parts if block.flags & HAS_BATCHES]
            read_bytes += sum(end - block.position for block, end in blocks)
            found.append(_Stamped(segment, blocks, is_near))
    return found[::-1], not segments or segments[0].first_offset == 0


def _note_segment(memory: BatchMemory, log: Log, stamped: _Stamped) -> None:
    segment = stamped.segment
    data = mapped(segment.path)
    index = log.index(segment)
    for block, end in stamped.blocks:
        for batch in index.batches(data, block, end, segment.first_offset, segment.next_offset):
            _note(memory, batch)


def _note(memory: BatchMemory, batch: pa.RecordBatch) -> None:
    """Note the stamped rows, one bundle at a time: its rows have one lts and places without a hole."""
    rows = batch.select(["offset", "lts", "place", "batch"])
    rows = rows.filter(pc.is_valid(rows.column("batch")))
    if not rows.num_rows:
        return
    lts, distance = rows.column("lts"), pc.subtract(rows.column("offset"), rows.column("place"))
    is_same = pc.and_(pc.equal(lts[1:], lts[:-1]), pc.equal(distance[1:], distance[:-1]))
    starts = [0, *pc.add(pc.indices_nonzero(pc.invert(is_same)), 1).to_pylist(), rows.num_rows]
    for start, end in pairwise(starts):
        with suppress(UsageError):  # a text that is no stamp cannot come from a sender that repeats a batch
            memory.note(BatchStamp.parse(rows.column("batch")[start].as_py()), end - start)
