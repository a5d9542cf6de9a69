"""A segment: one file of rows, named by its first offset, and the index that leads into it.

    00000000000000000000.arrows    an Arrow IPC stream: schema (with the state at its start), sealed batches
    00000000000000000000.index     blocks of batches: offset, position, times, lts; written when it is full

The segment that is being written has its index in memory only. At a restart it is read from end to end, which
also finds out whether its tail is whole. An index that is missing or does not fit its segment is made anew.

Disks forget and files are copied badly, so no row is handed out before the block that it is in was found to
be as it was written: see `Index`.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct as Layout

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from antiphon.journal.errors import JournalError
from antiphon.journal.sealing import Damaged, Seal, Torn, check_seal, decode_batch, is_end, read_seal

SEGMENT_SUFFIX = ".arrows"
INDEX_SUFFIX = ".index"
BLOCK_BYTES = 64 * 1024
"""Batches are indexed in blocks of at least this size, so that small batches do not make a large index."""

_MAGIC = b"antiphon index 1"
_HEAD = Layout("!16sQQQQqqQQBI")
_BLOCK = Layout("!QQqqQQB")
_CRC = Layout("!I")


class Block(Struct, frozen=True):
    """Some consecutive batches of a segment: where they begin, and what may be in them."""

    offset: int
    position: int
    first_us: int
    last_us: int
    lts_min: int
    lts_max: int
    flags: int

    def with_batch(self, seal: Seal) -> "Block":
        """This block with one more batch at its end."""
        return replace(
            self,
            first_us=min(self.first_us, seal.first_us),
            last_us=max(self.last_us, seal.last_us),
            lts_min=min(filter(None, (self.lts_min, seal.lts_min)), default=0),
            lts_max=max(self.lts_max, seal.lts_max),
            flags=self.flags | seal.flags,
        )


def block_of(seal: Seal, position: int) -> Block:
    """A block that begins with this batch."""
    return Block(
        seal.offset, position, seal.first_us, seal.last_us, seal.lts_min, seal.lts_max, seal.flags
    )  # fmt: skip


class Summary(Struct, frozen=True):
    """A segment as a whole: all that is kept in memory of one that is full."""

    path: Path
    head_bytes: int
    """The size of the schema at its start."""
    size_bytes: int
    """Up to the end of its last batch."""
    first_offset: int
    next_offset: int
    first_us: int = 0
    last_us: int = 0
    lts_min: int = 0
    lts_max: int = 0
    flags: int = 0

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    def with_batch(self, seal: Seal) -> "Summary":
        """The summary of this segment with one more batch at its end."""
        is_first = self.next_offset == self.first_offset
        return replace(
            self,
            size_bytes=self.size_bytes + seal.length,
            next_offset=seal.offset + seal.rows,
            first_us=seal.first_us if is_first else min(self.first_us, seal.first_us),
            last_us=seal.last_us if is_first else max(self.last_us, seal.last_us),
            lts_min=min(filter(None, (self.lts_min, seal.lts_min)), default=0),
            lts_max=max(self.lts_max, seal.lts_max),
            flags=self.flags | seal.flags,
        )


def path_of(folder: Path, first_offset: int) -> Path:
    """The file of the segment that begins with this offset."""
    return folder / f"{first_offset:020d}{SEGMENT_SUFFIX}"


def add_to_blocks(blocks: list[Block], seal: Seal, position: int) -> None:
    """Note a batch that stands at `position`."""
    if blocks and position - blocks[-1].position < BLOCK_BYTES:
        blocks[-1] = blocks[-1].with_batch(seal)
    else:
        blocks.append(block_of(seal, position))


# Reading --------------------------------------------------------------------------------------------------


def mapped(path: Path) -> pa.Buffer:
    """The bytes of a file, in memory where they are read and nowhere else."""
    with pa.memory_map(str(path), "r") as file:
        return file.read_buffer()


def walk(data: pa.Buffer, position: int, end: int) -> Iterator[tuple[Seal, pa.Buffer]]:
    """The batches from `position` to `end`, undecoded."""
    view = memoryview(data)
    while position < end:
        seal = read_seal(view[position:end])
        yield seal, data.slice(position, seal.length)
        position += seal.length


def decoded(data: pa.Buffer, position: int, end: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The rows with offsets from `start` up to `stop`, from the batches between two positions."""
    for seal, message in walk(data, position, end):
        if seal.offset >= stop:
            return
        if seal.offset + seal.rows <= start:
            continue
        batch = decode_batch(message)
        first, last = max(start - seal.offset, 0), min(stop - seal.offset, seal.rows)
        yield batch if (first, last) == (0, seal.rows) else batch.slice(first, last - first)


