"""Trains: packets that the kernel sends or receives in one call.

They have one size and stand back to back; only the last may be shorter. If the packets of a train have
consecutive counters and numbers and one bundle's consecutive bytes, the train is written and read as a whole,
so that its cost does not grow with a Python loop per packet.

The papers know no trains; that packets are as full as possible is from Spread paper 3.1.
"""

from itertools import repeat
from struct import Struct as Layout
from zlib import crc32

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire.packet import (
    CHECK,
    CHECK_BYTES,
    FRAGMENT_BYTES,
    HEAD_BYTES,
    ITEM,
    ITEM_BYTES,
    MAGIC,
    PREFIX,
    SEAL_AT,
    VERSION,
    Data,
    Fragment,
    Head,
    ItemType,
    Packet,
    PacketKind,
    parse,
)

# A fragment packet's start, cut so that what differs between packets of a train stands alone.
_TRAIN_PARTS = "!24sQQ4sI24s"
_TRAIN_PACK = Layout(_TRAIN_PARTS).pack
_CHECK_PACK = CHECK.pack
_NO_CHECK = bytes(CHECK_BYTES)
FRAGMENT_PACKET_BYTES = HEAD_BYTES + ITEM_BYTES + FRAGMENT_BYTES
_FRAGMENT_REST = Layout("!HHIQQ")
_COUNTER_AT = PREFIX.size
_FRAGMENT_PARTS = Layout("!4sI24s")
_FRAGMENT_BYTES = _FRAGMENT_PARTS.size
assert _FRAGMENT_BYTES == ITEM_BYTES + FRAGMENT_BYTES
_REST_AT = FRAGMENT_PACKET_BYTES - _FRAGMENT_REST.size
"""From here on the head of a fragment is the same in all packets of one bundle."""
assert Layout(_TRAIN_PARTS).size == FRAGMENT_PACKET_BYTES == 72


def fragment_train(
    prefix: bytes, first_number: int, fragment: Fragment, start: int, step: int, count: int, *, counter: int
) -> list[bytes | memoryview]:
    """`count` packets, each with the next `step` bytes of `fragment` from `start` on, as buffers in order.

    Their counters are `counter` and those that follow it.
    """
    rest = _FRAGMENT_REST.pack(fragment.source, 0, fragment.total, fragment.number, fragment.destinations)
    item = ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + step)
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
    if prefix[SEAL_AT]:
        buffers[2::3] = repeat(_NO_CHECK, count)
    else:
        buffers[2::3] = map(_CHECK_PACK, map(crc32, bodies, map(crc32, starts)))
    return buffers


# Reading --------------------------------------------------------------------------------------------------

_train_layouts: dict[int, Layout] = {}


def parse_train(data: memoryview, stride_bytes: int) -> list[Packet | BadPacket]:
    """Every packet of a datagram (`stride_bytes` >= its size) or of a train, in order.

    What cannot be read stands as a BadPacket in its place: the packets beside it still count.
    """
    size = len(data)
    if size <= stride_bytes:
        return [_read(data)]
    if stride_bytes <= 0:
        return [BadPacket("train: impossible packet size")]
    count = size // stride_bytes
    at = 0
    found: list[Packet | BadPacket] = []
    if count > 1 and FRAGMENT_PACKET_BYTES + CHECK_BYTES < stride_bytes <= limits.PACKET_MAX_BYTES:
        merged = _parse_fragment_train(data[: count * stride_bytes], stride_bytes, count)
        if merged is not None:
            found.append(merged)
            at = count * stride_bytes
    while at < size:
        found.append(_read(data[at : at + stride_bytes]))
        at += stride_bytes
    return found


def _read(data: memoryview) -> Packet | BadPacket:
    try:
        return parse(data)
    except BadPacket as error:
        return error


