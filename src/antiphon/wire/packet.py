"""What daemons send one another: packets, each one datagram.

    offset size  field
     0     1    magic          0xA7
     1     1    version        6
     2     1    kind           see PacketKind
     3     1    seal           0: plain, and the packet ends in a checksum. Otherwise a key number: the body
                               is encrypted and the packet ends in a tag of 16 bytes. Every size below
                               leaves room for that tag.
     4     4    digest         of the configuration: strangers and other clusters are refused
     8     2    sender         daemon number
    10     2    receiver       daemon number; EVERYBODY: all members of the sender's ring
    12     4    incarnation    of the sender's process
    16     8    view           the daemon view to whose links the packet belongs; 0: none (BEAT, PROPOSAL)
    24     8    counter        of the sending process, from 1: no two of its datagrams have the same one
    32     8    number         DATA: place on this link, from 1. ACK: 1 asks for an answer. Others: 0
    40          body
    end-4  4    check          CRC-32 (that of zlib) of everything before it

The checksum of UDP has 16 bits, and not every path computes it: a packet that was changed on its way is
dropped, which the links repair like any other loss.

The counter will be the nonce of a seal. So a packet that is sent again gets a new one, and with it a new
checksum; copies of one datagram for several receivers are the same bytes and share it. The counters of a
train's packets are consecutive. Receivers do not check it yet.

HELLO body: sender's clock (8), the last clock value that the receiver sent (8). ACK body: aru (8), highest
number sent (8), how long ago the newest packet came, in microseconds (4). NACK body: aru (8), count (2),
count x (first number (8), how many (4)). BEAT and PROPOSAL bodies: see `membership`; TOKEN, HURRY and HELD
bodies: see `token`.

DATA and UNRELIABLE bodies are items: type (1), flags (1), length of what follows (2), then

    FRAGMENT  offset (4), source (2), zero (2), bundle bytes in all (4), bundle number (8),
              destinations (8), bytes
    UPDATE    source (2), zero (2), serial (4), number (8), lts (8), aru (8)
    SKIP      source (2), zero (2), first number (8), last number (8), lts (8), aru (8)
    PRESSURE  source (2), daemon (2), serial (4), count (2), count x (session number (4), length of its
              name (1), name)

A source is a segment of the view, named by the number of its first daemon: the bundles of all its daemons are
numbered together.

A train is what the kernel sends or receives in one call: packets of equal size back to back, only the last
may be shorter. A train whose packets carry consecutive numbers and one bundle's consecutive bytes is parsed
as a whole, so that its cost does not grow with a Python loop per packet.

Follows: Spread paper 3.1 (several objects in a packet, packets as full as possible), paper 3.2 and thesis 4.3
(data, acks and nacks of the Hop protocol), thesis 6.1.2 (messages of the membership). All of them leave the
layout open.
Deviations: what paper 3.2 calls aggregated control information are UPDATE and SKIP items; nacks carry ranges
and the aru; HELLO, HURRY, HELD, PRESSURE and the probes are our own.
"""

from collections.abc import Iterable
from enum import IntEnum
from itertools import repeat
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket

MAGIC = 0xA7
VERSION = 6
SEAL_TAG_BYTES = 16

_PREFIX = Layout("!BBBBIHHIQ")
_PREFIX_BYTES = _PREFIX.size
_NUMBERS = Layout("!QQ")
_COUNTER = Layout("!Q")
_COUNTER_END = _PREFIX_BYTES + _COUNTER.size
_HEAD = Layout("!BBBBIHHIQQQ")
HEAD_BYTES = _HEAD.size
_CHECK = Layout("!I")
_CHECK_PACK = _CHECK.pack
CHECK_BYTES = _CHECK.size
assert CHECK_BYTES <= SEAL_TAG_BYTES, "a packet with a tag has no checksum, and must not be longer"
_ITEM = Layout("!BBH")
ITEM_BYTES = _ITEM.size
_FRAGMENT = Layout("!IHHIQQ")
FRAGMENT_BYTES = _FRAGMENT.size
_UPDATE = Layout("!HHIQQQ")
_SKIP = Layout("!HHQQQQ")
_PRESSURE = Layout("!HHIH")
_SLOW = Layout("!IB")
_HELLO = Layout("!QQ")
_ACK = Layout("!QQI")
_NACK = Layout("!QH")
_RANGE = Layout("!QI")
# A fragment packet's start, cut so that what differs between packets of a train stands alone.
_TRAIN_PARTS = "!24sQQ4sI24s"
_TRAIN_PACK = Layout(_TRAIN_PARTS).pack
FRAGMENT_PACKET_BYTES = HEAD_BYTES + ITEM_BYTES + FRAGMENT_BYTES
_FRAGMENT_REST = Layout("!HHIQQ")
assert HEAD_BYTES == 40 and Layout(_TRAIN_PARTS).size == FRAGMENT_PACKET_BYTES == 72

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
    """A member of a ring wants the token from the one that keeps it."""
    HELD = 10
    """Nothing is to be done on a ring: the sender keeps the token for a while."""
    PROBE = 11
    """Sent by multicast: does it get through? Never seen by the protocols."""
    PROBED = 12
    """The answer to a probe, sent by unicast."""


