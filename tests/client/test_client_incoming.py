"""Bytes on their way in: cut anywhere, they give the same events; damaged, they give none."""

import pytest
from scripted_daemon import WELCOME, delivered

from antiphon import limits
from antiphon.client._incoming import BUFFER_BYTES, Event, Incoming
from antiphon.errors import BadFrame, UsageError
from antiphon.types import Cause, Left, View, ViewId
from antiphon.wire import frames

VIEW = View("chat", ViewId(0, 1, 0), ("#a#d1",), (), Cause.JOIN, ("#a#d1",))
LEFT = Left("chat", ViewId(0, 9, 0))


def feed(incoming: Incoming, data: bytes, step: int = BUFFER_BYTES) -> None:
    at = 0
    while at < len(data):
        space = incoming.space()
        count = min(step, len(space), len(data) - at)
        space[:count] = data[at : at + count]
        incoming.filled(count)
        at += count


def take(incoming: Incoming) -> list[Event]:
    while incoming.refill():
        pass
    events = list(incoming.ready)
    incoming.ready.clear()
    return events


def stream() -> bytes:
    return b"".join(
        [
            frames.encode_control(WELCOME),
            frames.encode_control(frames.ViewFrame(VIEW)),
            delivered(b"one", b"", b"three"),
            delivered(bytes(300_000)),
            frames.encode_control(frames.LeftFrame(LEFT)),
        ]
    )


@pytest.mark.parametrize("step", [1_000, 4_095, 100_000, BUFFER_BYTES])
def test_events_do_not_depend_on_how_the_bytes_arrive(step):
    incoming = Incoming()
    feed(incoming, stream(), step)
    view, one, two, three, large, left = take(incoming)
    assert incoming.answer == WELCOME
    assert (view, left) == (VIEW, LEFT)
    assert [message.payload for message in (one, two, three)] == [b"one", b"", b"three"]
    assert large.payload == bytes(300_000)


def test_single_bytes_are_enough():
    incoming = Incoming()
    feed(incoming, delivered(b"one", b"two"), step=1)
    assert [message.payload for message in take(incoming)] == [b"one", b"two"]


def test_the_buffer_grows_with_a_large_frame_and_shrinks_after_it():
    incoming = Incoming()
    large = delivered(bytes(3_000_000))
    feed(incoming, large[:100])
    assert len(incoming.space()) < BUFFER_BYTES, "a length alone allocates nothing"
    feed(incoming, large[100:])
    assert len(incoming.space()) == BUFFER_BYTES
    assert len(take(incoming)) == 1


def test_reading_stops_at_the_limit_and_starts_again_at_half():
    incoming = Incoming()
    while not incoming.is_full:
        feed(incoming, delivered(bytes(60_000)))
    assert incoming.queued_bytes > limits.CLIENT_EVENTS_MAX_BYTES
    while not incoming.has_room:
        assert incoming.refill()
    assert incoming.queued_bytes <= limits.CLIENT_EVENTS_MAX_BYTES // 2


def test_a_complaint_is_raised_in_its_place_and_the_stream_goes_on():
    incoming = Incoming()
    complaint = frames.encode_control(frames.Problem("not-joined", "this session has not joined 'x'"))
    feed(incoming, delivered(b"before") + complaint + delivered(b"after"))
    assert not incoming.complains
    assert incoming.refill()
    assert incoming.complains
    with pytest.raises(UsageError, match=r"not joined 'x' \(not-joined\)"):
        incoming.refill()
    assert [message.payload for message in take(incoming)] == [b"before", b"after"]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\1\1",
        frames.HEAD.pack(limits.FRAME_MAX_BYTES + 1, 1),
        frames.HEAD.pack(9, 2) + b"\xc1\xc1\xc1\xc1",
        frames.encode_control(frames.Join("chat")),
        2 * frames.encode_control(WELCOME),
    ],
)
def test_what_no_daemon_says_is_a_bad_frame(data):
    with pytest.raises(BadFrame):
        feed(Incoming(), data)


def test_nothing_is_handed_out_after_a_broken_bundle():
    broken = bytearray(delivered(b"one"))
    broken[10:12] = b"\0\2"  # two messages, says the header
    incoming = Incoming()
    feed(incoming, delivered(b"before") + bytes(broken) + delivered(b"after"))
    assert incoming.refill()
    with pytest.raises(BadFrame):
        incoming.refill()
    assert [message.payload for message in take(incoming)] == [b"before"]


def test_own_messages_that_come_back_are_accepted():
    incoming = Incoming()
    own = {"sender": WELCOME.name, "daemon": WELCOME.daemon_number, "session": WELCOME.session}
    feed(incoming, frames.encode_control(WELCOME) + delivered(b"a", b"b", b"c", sequence=5, **own))
    take(incoming)
    assert incoming.accepted_sequence == 7
    feed(incoming, delivered(b"of somebody else", sequence=100))
    take(incoming)
    assert incoming.accepted_sequence == 7


def test_dropping_forgets_what_waits_and_what_comes():
    incoming = Incoming()
    feed(incoming, delivered(b"before"))
    incoming.drop()
    feed(incoming, delivered(b"after") + frames.encode_control(frames.Goodbye("bye", "as asked")))
    assert take(incoming) == []
    assert incoming.queued_bytes == 0
    assert incoming.goodbye == frames.Goodbye("bye", "as asked")
