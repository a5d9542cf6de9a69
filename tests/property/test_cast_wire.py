"""Any bytes are a packet of a cast or a named fault; packets survive the wire; none upsets an edge."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.edge.node import EdgeNode
from antiphon.core.sealing.casts import CastSealing
from antiphon.core.sealing.keys import SECRET_BYTES
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
def test_any_bytes_are_a_packet_or_a_named_fault(data: bytes, is_ours: bool) -> None:
    if is_ours:
        data = b"\xac\x01" + data
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
    told = edges.Cast("lan", 9, bytes(SECRET_BYTES))
    seal = CastSealing(Random(8).randbytes).seal(told)
    node = EdgeNode(
        "e1",
        ["a0"],
        incarnation=7,
        now_us=now_us,
        settings=Settings(),
        casts_at="lan",
        chance=Random(7).randbytes,
    )
    node.settle(now_us)
    (dial,) = node.dials
    node.dialled(dial.link, now_us)
    said: list[frames.ToEdge] = [
        edges.Attached(frames.PROTOCOL_VERSION, "e9", "d1", ("e9",), 1 << 20, 500_000),
        edges.Part(10),
        told,
    ]
    for value in [*said, *([edges.OnCast(1, 500)] if is_cast else [])]:
        frame = frames.encode_control(value)
        node.heard(dial.link, frame[4], memoryview(frame), now_us)
    for packet in sent:
        now_us += 3_000
        node.cast(seal.encode(packet), now_us)
        node.settle(now_us)
        due_us = node.next_deadline_us()
        if due_us is not None and due_us <= now_us:
            node.timeout(now_us)
        node.settle(now_us)
    assert node.hearing.repairs.size_bytes <= limits.CAST_KEEP_BYTES
    assert len(node.hearing._missing) <= limits.CAST_AHEAD_PACKETS
