"""What daemons send one another: packets, each one datagram.

    offset size  field
     0     1    magic          0xA7
     1     1    version        8
     2     1    kind           see PacketKind
     3     1    seal           0: plain, and the packet ends in a checksum. Otherwise the body is encrypted
                               and ends in a tag of 16 bytes; see `sealed`. Every size below leaves room for
                               it.
     4     4    digest         of the configuration: strangers and other clusters are refused
     8     2    sender         daemon number
    10     2    receiver       daemon number; EVERYBODY: all members of the sender's ring
    12     4    incarnation    of the sender's process
    16     8    view           the daemon view to whose links the packet belongs; 0: none (BEAT, PROPOSAL,
                               CLOCK)
    24     8    counter        of the sending process, from 1: no two of its datagrams have the same one
    32     8    number         DATA: place on this link, from 1; PIECE: that of the packet it is a part of.
                               ACK: 1 asks for an answer. HELLO: in the answer to a padded one, the size of
                               the packet that is answered. Others: 0
    40          body
    end-4  4    check          CRC-32 (that of zlib) of everything before it

The first 16 bytes are the same in all versions, see `versions`.

The checksum of UDP has 16 bits, and not every path computes it: a packet that was changed on its way is
dropped, which the links repair like any other loss.

The counter is the nonce of a seal. So a packet that is retransmitted gets a new one, and with it a new
checksum or tag; copies of one datagram for several receivers are the same bytes and share it. Receivers of
sealed packets take each counter once.

HELLO body: sender's clock (8), the last clock value that the receiver sent (8), any number of zeros; with
these it is a probe of the path, and its answer says how large it was. PIECE body: size of the items of a DATA
packet (4), offset (4), bytes from there: a part of a packet that no longer gets through whole. ACK body: aru
(8), highest number sent (8), how long ago the newest packet came, in microseconds (4), the number of that
packet (8), how many different packets have come in all (8). NACK body: aru (8), count (2), count x (first
number (8), how many (4)). BEAT and PROPOSAL bodies: see `membership`; TOKEN, HURRY and HELD bodies: see
`token`; CLOCK bodies: see `clock`; SITE_ACK, SITE_NACK, CONFIRM and REPAIR bodies: see `token_site`;
INTRODUCTION: see `sealed`.

DATA and UNRELIABLE bodies are items: type (1), flags (1), length of what follows (2), then

    FRAGMENT  offset (4), source (2), zero (2), bundle bytes in all (4), bundle number (8),
              destinations (8), bytes
    UPDATE    source (2), zero (2), serial (4), number (8), lts (8), aru (8)
    SKIP      source (2), zero (2), first number (8), last number (8), lts (8), aru (8)
    PRESSURE  see `pressure`

Zeros behind the items are padding, so that the packets of a train have one size.

A source is a segment of the view, named by the number of its first daemon: the bundles of all its daemons are
numbered together.

Follows: Spread paper 3.1 (several objects in a packet, packets as full as possible), paper 3.2 and thesis 4.3
(data, acks and nacks of the Hop protocol), thesis 6.1.2 (messages of the membership). All of them leave the
layout open.
Deviations: what paper 3.2 calls aggregated control information are UPDATE and SKIP items; nacks carry ranges
and the aru, acks the newest packet and how many have come; HELLO, PIECE, HURRY, HELD, PRESSURE and the probes
are our own.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket, Nonsense
from antiphon.wire import pressure as pressures
from antiphon.wire import versions
from antiphon.wire.bundle import Start, look
from antiphon.wire.pressure import Pressure as Pressure

MAGIC = 0xA7
VERSION = 8
SEAL_TAG_BYTES = 16

PREFIX = Layout("!BBBBIHHIQ")
_PREFIX_BYTES = PREFIX.size
SEAL_AT = 3
TO_BE_SEALED = 0xFF
"""Stands for the seal until the packet is sealed, which is the last that happens to it. Its checksum is not
worked out then: zeros hold its place."""
_NUMBERS = Layout("!QQ")
_COUNTER = Layout("!Q")
_COUNTER_END = _PREFIX_BYTES + _COUNTER.size
_HEAD = Layout("!BBBBIHHIQQQ")
HEAD_BYTES = _HEAD.size
CHECK = Layout("!I")
_CHECK_PACK = CHECK.pack
CHECK_BYTES = CHECK.size
_NO_CHECK = bytes(CHECK_BYTES)
assert HEAD_BYTES == 40
assert CHECK_BYTES <= SEAL_TAG_BYTES, "a packet with a tag has no checksum, and must not be longer"
ITEM = Layout("!BBH")
ITEM_BYTES = ITEM.size
_FRAGMENT = Layout("!IHHIQQ")
FRAGMENT_BYTES = _FRAGMENT.size
_UPDATE = Layout("!HHIQQQ")
_SKIP = Layout("!HHQQQQ")
_HELLO = Layout("!QQ")
_PIECE = Layout("!II")
_ACK = Layout("!QQIQQ")
_NACK = Layout("!QH")
_RANGE = Layout("!QI")

SERIALS = 1 << 32
"""Serials of updates and announcements begin anew after so many."""
EVERYBODY = 0xFFFF
"""The receiver of what goes to all members of a ring."""


class PacketKind(IntEnum):
    """What a packet is for."""

    HELLO = 1
    DATA = 2
    UNRELIABLE = 3
    ACK = 4
    NACK = 5
    BEAT = 6
    """A sign of life between any two daemons, linked or not: ALIVE and JOIN of the thesis."""
    PROPOSAL = 7
    """A daemon view that is to be formed: NEWMEMB of the thesis."""
    TOKEN = 8
    """The right to send on a ring, handed to the next member."""
    HURRY = 9
    """A member of a ring requests the token from the member at which it rests."""
    HELD = 10
    """Nothing is to be done on a ring: the token rests at the sender for a while."""
    PROBE = 11
    """Sent by multicast, to find out whether it arrives. Never seen by the protocols."""
    PROBED = 12
    """The answer to a probe, sent by unicast."""
    PIECE = 13
    """A part of a data packet that is retransmitted, where packets of its size got through once."""
    CLOCK = 14
    """What the sender knows of the time, see `clock`."""
    SITE_ACK = 15
    """Of a token-site segment: what was ordered, and the token for the next member; see `token_site`."""
    SITE_NACK = 16
    CONFIRM = 17
    REPAIR = 18
    INTRODUCTION = 19
    """Where packets are sealed: which process the sender is, and that it is there now."""


class ItemType(IntEnum):
    """What stands in the body of a data packet."""

    FRAGMENT = 1
    UPDATE = 2
    SKIP = 3
    PRESSURE = 4


# Plain numbers for the tests that every packet goes through: an enum's member costs a look-up each time.
KIND_DATA = int(PacketKind.DATA)
_KIND_ACK = int(PacketKind.ACK)
KIND_CLOCK = int(PacketKind.CLOCK)
KINDS_OF_MEMBERSHIP = (int(PacketKind.BEAT), int(PacketKind.PROPOSAL))
_CARRYING = (KIND_DATA, int(PacketKind.UNRELIABLE))
_LOOSE = tuple(
    int(kind)
    for kind in (
        PacketKind.BEAT, PacketKind.PROPOSAL, PacketKind.TOKEN, PacketKind.HURRY, PacketKind.HELD,
        PacketKind.PROBE, PacketKind.PROBED, PacketKind.CLOCK, PacketKind.SITE_ACK, PacketKind.SITE_NACK,
        PacketKind.CONFIRM, PacketKind.REPAIR,
    )
)  # fmt: skip
_FRAGMENT_TYPE = int(ItemType.FRAGMENT)
_UPDATE_TYPE = int(ItemType.UPDATE)
_PADDING_TYPE = 0


class Head(Struct, frozen=True):
    """Where a packet comes from and where it goes."""

    kind: int
    digest: int
    sender: int
    receiver: int
    incarnation: int
    view: int
    counter: int
    number: int


class Fragment(Struct, frozen=True, dict=True):
    """Consecutive bytes of one bundle: a piece, or the whole of it."""

    source: int
    number: int
    destinations: int
    total: int
    offset: int
    body: bytes | bytearray | memoryview

    def look(self) -> Start:
        """What stands at the beginning of the bundle, for a fragment that has it; BadFrame if it is none.

        It is read once, however many ask: the answer stays beside the fields, where it is no part of the
        value.
        """
        start: Start | None = self.__dict__.get("start")
        if start is None:
            start = self.__dict__["start"] = look(self.body, self.total)
        return start


class Update(Struct, frozen=True):
    """A segment announces where it stands: all its bundles up to `number` are out, its next one is later than
    `lts`, its daemons have everything up to `aru`."""

    source: int
    serial: int
    """Counts the segment's updates: of two, the one with the greater serial is the newer."""
    number: int
    lts: int
    aru: int


