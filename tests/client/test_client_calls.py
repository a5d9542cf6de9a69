"""Calls with real daemons, and what becomes of them when connections are lost."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from scripted_daemon import WELCOME, ScriptedDaemon

import antiphon
from antiphon import Call, Cause, Message, View, ViewId, errors
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.service import Service
from antiphon.wire import bundle, frames
from antiphon.wire.calls import CallKind, mark_of

SECOND = msgspec.structs.replace(WELCOME, name="#alice#d2", daemon="d2", daemon_number=4, session=1)


async def answering(session: antiphon.Session, answer: Callable[[Call], bytes]) -> None:
    """A member that answers whatever is its to answer."""
    async for event in session:
        if isinstance(event, Call) and event.is_mine:
            await session.answer(event, answer(event))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_one_answer_all_answers_and_the_bare_fact(address):
    async with (
        antiphon.connect(address, name="a") as a,
        antiphon.connect(address, name="b") as b,
        antiphon.connect(address, name="x") as caller,
    ):
        tasks = []
        for member in (a, b):
            await member.join("stock")
            tasks.append(asyncio.create_task(answering(member, lambda call: call.payload.upper())))
        async with a.handle("stock", 2):
            assert await caller.call("stock", b"apples", handler=2) == b"APPLES"
        answers = await caller.call("stock", b"all", answers="all")
        assert answers == {"#a#d1": b"ALL", "#b#d1": b"ALL"} and answers.missing == ()
        assert await caller.call("stock", b"!", answers="delivered") == ("#a#d1", "#b#d1")
        for task in tasks:
            task.cancel()


async def test_an_error_of_the_application_is_raised_at_the_caller(address):
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="x") as caller:
        await a.join("stock")
        async with a.handle("stock", 0):
            asking = asyncio.create_task(caller.call("stock", b"?"))
            event = await a.receive()
            while not isinstance(event, Call):
                event = await a.receive()
            assert await a.answer(event, error="no apples")
            assert not await a.answer(event, b"twice")
            with pytest.raises(errors.CallFailed, match="no apples") as raised:
                await asking
            assert (raised.value.code, raised.value.answerer) == ("error", "#a#d1")


async def test_a_call_that_nobody_answers_says_what_is_known(address):
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="x") as caller:
        with pytest.raises(errors.CallTimeout, match="whether it was delivered is not known"):
            await caller.call("stock", b"?", timeout_s=0.2)
        await a.join("stock")
        with pytest.raises(errors.CallTimeout, match="delivered to 1 members, none of which held handler 7"):
            await caller.call("stock", b"?", handler=7, timeout_s=0.5)
        with pytest.raises(errors.CallTimeout, match="0 of 1 members") as raised:
            await caller.call("stock", b"?", answers="all", timeout_s=0.5)
        assert raised.value.missing == ("#a#d1",)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"handler": 256}, "handlers are numbered"),
        ({"answers": "some"}, "answers must be"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 1e9}, "at most 300"),
        ({"service": Service.FIFO}, "agreed or safe"),
    ],
)
async def test_calls_that_cannot_be_made_are_refused_at_once(address, options, match):
    async with antiphon.connect(address) as caller:
        with pytest.raises(errors.UsageError, match=match):
            await caller.call("stock", b"?", **options)
        with pytest.raises(errors.UsageError, match="group name"):
            await caller.call("#a#d1", b"?")


async def test_the_next_holder_answers_what_the_first_has_not(address):
    async with antiphon.connect(address, name="x") as caller, antiphon.connect(address, name="b") as b:
        a = await antiphon.connect(address, name="a")
        await a.join("stock")
        await b.join("stock")
        await a.handle("stock", 0)
        waiting = asyncio.create_task(b.handle("stock", 0)._take())
        asking = asyncio.create_task(caller.call("stock", b"?", timeout_s=20))
        serving = asyncio.create_task(answering(b, lambda call: b"by b, again: %d" % call.is_again))
        event = await a.receive()
        while not isinstance(event, Call):
            event = await a.receive()
        assert event.is_mine
        await a.close()
        assert await asking == b"by b, again: 1"
        assert (await waiting).is_held
        serving.cancel()


async def test_members_that_do_not_know_calls_see_plain_messages(address):
    """A session without views cannot answer; it gets what was asked, and nothing of the rest."""
    async with (
        antiphon.connect(address, name="old", views=False) as old,
        antiphon.connect(address, name="a") as a,
        antiphon.connect(address, name="x") as caller,
    ):
        await old.join("stock")
        await a.join("stock")
        serving = asyncio.create_task(answering(a, lambda call: b"yes"))
        async with a.handle("stock", 0, timeout_s=10):
            # The silent member is waited for, but not for ever.
            assert await caller.call("stock", b"?", timeout_s=20) == b"yes"
        await caller.send("stock", b"plain")
        events = []
        while not events or events[-1].payload != b"plain":
            events.append(await old.receive())
            assert type(events[-1]) is Message
        # The call waited for more than a second, so it was repeated: such a program sees that, too.
        assert {event.payload for event in events[:-1]} == {b"?"}
        serving.cancel()


async def test_calls_between_daemons(tmp_path: Path):
    config = local_config(2, tmp_path)
    with Daemon(config, "d1") as one, Daemon(config, "d2") as two:
        async with (
            antiphon.connect(one.places[0], name="a") as a,
            antiphon.connect(two.places[0], name="b") as b,
            antiphon.connect(two.places[0], name="x") as caller,
        ):
            tasks = []
            for member in (a, b):
                await member.join("stock")
                tasks.append(asyncio.create_task(answering(member, lambda call: call.payload[::-1])))
            async with b.handle("stock", 1):
                calls = [caller.call("stock", b"%d!" % n, handler=1, timeout_s=20) for n in range(50)]
                assert await asyncio.gather(*calls) == [b"!%s" % str(n)[::-1].encode() for n in range(50)]
            for task in tasks:
                task.cancel()


# Blocking -------------------------------------------------------------------------------------------------


def test_the_blocking_twins(address):
    with antiphon.blocking.connect(address, name="a") as a, antiphon.blocking.connect(address) as caller:
        a.join("stock")

        def serve() -> None:
            for event in a:
                if isinstance(event, Call) and event.is_mine:
                    if event.payload == b"stop":
                        a.answer(event, b"bye")
                        return
                    a.answer(event, event.payload.upper())

        server = threading.Thread(target=serve)
        with a.handle("stock", 3) as held:
            assert held.is_held
            server.start()
            assert caller.call("stock", b"one", handler=3) == b"ONE"
            assert caller.call("stock", b"two", answers="all") == {"#a#d1": b"TWO"}
            with pytest.raises(errors.CallTimeout):
                caller.call("stock", b"?", handler=4, timeout_s=0.2)
            assert caller.call("stock", b"stop", handler=3) == b"bye"
            server.join()


def test_many_threads_may_call_through_one_session(address):
    with antiphon.blocking.connect(address, name="a") as a, antiphon.blocking.connect(address) as caller:
        a.join("stock")
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    event = a.receive(timeout_s=0.05)
                except TimeoutError:
                    continue
                if isinstance(event, Call) and event.is_mine:
                    a.answer(event, event.payload)

        server = threading.Thread(target=serve)
        answers: dict[int, bytes] = {}

        def ask(number: int) -> None:
            for _ in range(5):
                answers[number] = caller.call("stock", b"%d" % number, timeout_s=20)

        with a.handle("stock", 0):
            server.start()
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            stop.set()
            server.join()
        assert answers == {number: b"%d" % number for number in range(8)}


# Lost connections -----------------------------------------------------------------------------------------


async def test_a_call_is_repeated_with_its_identity_over_a_new_connection(tmp_path: Path):
    peers = [ScriptedDaemon(tmp_path, name) for name in ("one", "two")]
    welcomed = asyncio.create_task(asyncio.to_thread(peers[0].welcome))
    session = await antiphon.connect([peer.address for peer in peers], name="alice", reconnect=True)
    await welcomed
    asking = asyncio.create_task(session.call("stock", b"?", timeout_s=20))
    _, first = await asyncio.to_thread(peers[0].hear)
    peers[0].hang_up()
    await asyncio.to_thread(peers[1].welcome, SECOND)
    _, second = await asyncio.to_thread(peers[1].hear)
    marks = [mark_of(bundle.parse(frame).extensions) for frame in (first, second)]
    assert marks[0] == marks[1] and marks[0].kind is CallKind.REQUEST
    assert [bundle.decode(frame)[0].sender for frame in (first, second)] == ["#alice#d1", "#alice#d2"]
    mark = msgspec.structs.replace(marks[1], kind=CallKind.ANSWER)
    peers[1].say(answer_frame(mark, b"here"))
    assert await asking == b"here"
    event = await session.receive()
    assert isinstance(event, antiphon.Reconnected) and event.unknown_fate == 0
    for peer in peers:
        peer.close()
    await session.close()


async def test_a_call_of_a_session_that_does_not_reconnect_ends_with_it(tmp_path: Path):
    peer = ScriptedDaemon(tmp_path)
    welcomed = asyncio.create_task(asyncio.to_thread(peer.welcome))
    session = await antiphon.connect(peer.address)
    await welcomed
    asking = asyncio.create_task(session.call("stock", b"?"))
    await asyncio.to_thread(peer.hear)
    peer.hang_up()
    with pytest.raises(errors.Disconnected):
        await asking
    peer.close()


async def test_an_application_that_takes_no_events_can_call(tmp_path: Path, address):
    """Its library reads beyond the usual bound while a call waits."""
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="x") as caller:
        await caller.join("flood")
        await a.join("stock")
        serving = asyncio.create_task(answering(a, lambda call: b"yes"))
        async with a.handle("stock", 0):
            for _ in range(12):
                await a.send("flood", bytes(1 << 20))
            await asyncio.sleep(0.5)
            assert await caller.call("stock", b"?", timeout_s=20) == b"yes"
        serving.cancel()


async def test_a_call_is_refused_only_if_no_message_of_it_was_sent(tmp_path: Path):
    """What was delivered may be executed, so a caller that repeats it in vain must not hear that it was not
    sent."""
    peer = ScriptedDaemon(tmp_path)
    welcomed = asyncio.create_task(asyncio.to_thread(peer.welcome))
    session = await antiphon.connect(peer.address, name="alice")
    await welcomed
    asking = asyncio.create_task(session.call("stock", b"?", timeout_s=20))
    frame_of_call = [(await asyncio.to_thread(peer.hear))[1] for _ in range(2)][1]  # it was repeated
    peer.say(frames.NotSent("stock", 2, 1))
    await asyncio.sleep(0.2)
    assert not asking.done()
    mark = mark_of(bundle.parse(frame_of_call).extensions)
    peer.say(answer_frame(msgspec.structs.replace(mark, kind=CallKind.ANSWER), b"here"))
    assert await asking == b"here"
    asking = asyncio.create_task(session.call("stock", b"?", timeout_s=20))
    await asyncio.to_thread(peer.hear)
    peer.say(frames.NotSent("stock", 3, 1))
    with pytest.raises(errors.NoQuorum):
        await asking
    peer.close()
    await session.close()


def answer_frame(mark, payload: bytes) -> bytes:
    """An answer as a daemon delivers it."""
    from antiphon.wire.calls import encode_mark
    from antiphon.wire.extensions import CALL, Extension

    names = bundle.names_area("#bob#d1", ["stock", "#alice#d2"])
    extension = Extension(CALL, encode_mark(mark))
    return b"".join(bundle.encode(names, 2, Service.AGREED, [payload], extensions=[extension]))


def test_a_member_sees_calls_in_their_place_among_messages_and_views(address):
    with antiphon.blocking.connect(address, name="a") as a, antiphon.blocking.connect(address) as caller:
        a.join("stock")
        caller.send("stock", b"before")
        with pytest.raises(errors.CallTimeout):
            caller.call("stock", b"?", timeout_s=0.2)
        caller.send("stock", b"after")
        caller.flush()
        deadline_s = time.monotonic() + 20
        events = [a.receive(timeout_s=deadline_s - time.monotonic()) for _ in range(4)]
        assert [type(event) for event in events] == [View, Message, Call, Message]
        assert events[0].cause is Cause.JOIN and isinstance(events[0].id, ViewId)
        assert not events[2].is_mine


def test_a_bundle_with_a_call_that_no_library_makes_is_refused(daemon, address):
    """The daemon checks the mark: what is malformed would cost every receiver."""
    from antiphon.client._opening import open_session, request
    from antiphon.wire.extensions import CALL, Extension

    opened = open_session((address,), request("odd", 0, True, None), 5.0, None)
    names = bundle.names_area(opened.welcome.name, ["stock"])
    extension = Extension(CALL, b"short")
    opened.socket.sendall(b"".join(bundle.encode(names, 1, Service.AGREED, [b"x"], extensions=[extension])))
    opened.socket.settimeout(10)
    data = opened.socket.recv(4_096)
    found, _, _ = frames.split(memoryview(data))
    assert isinstance(frames.decode_from_daemon(found[-1][1]), frames.Goodbye)
    opened.socket.close()