class ItemType(IntEnum):
    """What stands in the body of a data packet."""

    FRAGMENT = 1
    UPDATE = 2
    SKIP = 3
    PRESSURE = 4


# Plain numbers for the tests that every packet goes through: an enum's member costs a look-up each time.
_CARRYING = (int(PacketKind.DATA), int(PacketKind.UNRELIABLE))
_DATA = int(PacketKind.DATA)
_KIND_AT = 2
_LOOSE = tuple(
    int(kind)
    for kind in (
        PacketKind.BEAT, PacketKind.PROPOSAL, PacketKind.TOKEN, PacketKind.HURRY, PacketKind.HELD,
        PacketKind.PROBE, PacketKind.PROBED,
    )
)  # fmt: skip
_FRAGMENT_TYPE = int(ItemType.FRAGMENT)


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


class Fragment(Struct, frozen=True):
    """Consecutive bytes of one bundle: a piece, or the whole of it."""

    source: int
    number: int
    destinations: int
    total: int
    offset: int
    body: bytes | bytearray | memoryview


class Update(Struct, frozen=True):
    """A segment's word on where it stands: all its bundles up to `number` are out, its next one is later than
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


class Pressure(Struct, frozen=True):
    """The sessions of one daemon that do not keep up with their output: whoever sends to them is to wait.

    It is valid for `limits.PRESSURE_VALID_US`, or until one with a greater serial comes.
    """

    source: int
    """The segment of the daemon, along whose tree this travels."""
    daemon: int
    serial: int
    sessions: tuple[tuple[int, str], ...]
    """(session number, the session's part of its private name), at most `limits.PRESSURE_SESSIONS_MAX`."""


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


class Ack(Struct, frozen=True):
    """Everything up to `aru` came; `highest_sent` lets the other side notice what it never got."""

    head: Head
    aru: int
    highest_sent: int
    delay_us: int


class Nack(Struct, frozen=True):
    """Everything up to `aru` came; the ranges did not, and are asked for again."""

    head: Head
    aru: int
    ranges: list[tuple[int, int]]
    """(first number, how many)"""


class Loose(Struct, frozen=True):
    """A packet whose body is read elsewhere: of the membership, or a ring's token and what is said of it."""

    head: Head
    body: bytes


Packet = Hello | Data | Ack | Nack | Loose


# Writing --------------------------------------------------------------------------------------------------


def capacity(packet_bytes: int) -> int:
    """Bytes of items that a data packet of `packet_bytes` holds, beside the room for a tag or checksum."""
    return packet_bytes - HEAD_BYTES - SEAL_TAG_BYTES


def prefix(
    kind: PacketKind, *, digest: int, sender: int, receiver: int, incarnation: int, view: int = 0
) -> bytes:
    """The part of the head that a link writes once and for all."""
    return _PREFIX.pack(MAGIC, VERSION, kind, 0, digest, sender, receiver, incarnation, view)


def is_data(start: bytes | memoryview) -> bool:
    """Whether a packet that starts with these bytes, at least three, has a place on its link."""
    return start[_KIND_AT] == _DATA


def head(prefix: bytes, number: int = 0, *, counter: int) -> bytes:
    """The whole head of one packet."""
    return prefix + _NUMBERS.pack(counter, number)


def check(buffers: Iterable[bytes | memoryview]) -> bytes:
    """What a packet that begins with these buffers ends in."""
    found = 0
    for buffer in buffers:
        found = crc32(buffer, found)
    return _CHECK_PACK(found)


def whole(prefix: bytes, body: bytes = b"", number: int = 0, *, counter: int) -> bytes:
    """A packet: head, body and checksum."""
    data = head(prefix, number, counter=counter) + body
    return data + _CHECK_PACK(crc32(data))


def again(sent: bytes, counter: int) -> bytes:
    """A packet that was sent before as a new datagram: all the same but for its counter."""
    data = sent[:_PREFIX_BYTES] + _COUNTER.pack(counter) + sent[_COUNTER_END:-CHECK_BYTES]
    return data + _CHECK_PACK(crc32(data))


def fragment_train(
    prefix: bytes, first_number: int, fragment: Fragment, start: int, step: int, count: int, *, counter: int
) -> list[bytes | memoryview]:
    """`count` packets, each with the next `step` bytes of `fragment` from `start` on, as buffers in order.

    Their counters are `counter` and those that follow it.
    """
    rest = _FRAGMENT_REST.pack(fragment.source, 0, fragment.total, fragment.number, fragment.destinations)
    item = _ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + step)
    begin = fragment.offset + start
    body = memoryview(fragment.body)
    starts = list(
        map(
            _TRAIN_PACK,
            repeat(prefix),
            range(counter, counter + count),
            range(first_number, first_number + count),
            repeat(item),
            range(begin, begin + step * count, step),
            repeat(rest),
        )
    )
    bodies = [body[at : at + step] for at in range(start, start + step * count, step)]
    buffers: list[bytes | memoryview] = [b""] * (3 * count)
    buffers[0::3] = starts
    buffers[1::3] = bodies
    buffers[2::3] = map(_CHECK_PACK, map(crc32, bodies, map(crc32, starts)))
    return buffers