class Skip(Struct, frozen=True):
    """Bundles `first` to `last` of a source have no receiver below this link; `last` was born with `lts`."""

    source: int
    first: int
    last: int
    lts: int
    aru: int


Item = Fragment | Update | Skip | Pressure


class Data(Struct, frozen=True):
    """`count` data packets with consecutive link numbers, and what they carry."""

    head: Head
    count: int
    items: list[Item]
    size_bytes: int


class Hello(Struct, frozen=True):
    """A sign of life on a link, and a clock value to measure the round trip."""

    head: Head
    clock_us: int
    echo_us: int
    padding_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of the whole packet, with the room for a tag."""
        return HELLO_BYTES + self.padding_bytes


class Piece(Struct, frozen=True):
    """Consecutive bytes of the items of data packet `head.number`."""

    head: Head
    total: int
    offset: int
    body: bytes


class Ack(Struct, frozen=True):
    """Everything up to `aru` came; `highest_sent` lets the other side notice what it never got."""

    head: Head
    aru: int
    highest_sent: int
    delay_us: int
    """How long ago the newest packet came."""
    newest: int = 0
    """The number of the packet that came last: with the delay, its sender can measure the round trip also
    while earlier packets are missing."""
    arrived: int = 0
    """How many different packets have come in all, those above the aru included."""


class Nack(Struct, frozen=True):
    """Everything up to `aru` came; the ranges did not, and are requested."""

    head: Head
    aru: int
    ranges: list[tuple[int, int]]
    """(first number, how many)"""


class Loose(Struct, frozen=True):
    """A packet whose body is read elsewhere: of the membership, a ring's TOKEN, HURRY or HELD, a CLOCK."""

    head: Head
    body: bytes


