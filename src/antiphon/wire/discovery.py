"""What daemons and clients multicast to find one another without a file: discovery packets.

    offset size  field
     0     1    magic          0xA9
     1     1    version        of what follows
     2     1    kind           1 beacon, 2 question, 3 answer
     3     1    key            number of the key that seals it; 0: it is not sealed
     4     4    checksum       CRC-32 of the packet with zeros in this field
     8     1    length         of the cluster's name
     9          name           of the cluster, ASCII

A beacon is multicast by a daemon, and sent to the address of a daemon that has asked. After the name:

     0     8    process        a number that no other process has
     8     4    serial         of this process's beacons, ascending
    12     1    flags          1: asks all who hear it for a beacon, 2: the daemon leaves
    13     1    state          0 listens, 1 claims its number, 2 bears it
    14     1    number         of the daemon; 255: none
    15     8    claim          when it was claimed, in microseconds since 1970 by the sender's clock
    23     4    host           IPv4 address of the daemon's UDP socket
    27     2    port           of the same
    29     1    length, then the name of the daemon
          1    count, then count x (process (8), number (1)): claims and daemons that stand in its roster
          1    count, then count x (number (1), state (1; 128 more: it has left), process (8), claim (8),
               silent for so many milliseconds (4), host (4), port (2), length (1), name): a part of its
               roster

A question is multicast by a client, and has a number of 8 bytes. An answer goes back to it: the question's
number (8), the daemon's number (1), the daemon's name (length and text), and a count (1) of places where
clients connect, each as length (1) and text.

Follows: RMP 3.1, which leaves the layout open.
Checked by: tests/unit/test_discovery_vectors.py, tests/property/test_discovery_wire.py.
"""

import hashlib
import zlib
from enum import IntEnum
from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket, UsageError
from antiphon.types import check_name

MAGIC = 0xA9
VERSION = 1
NO_NUMBER = 255

ASKS = 1
LEAVES = 2
_FLAGS = ASKS | LEAVES
_HAS_LEFT = 128

LISTED_MAX = 96
"""Claims and daemons that one beacon can list: more than there are numbers, for claims that are disputed."""
TOLD_MAX = 6
"""Entries of a roster in one beacon: all of them go round in a few beacons."""
PLACES_MAX = 8
PLACE_MAX_BYTES = 128
PACKET_MAX_BYTES = 1_300
"""Of a discovery packet: it is never cut into fragments of IP."""

_HEAD = Layout("!BBBBIB")
_BEACON = Layout("!QIBBBQ4sH")
_LISTED = Layout("!QB")
_TOLD = Layout("!BBQQI4sH")
_QUESTION = Layout("!Q")
_CHECKSUM = slice(4, 8)
assert (_HEAD.size, _BEACON.size, _LISTED.size, _TOLD.size) == (9, 29, 9, 28)


class Kind(IntEnum):
    """What a discovery packet is."""

    BEACON = 1
    QUESTION = 2
    ANSWER = 3


class State(IntEnum):
    """How far a daemon has come to a number."""

    LISTENS = 0
    CLAIMS = 1
    BEARS = 2


class Told(Struct, frozen=True):
    """An entry of a roster, as another daemon tells it."""

    number: int
    state: State
    process: int
    claim_us: int
    silent_ms: int
    host: str
    port: int
    name: str
    has_left: bool = False
    """Whether it has left by its own word."""


class Beacon(Struct, frozen=True):
    """A daemon tells that it is there."""

    cluster: str
    process: int
    serial: int
    state: State
    number: int | None
    claim_us: int
    host: str
    port: int
    name: str
    asks: bool = False
    leaves: bool = False
    listed: tuple[tuple[int, int], ...] = ()
    """Process and number of each claim and each daemon that stand in the sender's roster."""
    told: tuple[Told, ...] = ()


class Question(Struct, frozen=True):
    """A client asks for daemons."""

    cluster: str
    number: int