def fragment_item(fragment: Fragment, start: int, end: int) -> list[bytes | memoryview]:
    """Bytes `start` to `end` of `fragment` as one item."""
    return [
        _ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + end - start)
        + _FRAGMENT.pack(
            fragment.offset + start, fragment.source, 0,
            fragment.total, fragment.number, fragment.destinations,
        ),
        memoryview(fragment.body)[start:end],
    ]  # fmt: skip


def update_item(update: Update) -> bytes:
    """`update` as one item."""
    return _ITEM.pack(ItemType.UPDATE, 0, _UPDATE.size) + _UPDATE.pack(
        update.source,
        0,
        update.serial,
        update.number,
        update.lts,
        update.aru,
    )


def skip_item(skip: Skip) -> bytes:
    """`skip` as one item."""
    return _ITEM.pack(ItemType.SKIP, 0, _SKIP.size) + _SKIP.pack(
        skip.source, 0, skip.first, skip.last, skip.lts, skip.aru
    )


def pressure_item(pressure: Pressure) -> bytes:
    """`pressure` as one item."""
    body = b"".join(
        (
            _PRESSURE.pack(pressure.source, pressure.daemon, pressure.serial, len(pressure.sessions)),
            *(_SLOW.pack(number, len(name)) + name.encode() for number, name in pressure.sessions),
        )
    )
    return _ITEM.pack(ItemType.PRESSURE, 0, len(body)) + body


UPDATE_ITEM_BYTES = ITEM_BYTES + _UPDATE.size
SKIP_ITEM_BYTES = ITEM_BYTES + _SKIP.size
FRAGMENT_ITEM_BYTES = ITEM_BYTES + FRAGMENT_BYTES


def hello(prefix: bytes, clock_us: int, echo_us: int, *, counter: int) -> bytes:
    """A whole HELLO packet."""
    return whole(prefix, _HELLO.pack(clock_us, echo_us), counter=counter)


def ack(
    prefix: bytes, aru: int, highest_sent: int, delay_us: int, question: bool = False, *, counter: int
) -> bytes:
    """A whole ACK packet; a `question` asks the receiver to answer with one of its own."""
    return whole(prefix, _ACK.pack(aru, highest_sent, delay_us), 1 if question else 0, counter=counter)


def nack(prefix: bytes, aru: int, ranges: list[tuple[int, int]], *, counter: int) -> bytes:
    """A whole NACK packet; the caller keeps to limits.NACK_RANGES_MAX ranges."""
    packed = b"".join(_RANGE.pack(first, count) for first, count in ranges)
    return whole(prefix, _NACK.pack(aru, len(ranges)) + packed, counter=counter)


# Reading --------------------------------------------------------------------------------------------------

_train_layouts: dict[int, Layout] = {}