Packet = Hello | Data | Piece | Ack | Nack | Loose


# Writing --------------------------------------------------------------------------------------------------


def capacity(packet_bytes: int) -> int:
    """Bytes of items that fit a data packet of `packet_bytes`, beside the room for a tag or checksum."""
    return packet_bytes - HEAD_BYTES - SEAL_TAG_BYTES


def prefix(
    kind: PacketKind,
    *,
    digest: int,
    sender: int,
    receiver: int,
    incarnation: int,
    view: int = 0,
    seal: int = 0,
) -> bytes:
    """The part of the head that a link writes once and for all; `seal` is that of the outbox for it."""
    return PREFIX.pack(MAGIC, VERSION, kind, seal, digest, sender, receiver, incarnation, view)


def is_data(start: bytes | memoryview) -> bool:
    """Whether a packet that starts with these bytes has a place on its link."""
    return versions.kind_of(start) == KIND_DATA


def head(prefix: bytes, number: int = 0, *, counter: int) -> bytes:
    """The whole head of one packet."""
    return prefix + _NUMBERS.pack(counter, number)


def check(buffers: Iterable[bytes | memoryview]) -> bytes:
    """The checksum of a packet that begins with these buffers."""
    found = 0
    for buffer in buffers:
        found = crc32(buffer, found)
    return _CHECK_PACK(found)


def ending(buffers: Sequence[bytes | memoryview]) -> bytes:
    """What follows on these buffers of a packet: its checksum, or the place of one if it is to be sealed."""
    return _NO_CHECK if buffers[0][SEAL_AT] else check(buffers)


def whole(prefix: bytes, body: bytes = b"", number: int = 0, *, counter: int) -> bytes:
    """A packet: head, body and checksum."""
    data = head(prefix, number, counter=counter) + body
    return data + (_NO_CHECK if prefix[SEAL_AT] else _CHECK_PACK(crc32(data)))


def again(sent: bytes, counter: int) -> bytes:
    """A packet to be retransmitted, as a new datagram: its bytes with a new counter."""
    data = sent[:_PREFIX_BYTES] + _COUNTER.pack(counter) + sent[_COUNTER_END:-CHECK_BYTES]
    return data + (_NO_CHECK if sent[SEAL_AT] else _CHECK_PACK(crc32(data)))


def fragment_item(fragment: Fragment, start: int, end: int) -> list[bytes | memoryview]:
    """Bytes `start` to `end` of `fragment` as one item."""
    return [
        ITEM.pack(_FRAGMENT_TYPE, 0, FRAGMENT_BYTES + end - start)
        + _FRAGMENT.pack(
            fragment.offset + start, fragment.source, 0,
            fragment.total, fragment.number, fragment.destinations,
        ),
        memoryview(fragment.body)[start:end],
    ]  # fmt: skip


def update_item(update: Update) -> bytes:
    """`update` as one item."""
    return ITEM.pack(_UPDATE_TYPE, 0, _UPDATE.size) + _UPDATE.pack(
        update.source,
        0,
        update.serial,
        update.number,
        update.lts,
        update.aru,
    )


