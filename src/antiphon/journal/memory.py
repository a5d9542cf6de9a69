"""What a journal has had of batches that may be sent again, found in its own rows after a restart.

Only the newest batch of each query can come again, so the end of the journal is enough: the memory is made
from the last `TAIL_BYTES`.
"""

from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from antiphon.client.batches import BatchMemory
from antiphon.errors import UsageError
from antiphon.journal.log import Log
from antiphon.journal.sealing import HAS_BATCHES
from antiphon.journal.segment import Summary, mapped
from antiphon.types import BatchStamp

TAIL_BYTES = 1024 * 1024 * 1024
"""How far back from the end of the journal batches are remembered."""


def remembered(log: Log) -> BatchMemory:
    """The memory of a journal that begins again."""
    memory = BatchMemory()
    for segment in _tail(log):
        if not segment.flags & HAS_BATCHES:
            continue
        data = mapped(segment.path)
        index = log.index(segment)
        for block, end in index.parts(segment.size_bytes):
            if block.flags & HAS_BATCHES:
                for batch in index.batches(data, block, end, segment.first_offset, segment.next_offset):
                    _note(memory, batch)
    return memory


def _tail(log: Log) -> list[Summary]:
    """The last segments, oldest first."""
    tail: list[Summary] = []
    size_bytes = 0
    for segment in reversed(log.segments()):
        if size_bytes > TAIL_BYTES:
            break
        size_bytes += segment.size_bytes
        tail.insert(0, segment)
    return tail


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
        with suppress(UsageError):  # what is no stamp, nobody can send again
            memory.note(BatchStamp.parse(rows.column("batch")[start].as_py()), end - start)