class Index:
    """The blocks of a segment, and how far each is known to be as it was written.

    A block is checked when something of it is read for the first time, all of it at once, and not again while
    this index is kept: the bytes do not change, and those of a good disk are paid for once.
    """

    def __init__(self, path: Path, blocks: list[Block]) -> None:
        self.blocks = blocks
        self._path = path
        self._checked: dict[int, tuple[int, int]] = {}
        """For the position of a block: up to which position, and which offset, it is good."""

    def parts(self, size_bytes: int) -> list[tuple[Block, int]]:
        """The blocks of a segment of this size, each with the position at which it ends."""
        blocks = [block for block in self.blocks if block.position < size_bytes]
        return list(zip(blocks, [*(block.position for block in blocks[1:]), size_bytes], strict=True))

    def batches(
        self, data: pa.Buffer, block: Block, end: int, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a block that have offsets from `start` up to `stop`; JournalError if it is damaged."""
        self._check(data, block, end)
        yield from decoded(data, block.position, end, start, stop)

    def _check(self, data: pa.Buffer, block: Block, end: int) -> None:
        position, offset = self._checked.get(block.position, (block.position, block.offset))
        view = memoryview(data)
        while position < end:
            try:
                seal = check_seal(view[position:end])
                if seal.offset != offset:
                    raise Damaged(f"a batch begins with offset {seal.offset}, not {offset}")
            except (Torn, Damaged) as error:
                raise damage(self._path, position, offset, str(error) or "a batch is cut off") from None
            position += seal.length
            offset += seal.rows
        self._checked[block.position] = (position, offset)


def damage(path: Path, position: int, offset: int, fault: str) -> JournalError:
    """What to say of a segment that has something else in it than what was written."""
    return JournalError(
        f"{path} is damaged at byte {position} ({fault}): the rows from {offset} on cannot be read; "
        "put back a good copy of the file"
    )


# Scanning and the index -----------------------------------------------------------------------------------


class Scan(Struct, frozen=True):
    """A segment as it was found on disk."""

    summary: Summary
    blocks: list[Block]
    fault: str | None
    """What is wrong with the bytes after the last good batch; None if there are none."""
    is_torn: bool
    """Whether that is only the beginning of a batch, as a killed writer leaves it."""


def scan(path: Path, head_bytes: int, first_offset: int) -> Scan:
    """Read a segment from end to end and check every batch."""
    summary = Summary(path, head_bytes, head_bytes, first_offset, first_offset)
    blocks: list[Block] = []
    data = memoryview(mapped(path))
    position = head_bytes
    while position < len(data):
        if is_end(data[position:]):
            break
        try:
            seal = check_seal(data[position:])
            if seal.offset != summary.next_offset:
                raise Damaged(f"a batch begins with offset {seal.offset}, not {summary.next_offset}")
        except Torn:
            return Scan(summary, blocks, "its last batch is incomplete", is_torn=True)
        except Damaged as error:
            return Scan(summary, blocks, str(error), is_torn=False)
        add_to_blocks(blocks, seal, position)
        summary = summary.with_batch(seal)
        position += seal.length
    return Scan(summary, blocks, None, is_torn=False)


def write_index(summary: Summary, blocks: list[Block], *, sync: bool) -> None:
    """Put the index of a full segment beside it, all at once."""
    head = _HEAD.pack(
        _MAGIC, summary.head_bytes, summary.size_bytes, summary.first_offset, summary.next_offset,
        summary.first_us, summary.last_us, summary.lts_min, summary.lts_max, summary.flags, len(blocks),
    )  # fmt: skip
    rows = (
        _BLOCK.pack(
            block.offset, block.position, block.first_us, block.last_us,
            block.lts_min, block.lts_max, block.flags,
        )
        for block in blocks
    )  # fmt: skip
    data = b"".join((head, *rows))
    replace_file(summary.index_path, data + _CRC.pack(zlib.crc32(data)), sync=sync)


def read_index(path: Path) -> tuple[Summary, list[Block]] | None:
    """The index of a full segment; None if there is none that fits it."""
    try:
        data = path.with_suffix(INDEX_SUFFIX).read_bytes()
        file_bytes = path.stat().st_size
    except FileNotFoundError:
        return None
    body = data[: -_CRC.size]
    if len(data) < _HEAD.size + _CRC.size or _CRC.pack(zlib.crc32(body)) != data[-_CRC.size :]:
        return None
    magic, head_bytes, size_bytes, first, after, first_us, last_us, lts_min, lts_max, flags, count = (
        _HEAD.unpack_from(body)
    )
    if magic != _MAGIC or not size_bytes <= file_bytes <= size_bytes + 8 or path.stem != f"{first:020d}":
        return None
    if len(body) != _HEAD.size + count * _BLOCK.size:
        return None
    summary = Summary(
        path, head_bytes, size_bytes, first, after, first_us, last_us, lts_min, lts_max, flags
    )  # fmt: skip
    return summary, [Block(*fields) for fields in _BLOCK.iter_unpack(body[_HEAD.size :])]


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a small file so that a reader, or a crash, finds the old one or the new one, never half of it."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.replace(fresh, path)
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
