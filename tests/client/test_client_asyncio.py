"""The asyncio session with a real daemon."""

import asyncio
import threading
from pathlib import Path

import pytest

import antiphon
from antiphon import Cause, Left, Message, Service, Session, View, errors, limits


async def messages(session: Session, count: int) -> list[Message]:
    """The next `count` messages, whatever views stand between them."""
    found: list[Message] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            event = await session.receive()
            if isinstance(event, Message):
                found.append(event)
    return found


async def joined(session: Session, group: str, members: int = 1) -> View:
    """Join, and wait for the view with so many members."""
    await session.join(group)
    return await view(session, group, members)


async def view(session: Session, group: str, members: int) -> View:
    async with asyncio.timeout(60):
        while True:
            event = await session.receive()
            if isinstance(event, View) and event.group == group and len(event.members) == members:
                return event


@pytest.mark.parametrize("place", [0, 1], ids=["unix", "tcp"])
async def test_a_message_travels_over_either_listener(daemon, place):
    async with antiphon.connect(daemon.places[place], name="alice") as session:
        assert (session.name, session.daemon, session.address) == ("#alice#d1", "d1", daemon.places[place])
        first = await joined(session, "chat")
        assert (first.members, first.cause, first.changed) == (("#alice#d1",), Cause.JOIN, ("#alice#d1",))
        await session.send("chat", b"hello", Service.SAFE, tag=-7)
        (message,) = await messages(session, 1)
        assert (message.payload, message.sender, message.group) == (b"hello", "#alice#d1", "chat")
        assert (message.service, message.tag) == (Service.SAFE, -7)
        assert message.id.session == session.number


async def test_connecting_can_be_awaited_too(address):
    session = await antiphon.connect(address)
    assert session.name.endswith("#d1")
    await session.close()
    assert session.closed


@pytest.mark.parametrize("service", list(Service))
async def test_every_service_delivers(address, service):
    async with antiphon.connect(address) as session:
        await joined(session, "chat")
        await session.send("chat", b"x", service)
        (message,) = await messages(session, 1)
        assert message.service is service


async def test_groups_are_open_and_private_names_reach_one_session(address):
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="b") as b:
        await joined(a, "chat")
        await b.send("chat", b"from outside")
        await b.send(a.name, b"for a alone")
        assert [message.payload for message in await messages(a, 2)] == [b"from outside", b"for a alone"]
        await a.send([b.name, "chat"], b"to both")
        assert (await messages(b, 1))[0].groups == ("#b#d1", "chat")


async def test_a_member_of_several_groups_gets_a_message_once(address):
    async with antiphon.connect(address) as session:
        await joined(session, "one")
        await joined(session, "two")
        await session.send(["one", "two"], b"both")
        await session.send("one", b"last")
        assert [message.payload for message in await messages(session, 2)] == [b"both", b"last"]


async def test_a_sender_may_do_without_its_own_messages(address):
    async with antiphon.connect(address) as session:
        await joined(session, "chat")
        await session.send("chat", b"not for me", self_discard=True)
        await session.send("chat", b"for me")
        assert [message.payload for message in await messages(session, 1)] == [b"for me"]


async def test_views_tell_who_came_and_who_went(address):
    async with antiphon.connect(address, name="a") as a:
        await joined(a, "chat")
        b = await antiphon.connect(address, name="b")
        await joined(b, "chat", members=2)
        both = await view(a, "chat", 2)
        assert (both.members, both.transitional) == (("#a#d1", "#b#d1"), ("#a#d1",))
        await b.leave("chat")
        assert isinstance(await b.receive(), Left)
        assert (await view(a, "chat", 1)).cause is Cause.LEAVE
        await joined(b, "chat", members=2)
        await view(a, "chat", 2)
        await b.close()
        gone = await view(a, "chat", 1)
        assert (gone.cause, gone.changed) == (Cause.DISCONNECT, ("#b#d1",))


async def test_views_can_be_declined(address):
    async with antiphon.connect(address, views=False) as session:
        await session.join("chat")
        await session.send("chat", b"only this")
        event = await session.receive()
        assert isinstance(event, Message)


async def test_groups_are_known_and_checked_before_anything_is_sent(address):
    async with antiphon.connect(address) as session:
        await session.join("chat")
        with pytest.raises(errors.UsageError, match="already joined 'chat'"):
            await session.join("chat")
        with pytest.raises(errors.UsageError, match="not joined 'news'"):
            await session.leave("news")
        with pytest.raises(errors.UsageError, match="allowed are"):
            await session.join("#alice#d1")
        assert session.groups == {"chat"}
        await session.leave("chat")
        assert session.groups == frozenset()


