"""Any bytes are a packet of a cast or a named fault; packets survive the wire; none upsets an edge."""

from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.edge.node import EdgeNode
from antiphon.errors import BadPacket
from antiphon.wire import casts, edges, frames
from antiphon.wire.casts import News, Piece, Request

often = settings(deadline=None, max_examples=200)
streams = st.one_of(st.integers(0, (1 << 64) - 1), st.just(9))
numbers = st.one_of(st.integers(1, limits.COUNTER_MAX), st.integers(1, 20))
packets = st.one_of(
    st.builds(Piece, streams, numbers, st.binary(min_size=1, max_size=60), st.booleans()),
    st.builds(
        News, streams, st.integers(0, (1 << 32) - 1), numbers, st.integers(0, (1 << 16) - 1), st.booleans()
    ),
    st.builds(
        Request,
        streams,
        st.integers(0, limits.CAST_DISTANCE_MAX_US),
        st.lists(st.tuples(numbers, st.integers(1, 30)), min_size=1, max_size=limits.CAST_REQUEST_RANGES).map(
            tuple
        ),
    ),
)


@often
@given(packets)
def test_packets_survive_the_wire(packet: casts.Packet) -> None:
    assert casts.decode(casts.encode(packet)) == packet


@often
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_packet_or_a_named_fault(data: bytes, has_checksum: bool) -> None:
    if has_checksum:
        start = (b"\xac\x01" + data[:2]).ljust(4, b"\0")
        data = start + crc32(start + bytes(4) + data[2:]).to_bytes(4, "big") + data[2:]
    try:
        packet = casts.decode(data)
    except BadPacket as error:
        assert error.reason
    else:
        assert casts.encode(packet) == data


@often
@given(st.lists(packets, max_size=20), st.booleans())
def test_no_packet_upsets_an_edge(sent: list[casts.Packet], is_cast: bool) -> None:
    now_us = 1_000_000
    node = EdgeNode("e1", ["a0"], incarnation=7, now_us=now_us, settings=Settings(), casts_at="lan")
    node.settle(now_us)
    (dial,) = node.dials
    node.dialled(dial.link, now_us)
    said: list[frames.ToEdge] = [
        edges.Attached(frames.PROTOCOL_VERSION, "e9", "d1", ("e9",), 1 << 20, 500_000),
        edges.Part(10),
        edges.Cast("lan", 9),
    ]
    for value in [*said, *([edges.OnCast(1, 500)] if is_cast else [])]:
        frame = frames.encode_control(value)
        node.heard(dial.link, frame[4], memoryview(frame), now_us)
    for packet in sent:
        now_us += 3_000
        node.cast(casts.encode(packet), now_us)
        node.settle(now_us)
        due_us = node.next_deadline_us()
        if due_us is not None and due_us <= now_us:
            node.timeout(now_us)
        node.settle(now_us)
    assert node.hearing.repairs.size_bytes <= limits.CAST_KEEP_BYTES
    assert len(node.hearing._missing) <= limits.CAST_AHEAD_PACKETS
