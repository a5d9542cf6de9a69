"""Any bytes are a value or a BadPacket/BadFrame; values survive the wire; a train reads as its packets do."""

import string
from collections.abc import Callable
from functools import partial
from itertools import accumulate, product

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from antiphon import limits
from antiphon.errors import BadFrame, BadPacket
from antiphon.service import Service
from antiphon.types import Cause, Left, SlowReceiver, TransitionalSignal, View, ViewId
from antiphon.wire import bundle, extensions, frames, packet, trains
from antiphon.wire.extensions import SKIPPABLE, Extension
from antiphon.wire.packet import Data, Fragment, Head, Item, Packet, PacketKind, Pressure, Skip, Update

often = settings(deadline=None, max_examples=200)

u16 = st.integers(0, (1 << 16) - 1)
u32 = st.integers(0, (1 << 32) - 1)
counters = st.integers(0, limits.COUNTER_MAX)
u64 = st.integers(0, (1 << 64) - 1)
at_least_1 = st.integers(1, limits.COUNTER_MAX)
junk = st.binary(max_size=400)
ONE_PACKET = st.integers(1, 200)


# Packets: values and bytes --------------------------------------------------------------------------------


@st.composite
def fragments(draw: st.DrawFn, sizes: st.SearchStrategy[int] = ONE_PACKET) -> Fragment:
    size = draw(sizes)
    offset = draw(st.integers(0, limits.FRAME_MAX_BYTES - size))
    total = draw(st.integers(offset + size, limits.FRAME_MAX_BYTES))
    body = draw(st.binary(min_size=1, max_size=8)) * size
    return Fragment(draw(u16), draw(at_least_1), draw(u64), total, offset, body[:size])


updates = st.builds(Update, u16, u32, counters, counters, counters)
slow_names = st.text(string.ascii_letters, min_size=1, max_size=limits.SESSION_NAME_MAX_BYTES)
pressures = st.builds(
    Pressure,
    u16,
    u16,
    u32,
    st.lists(st.tuples(u32, slow_names), max_size=limits.PRESSURE_SESSIONS_MAX).map(tuple),
)
skips = st.builds(
    lambda source, ends, lts, aru: Skip(source, *sorted(ends), lts, aru),
    u16,
    st.tuples(at_least_1, at_least_1),
    counters,
    counters,
)
items = st.one_of(fragments(), updates, skips, pressures)


@st.composite
def prefixes(draw: st.DrawFn, kind: PacketKind) -> tuple[bytes, Callable[[int, int], Head]]:
    """The fixed part of a head, and the heads that begin with it."""
    digest, sender, receiver, incarnation, view = draw(u32), draw(u16), draw(u16), draw(u32), draw(u64)
    fixed = packet.prefix(
        kind, digest=digest, sender=sender, receiver=receiver, incarnation=incarnation, view=view
    )
    return fixed, lambda counter, number: Head(
        kind, digest, sender, receiver, incarnation, view, counter, number
    )


def item_bytes(item: Item) -> bytes:
    match item:
        case Fragment():
            return b"".join(packet.fragment_item(item, 0, len(item.body)))
        case Update():
            return packet.update_item(item)
        case Skip():
            return packet.skip_item(item)
        case Pressure():
            return packet.pressure_item(item)