async def test_members_see_one_order(address):
    count = 5_000
    sessions = [await antiphon.connect(address, name=f"s{i}") for i in range(3)]
    for members, session in enumerate(sessions, start=1):
        await joined(session, "chat", members)

    async def talk(session: Session) -> None:
        for index in range(count):
            await session.send("chat", b"%d" % index)
            if index % 100 == 0:
                await asyncio.sleep(0)

    *heard, _ = await asyncio.gather(
        *(messages(session, 3 * count) for session in sessions), asyncio.gather(*map(talk, sessions))
    )
    orders = [[message.id for message in one] for one in heard]
    assert orders[0] == orders[1] == orders[2]
    for session in sessions:
        own = [int(message.payload) for message in heard[0] if message.sender == session.name]
        assert own == list(range(count))
        await session.close()


async def test_send_many_and_receive_many(address):
    async with antiphon.connect(address) as session:
        await joined(session, "chat")
        sent = [b"%d" % index for index in range(20_000)]
        task = asyncio.create_task(session.send_many("chat", iter(sent), Service.FIFO))
        heard: list[bytes] = []
        while len(heard) < len(sent):
            heard += [event.payload for event in await session.receive_many() if isinstance(event, Message)]
        await task
        assert heard == sent


async def test_messages_up_to_the_limit_pass_and_larger_ones_are_refused(address):
    async with antiphon.connect(address) as session:
        await joined(session, "chat")
        with pytest.raises(errors.MessageTooLarge):
            await session.send("chat", bytes(limits.MESSAGE_MAX_BYTES + 1))
        await session.send("chat", bytes(limits.MESSAGE_MAX_BYTES))
        await session.send("chat", b"still here")
        large, small = await messages(session, 2)
        assert (len(large.payload), small.payload) == (limits.MESSAGE_MAX_BYTES, b"still here")


async def test_unbundled_messages_arrive_all_the_same(address):
    async with antiphon.connect(address, bundle=False) as session:
        await joined(session, "chat")
        for index in range(2_000):
            await session.send("chat", b"%d" % index)
        heard = await messages(session, 2_000)
        assert [int(message.payload) for message in heard] == list(range(2_000))
        first = heard[0].id.sequence
        assert [message.id.sequence for message in heard] == list(range(first, first + 2_000))


async def test_a_cancelled_receive_loses_nothing(address):
    async with antiphon.connect(address) as session:
        await joined(session, "chat")
        heard: list[bytes] = []
        for index in range(50):
            waiting = asyncio.create_task(session.receive())
            await asyncio.sleep(0)
            await session.send("chat", b"%d" % index)
            if index % 2:
                await asyncio.sleep(0.001)
            waiting.cancel()
            try:
                event = await waiting
            except asyncio.CancelledError:
                continue
            assert isinstance(event, Message)
            heard.append(event.payload)
        heard += [message.payload for message in await messages(session, 50 - len(heard))]
        assert [int(payload) for payload in heard] == list(range(50))


async def test_status_comes_from_the_daemon(address):
    async with antiphon.connect(address, name="alice") as session:
        await joined(session, "chat")
        status = await session.status()
        assert status["daemon"] == "d1"
        assert "runtime" in status


async def test_iteration_ends_when_another_task_closes(address):
    session = await antiphon.connect(address)
    await joined(session, "chat")

    async def listen() -> int:
        return len([event async for event in session])

    listening = asyncio.create_task(listen())
    await session.send("chat", b"x")
    await session.flush()
    await asyncio.sleep(0)
    await session.close()
    assert await asyncio.wait_for(listening, 30) <= 1
    await session.close()
    with pytest.raises(errors.Disconnected, match="closed by this program"):
        await session.send("chat", b"too late")
    with pytest.raises(errors.Disconnected, match="closed by this program"):
        await session.receive()


async def test_close_hands_over_everything_sent_before_it(address):
    async with antiphon.connect(address) as listener:
        await joined(listener, "chat")
        async with antiphon.connect(address) as session:
            for index in range(5_000):
                await session.send("chat", b"%d" % index)
        heard = await messages(listener, 5_000)
        assert [int(message.payload) for message in heard] == list(range(5_000))