def skip_item(skip: Skip) -> bytes:
    """`skip` as one item."""
    return ITEM.pack(ItemType.SKIP, 0, _SKIP.size) + _SKIP.pack(
        skip.source, 0, skip.first, skip.last, skip.lts, skip.aru
    )


def pressure_item(pressure: Pressure) -> bytes:
    """`pressure` as one item."""
    body = pressures.encode(pressure)
    return ITEM.pack(ItemType.PRESSURE, 0, len(body)) + body


UPDATE_ITEM_BYTES = ITEM_BYTES + _UPDATE.size
SKIP_ITEM_BYTES = ITEM_BYTES + _SKIP.size
FRAGMENT_ITEM_BYTES = ITEM_BYTES + FRAGMENT_BYTES


HELLO_BYTES = HEAD_BYTES + _HELLO.size + SEAL_TAG_BYTES
"""A HELLO without padding, with the room for a tag."""
PIECE_START_BYTES = _PIECE.size


def hello(
    prefix: bytes, clock_us: int, echo_us: int, *, size_bytes: int = 0, answered_bytes: int = 0, counter: int
) -> bytes:
    """A whole HELLO packet: padded to `size_bytes`, with the room for a tag; or the answer to a padded one of
    `answered_bytes`."""
    padding = bytes(max(0, size_bytes - HELLO_BYTES))
    return whole(prefix, _HELLO.pack(clock_us, echo_us) + padding, answered_bytes, counter=counter)


def pieces(prefix: bytes, sent: bytes, step: int, counter: Callable[[], int]) -> list[bytes]:
    """The items of a data packet as PIECE packets with `step` bytes each, the last with what is left."""
    number = _NUMBERS.unpack_from(sent, _PREFIX_BYTES)[1]
    body = memoryview(sent)[HEAD_BYTES:-CHECK_BYTES]
    return [
        whole(prefix, piece_body(len(body), at, body[at : at + step]), number, counter=counter())
        for at in range(0, len(body), step)
    ]


def piece_body(total: int, offset: int, part: bytes | memoryview) -> bytes:
    """What stands behind the head of a PIECE packet."""
    return _PIECE.pack(total, offset) + part


def ack(
    prefix: bytes,
    aru: int,
    highest_sent: int,
    delay_us: int,
    question: bool = False,
    *,
    newest: int = 0,
    arrived: int = 0,
    counter: int,
) -> bytes:
    """A whole ACK packet; a `question` asks the receiver to answer with one of its own."""
    body = _ACK.pack(aru, highest_sent, delay_us, newest, arrived)
    return whole(prefix, body, 1 if question else 0, counter=counter)


def nack(prefix: bytes, aru: int, ranges: list[tuple[int, int]], *, counter: int) -> bytes:
    """A whole NACK packet; the caller keeps to limits.NACK_RANGES_MAX ranges."""
    packed = b"".join(_RANGE.pack(first, count) for first, count in ranges)
    return whole(prefix, _NACK.pack(aru, len(ranges)) + packed, counter=counter)


# Reading --------------------------------------------------------------------------------------------------


def parse(data: memoryview) -> Packet:
    """The packet in one datagram; BadPacket with a reason otherwise."""
    end = len(data) - CHECK_BYTES
    if end < HEAD_BYTES:
        versions.check(data, "packet", MAGIC, VERSION)
        raise BadPacket("packet: too short")
    (
        magic, version, kind, seal, digest, sender, receiver, incarnation, view, counter, number,
    ) = _HEAD.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        raise BadPacket("packet: not ours")
    if version != VERSION:
        raise versions.OtherVersion(data, "packet", VERSION)
    if seal != 0:
        raise BadPacket("packet: sealed")
    if crc32(data[:end]) != CHECK.unpack_from(data, end)[0]:
        raise BadPacket("packet: checksum")
    packet_head = Head(kind, digest, sender, receiver, incarnation, view, counter, number)
    if kind in _CARRYING:
        return Data(packet_head, 1, _parse_items(data, end), len(data))
    return _parse_body(packet_head, data[HEAD_BYTES:end])


def opened(packet_head: Head, body: bytes, size_bytes: int) -> Packet:
    """The packet with this head whose body was sealed, in a datagram of `size_bytes`; BadPacket with a reason
    otherwise."""
    if packet_head.kind in _CARRYING:
        items = _parse_items(memoryview(body), len(body), 0)
        return Data(packet_head, 1, items, size_bytes)
    return _parse_body(packet_head, memoryview(body))