@st.composite
def packets(draw: st.DrawFn) -> tuple[bytes, Packet]:
    """A packet of any kind: its bytes, and the value they stand for."""
    kind = draw(st.sampled_from([kind for kind in PacketKind if kind is not PacketKind.INTRODUCTION]))
    fixed, head_of = draw(prefixes(kind))
    counter = draw(u64)
    head = partial(head_of, counter)
    match kind:
        case PacketKind.HELLO:
            clock, echo = draw(u64), draw(u64)
            return packet.hello(fixed, clock, echo, counter=counter), packet.Hello(head(0), clock, echo)
        case PacketKind.ACK:
            aru, highest, delay, question = draw(u64), draw(u64), draw(u32), draw(st.booleans())
            newest, arrived = draw(u64), draw(u64)
            data = packet.ack(
                fixed, aru, highest, delay, question, newest=newest, arrived=arrived, counter=counter
            )
            return data, packet.Ack(head(int(question)), aru, highest, delay, newest, arrived)
        case PacketKind.NACK:
            aru = draw(u64)
            ranges = draw(st.lists(st.tuples(u64, u32), max_size=limits.NACK_RANGES_MAX))
            return packet.nack(fixed, aru, ranges, counter=counter), packet.Nack(head(0), aru, ranges)
        case PacketKind.DATA | PacketKind.UNRELIABLE:
            number, carried = draw(u64), draw(st.lists(items, max_size=5))
            data = packet.whole(fixed, b"".join(map(item_bytes, carried)), number, counter=counter)
            return data, Data(head(number), 1, carried, len(data))
        case PacketKind.PIECE:
            number, body = draw(u64), draw(junk) + b"x"  # no piece is empty
            offset = draw(st.integers(0, limits.PACKET_MAX_BYTES - len(body)))
            total = draw(st.integers(offset + len(body), limits.PACKET_MAX_BYTES))
            start = total.to_bytes(4, "big") + offset.to_bytes(4, "big")
            data = packet.whole(fixed, start + body, number, counter=counter)
            return data, packet.Piece(head(number), total, offset, body)
        case _:
            body = draw(junk)
            return packet.whole(fixed, body, counter=counter), packet.Loose(head(0), body)


def mended(data: bytes, stride_bytes: int) -> bytes:
    """The packets of a train with checksums that fit what they say now."""
    cut = (data[at : at + stride_bytes] for at in range(0, len(data), stride_bytes))
    return b"".join(part[:-4] + packet.check([part[:-4]]) if len(part) >= 4 else part for part in cut)


def one_by_one(data: bytes, stride_bytes: int) -> list[Packet | str]:
    """What the packets of a train say, each read alone; a reason in place of a bad one."""
    results: list[Packet | str] = []
    for at in range(0, len(data), stride_bytes):
        try:
            results.append(packet.parse(memoryview(data)[at : at + stride_bytes]))
        except BadPacket as error:
            results.append(error.reason)
    return results


def as_a_train(data: bytes, stride_bytes: int) -> list[Packet | str]:
    """What a train says, read as the driver hands it over and cut into packets afterwards."""
    results: list[Packet | str] = []
    for found in trains.parse_train(memoryview(data), stride_bytes):
        if isinstance(found, Data):
            results += trains.split(found)
        else:
            results.append(found.reason if isinstance(found, BadPacket) else found)
    return results


@often
@given(packets())
def test_packets_survive_the_wire(pair: tuple[bytes, Packet]) -> None:
    data, value = pair
    assert packet.parse(memoryview(data)) == value
    assert list(trains.parse_train(memoryview(data), len(data))) == [value]


@often
@given(st.binary(max_size=2_000), st.integers(-1, 200_000))
def test_any_bytes_are_packets_or_bad_packets(data: bytes, stride_bytes: int) -> None:
    found = list(trains.parse_train(memoryview(data), stride_bytes))
    assert found
    assert all(isinstance(one, Packet | BadPacket) for one in found)


