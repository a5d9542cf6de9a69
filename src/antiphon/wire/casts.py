"""What a coordinator and the edges behind it multicast to one another: packets of a cast.

    offset size  field
     0     1    magic          0xAC
     1     1    version        of what follows
     2     1    kind           1 piece, 2 repair, 3 news, 4 request
     3     1    flags          of news: 1: those who hear it are to answer; else 0
     4     8    stream         which cast it belongs to; random

A *cast* is the feed of one coordinator (`wire.edges`): its frames one after the other, cut into *pieces*
which count from 1. The coordinator tells the number of the stream over the connection of each edge, and a
key: on their way packets are sealed, all but these twelve bytes (`core.sealing.casts`). A piece
or repair has its number (8) and then the bytes; a repair is a piece that is multicast again, by anybody who
has it. News have a serial number (4), the number of the next piece (8), and for how many edges it is (2). A
request has the distance of its sender from the coordinator in microseconds (4), a count (1), and count x
(number of a piece (8), how many from it on (2)).

Follows: SRM (session messages, requests and repairs to the whole group), which InterGroup 4 builds on.
Deviation: news tell of the coordinator's stream alone, because nobody else has one.
Checked by: tests/unit/test_cast_vectors.py, tests/unit/test_cast_wire.py.
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket

MAGIC = 0xAC
VERSION = 1
ASKS = 1

_HEAD = Layout("!BBBBQ")
_NUMBER = Layout("!Q")
_NEWS = Layout("!IQH")
_REQUEST = Layout("!IB")
_RANGE = Layout("!QH")
HEAD_BYTES = _HEAD.size
PACKET_MAX_BYTES = HEAD_BYTES + _NUMBER.size + limits.CAST_PACKET_BYTES
"""Before it is sealed."""
assert (HEAD_BYTES, _NUMBER.size, _NEWS.size, _REQUEST.size, _RANGE.size) == (12, 8, 14, 5, 10)
assert _REQUEST.size + limits.CAST_REQUEST_RANGES * _RANGE.size <= limits.CAST_PACKET_BYTES

Range = tuple[int, int]
"""The number of a piece, and how many from it on."""


class Kind(IntEnum):
    """What a packet is."""

    PIECE = 1
    REPAIR = 2
    NEWS = 3
    REQUEST = 4


class Piece(Struct, frozen=True):
    """A part of the feed."""

    stream: int
    number: int
    data: bytes
    is_repair: bool = False


class News(Struct, frozen=True):
    """How far a cast has come."""

    stream: int
    serial: int
    next: int
    """The number of its next piece."""
    members: int
    """For how many edges it is."""
    asks: bool = False
    """Whether those who hear it are to say so over their connections."""


class Request(Struct, frozen=True):
    """Pieces are missing."""

    stream: int
    distance_us: int
    """How far it is from who asks to the coordinator."""
    ranges: tuple[Range, ...]


Packet = Piece | News | Request


def encode(packet: Packet) -> bytes:
    """The packet as bytes."""
    flags = 0
    match packet:
        case Piece():
            kind = Kind.REPAIR if packet.is_repair else Kind.PIECE
            body = _NUMBER.pack(packet.number) + packet.data
        case News():
            kind, flags = Kind.NEWS, ASKS * packet.asks
            body = _NEWS.pack(packet.serial, packet.next, packet.members)
        case Request():
            kind = Kind.REQUEST
            body = _REQUEST.pack(packet.distance_us, len(packet.ranges))
            body += b"".join(_RANGE.pack(*one) for one in packet.ranges)
    data = _HEAD.pack(MAGIC, VERSION, kind, flags, packet.stream) + body
    assert len(data) <= PACKET_MAX_BYTES
    return data


def stream_of(data: bytes | memoryview) -> int:
    """Which cast a datagram belongs to, whether it is sealed or not; BadPacket if to none."""
    if len(data) < HEAD_BYTES:
        raise BadPacket("cast: impossible length")
    magic, version, _, _, stream = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise BadPacket("cast: of another kind or version")
    return int(stream)


def decode(data: bytes | memoryview) -> Packet:
    """The packet in plain bytes; BadPacket if there is none."""
    stream = stream_of(data)
    if len(data) > PACKET_MAX_BYTES:
        raise BadPacket("cast: impossible length")
    kind, flags = data[2], data[3]
    body = bytes(data[HEAD_BYTES:])
    if flags & ~(ASKS if kind == Kind.NEWS else 0):
        raise BadPacket("cast: unknown flags")
    if kind in (Kind.PIECE, Kind.REPAIR):
        return _piece(stream, body, kind == Kind.REPAIR)
    if kind == Kind.NEWS:
        return _news(stream, body, bool(flags & ASKS))
    if kind == Kind.REQUEST:
        return _request(stream, body)
    raise BadPacket("cast: unknown kind")


def _piece(stream: int, body: bytes, is_repair: bool) -> Piece:
    if len(body) <= _NUMBER.size:
        raise BadPacket("cast: impossible length")
    (number,) = _NUMBER.unpack_from(body)
    _check(number)
    return Piece(stream, number, body[_NUMBER.size :], is_repair)


def _news(stream: int, body: bytes, asks: bool) -> News:
    if len(body) != _NEWS.size:
        raise BadPacket("cast: impossible length")
    serial, following, members = _NEWS.unpack(body)
    _check(following)
    return News(stream, serial, following, members, asks)


def _request(stream: int, body: bytes) -> Request:
    if len(body) < _REQUEST.size:
        raise BadPacket("cast: impossible length")
    distance_us, count = _REQUEST.unpack_from(body)
    if not 0 < count <= limits.CAST_REQUEST_RANGES or len(body) != _REQUEST.size + count * _RANGE.size:
        raise BadPacket("cast: impossible length")
    if distance_us > limits.CAST_DISTANCE_MAX_US:
        raise BadPacket("cast: impossible distance")
    ranges = tuple(_RANGE.unpack_from(body, _REQUEST.size + at * _RANGE.size) for at in range(count))
    check_ranges(ranges)
    return Request(stream, distance_us, ranges)


def check_ranges(ranges: Iterable[Range]) -> None:
    """BadPacket for what nobody can ask for."""
    wanted = 0
    for first, count in ranges:
        _check(first)
        if count <= 0:
            raise BadPacket("cast: impossible range")
        wanted += count
    if wanted > limits.CAST_REQUEST_PACKETS:
        raise BadPacket("cast: too much asked for")


def _check(number: int) -> None:
    if not 0 < number <= limits.COUNTER_MAX:
        raise BadPacket("cast: impossible number")


def ranges_of(numbers: Iterable[int]) -> tuple[Range, ...]:
    """Ascending numbers as the ranges of one request: the first ones, if there are too many.

    >>> ranges_of([1, 2, 3, 7, 9, 10])
    ((1, 3), (7, 1), (9, 2))
    """
    found: list[list[int]] = []
    for wanted, number in enumerate(numbers):
        if wanted == limits.CAST_REQUEST_PACKETS:
            break
        if found and sum(found[-1]) == number:
            found[-1][1] += 1
        elif len(found) == limits.CAST_REQUEST_RANGES:
            break
        else:
            found.append([number, 1])
    return tuple((first, count) for first, count in found)