def _parse_body(packet_head: Head, body: memoryview) -> Packet:
    kind = packet_head.kind
    if kind == _KIND_ACK and len(body) == _ACK.size:
        return Ack(packet_head, *_ACK.unpack(body))
    if kind == PacketKind.HELLO and len(body) >= _HELLO.size:
        clock_us, echo_us = _HELLO.unpack_from(body)
        return Hello(packet_head, clock_us, echo_us, len(body) - _HELLO.size)
    if kind == PacketKind.NACK and len(body) >= _NACK.size:
        return _parse_nack(packet_head, body)
    if kind in _LOOSE:
        return Loose(packet_head, bytes(body))
    if kind == PacketKind.PIECE and len(body) > _PIECE.size:
        return _parse_piece(packet_head, body)
    raise Nonsense("packet: unknown kind or wrong size")


def _parse_nack(packet_head: Head, body: memoryview) -> Nack:
    aru, count = _NACK.unpack_from(body)
    if count > limits.NACK_RANGES_MAX or len(body) != _NACK.size + count * _RANGE.size:
        raise Nonsense("nack: wrong size")
    return Nack(packet_head, aru, list(_RANGE.iter_unpack(body[_NACK.size :])))


def _parse_piece(packet_head: Head, body: memoryview) -> Piece:
    total, offset = _PIECE.unpack_from(body)
    if total > limits.PACKET_MAX_BYTES or offset + len(body) - _PIECE.size > total:
        raise Nonsense("piece: outside its packet")
    return Piece(packet_head, total, offset, bytes(body[_PIECE.size :]))


def joined(last: Head, items: bytes) -> Data:
    """The data packet whose items came in pieces, of which `last` is the head of the last."""
    packet_head = Head(
        KIND_DATA,
        last.digest,
        last.sender,
        last.receiver,
        last.incarnation,
        last.view,
        last.counter,
        last.number,
    )
    size_bytes = HEAD_BYTES + len(items) + CHECK_BYTES
    return Data(packet_head, 1, _parse_items(memoryview(items), len(items), 0), size_bytes)


def _parse_items(data: memoryview, end: int, at: int = HEAD_BYTES) -> list[Item]:
    items: list[Item] = []
    while at < end:
        if at + ITEM_BYTES > end:
            if _is_padding(data, at, end):
                break
            raise Nonsense("item: cut short")
        kind, _flags, length = ITEM.unpack_from(data, at)
        at += ITEM_BYTES
        if at + length > end:
            raise Nonsense("item: longer than its packet")
        if kind == _FRAGMENT_TYPE:
            items.append(_parse_fragment(data, at, length))
        elif kind == _UPDATE_TYPE and length == _UPDATE.size:
            source, _zero, serial, number, lts, aru = _UPDATE.unpack_from(data, at)
            _check_counters(number, lts, aru)
            items.append(Update(source, serial, number, lts, aru))
        elif kind == ItemType.SKIP and length == _SKIP.size:
            source, _zero, first, last, lts, aru = _SKIP.unpack_from(data, at)
            if not 0 < first <= last:
                raise Nonsense("skip: empty range")
            _check_counters(last, lts, aru)
            items.append(Skip(source, first, last, lts, aru))
        elif kind == ItemType.PRESSURE and length >= pressures.HEAD_BYTES:
            items.append(pressures.parse(bytes(data[at : at + length])))
        elif kind == _PADDING_TYPE and _is_padding(data, at - ITEM_BYTES, end):
            break
        else:
            raise Nonsense("item: unknown type or wrong size")
        at += length
    return items


def _is_padding(data: memoryview, at: int, end: int) -> bool:
    return bytes(data[at:end]).count(0) == end - at


def _check_counters(number: int, lts: int, aru: int) -> None:
    """BadPacket for counters that no correct daemon reaches: they would make ours overflow."""
    if number > limits.COUNTER_MAX or lts > limits.COUNTER_MAX or aru > limits.COUNTER_MAX:
        raise Nonsense("item: impossible counter")


def _parse_fragment(data: memoryview, at: int, length: int) -> Fragment:
    size = length - FRAGMENT_BYTES
    if size <= 0:
        raise Nonsense("fragment: empty")
    offset, source, _zero, total, number, destinations = _FRAGMENT.unpack_from(data, at)
    if total > limits.BUNDLE_MAX_BYTES or offset + size > total:
        raise Nonsense("fragment: outside its bundle")
    if not 0 < number <= limits.COUNTER_MAX:
        raise Nonsense("fragment: impossible number")
    body = bytes(data[at + FRAGMENT_BYTES : at + length])
    return Fragment(source, number, destinations, total, offset, body)
