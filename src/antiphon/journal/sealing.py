"""Batches of rows as bytes: Arrow IPC messages that carry a seal.

A segment is a plain Arrow IPC stream, which any Arrow library can read. Each record batch in it has, in the
custom metadata of its message, a seal of fixed size in hexadecimal: the facts about its rows, the length of
the whole message, and a checksum over all of its bytes (those of the checksum itself counted as zeros). So a
batch is known to be whole before it is interpreted, and an index can be made without decoding a row.
"""

import zlib
from struct import Struct as Layout

import pyarrow as pa
from msgspec import Struct

from antiphon.journal.schema import SCHEMA

HAS_EVENTS = 1
"""Some row is a view, a signal or a gap."""
HAS_BATCHES = 2
"""Some message has the stamp of a batch."""

PREFIX = Layout("<iI")
"""The start of each message in the stream: a mark that is always -1, and the length of the metadata."""
MARK = -1
METADATA_MAX_BYTES = 1024 * 1024
"""More than our schema, with a state of a thousand groups, or a batch of our schema can need."""
END_OF_STREAM = PREFIX.pack(MARK, 0)

_SEAL = Layout("!QIqqQQBQ")
_SEAL_KEY = "antiphon"
_SEAL_MARK = b"antiphon.seal="
_CRC_CHARACTERS = 8
_NO_CRC = b"0" * _CRC_CHARACTERS
_SEAL_CHARACTERS = 2 * _SEAL.size


class Seal(Struct, frozen=True):
    """What a batch says about itself."""

    offset: int
    """The offset of its first row."""
    rows: int
    first_us: int
    last_us: int
    """The earliest and the latest time of delivery."""
    lts_min: int
    lts_max: int
    """Over the rows that have a place in the agreed order; both 0 if there is none."""
    flags: int
    length: int = 0
    """Bytes of the whole message."""


class Torn(Exception):
    """The bytes end before the message does: what a writer leaves that was killed while it wrote."""


class Damaged(Exception):
    """The bytes are not what was written."""


_STATE_KEY = b"antiphon.state"
_SCHEMA_BYTES: int = SCHEMA.serialize().size
"""What a stream without state begins with, and what comes before the batch when one is serialised alone."""


def start_of_stream(state: bytes) -> bytes:
    """The first bytes of a segment: the schema, with `state` in its metadata."""
    return bytes(SCHEMA.with_metadata({_STATE_KEY: state}).serialize())


def state_of_stream(start: bytes | memoryview) -> tuple[bytes, int]:
    """The state that `start_of_stream` was given, and how many bytes it made; Torn or Damaged otherwise."""
    length = PREFIX.size + _metadata_bytes(start)
    if len(start) < length:
        raise Torn
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(start[:length]))
    except (pa.ArrowException, OSError) as error:
        raise Damaged(f"no Arrow schema: {error}") from None
    if not schema.equals(SCHEMA):
        raise Damaged("its schema is another one")
    return bytes((schema.metadata or {}).get(_STATE_KEY, b"")), length


def seal_batch(batch: pa.RecordBatch, seal: Seal) -> tuple[list[memoryview | bytes], Seal]:
    """A batch as buffers for one scatter-gather write, and its seal with the length filled in."""
    empty = _SEAL_MARK + b"0" * (_SEAL_CHARACTERS + _CRC_CHARACTERS)
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, SCHEMA)
    writer.write_batch(batch, custom_metadata={_SEAL_KEY: empty})
    whole = memoryview(sink.getvalue())[_SCHEMA_BYTES:]
    seal = Seal(
        seal.offset,
        seal.rows,
        seal.first_us,
        seal.last_us,
        seal.lts_min,
        seal.lts_max,
        seal.flags,
        len(whole),
    )
    at = _seal_position(whole)
    facts = _packed(seal).hex().encode()
    start, rest = whole[:at], whole[at + _SEAL_CHARACTERS + _CRC_CHARACTERS :]
    crc = zlib.crc32(rest, zlib.crc32(_NO_CRC, zlib.crc32(facts, zlib.crc32(start))))
    return [start, facts, b"%08x" % crc, rest], seal


def read_seal(data: memoryview) -> Seal:
    """The seal of the message at the start of `data`, not yet checked; Torn or Damaged if there is none."""
    at = _seal_position(data)
    try:
        fields = _SEAL.unpack(bytes.fromhex(str(data[at : at + _SEAL_CHARACTERS], "ascii")))
    except ValueError:
        raise Damaged("the seal of a batch is not a number") from None
    return Seal(*fields)


def check_seal(data: memoryview) -> Seal:
    """The seal of the message at the start of `data`, all of whose bytes are as they were written."""
    seal = read_seal(data)
    if len(data) < seal.length:
        raise Torn
    at = _seal_position(data) + _SEAL_CHARACTERS
    after = at + _CRC_CHARACTERS
    if after > seal.length:
        raise Damaged("the length of a batch is impossible")
    crc = zlib.crc32(data[after : seal.length], zlib.crc32(_NO_CRC, zlib.crc32(data[:at])))
    if data[at:after] != b"%08x" % crc:
        raise Damaged("the checksum of a batch is wrong")
    return seal


def decode_batch(data: pa.Buffer) -> pa.RecordBatch:
    """The rows of one message, without a copy."""
    return pa.ipc.read_record_batch(pa.ipc.read_message(data), SCHEMA)


def is_end(data: memoryview) -> bool:
    """Whether the stream was ended here."""
    return bytes(data) == END_OF_STREAM


def _packed(seal: Seal) -> bytes:
    return _SEAL.pack(
        seal.offset, seal.rows, seal.first_us, seal.last_us,
        seal.lts_min, seal.lts_max, seal.flags, seal.length,
    )  # fmt: skip


def _metadata_bytes(data: bytes | memoryview) -> int:
    """How long the metadata of the message at the start of `data` is."""
    if len(data) < PREFIX.size:
        raise Torn
    mark, length = PREFIX.unpack_from(data)
    if mark != MARK or not 0 < length <= METADATA_MAX_BYTES:
        raise Damaged("no message begins where one should")
    return int(length)


def _seal_position(data: memoryview) -> int:
    """Where the characters of the seal begin."""
    end = PREFIX.size + _metadata_bytes(data)
    at = bytes(data[:end]).find(_SEAL_MARK)
    if at >= 0 and at + len(_SEAL_MARK) + _SEAL_CHARACTERS + _CRC_CHARACTERS <= min(end, len(data)):
        return at + len(_SEAL_MARK)
    if len(data) < end:
        raise Torn
    raise Damaged("a batch has no seal")