def parse_train(data: memoryview, segment_bytes: int) -> list[Packet | BadPacket]:
    """Every packet of a datagram (`segment_bytes` >= its size) or of a train, in order.

    What cannot be read stands as a BadPacket in its place: the packets beside it still count.
    """
    size = len(data)
    if size <= segment_bytes:
        return [_read(data)]
    if segment_bytes <= 0:
        return [BadPacket("train: impossible packet size")]
    count = size // segment_bytes
    at = 0
    found: list[Packet | BadPacket] = []
    if count > 1 and FRAGMENT_PACKET_BYTES + CHECK_BYTES < segment_bytes <= limits.PACKET_MAX_BYTES:
        merged = _parse_fragment_train(data[: count * segment_bytes], segment_bytes, count)
        if merged is not None:
            found.append(merged)
            at = count * segment_bytes
    while at < size:
        found.append(_read(data[at : at + segment_bytes]))
        at += segment_bytes
    return found


def _read(data: memoryview) -> Packet | BadPacket:
    try:
        return parse(data)
    except BadPacket as error:
        return error


def parse(data: memoryview) -> Packet:
    """The packet in one datagram; BadPacket with a reason otherwise."""
    end = len(data) - CHECK_BYTES
    if end < HEAD_BYTES:
        raise BadPacket("packet: too short")
    (
        magic, version, kind, seal, digest, sender, receiver, incarnation, view, counter, number,
    ) = _HEAD.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        raise BadPacket("packet: not ours")
    if version != VERSION:
        raise BadPacket("packet: unknown version")
    if seal != 0:
        raise BadPacket("packet: sealed")
    if crc32(data[:end]) != _CHECK.unpack_from(data, end)[0]:
        raise BadPacket("packet: checksum")
    packet_head = Head(kind, digest, sender, receiver, incarnation, view, counter, number)
    if kind in _CARRYING:
        return Data(packet_head, 1, _parse_items(data, end), len(data))
    body = data[HEAD_BYTES:end]
    if kind == PacketKind.ACK and len(body) == _ACK.size:
        return Ack(packet_head, *_ACK.unpack(body))
    if kind == PacketKind.HELLO and len(body) == _HELLO.size:
        return Hello(packet_head, *_HELLO.unpack(body))
    if kind == PacketKind.NACK and len(body) >= _NACK.size:
        return _parse_nack(packet_head, body)
    if kind in _LOOSE:
        return Loose(packet_head, bytes(body))
    raise BadPacket("packet: unknown kind or wrong size")


def _parse_nack(packet_head: Head, body: memoryview) -> Nack:
    aru, count = _NACK.unpack_from(body)
    if count > limits.NACK_RANGES_MAX or len(body) != _NACK.size + count * _RANGE.size:
        raise BadPacket("nack: wrong size")
    return Nack(packet_head, aru, list(_RANGE.iter_unpack(body[_NACK.size :])))


def _parse_items(data: memoryview, end: int) -> list[Item]:
    items: list[Item] = []
    at = HEAD_BYTES
    while at < end:
        if at + ITEM_BYTES > end:
            raise BadPacket("item: cut short")
        kind, _flags, length = _ITEM.unpack_from(data, at)
        at += ITEM_BYTES
        if at + length > end:
            raise BadPacket("item: longer than its packet")
        if kind == _FRAGMENT_TYPE:
            items.append(_parse_fragment(data, at, length))
        elif kind == ItemType.UPDATE and length == _UPDATE.size:
            source, _zero, serial, number, lts, aru = _UPDATE.unpack_from(data, at)
            _check_counters(number, lts, aru)
            items.append(Update(source, serial, number, lts, aru))
        elif kind == ItemType.SKIP and length == _SKIP.size:
            source, _zero, first, last, lts, aru = _SKIP.unpack_from(data, at)
            if not 0 < first <= last:
                raise BadPacket("skip: empty range")
            _check_counters(last, lts, aru)
            items.append(Skip(source, first, last, lts, aru))
        elif kind == ItemType.PRESSURE and length >= _PRESSURE.size:
            items.append(_parse_pressure(bytes(data[at : at + length])))
        else:
            raise BadPacket("item: unknown type or wrong size")
        at += length
    return items