@often
@example(65_600, 2, b"", b"")
@given(st.integers(1, 70_000), st.integers(1, 3), st.binary(max_size=80), st.binary(max_size=80))
def test_any_packet_size_is_answered(stride_bytes: int, count: int, start: bytes, end: bytes) -> None:
    """Also sizes that no kernel hands over."""
    data = (start + bytes(stride_bytes * count) + end)[: stride_bytes * count]
    assert as_a_train(data, stride_bytes) == one_by_one(data, stride_bytes)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with some bytes changed, a piece cut out, or a piece put in."""
    copy = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        copy[draw(st.integers(0, len(copy) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        begin = draw(st.integers(0, len(copy)))
        copy[begin : begin + draw(st.integers(0, 40))] = draw(st.binary(max_size=40))
    return bytes(copy)


@often
@given(st.data())
def test_damaged_packets_are_packets_or_bad_packets(data: st.DataObject) -> None:
    good, _ = data.draw(packets())
    bad = data.draw(damaged(good))
    if data.draw(st.booleans()):
        bad = mended(bad, max(1, len(bad)))
    for stride_bytes in (max(1, len(bad)), data.draw(st.integers(1, 500))):
        found = list(trains.parse_train(memoryview(bad), stride_bytes))
        assert found
        assert all(isinstance(one, Packet | BadPacket) for one in found)


@often
@given(st.lists(packets(), min_size=1, max_size=6), st.integers(1, 600))
def test_packets_of_any_kind_in_a_row(pairs: list[tuple[bytes, Packet]], stride_bytes: int) -> None:
    data = b"".join(data for data, _ in pairs)
    assert as_a_train(data, stride_bytes) == one_by_one(data, stride_bytes)


# Trains ---------------------------------------------------------------------------------------------------


@st.composite
def fragment_trains(draw: st.DrawFn) -> tuple[list[bytes], int]:
    """The packets of a fragment train, all of one size."""
    kind = draw(st.sampled_from((PacketKind.DATA, PacketKind.UNRELIABLE)))
    fixed, _ = draw(prefixes(kind))
    step, count = draw(st.integers(1, 40) | st.integers(1_000, 1_300)), draw(st.integers(1, 12))
    start = draw(st.integers(0, 50))
    fragment = draw(fragments(sizes=st.just(start + step * count)))
    first, counter = draw(st.integers(0, (1 << 64) - count)), draw(st.integers(0, (1 << 64) - count))
    buffers = trains.fragment_train(fixed, first, fragment, start, step, count, counter=counter)
    joined = b"".join(buffers)
    size = trains.FRAGMENT_PACKET_BYTES + step + packet.CHECK_BYTES
    return [joined[at : at + size] for at in range(0, len(joined), size)], size


@often
@given(fragment_trains())
def test_a_train_is_read_as_a_whole(train: tuple[list[bytes], int]) -> None:
    parts, size = train
    data = b"".join(parts)
    (whole,) = trains.parse_train(memoryview(data), size)
    assert isinstance(whole, Data)
    assert whole.count == len(parts)
    assert whole.size_bytes == len(data)
    assert trains.split(whole) == one_by_one(data, size)


@often
@given(fragment_trains(), packets())
def test_a_train_may_end_in_a_shorter_packet(
    train: tuple[list[bytes], int], last: tuple[bytes, Packet]
) -> None:
    parts, size = train
    data = b"".join(parts) + last[0][: size - 1]
    assert as_a_train(data, size) == one_by_one(data, size)


@often
@given(st.data())
def test_a_train_with_a_fault_is_read_packet_by_packet(data: st.DataObject) -> None:
    """Damaged, missing, doubled, swapped, from elsewhere: the others still count, and none is mixed up."""
    parts, size = data.draw(fragment_trains())
    which = st.integers(0, len(parts) - 1)
    one, other = data.draw(which), data.draw(which)
    match data.draw(st.sampled_from(["damaged", "missing", "doubled", "swapped", "foreign"])):
        case "damaged":
            copy = bytearray(parts[one])
            copy[data.draw(st.integers(0, min(size, 60) - 1))] ^= data.draw(st.integers(1, 255))
            parts[one] = bytes(copy)
        case "missing":
            del parts[one]
        case "doubled":
            parts.insert(one, parts[other])
        case "swapped":
            parts[one], parts[other] = parts[other], parts[one]
        case _:
            foreign, _ = data.draw(packets())
            parts[one] = foreign.ljust(size, b"\0")[:size]
    joined = b"".join(parts)
    if data.draw(st.booleans()):
        joined = mended(joined, size)
    if joined:
        assert as_a_train(joined, size) == one_by_one(joined, size)


def test_every_byte_of_the_start_of_a_packet_counts() -> None:
    """In one packet of a train, and in all of them alike."""
    fixed = packet.prefix(PacketKind.DATA, digest=1, sender=2, receiver=3, incarnation=4)
    fragment = Fragment(source=1, number=1, destinations=1, total=31, offset=1, body=bytes(range(30)))
    train = b"".join(trains.fragment_train(fixed, 7, fragment, 0, 10, 3, counter=9))
    size = len(train) // 3
    for offset, change in product(range(trains.FRAGMENT_PACKET_BYTES), (1, 2, 3, 6, 0x80, 0xFF)):
        for which in ((0,), (1,), (2,), (0, 1, 2)):
            changed = bytearray(train)
            for index in which:
                changed[index * size + offset] ^= change
            for damaged_train in (bytes(changed), mended(bytes(changed), size)):
                assert as_a_train(damaged_train, size) == one_by_one(damaged_train, size), (
                    offset,
                    change,
                    which,
                )


def test_a_flipped_bit_anywhere_costs_the_packet_and_no_other() -> None:
    fixed = packet.prefix(PacketKind.DATA, digest=1, sender=2, receiver=3, incarnation=4)
    fragment = Fragment(source=1, number=1, destinations=1, total=31, offset=1, body=bytes(range(30)))
    train = b"".join(trains.fragment_train(fixed, 7, fragment, 0, 10, 3, counter=9))
    size = len(train) // 3
    first, _, third = one_by_one(train, size)
    for bit in range(8 * size):
        changed = bytearray(train)
        changed[size + bit // 8] ^= 1 << bit % 8
        found = as_a_train(bytes(changed), size)
        assert [found[0], found[2]] == [first, third]
        assert isinstance(found[1], str), bit
        if bit // 8 not in (0, 1, 3):  # magic, version and seal are looked at before
            assert found[1] == "packet: checksum"


# Bundles --------------------------------------------------------------------------------------------------

names = st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), min_size=1, max_size=31)
extended = st.just(()) | st.dictionaries(
    st.integers(SKIPPABLE, 0xFFFF), st.binary(max_size=40), max_size=4
).map(lambda values: tuple(Extension(type_, values[type_]) for type_ in sorted(values)))
"""Extensions that every receiver may skip."""
many_payloads = st.lists(st.binary(max_size=40), min_size=1, max_size=12)


@st.composite
def bundles(draw: st.DrawFn) -> tuple[bytes, bundle.Header, list[bytes]]:
    """A stamped bundle: its bytes, its header and its messages."""
    area = bundle.names_area(draw(names), groups := draw(st.lists(names, min_size=1, max_size=5)))
    service, flags = draw(st.sampled_from(Service)), draw(st.sampled_from((0, 1)))
    tag, sent_us = draw(st.integers(-(1 << 15), (1 << 15) - 1)), draw(u64)
    others = 0xFF80_C0C0  # bits of marks that are neither a service nor forbidden to clients
    marks = draw(st.just(0) | u32.map(lambda bits: bits & others | 1 << service))
    payloads = draw(many_payloads)
    fields = draw(extended)
    data = bytearray().join(
        bundle.encode(
            area, len(groups), service, payloads,
            flags=flags, tag=tag, sent_us=sent_us, marks=marks, extensions=fields,
        )
    )  # fmt: skip
    daemon, session, incarnation = draw(u16), draw(u32), draw(u32)
    sequence, number, previous, lts, aru = (draw(counters) for _ in range(5))
    destinations = draw(u64)
    bundle.stamp(
        data,
        msgspec.structs.replace(
            bundle.parse(data),
            daemon=daemon,
            session=session,
            incarnation=incarnation,
            sequence=sequence,
            number=number,
            previous=previous,
            lts=lts,
            aru=aru,
            destinations=destinations,
        ),
    )
    header = bundle.Header(
        len(data), service, flags, area, len(payloads), tag, daemon, session, incarnation,
        sequence, number, previous, lts, aru, destinations, sent_us, marks, fields,
    )  # fmt: skip
    return bytes(data), header, payloads


@often
@given(bundles())
def test_bundles_survive_the_wire(made: tuple[bytes, bundle.Header, list[bytes]]) -> None:
    data, header, payloads = made
    assert bundle.parse(data) == bundle.parse_from_daemon(bytearray(data)) == header
    assert header.extensions or bundle.parse_from_client(bytearray(data)) == header
    assert bundle.payloads(memoryview(data), header) == payloads
    messages = bundle.decode(data)
    assert [message.payload for message in messages] == payloads
    assert [message.id.sequence for message in messages] == [
        header.sequence + index for index in range(len(payloads))
    ]
    assert (messages[0].sender, *messages[0].groups) == bundle.parse_names(header.names)


def answers(read: Callable[[bytes], object], data: bytes) -> bool:
    """Whether the bytes were read; anything but a value or a BadFrame fails the test."""
    try:
        read(data)
    except BadFrame as error:
        assert 0 < len(error.reason) <= 200
        return False
    return True


def look(data: bytes) -> bundle.Start:
    return bundle.look(data, 200)


BUNDLE_READERS = (bundle.parse, bundle.parse_from_client, bundle.parse_from_daemon, bundle.decode, look)


@often
@given(junk)
def test_any_bytes_are_bundles_or_bad_frames(data: bytes) -> None:
    for read in BUNDLE_READERS:
        answers(read, data)
        answers(lambda view, read=read: read(memoryview(view)), data)  # type: ignore[misc]


@often
@given(st.data())
def test_damaged_bundles_are_bundles_or_bad_frames(data: st.DataObject) -> None:
    good, _, _ = data.draw(bundles())
    bad = data.draw(damaged(good))
    with_its_length = len(bad).to_bytes(4, "big") + bad[4:] if len(bad) >= 4 else bad
    for read in BUNDLE_READERS:
        answers(read, bad)
        answers(read, with_its_length)
    if answers(bundle.parse_from_client, with_its_length):
        assert answers(bundle.decode, with_its_length)


@often
@given(st.lists(st.tuples(u16, st.binary(max_size=20)), max_size=5), st.binary(max_size=5))
def test_extensions_are_read_as_they_were_written_or_refused(
    fields: list[tuple[int, bytes]], rest: bytes
) -> None:
    written = tuple(Extension(type_, value) for type_, value in fields)
    area = extensions.encode(written)
    assert extensions.size_bytes(written) == len(area)
    types = [type_ for type_, _ in fields]
    is_fine = types == sorted(set(types)) and all(type_ & SKIPPABLE for type_ in types)
    assert answers(extensions.parse, area) == is_fine
    if is_fine:
        assert extensions.parse(area) == written
    if answers(extensions.parse, area + rest):
        assert extensions.encode(extensions.parse(area + rest)) == area + rest


@often
@given(junk)
def test_any_bytes_are_extensions_or_bad_frames(data: bytes) -> None:
    if answers(extensions.parse, data):
        assert extensions.encode(extensions.parse(data)) == data


@often
@given(st.binary(max_size=300))
def test_names_are_never_longer_than_a_group_name_may_be(area: bytes) -> None:
    if answers(bundle.parse_names, area):
        assert all(0 < len(name) <= limits.GROUP_NAME_MAX_BYTES for name in bundle.parse_names(area))


# Frames ---------------------------------------------------------------------------------------------------

words = st.text(max_size=20)
view_ids = st.builds(ViewId, u64, u64, u64, u64)
members = st.lists(words, max_size=4).map(tuple)
from_clients: st.SearchStrategy[frames.FromClient] = st.one_of(
    st.builds(
        frames.Connect, u16, words, st.integers(0, 9), st.booleans(), st.booleans(), words, st.booleans()
    ),
    st.builds(frames.Join, words),
    st.builds(frames.Leave, words),
    st.just(frames.Disconnect()),
    st.just(frames.AskStatus()),
)
from_daemons: st.SearchStrategy[frames.FromDaemon] = st.one_of(
    st.builds(frames.Welcome, u16, u32, words, words, u16, u32),
    st.builds(frames.Refuse, words, words),
    st.builds(
        frames.ViewFrame, st.builds(View, words, view_ids, members, members, st.sampled_from(Cause), members)
    ),
    st.builds(frames.SignalFrame, st.builds(TransitionalSignal, words, view_ids)),
    st.builds(frames.LeftFrame, st.builds(Left, words, view_ids)),
    st.builds(frames.Accepted, u64),
    st.builds(frames.Status, st.binary(max_size=40)),
    st.builds(frames.SlowFrame, st.builds(SlowReceiver, u64, u64, u64, words, u64, st.booleans())),
    st.builds(frames.Problem, words, words),
    st.builds(frames.Goodbye, words, words),
)
CONTROL_READERS = (frames.decode_from_client, frames.decode_from_daemon)


@often
@given(from_clients, from_daemons)
def test_control_frames_survive_the_wire(client: frames.FromClient, daemon: frames.FromDaemon) -> None:
    assert frames.decode_from_client(frames.encode_control(client)) == client
    assert frames.decode_from_daemon(memoryview(frames.encode_control(daemon))) == daemon


values = st.recursive(
    st.none() | st.booleans() | u64 | st.floats() | words | st.binary(max_size=10) | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
near_misses = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["connect", "join", "leave", "welcome", "view", "signal", "left", "accepted", "status"]
        )
        | values
    },
    optional={
        "group": values,
        "version": values,
        "name": values,
        "view": values,
        "left": values,
        "signal": values,
        "sequence": values,
        "json": values,
    },
)


spoilt = (
    (from_clients | from_daemons).map(frames.encode_control).flatmap(damaged).map(lambda frame: frame[5:])
)


@often
@given(junk | near_misses.map(msgspec.msgpack.encode) | spoilt)
def test_any_bytes_are_control_frames_or_bad_frames(body: bytes) -> None:
    for read in CONTROL_READERS:
        answers(read, body)
        answers(read, b"\0\0\0\0\2" + body)


def test_text_that_is_not_utf8_nesting_and_long_words_are_bad_frames() -> None:
    start = b"\0\0\0\0\2\x82\xa4type\xa4join"
    for body in (
        start + b"\xa5group\xa2\xff\xff",
        start + b"\xa5other" + b"\x91" * 100_000 + b"\x00",
        b"\0\0\0\0\2" + msgspec.msgpack.encode({"type": "x" * 100_000}),
    ):
        for read in CONTROL_READERS:
            assert not answers(read, body)


@often
@given(junk)
def test_any_bytes_split_into_frames_or_a_bad_frame(data: bytes) -> None:
    try:
        found, taken, needed = frames.split(memoryview(data))
    except BadFrame:
        return
    assert b"".join(frame for _, frame in found) == data[:taken]
    assert needed == 0 or len(data) - taken < needed <= limits.FRAME_MAX_BYTES
    assert needed or len(data) - taken < frames.HEAD_BYTES


@often
@given(
    st.lists(bundles().map(lambda made: made[0]) | from_clients.map(frames.encode_control), max_size=5),
    st.data(),
)
def test_a_stream_is_split_into_its_frames_wherever_it_is_cut(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(sent)
    cut = data.draw(st.integers(0, len(stream)))
    found, taken, needed = frames.split(memoryview(stream)[:cut])
    ends = list(accumulate(map(len, sent), initial=0))
    whole = sum(end <= cut for end in ends) - 1
    assert [bytes(frame) for _, frame in found] == sent[:whole]
    assert taken == ends[whole]
    if cut - taken >= frames.HEAD_BYTES:
        assert needed == len(sent[whole])
    else:
        assert needed == 0
    assert [kind for kind, _ in found] == [frame[4] for frame in sent[:whole]]