class Answer(Struct, frozen=True):
    """A daemon tells a client where to connect."""

    cluster: str
    question: int
    number: int
    name: str
    places: tuple[str, ...]


Packet = Beacon | Question | Answer


def group_of(cluster: str) -> tuple[str, int]:
    """The multicast address and port to which a cluster's name leads: 24 bits of an address for use inside an
    organisation, and 15 bits of a port with its high bit set (RMP 3.1).

    >>> group_of("tea")
    ('239.50.156.114', 58056)
    """
    mixed = hashlib.sha256(b"antiphon discovery " + cluster.encode("ascii")).digest()
    return f"239.{mixed[0]}.{mixed[1]}.{mixed[2]}", 0x8000 | int.from_bytes(mixed[3:5], "big")


# Writing --------------------------------------------------------------------------------------------------


def encode(packet: Packet) -> bytes:
    """The packet as bytes."""
    match packet:
        case Beacon():
            kind, body = Kind.BEACON, _beacon(packet)
        case Question():
            kind, body = Kind.QUESTION, _QUESTION.pack(packet.number)
        case Answer():
            places = b"".join(map(_text, packet.places))
            kind = Kind.ANSWER
            body = _QUESTION.pack(packet.question) + bytes((packet.number,)) + _text(packet.name)
            body += bytes((len(packet.places),)) + places
    cluster = packet.cluster.encode("ascii")
    data = bytearray(_HEAD.pack(MAGIC, VERSION, kind, 0, 0, len(cluster)) + cluster + body)
    data[_CHECKSUM] = zlib.crc32(data).to_bytes(4, "big")
    assert len(data) <= PACKET_MAX_BYTES
    return bytes(data)


def _beacon(beacon: Beacon) -> bytes:
    assert len(beacon.listed) <= LISTED_MAX and len(beacon.told) <= TOLD_MAX
    parts = [
        _BEACON.pack(
            beacon.process, beacon.serial, ASKS * beacon.asks | LEAVES * beacon.leaves, beacon.state,
            NO_NUMBER if beacon.number is None else beacon.number, beacon.claim_us,
            _host(beacon.host), beacon.port,
        ),
        _text(beacon.name),
        bytes((len(beacon.listed),)),
        *(_LISTED.pack(process, number) for process, number in beacon.listed),
        bytes((len(beacon.told),)),
    ]  # fmt: skip
    for told in beacon.told:
        parts.append(
            _TOLD.pack(
                told.number, told.state | _HAS_LEFT * told.has_left, told.process, told.claim_us,
                told.silent_ms, _host(told.host), told.port,
            )
        )  # fmt: skip
        parts.append(_text(told.name))
    return b"".join(parts)


def _text(text: str) -> bytes:
    data = text.encode("ascii")
    return bytes((len(data),)) + data


def _host(host: str) -> bytes:
    return bytes(map(int, host.split(".")))


# Reading --------------------------------------------------------------------------------------------------