def _parse_pressure(body: bytes) -> Pressure:
    source, daemon, serial, count = _PRESSURE.unpack_from(body)
    if count > limits.PRESSURE_SESSIONS_MAX:
        raise BadPacket("pressure: too many sessions")
    sessions = []
    at = _PRESSURE.size
    for _ in range(count):
        if at + _SLOW.size > len(body):
            raise BadPacket("pressure: cut short")
        number, length = _SLOW.unpack_from(body, at)
        name = body[at + _SLOW.size : at + _SLOW.size + length]
        at += _SLOW.size + length
        if not 0 < length <= limits.SESSION_NAME_MAX_BYTES or not name.isascii():
            raise BadPacket("pressure: impossible name")
        sessions.append((number, name.decode()))
    if at != len(body):
        raise BadPacket("pressure: wrong size")
    return Pressure(source, daemon, serial, tuple(sessions))


def _check_counters(number: int, lts: int, aru: int) -> None:
    """What no honest daemon can have counted up to would make ours run over."""
    if number > limits.COUNTER_MAX or lts > limits.COUNTER_MAX or aru > limits.COUNTER_MAX:
        raise BadPacket("item: impossible counter")


def _parse_fragment(data: memoryview, at: int, length: int) -> Fragment:
    size = length - FRAGMENT_BYTES
    if size <= 0:
        raise BadPacket("fragment: empty")
    offset, source, _zero, total, number, destinations = _FRAGMENT.unpack_from(data, at)
    if total > limits.BUNDLE_MAX_BYTES or offset + size > total:
        raise BadPacket("fragment: outside its bundle")
    if not 0 < number <= limits.COUNTER_MAX:
        raise BadPacket("fragment: impossible number")
    body = bytes(data[at + FRAGMENT_BYTES : at + length])
    return Fragment(source, number, destinations, total, offset, body)


def _parse_fragment_train(data: memoryview, segment_bytes: int, count: int) -> Data | None:
    """The whole train as one Data if its packets continue one another exactly; None to parse one by one."""
    layout = _train_layouts.get(segment_bytes)
    if layout is None:
        if len(_train_layouts) >= 256:
            _train_layouts.clear()
        layout = Layout(f"{_TRAIN_PARTS}{segment_bytes - FRAGMENT_PACKET_BYTES - CHECK_BYTES}xI")
        _train_layouts[segment_bytes] = layout
    prefixes, counters, numbers, items, offsets, rests, checks = zip(*layout.iter_unpack(data), strict=True)
    end = segment_bytes - CHECK_BYTES
    step = end - FRAGMENT_PACKET_BYTES
    if (
        prefixes.count(prefixes[0]) != count
        or rests.count(rests[0]) != count
        or items.count(_ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + step)) != count
        or counters != tuple(range(counters[0], counters[0] + count))
        or numbers != tuple(range(numbers[0], numbers[0] + count))
        or offsets != tuple(range(offsets[0], offsets[0] + step * count, step))
        or checks != tuple(map(crc32, [data[at : at + end] for at in range(0, len(data), segment_bytes)]))
    ):
        return None
    magic, version, kind, seal, digest, sender, receiver, incarnation, view = _PREFIX.unpack(prefixes[0])
    source, _zero, total, number, destinations = _FRAGMENT_REST.unpack(rests[0])
    well_formed = (
        (magic, version, seal) == (MAGIC, VERSION, 0)
        and kind in (PacketKind.DATA, PacketKind.UNRELIABLE)
        and total <= limits.BUNDLE_MAX_BYTES
        and offsets[0] + step * count <= total
        and 0 < number <= limits.COUNTER_MAX
    )
    if not well_formed:
        return None
    body = b"".join([data[at : at + step] for at in range(FRAGMENT_PACKET_BYTES, len(data), segment_bytes)])
    packet_head = Head(kind, digest, sender, receiver, incarnation, view, counters[0], numbers[0])
    fragment = Fragment(source, number, destinations, total, offsets[0], body)
    return Data(packet_head, count, [fragment], len(data))


def split(data: Data) -> list[Data]:
    """The packets that `data` stands for, one by one: the inverse of reading a train as a whole."""
    if data.count == 1:
        return [data]
    (fragment,) = data.items
    assert isinstance(fragment, Fragment)
    step = len(fragment.body) // data.count
    first = data.head
    return [
        Data(
            Head(
                first.kind, first.digest, first.sender, first.receiver, first.incarnation, first.view,
                first.counter + index, first.number + index,
            ),
            1,
            [
                Fragment(
                    fragment.source, fragment.number, fragment.destinations, fragment.total,
                    fragment.offset + index * step, fragment.body[index * step : (index + 1) * step],
                )
            ],
            data.size_bytes // data.count,
        )
        for index in range(data.count)
    ]  # fmt: skip
