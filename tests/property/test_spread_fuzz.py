"""Whatever bytes come in where Spread is spoken: read as they were meant, or refused with a reason."""

import struct
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import BadFrame
from antiphon.spreadwire import greeting
from antiphon.spreadwire.from_spread import FromSpread
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.types import Message
from antiphon.wire import bundle, frames

often = settings(max_examples=300, deadline=None)

ME = "#ann#d1"
ACTIONS = [1 << bit for bit in (*range(6), 16, 17, 18)]
names = st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), min_size=1, max_size=31)
numbers = st.integers(-(1 << 15), (1 << 15) - 1)


@st.composite
def client_frames(draw: st.DrawFn) -> bytes:
    """A frame that a client may send."""
    order = draw(st.sampled_from("<>"))
    marker = 0x8000_0080 if order == "<" else 0
    kind = draw(st.sampled_from(ACTIONS))
    groups = draw(st.lists(names, min_size=1, max_size=4))
    body = draw(st.binary(max_size=60))
    hint = (draw(numbers) & 0xFFFF) << 8 | marker
    header = struct.pack(order + "I32siIi", kind | marker, ME.encode(), len(groups), hint, len(body))
    return header + b"".join(name.encode().ljust(32, b"\0") for name in groups) + body


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Frames with some bytes changed, or other bytes behind them."""
    data = bytearray(b"".join(draw(st.lists(client_frames(), max_size=4))))
    for _ in range(draw(st.integers(0, 4)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data) + draw(st.binary(max_size=100))


@often
@given(st.one_of(damaged(), st.binary(max_size=300)))
def test_any_bytes_are_frames_or_bad_frames(data: bytes) -> None:
    try:
        found, used, needed = FromSpread(ME).split(data, 0)
    except BadFrame as error:
        assert error.reason
        return
    assert 0 <= used <= len(data)
    assert needed == 0 or len(data) - used < needed <= 48 + 143_952
    for kind, frame in found:
        if kind == frames.FrameKind.BUNDLE:
            bundle.parse_from_client(frame)  # our own daemon takes it
        else:
            frames.decode_from_client(frame)


def told(pieces: list[bytes]) -> list[object]:
    """What a daemon makes of a client's bytes that come in these pieces."""
    from_spread, kept, found = FromSpread(ME), b"", []
    for piece in pieces:
        data = kept + piece
        some, used, _ = from_spread.split(data, 0)
        kept = data[used:]
        found += some
    assert not kept
    made: list[object] = []
    for kind, frame in found:
        if kind == frames.FrameKind.BUNDLE:
            made += map(essence, bundle.decode(bytes(frame)))
        else:
            made.append(frames.decode_from_client(frame))
    return made


def essence(message: Message) -> tuple[object, ...]:
    return message.groups, message.service, message.tag, message.payload


@often
@given(st.lists(client_frames(), min_size=1, max_size=6), st.data())
def test_how_bytes_are_cut_makes_no_difference(sent: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[begin:end] for begin, end in pairwise([0, *cuts, len(whole)])]
    try:
        expected = told(sent)
    except BadFrame:  # to join a name that no group can have
        return
    assert told(pieces) == expected


@often
@given(client_frames())
def test_a_message_comes_out_as_it_came_in(sent: bytes) -> None:
    """But for the order of its own numbers, which is ours."""
    try:
        found, _, _ = FromSpread(ME).split(sent, 0)
    except BadFrame:
        return
    for kind, frame in found:
        if kind == frames.FrameKind.BUNDLE:
            translated, _ = ToSpread(("d1",)).translate(frame)
            order = "<" if sent[0] & 0x80 and sent[3] & 0x80 else ">"
            kind_sent, sender, count, hint, size = struct.unpack_from(order + "I32si4si", sent)
            assert translated[:48] == struct.pack(
                "<I32si4si", kind_sent | 0x8000_0080, sender, count, hint, size
            )
            assert translated[48:] == sent[48:]


@often
@given(st.binary(max_size=30))
def test_any_hello_is_one_or_is_refused(data: bytes) -> None:
    try:
        parsed = greeting.parse_hello(data)
    except greeting.Refused as refused:
        assert refused.code in (greeting.ILLEGAL_NAME, greeting.BAD_VERSION)
        return
    if parsed is None:
        assert len(data) < 5 + 10
    else:
        hello, used = parsed
        assert used <= len(data)
        assert greeting.answer(hello, "#a#d")[0] == 1


@often
@given(st.binary(min_size=90, max_size=90))
def test_any_choice_is_ours_or_is_refused(data: bytes) -> None:
    try:
        greeting.check_choice(data)
    except greeting.Refused as refused:
        assert refused.code == greeting.NOT_AUTHENTICATED