class _Reader:
    """Takes one field after the other from bytes that may be anything."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: Layout) -> tuple[int | bytes, ...]:
        if self._at + layout.size > len(self._data):
            raise BadPacket("discovery: too short")
        found: tuple[int | bytes, ...] = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return found

    def byte(self) -> int:
        if self._at >= len(self._data):
            raise BadPacket("discovery: too short")
        self._at += 1
        return self._data[self._at - 1]

    def count(self, most: int) -> int:
        count = self.byte()
        if count > most:
            raise BadPacket("discovery: too many parts")
        return count

    def text(self, most: int) -> str:
        size = self.byte()
        data = self._data[self._at : self._at + size]
        if size > most or len(data) < size:
            raise BadPacket("discovery: bad text")
        self._at += size
        try:
            return data.decode("ascii")
        except UnicodeDecodeError:
            raise BadPacket("discovery: bad text") from None

    def name(self, what: str, most: int) -> str:
        try:
            return check_name(self.text(most), what, most)
        except UsageError:
            raise BadPacket("discovery: bad name") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise BadPacket("discovery: too long")


def parse(data: bytes) -> Packet:
    """The packet in these bytes, or a BadPacket."""
    if len(data) > PACKET_MAX_BYTES:
        raise BadPacket("discovery: too long")
    reader = _Reader(data)
    magic, version, kind, key, checksum, _ = map(int, reader.take(_HEAD))
    if magic != MAGIC:
        raise BadPacket("discovery: bad magic")
    if version != VERSION:
        raise BadPacket("discovery: unknown version")
    if key:
        raise BadPacket("discovery: sealed with a key that is not ours")
    if zlib.crc32(data[:4] + bytes(4) + data[8:]) != checksum:
        raise BadPacket("discovery: bad checksum")
    reader = _Reader(data[_HEAD.size - 1 :])
    cluster = reader.name("cluster", limits.GROUP_NAME_MAX_BYTES)
    found: Packet
    match kind:
        case Kind.BEACON:
            found = _read_beacon(reader, cluster)
        case Kind.QUESTION:
            found = Question(cluster, int(reader.take(_QUESTION)[0]))
        case Kind.ANSWER:
            found = _read_answer(reader, cluster)
        case _:
            raise BadPacket("discovery: unknown kind")
    reader.end()
    return found


def _read_beacon(reader: _Reader, cluster: str) -> Beacon:
    process, serial, flags, state, number, claim_us, host, port = reader.take(_BEACON)
    if int(flags) & ~_FLAGS:
        raise BadPacket("discovery: unknown flags")
    name = reader.name("daemon", limits.DAEMON_NAME_MAX_BYTES)
    listed = []
    for _ in range(reader.count(LISTED_MAX)):
        who, where = map(int, reader.take(_LISTED))
        listed.append((who, _number(where)))
    told = tuple(_read_told(reader) for _ in range(reader.count(TOLD_MAX)))
    known_state = _state(int(state))
    if (known_state is State.LISTENS) != (number == NO_NUMBER):
        raise BadPacket("discovery: number and state contradict each other")
    return Beacon(
        cluster, int(process), int(serial), known_state,
        None if number == NO_NUMBER else _number(int(number)), int(claim_us), _dotted(host), _port(int(port)),
        name, bool(int(flags) & ASKS), bool(int(flags) & LEAVES), tuple(listed), told,
    )  # fmt: skip


def _read_told(reader: _Reader) -> Told:
    number, state, process, claim_us, silent_ms, host, port = reader.take(_TOLD)
    name = reader.name("daemon", limits.DAEMON_NAME_MAX_BYTES)
    known_state = _state(int(state) & ~_HAS_LEFT)
    if known_state is State.LISTENS:
        raise BadPacket("discovery: number and state contradict each other")
    return Told(
        _number(int(number)), known_state, int(process), int(claim_us), int(silent_ms), _dotted(host),
        _port(int(port)), name, bool(int(state) & _HAS_LEFT),
    )  # fmt: skip


def _read_answer(reader: _Reader, cluster: str) -> Answer:
    (question,) = reader.take(_QUESTION)
    number = _number(reader.byte())
    name = reader.name("daemon", limits.DAEMON_NAME_MAX_BYTES)
    places = tuple(reader.text(PLACE_MAX_BYTES) for _ in range(reader.count(PLACES_MAX)))
    return Answer(cluster, int(question), number, name, places)


def _number(number: int) -> int:
    if number >= limits.DAEMONS_PER_SITE_MAX:
        raise BadPacket("discovery: number out of range")
    return number


def _state(state: int) -> State:
    if state > State.BEARS:
        raise BadPacket("discovery: unknown state")
    return State(state)


def _dotted(host: int | bytes) -> str:
    assert isinstance(host, bytes)
    return ".".join(map(str, host))


def _port(port: int) -> int:
    if not port:
        raise BadPacket("discovery: no port")
    return port