async def test_events_that_arrived_are_handed_out_before_the_end_is_told(daemon, address):
    session = await antiphon.connect(address)
    await joined(session, "chat")
    await session.send("chat", b"first")
    await session.send("chat", b"second")
    first = await session.receive()
    daemon.stop()
    heard = [first.payload]
    with pytest.raises(errors.Disconnected, match="the daemon is stopping") as caught:
        async for event in session:
            heard.append(event.payload)
    assert heard == [b"first", b"second"]
    assert caught.value.unknown_fate == 0
    with pytest.raises(errors.Disconnected):
        await session.send("chat", b"too late")
    await session.close()


async def test_a_taken_name_is_refused_with_the_daemons_words(address):
    async with antiphon.connect(address, name="alice"):
        with pytest.raises(errors.Refused, match="alice") as caught:
            await antiphon.connect(address, name="alice")
        assert caught.value.code == "name-taken"


async def test_no_daemon_is_one_clear_sentence(tmp_path: Path):
    nobody = f"unix:{tmp_path}/nobody.sock"
    with pytest.raises(errors.ConnectError) as caught:
        await antiphon.connect(nobody)
    assert str(caught.value) == f"no daemon at {nobody}: No such file or directory"


async def test_addresses_are_tried_in_order(address, tmp_path: Path):
    async with antiphon.connect([f"unix:{tmp_path}/nobody.sock", address]) as session:
        assert session.address == address


async def test_the_environment_gives_the_default_address(address, monkeypatch):
    monkeypatch.setenv("ANTIPHON", address)
    async with antiphon.connect() as session:
        assert session.address == address


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"address": "/tmp/x.sock"}, "not unix:PATH, tls:HOST:PORT or tcp:HOST:PORT"),
        ({"address": []}, "no address"),
        ({"name": "eleven-long"}, "at most 10"),
        ({"name": "a#b"}, "'#'"),
        ({"priority": 10}, "0 to 9"),
    ],
)
def test_wrong_arguments_are_told_at_once(arguments, says):
    with pytest.raises(errors.UsageError, match=says):
        antiphon.connect(**arguments)


async def test_an_embedded_daemon_lives_as_long_as_its_session():
    async with antiphon.connect(embedded=True) as session:
        path = Path(session.address.removeprefix("unix:"))
        async with antiphon.connect(session.address) as guest:
            await joined(guest, "chat")
            await session.send("chat", b"welcome")
            assert (await messages(guest, 1))[0].payload == b"welcome"
    assert not path.parent.exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "antiphon-d1"]


async def test_an_embedded_daemon_that_cannot_have_its_session_is_stopped(monkeypatch):
    monkeypatch.setattr("antiphon.client.connecting.open_session", _refuse)
    with pytest.raises(errors.Refused):
        await antiphon.connect(embedded=True)
    assert not [thread for thread in threading.enumerate() if thread.name == "antiphon-d1"]


def _refuse(*_arguments: object) -> None:
    raise errors.Refused("full", "no more sessions")


async def test_join_returns_when_the_session_is_a_member(address):
    async with antiphon.connect(address, name="alice") as alice, antiphon.connect(address) as bob:
        for number in range(20):
            await alice.join(f"g{number}")
            await bob.send(f"g{number}", b"%d" % number)
        got = [event async for event in taken(alice, 40)]
        assert [event.payload for event in got if isinstance(event, Message)] == [
            b"%d" % number for number in range(20)
        ]


async def test_joins_and_leaves_return_in_turn(address):
    async with antiphon.connect(address, views=False) as session:
        await session.join("g")
        await session.leave("g", wait=False)
        await session.join("g")
        await session.send("g", b"a member again")
        assert (await session.receive()).payload == b"a member again"
        await session.leave("g")
        assert session.groups == frozenset()


async def test_join_takes_effect_though_nobody_takes_the_events(address, monkeypatch):
    monkeypatch.setattr("antiphon.limits.CLIENT_EVENTS_MAX_BYTES", 100_000)
    async with antiphon.connect(address) as session:
        await session.join("g")
        for _ in range(40):
            await session.send("g", b"x" * 50_000)
        await session.flush()
        await asyncio.wait_for(session.join("h"), 30)
        messages = [
            event for event in [event async for event in taken(session, 42)] if isinstance(event, Message)
        ]
        assert len(messages) == 40


async def test_a_join_under_way_learns_of_the_end(daemon, address):
    session = await antiphon.connect(address)
    daemon.stop()
    with pytest.raises(errors.Disconnected):
        await asyncio.wait_for(session.join("g"), 30)


async def taken(session, count):
    """So many events of a session."""
    for _ in range(count):
        yield await session.receive()
