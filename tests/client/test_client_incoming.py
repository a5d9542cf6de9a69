"""Bytes on their way in: cut anywhere, they give the same events; damaged, they give none."""

import pytest
from scripted_daemon import OWN, WELCOME, delivered

from antiphon import limits
from antiphon.client import Event, Reconnected
from antiphon.client._incoming import BUFFER_BYTES, Incoming
from antiphon.client._send_queue import SendQueue
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.types import Cause, Left, Message, SlowReceiver, TransitionalSignal, View, ViewId
from antiphon.wire import frames

VIEW = View("chat", ViewId(0, 0, 1, 0), ("#a#d1",), (), Cause.JOIN, ("#a#d1",))
SIGNAL = TransitionalSignal("chat", VIEW.id)
LEFT = Left("chat", ViewId(0, 0, 9, 0))


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
            frames.encode_control(frames.SignalFrame(SIGNAL)),
            frames.encode_control(frames.LeftFrame(LEFT)),
        ]
    )


@pytest.mark.parametrize("step", [1_000, 4_095, 100_000, BUFFER_BYTES])
def test_events_do_not_depend_on_how_the_bytes_arrive(step):
    incoming = Incoming()
    feed(incoming, stream(), step)
    view, one, two, three, large, signal, left = take(incoming)
    assert incoming.answer == WELCOME
    assert (view, signal, left) == (VIEW, SIGNAL, LEFT)
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


def test_own_safe_messages_that_come_back_are_accepted():
    incoming = Incoming()
    feed(incoming, frames.encode_control(WELCOME) + delivered(b"a", b"b", b"c", sequence=5, **OWN))
    take(incoming)
    assert incoming.ledger.accepted == 7
    feed(incoming, delivered(b"of somebody else", sequence=100))
    for service in set(Service) - {Service.SAFE}:
        feed(incoming, delivered(b"its daemon may crash with it", sequence=100, service=service, **OWN))
    take(incoming)
    assert incoming.ledger.accepted == 7


def test_an_acceptance_counts_on_arrival_and_never_backwards():
    incoming = Incoming()
    feed(incoming, frames.encode_control(WELCOME) + frames.encode_control(frames.Accepted(9)))
    assert incoming.ledger.accepted == 9
    feed(incoming, frames.encode_control(frames.Accepted(8)))
    assert incoming.ledger.accepted == 9
    assert take(incoming) == []


def test_who_declines_views_gets_no_signals_either():
    incoming = Incoming()
    incoming.shows_views = False
    feed(incoming, stream())
    assert {type(event) for event in take(incoming)} == {Message}


def reconnected(number: int) -> Reconnected:
    return Reconnected(f"#a#d{number}", f"#a#d{number + 1}", f"d{number + 1}", "unix:x", (), "gone")


def test_a_new_connection_begins_at_its_place_and_with_its_own_account():
    incoming = Incoming()
    old = SendQueue("#alice#d1", gathers=False, ledger=incoming.ledger)
    for payload in (b"came back", b"accepted", b"unknown"):
        old.add("chat", payload, Service.AGREED, 0, False)
    feed(incoming, frames.encode_control(WELCOME) + delivered(b"came back", sequence=1, **OWN))
    feed(incoming, frames.encode_control(frames.Accepted(2)) + delivered(b"before")[:20])
    fresh = Incoming()
    new = SendQueue("#alice#d1", gathers=False, ledger=fresh.ledger)
    new.add("chat", b"new", Service.AGREED, 0, False)
    feed(fresh, frames.encode_control(WELCOME) + delivered(b"with the greeting") + delivered(b"after")[:9])
    incoming.go_on(fresh, reconnected(1))
    feed(incoming, delivered(b"after")[9:] + delivered(b"new", sequence=1, **OWN))
    first, event, *others = take(incoming)
    assert first.payload == b"came back"
    assert [message.payload for message in others] == [b"with the greeting", b"after", b"new"]
    assert incoming.queued_bytes == 0
    assert isinstance(event, Reconnected)
    assert (event.old_name, event.unknown_fate) == ("#a#d1", 1)
    assert [sent.payload for sent in event.unknown] == [b"unknown"]
    assert (new.unaccepted(), old.unaccepted()) == (0, 1)


def test_a_warning_overtakes_what_waits_but_not_a_new_connection():
    warning = SlowReceiver(9, 8, 16, "disconnect")
    relief = SlowReceiver(3, 8, 16, "disconnect", is_over=True)
    incoming = Incoming()
    feed(incoming, frames.encode_control(WELCOME) + delivered(b"waits") + delivered(b"too"))
    feed(incoming, frames.encode_control(frames.SlowFrame(warning)))
    assert incoming.refill() and incoming.ready.popleft() == warning
    fresh = Incoming()
    feed(fresh, frames.encode_control(WELCOME))
    incoming.go_on(fresh, reconnected(1))
    feed(incoming, frames.encode_control(frames.SlowFrame(relief)))
    waits, too, event, last = take(incoming)
    assert (waits.payload, too.payload, event, last) == (b"waits", b"too", reconnected(1), relief)
    incoming.drop()
    feed(incoming, frames.encode_control(frames.SlowFrame(warning)))
    assert take(incoming) == []


def test_a_message_of_an_earlier_connection_accepts_nothing_of_the_later_one():
    incoming = Incoming()
    feed(incoming, frames.encode_control(WELCOME) + delivered(b"old", sequence=50, **OWN))
    fresh = Incoming()
    feed(fresh, frames.encode_control(WELCOME))
    incoming.go_on(fresh, reconnected(1))
    take(incoming)
    assert incoming.ledger.accepted == 0


def test_a_broken_bundle_does_not_reach_into_the_next_connection():
    broken = bytearray(delivered(b"one"))
    broken[10:12] = b"\0\2"
    incoming = Incoming()
    feed(incoming, frames.encode_control(WELCOME) + bytes(broken) + delivered(b"skipped"))
    fresh = Incoming()
    feed(fresh, frames.encode_control(WELCOME))
    incoming.go_on(fresh, reconnected(1))
    feed(incoming, delivered(b"after"))
    event, after = take(incoming)
    assert (event, after.payload) == (reconnected(1), b"after")
    assert incoming.queued_bytes == 0


def test_an_unknown_fate_that_is_dropped_untold_is_remembered():
    incoming = Incoming()
    for number in (1, 2):
        send_queue = SendQueue("#a#d1", ledger=incoming.ledger)
        send_queue.add("chat", b"%d" % number, Service.AGREED, 0, False)
        send_queue.close_bundle()
        incoming.go_on(Incoming(), reconnected(number))
    assert incoming.refill()
    incoming.drop()
    assert (incoming.untold_count, [sent.payload for sent in incoming.untold]) == (2, [b"1", b"2"])


def test_dropping_forgets_what_waits_and_what_comes():
    incoming = Incoming()
    feed(incoming, delivered(b"before"))
    incoming.drop()
    feed(incoming, delivered(b"after") + frames.encode_control(frames.Goodbye("bye", "as asked")))
    assert take(incoming) == []
    assert incoming.queued_bytes == 0
    assert incoming.goodbye == frames.Goodbye("bye", "as asked")