def _parse_fragment_train(data: memoryview, stride_bytes: int, count: int) -> Data | None:
    """The whole train as one Data if its packets continue one another exactly; None to parse one by one."""
    step = stride_bytes - CHECK_BYTES - FRAGMENT_PACKET_BYTES
    item = ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + step)
    if data[HEAD_BYTES : HEAD_BYTES + ITEM_BYTES] != item or (
        data[_REST_AT:FRAGMENT_PACKET_BYTES]
        != data[stride_bytes + _REST_AT : stride_bytes + FRAGMENT_PACKET_BYTES]
    ):
        return None  # small bundles, as a look at the first two packets shows
    layout = _train_layouts.get(stride_bytes)
    if layout is None:
        if len(_train_layouts) >= 256:
            _train_layouts.clear()
        layout = Layout(f"{_TRAIN_PARTS}{stride_bytes - FRAGMENT_PACKET_BYTES - CHECK_BYTES}xI")
        _train_layouts[stride_bytes] = layout
    prefixes, counters, numbers, items, offsets, rests, checks = zip(*layout.iter_unpack(data), strict=True)
    end = stride_bytes - CHECK_BYTES
    if (
        prefixes.count(prefixes[0]) != count
        or rests.count(rests[0]) != count
        or items.count(item) != count
        or counters != tuple(range(counters[0], counters[0] + count))
        or numbers != tuple(range(numbers[0], numbers[0] + count))
        or offsets != tuple(range(offsets[0], offsets[0] + step * count, step))
        or checks != tuple(map(crc32, [data[at : at + end] for at in range(0, len(data), stride_bytes)]))
    ):
        return None
    magic, version, kind, seal, digest, sender, receiver, incarnation, view = PREFIX.unpack(prefixes[0])
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
    body = b"".join([data[at : at + step] for at in range(FRAGMENT_PACKET_BYTES, len(data), stride_bytes)])
    packet_head = Head(kind, digest, sender, receiver, incarnation, view, counters[0], numbers[0])
    fragment = Fragment(source, number, destinations, total, offsets[0], body)
    return Data(packet_head, count, [fragment], len(data))


_sealed_layouts: dict[int, Layout] = {}


def continuing_head(data: memoryview, stride_bytes: int, count: int) -> Head | None:
    """The head of the first packet of a sealed train, if those of the others continue it: with the next
    counters and numbers, and otherwise the same."""
    layout = _sealed_layouts.get(stride_bytes)
    if layout is None:
        if len(_sealed_layouts) >= 256:
            _sealed_layouts.clear()
        layout = _sealed_layouts[stride_bytes] = Layout(f"!24sQQ{stride_bytes - HEAD_BYTES}x")
    prefixes, counters, numbers = zip(*layout.iter_unpack(data), strict=True)
    if (
        prefixes.count(prefixes[0]) != count
        or counters != tuple(range(counters[0], counters[0] + count))
        or numbers != tuple(range(numbers[0], numbers[0] + count))
    ):
        return None
    _, _, kind, _, digest, sender, receiver, incarnation, view = PREFIX.unpack(prefixes[0])
    return Head(kind, digest, sender, receiver, incarnation, view, counters[0], numbers[0])


def numbered(data: memoryview, stride_bytes: int) -> list[bytes]:
    """The counter and the number of each packet of a train, as they stand there."""
    raw = bytes(data)
    at, end = _COUNTER_AT, HEAD_BYTES
    return [raw[place + at : place + end] for place in range(0, len(raw), stride_bytes)]


def opened_train(first: Head, bodies: list[bytes], size_bytes: int) -> Data | None:
    """The packets with these bodies, which were sealed, as one Data if they continue one another exactly;
    None to parse them one by one. `first` is the head of the first of them."""
    count = len(bodies)
    step = len(bodies[0]) - _FRAGMENT_BYTES
    if step <= 0 or first.kind not in (PacketKind.DATA, PacketKind.UNRELIABLE):
        return None
    items, offsets, rests = zip(*map(_FRAGMENT_PARTS.unpack_from, bodies), strict=True)
    offset = offsets[0]
    source, _zero, total, number, destinations = _FRAGMENT_REST.unpack(rests[0])
    if (
        items.count(ITEM.pack(ItemType.FRAGMENT, 0, FRAGMENT_BYTES + step)) != count
        or offsets != tuple(range(offset, offset + step * count, step))
        or rests.count(rests[0]) != count
        or set(map(len, bodies)) != {len(bodies[0])}
        or total > limits.BUNDLE_MAX_BYTES
        or offset + step * count > total
        or not 0 < number <= limits.COUNTER_MAX
    ):
        return None
    body = b"".join([one[_FRAGMENT_BYTES:] for one in bodies])
    return Data(first, count, [Fragment(source, number, destinations, total, offset, body)], size_bytes)


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
