"""What an edge says besides what every daemon says: gaps, and messages of unknown fate."""

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace
from scripted_daemon import WELCOME, ScriptedDaemon, delivered

import antiphon
from antiphon import Gap, Message, Sent, Service, Unsure, View
from antiphon.client import _opening
from antiphon.client._ledger import BundleKey, Ledger
from antiphon.errors import Disconnected
from antiphon.types import Cause, ViewId
from antiphon.wire import frames

AT_AN_EDGE = replace(WELCOME, name="#alice#e1", daemon="e1", daemon_number=frames.AT_AN_EDGE)
VIEW = View("chat", ViewId(1, 0, 7, 0), ("#bob#d1",), (), Cause.JOIN, ("#alice#e1",), receivers=3)
GAP = Gap("chat", VIEW.id, 9, 40, "d2 keeps nothing so old")


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[ScriptedDaemon]:
    scripted = ScriptedDaemon(tmp_path)
    yield scripted
    scripted.close()


def connected(edge: ScriptedDaemon) -> antiphon.blocking.Session:
    """A session whose edge is played by the test."""
    answering = Thread(target=edge.welcome, args=(AT_AN_EDGE,))
    answering.start()
    session = antiphon.blocking.connect(edge.address, name="alice")
    answering.join()
    return session


def test_a_gap_comes_in_its_place(edge: ScriptedDaemon) -> None:
    session = connected(edge)
    after = replace(VIEW, id=ViewId(2, 0, 41, 0), cause=Cause.NETWORK, changed=())
    edge.say(frames.ViewFrame(VIEW), delivered(b"one"), frames.GapFrame(GAP), frames.ViewFrame(after))
    first, message, gap, then = (session.receive(timeout_s=10) for _ in range(4))
    assert isinstance(message, Message)
    assert (first, message.payload, gap, then) == (VIEW, b"one", GAP, after)


def test_messages_of_unknown_fate_come_back_and_are_not_waited_for(edge: ScriptedDaemon) -> None:
    session = connected(edge)
    session.send("chat", b"one")
    session.flush()
    session.send_many("chat", [b"two", b"three"], Service.SAFE)
    session.flush()
    edge.hear_messages(3)
    edge.say(frames.Accepted(1), frames.Unsure(1, 3))
    event = session.receive(timeout_s=10)
    sent = (Sent(("chat",), b"two", Service.SAFE), Sent(("chat",), b"three", Service.SAFE))
    assert event == Unsure(sent, 2, 1, 3)
    session.wait_accepted()
    edge.hang_up()
    with pytest.raises(Disconnected) as caught:
        session.receive(timeout_s=10)
    assert (caught.value.unknown_fate, caught.value.unknown) == (0, ())


def test_unknown_fates_that_nobody_took_are_told_at_the_end(edge: ScriptedDaemon) -> None:
    session = connected(edge)
    session.send("chat", b"one")
    session.flush()
    edge.hear_messages(1)
    edge.say(frames.Unsure(1, 1))
    session.wait_accepted()
    edge.say(frames.Goodbye("bye", "as asked"))
    with pytest.raises(Disconnected) as caught:
        session.close()
    assert (caught.value.unknown_fate, len(caught.value.unknown)) == (1, 1)


def test_joins_and_unreliable_messages_have_no_fate() -> None:
    ledger = Ledger()
    ledger.note_request()
    assert ledger.doubt(1, 1) == ((), 0)
    ledger.note_request()
    ledger.note_request()
    ledger.accept(2)
    assert ledger.doubt(1, 3) == ((), 0)
    assert ledger.unaccepted() == 0


@pytest.mark.parametrize("requests", ["", "1", "2", "4", "14", "123", "24"])
def test_doubts_leave_nothing_that_is_waited_for(requests: str) -> None:
    ledger = Ledger()
    key = BundleKey(("chat",), b"", Service.AGREED, 0, 0, False)
    for number in range(1, 6):
        if str(number) in requests:
            ledger.note_request()
        else:
            ledger.note_bundle(key, [b"%d" % number], 1)
    told, count = ledger.doubt(1, 4)
    expected = [str(number).encode() for number in range(1, 5) if str(number) not in requests]
    assert [sent.payload for sent in told] == expected
    assert count == len(expected)
    assert ledger.unaccepted() == 1
    assert [sent.payload for sent in ledger.unknown()] == [b"5"]


def test_a_session_at_an_edge_has_no_trace(
    edge: ScriptedDaemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = _opening.credentials(None, None)
    opened = _opening.Opened(None, edge.address, AT_AN_EDGE, _opening.Incoming(), shown)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "antiphon.trace"):
        _opening._begin_trace(opened, frames.Connect(5), 1.0, tmp_path)
    assert opened.incoming.diary is None
    assert "at an edge" in caplog.text
