"""Sessions that come back after a loss: what is told, what waits, what is joined again."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from scripted_daemon import OWN, WELCOME, ScriptedDaemon, delivered

import antiphon
from antiphon import Cause, Message, Reconnected, Sent, Service, View, ViewId, errors, limits
from antiphon.blocking import Session as BlockingSession
from antiphon.client import _reconnecting
from antiphon.client._reconnecting import ReconnectPlan
from antiphon.wire import frames

SECOND = msgspec.structs.replace(WELCOME, name="#alice#d2", daemon="d2", daemon_number=4, session=1)
GONE = "the daemon closed the connection"


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[ScriptedDaemon]]:
    """Two daemons that take a session."""
    peers = [ScriptedDaemon(tmp_path, name) for name in ("one", "two")]
    yield peers
    for peer in peers:
        peer.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def joined(group: str, *members: str) -> frames.ViewFrame:
    """The view that confirms a join."""
    return frames.ViewFrame(View(group, ViewId(0, 0, 1, 0), members, (), Cause.JOIN, members[-1:]))


def sent(*payloads: bytes) -> tuple[Sent, ...]:
    return tuple(Sent(("chat",), payload, Service.AGREED) for payload in payloads)


# asyncio --------------------------------------------------------------------------------------------------


async def met(peers: list[ScriptedDaemon], **options: object) -> antiphon.Session:
    """A session with the first of the peers that may come back."""
    welcomed = asyncio.create_task(asyncio.to_thread(peers[0].welcome))
    places = [peer.address for peer in peers]
    session = await antiphon.connect(places, name="alice", reconnect=True, **options)
    await welcomed
    return session


async def test_a_loss_is_told_in_the_stream_with_every_send_of_unknown_fate(peers):
    session = await met(peers)
    for number in range(1, 5):
        await session.send("chat", b"%d" % number)
    await session.flush()
    await asyncio.to_thread(peers[0].hear_messages, 4)
    peers[0].say(frames.Accepted(1), delivered(b"2", sequence=2, **OWN), delivered(b"last"))
    peers[0].hang_up()
    word = await asyncio.to_thread(peers[1].welcome, SECOND)
    assert (word.name, word.accepts) == ("alice", True)
    peers[1].say(delivered(b"first of the new"))
    events = [await session.receive() for _ in range(4)]
    assert [event.payload for event in events if isinstance(event, Message)] == [
        b"2", b"last", b"first of the new",
    ]  # fmt: skip
    assert events[2] == Reconnected(
        old_name="#alice#d1",
        name="#alice#d2",
        daemon="d2",
        address=peers[1].address,
        groups=(),
        reason=GONE,
        unknown=sent(b"3", b"4"),
        unknown_fate=2,
    )
    assert (session.name, session.address) == ("#alice#d2", peers[1].address)
    await session.send("chat", b"as the new one")
    assert [message.sender for message in await asyncio.to_thread(peers[1].hear_bundle)] == ["#alice#d2"]
    peers[1].hang_up()
    await ended(session)


async def ended(session: antiphon.Session) -> None:
    """Close without a daemon to confirm; sends may be of unknown fate."""
    with suppress(errors.Disconnected):
        await session.close()


async def test_groups_are_joined_again_in_their_order_and_a_waiting_join_goes_on(peers):
    session = await met(peers)
    for group in ("b", "a"):
        joining = asyncio.create_task(session.join(group))
        assert await asyncio.to_thread(peers[0].hear_control) == frames.Join(group)
        peers[0].say(joined(group, "#alice#d1"))
        await joining
    joining = asyncio.create_task(session.join("c"))
    leaving = asyncio.create_task(session.leave("a"))
    assert await asyncio.to_thread(peers[0].hear_control) == frames.Join("c")
    assert await asyncio.to_thread(peers[0].hear_control) == frames.Leave("a")
    assert not leaving.done()
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, SECOND)
    for group in ("b", "c"):
        assert await asyncio.to_thread(peers[1].hear_control) == frames.Join(group)
    await asyncio.wait_for(leaving, 30)
    assert not joining.done()
    peers[1].say(joined("b", "#alice#d2"), joined("c", "#alice#d2"))
    await asyncio.wait_for(joining, 30)
    events = await session.receive_many()
    assert [event.group for event in events if isinstance(event, View)] == ["b", "a", "b", "c"]
    assert next(event for event in events if isinstance(event, Reconnected)).groups == ("b", "c")
    peers[1].hang_up()
    await ended(session)


async def test_sends_and_requests_wait_while_there_is_no_connection(peers):
    session = await met(peers)
    peers[0].hang_up()
    while session._loss is None:
        await asyncio.sleep(0)
    sending = asyncio.create_task(session.send("chat", b"later"))
    given_up = asyncio.create_task(session.send("chat", b"never"))
    flushing = asyncio.create_task(session.flush())
    joining = asyncio.create_task(session.join("chat", wait=False))
    await asyncio.sleep(0)
    given_up.cancel()
    assert not (sending.done() or flushing.done() or joining.done())
    await asyncio.to_thread(peers[1].welcome, SECOND)
    await asyncio.wait_for(asyncio.gather(sending, flushing, joining), 30)
    (message,) = await asyncio.to_thread(peers[1].hear_bundle)
    assert (message.payload, message.sender) == (b"later", "#alice#d2")
    assert await asyncio.to_thread(peers[1].hear_control) == frames.Join("chat")
    event = await session.receive()
    assert isinstance(event, Reconnected) and event.unknown == ()
    peers[1].hang_up()
    await ended(session)


async def test_what_the_library_still_had_is_told_too(peers):
    session = await met(peers)
    count = 0
    while not session._blocked:  # until the socket is full
        await session.send("chat", count.to_bytes(4, "big") * 2_500)
        count += 1
    assert session._send_queue.queued_bytes
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, SECOND)
    event = await session.receive()
    assert isinstance(event, Reconnected)
    assert event.unknown_fate == len(event.unknown) == count
    assert [int.from_bytes(one.payload[:4], "big") for one in event.unknown] == list(range(count))
    peers[1].hang_up()
    await ended(session)


async def test_a_loss_right_after_a_return_is_a_second_return(peers):
    session = await met(peers)
    await session.send("chat", b"one")
    await asyncio.to_thread(peers[0].hear_bundle)
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, SECOND)
    while session.name != SECOND.name:
        await asyncio.sleep(0.001)
    await session.send("chat", b"two")
    peers[1].hang_up()
    await asyncio.to_thread(peers[0].welcome)
    events = [await session.receive() for _ in range(2)]
    assert [(event.old_name, event.name, event.unknown) for event in events] == [
        ("#alice#d1", "#alice#d2", sent(b"one")),
        ("#alice#d2", "#alice#d1", sent(b"two")),
    ]
    peers[0].hang_up()
    await ended(session)


async def test_a_refusal_is_no_end(peers, monkeypatch):
    monkeypatch.setattr(_reconnecting, "FIRST_WAIT_S", 0.001)
    session = await met(peers)
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, frames.Refuse("name-taken", "a session called 'alice' is here"))
    peers[1].hang_up()
    await asyncio.to_thread(peers[0].welcome)
    event = await session.receive()
    assert isinstance(event, Reconnected) and event.daemon == "d1"
    peers[0].hang_up()
    await ended(session)


async def test_nobody_is_tried_for_ever(peers, monkeypatch):
    monkeypatch.setattr(_reconnecting, "FIRST_WAIT_S", 0.001)
    session = await met(peers, reconnect_timeout_s=0.2)
    joining = asyncio.create_task(session.join("chat"))
    assert await asyncio.to_thread(peers[0].hear_control) == frames.Join("chat")
    await session.send("chat", b"x")
    for peer in peers:
        peer.close()
    receiving = asyncio.create_task(session.receive())
    sending = asyncio.create_task(session.send("chat", bytes(1_000_000)))
    results = await asyncio.wait_for(asyncio.gather(joining, receiving, return_exceptions=True), 30)
    await asyncio.gather(sending, return_exceptions=True)
    for error in results:
        assert isinstance(error, errors.Disconnected)
        assert "no daemon took the session again within 0.2 s" in error.reason
        assert "Connection refused" in error.reason
        assert b"x" in [one.payload for one in error.unknown]
    await session.close()


@pytest.mark.parametrize("stage", ["before the welcome", "in the wait"])
async def test_closing_ends_the_search(peers, stage):
    session = await met(peers)
    await session.send("chat", b"x")
    await asyncio.to_thread(peers[0].hear_bundle)
    if stage == "in the wait":
        for peer in peers:
            peer.close()
    else:
        peers[0].hang_up()
    while session._loss is None:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(session.receive())
    await asyncio.sleep(0.01)
    with pytest.raises(errors.Disconnected) as caught:
        await asyncio.wait_for(session.close(), 30)
    assert (caught.value.reason, caught.value.unknown) == (GONE, sent(b"x"))
    with pytest.raises(errors.Disconnected, match="closed by this program"):
        await waiting
    if stage != "in the wait":  # the thread that is still connecting throws its connection away
        await asyncio.to_thread(peers[1].welcome, SECOND)
        assert not await asyncio.to_thread(peers[1].connection.recv, 1)


async def test_an_unknown_fate_that_nobody_heard_of_is_told_by_close(peers):
    session = await met(peers)
    await session.send("chat", b"x")
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, SECOND)
    while session.name != SECOND.name:
        await asyncio.sleep(0.001)
    closing = asyncio.create_task(session.close())
    assert await asyncio.to_thread(peers[1].hear_control) == frames.Disconnect()
    peers[1].say(frames.Goodbye("bye", "disconnected as asked"))
    with pytest.raises(errors.Disconnected) as caught:
        await closing
    assert caught.value.unknown == sent(b"x")


async def test_who_does_not_take_its_events_does_not_come_back_to_more(peers, monkeypatch):
    monkeypatch.setattr(_reconnecting, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(_reconnecting, "LAST_WAIT_S", 0.001)
    session = await met(peers)
    bundle = delivered(*[bytes(1_000)] * 50)

    def overwhelm() -> None:
        try:
            while True:
                peers[0].say(bundle)
        except TimeoutError:
            peers[0].hang_up()

    peers[0].connection.settimeout(0.2)
    await asyncio.to_thread(overwhelm)
    session._lost("cut off")  # reading has stopped, so that the library cannot see it
    await asyncio.sleep(0.05)
    assert session._loss is not None and session._incoming.is_full
    welcomed = asyncio.create_task(asyncio.to_thread(peers[1].welcome, SECOND))
    event = await session.receive()
    while not isinstance(event, Reconnected):
        event = await session.receive()
    assert "did not take its events" in event.reason
    await welcomed
    peers[1].hang_up()
    await ended(session)


# Blocking -------------------------------------------------------------------------------------------------


def met_blocking(peers: list[ScriptedDaemon], pool: ThreadPoolExecutor, **options: object) -> BlockingSession:
    welcomed = pool.submit(peers[0].welcome)
    places = ",".join(peer.address for peer in peers)
    session = antiphon.blocking.connect(places, name="alice", reconnect=True, **options)
    welcomed.result()
    return session


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def end(session: BlockingSession) -> None:
    with suppress(errors.Disconnected):
        session.close()


def test_blocking_a_loss_is_told_in_the_stream(peers, pool):
    session = met_blocking(peers, pool)
    session.send_many("chat", [b"1", b"2", b"3"])
    peers[0].hear_messages(3)
    peers[0].say(frames.Accepted(2), delivered(b"last"))
    peers[0].hang_up()
    welcomed = pool.submit(peers[1].welcome, SECOND)
    assert session.receive(30).payload == b"last"
    event = session.receive(30)
    assert isinstance(event, Reconnected)
    assert (event.name, event.unknown, event.reason) == ("#alice#d2", sent(b"3"), GONE)
    assert welcomed.result().name == "alice"
    session.send("chat", b"as the new one")
    assert [message.sender for message in peers[1].hear_bundle()] == ["#alice#d2"]
    peers[1].hang_up()
    end(session)


def test_blocking_a_sender_finds_the_loss_and_goes_on(peers, pool):
    session = met_blocking(peers, pool)
    session.send("chat", b"lost")
    peers[0].hang_up()
    sending = [pool.submit(session.send, "chat", b"%d" % number) for number in range(3)]
    pool.submit(peers[1].welcome, SECOND).result(30)
    for one in sending:
        one.result(30)
    session.send("chat", b"end")
    event = session.receive(30)
    assert isinstance(event, Reconnected)
    heard: list[bytes] = []
    while b"end" not in heard:
        heard += [message.payload for message in peers[1].hear_bundle()]
    unknown = [one.payload for one in event.unknown]
    assert unknown[0] == b"lost"
    assert sorted(unknown[1:] + heard[:-1]) == [b"0", b"1", b"2"], "each is told or sent"
    peers[1].hang_up()
    end(session)


def test_blocking_a_waiting_join_goes_on(peers, pool):
    session = met_blocking(peers, pool)
    joining = pool.submit(session.join, "chat")
    assert peers[0].hear_control() == frames.Join("chat")
    peers[0].hang_up()
    pool.submit(peers[1].welcome, SECOND).result(30)
    assert peers[1].hear_control() == frames.Join("chat")
    assert not joining.done()
    peers[1].say(joined("chat", "#alice#d2"))
    joining.result(30)
    event = session.receive(30)
    assert isinstance(event, Reconnected) and event.groups == ("chat",)
    assert isinstance(session.receive(30), View)
    peers[1].hang_up()
    end(session)


def test_blocking_a_receive_gives_up_in_time_while_there_is_no_connection(peers, pool):
    session = met_blocking(peers, pool)
    peers[0].hang_up()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            session.receive(0.05)
    pool.submit(peers[1].welcome, SECOND).result(30)
    assert isinstance(session.receive(30), Reconnected)
    peers[1].hang_up()
    end(session)


def test_blocking_nobody_is_tried_for_ever(peers, pool, monkeypatch):
    monkeypatch.setattr(_reconnecting, "FIRST_WAIT_S", 0.001)
    session = met_blocking(peers, pool, reconnect_timeout_s=0.2)
    for peer in peers:
        peer.close()
    waiting = [pool.submit(session.receive), pool.submit(session.join, "chat")]
    for one in waiting:
        error = one.exception(30)
        assert isinstance(error, errors.Disconnected)
        assert "no daemon took the session again within 0.2 s" in error.reason
    session.close()


def test_blocking_closing_ends_the_search(peers, pool):
    session = met_blocking(peers, pool)
    session.send("chat", b"x")
    for peer in peers:
        peer.close()
    receiving, sending = pool.submit(session.receive), None
    until(lambda: session._loss is not None)
    sending = pool.submit(session.send, "chat", b"y")
    with pytest.raises(errors.Disconnected) as caught:
        session.close()
    assert caught.value.unknown == sent(b"x")
    for one in (receiving, sending):
        assert "closed by this program" in str(one.exception(30))
    until(lambda: not [one for one in threading.enumerate() if one.name == "antiphon-reconnect"])


# Both -----------------------------------------------------------------------------------------------------


def test_the_order_of_places_and_the_waits():
    reconnect_plan = ReconnectPlan(("a", "b", "c"), frames.Connect(2), 1.0, 1.0)
    assert reconnect_plan.order("c") == ("a", "b", "c")
    assert reconnect_plan.order("elsewhere") == ("a", "b", "c")
    waits = [wait for wait, _ in zip(reconnect_plan.waits_s(), range(20), strict=False)]
    assert all(wait <= _reconnecting.LAST_WAIT_S for wait in waits)
    assert waits[0] <= _reconnecting.FIRST_WAIT_S < _reconnecting.LAST_WAIT_S / 2 <= waits[-1]


def test_a_limit_of_nothing_is_wrong_use():
    for connect in (antiphon.connect, antiphon.blocking.connect):
        with pytest.raises(errors.UsageError, match="reconnect_timeout_s"):
            connect("unix:x", reconnect=True, reconnect_timeout_s=0)


def test_limits_leave_room_for_the_largest_message():
    from antiphon.client._ledger import KEPT_MAX_BYTES

    assert KEPT_MAX_BYTES > limits.MESSAGE_MAX_BYTES + limits.SESSION_INPUT_MAX_BYTES
