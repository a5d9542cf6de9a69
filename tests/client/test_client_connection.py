"""The asyncio session when the daemon's end of the connection is slow, silent, rude or gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_daemon import OWN, WELCOME, ScriptedDaemon, delivered

import antiphon
from antiphon import Session, errors, limits
from antiphon.client import session as session_module
from antiphon.wire import frames


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[ScriptedDaemon]:
    peer = ScriptedDaemon(tmp_path)
    yield peer
    peer.close()


async def met(peer: ScriptedDaemon, **options: object) -> Session:
    """A session with `peer`."""
    welcomed = asyncio.create_task(asyncio.to_thread(peer.welcome))
    session = await antiphon.connect(peer.address, **options)
    await welcomed
    return session


async def say_bye(peer: ScriptedDaemon, session: Session) -> None:
    """An orderly end."""
    closing = asyncio.create_task(session.close())
    assert await asyncio.to_thread(peer.hear_control) == frames.Disconnect()
    peer.say(frames.Goodbye("bye", "disconnected as asked"))
    await closing


async def test_a_lone_message_goes_out_at_once_and_a_burst_gathers(peer):
    session = await met(peer)
    await session.send("chat", b"lone")  # no turn of the loop since: it must be in the socket already
    assert [message.payload for message in peer.hear_bundle()] == [b"lone"]
    for index in range(1_000):
        await session.send("chat", b"%d" % index)
    await session.flush()
    bundles = peer.hear_messages(1_000)
    assert [int(message.payload) for one in bundles for message in one] == list(range(1_000))
    assert len(bundles) <= 3
    await say_bye(peer, session)


async def test_a_tight_loop_makes_full_bundles(peer):
    session = await met(peer)
    hearing = asyncio.create_task(asyncio.to_thread(peer.hear_messages, 20_000))
    for _ in range(20_000):
        await session.send("chat", bytes(100))
    await session.flush()
    sizes = [len(one) for one in await hearing]
    assert sizes[0] == 1
    assert set(sizes[1:-1]) == {limits.BUNDLE_TARGET_BYTES // 104}
    await say_bye(peer, session)


async def test_gathered_messages_leave_with_the_turn_of_the_loop(peer):
    session = await met(peer)
    await session.send("chat", b"first")
    await session.send("chat", b"second")
    await session.send("news", b"third")
    bundles = await asyncio.to_thread(peer.hear_messages, 3)
    assert [[message.payload for message in one] for one in bundles] == [[b"first"], [b"second"], [b"third"]]
    await say_bye(peer, session)


async def test_a_sender_waits_while_the_daemon_does_not_read(peer):
    session = await met(peer)
    sent = 0

    async def send_for_ever() -> None:
        nonlocal sent
        while True:
            await session.send("chat", bytes(10_000))
            sent += 1

    sending = asyncio.create_task(send_for_ever())
    before = -1
    while sent != before:
        before = sent
        await asyncio.sleep(0.2)
    assert sent * 10_000 < 8 * 1024 * 1024, "bounded by the socket and the library's queue"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    waiting = asyncio.create_task(session.send("chat", b"one more"))
    hearing = asyncio.create_task(asyncio.to_thread(peer.hear_messages, sent + 1))
    await asyncio.wait_for(waiting, 30)
    bundles = await hearing
    assert [len(one.payload) for bundle in bundles for one in bundle] == [10_000] * sent + [8]
    await say_bye(peer, session)


async def test_reading_stops_while_the_application_does_not_take(peer):
    session = await met(peer)
    bundle = delivered(*[bytes(1_000)] * 50)
    peer.connection.setblocking(False)
    said = bytearray()
    stalled = 0
    while stalled < 20:
        if not said:
            said += bundle
        try:
            del said[: peer.connection.send(said)]
            stalled = 0
        except BlockingIOError:
            stalled += 1
        await asyncio.sleep(0.005 if stalled else 0)
    assert session._incoming.queued_bytes < 2 * limits.CLIENT_EVENTS_MAX_BYTES
    while stalled:
        await session.receive_many()
        await asyncio.sleep(0)
        try:
            del said[: peer.connection.send(said)]
            stalled = 0
        except BlockingIOError:
            stalled += 1
    peer.hang_up()
    await session.close()


async def test_a_goodbye_ends_the_session_with_its_reason(peer):
    session = await met(peer)
    await session.send("chat", b"x")
    peer.say(delivered(b"last"), frames.Goodbye("slow-receiver", "it did not read"))
    assert (await session.receive()).payload == b"last"
    with pytest.raises(errors.Disconnected, match="it did not read") as caught:
        await session.receive()
    assert caught.value.reason == "it did not read (slow-receiver)"
    assert caught.value.unknown_fate == 1
    await session.close()


async def test_unknown_fate_counts_what_did_not_come_back(peer):
    session = await met(peer)
    await session.join("chat", wait=False)  # takes the daemon's number 1
    for _ in range(10):
        await session.send("chat", b"x")  # 2 to 11
    peer.say(delivered(b"x", b"x", b"x", sequence=2, **OWN))
    for _ in range(3):
        await session.receive()
    peer.hang_up()
    with pytest.raises(errors.Disconnected) as caught:
        await session.receive()
    assert caught.value.unknown_fate == 7
    await session.close()


async def test_a_hang_up_is_told_to_a_waiting_sender_with_the_daemons_last_word(peer):
    session = await met(peer)
    with pytest.raises(errors.Disconnected, match="out of memory"):
        peer.say(frames.Goodbye("failure", "out of memory"))
        peer.hang_up()
        async with asyncio.timeout(30):
            while True:
                await session.send("chat", bytes(10_000))
    await session.close()


async def test_a_stream_that_makes_no_sense_ends_the_session(peer):
    session = await met(peer)
    peer.say(b"\xff" * 100)
    with pytest.raises(errors.Disconnected, match="cannot be read"):
        await session.receive()
    await session.close()


async def test_a_broken_bundle_ends_the_session_at_its_place(peer):
    session = await met(peer)
    broken = bytearray(delivered(b"one"))
    broken[10:12] = b"\0\2"
    peer.say(delivered(b"fine") + bytes(broken) + delivered(b"never"))
    assert [event.payload for event in await session.receive_many()] == [b"fine"]
    with pytest.raises(errors.Disconnected, match="cannot be read"):
        await session.receive_many()
    await session.close()


async def test_a_complaint_does_not_end_the_session(peer):
    session = await met(peer)
    peer.say(delivered(b"before"), frames.Problem("not-joined", "not a member"), delivered(b"after"))
    assert (await session.receive()).payload == b"before"
    with pytest.raises(errors.UsageError, match="not a member"):
        await session.receive()
    assert (await session.receive()).payload == b"after"
    await say_bye(peer, session)


async def test_close_says_so_when_the_daemon_did_not_confirm(peer):
    session = await met(peer)
    await session.send("chat", b"x")
    closing = asyncio.create_task(session.close())
    await asyncio.to_thread(peer.hear_bundle)
    peer.hang_up()
    with pytest.raises(errors.Disconnected) as caught:
        await closing
    assert caught.value.unknown_fate == 1


async def test_close_waits_for_a_silent_daemon_but_not_for_ever(peer, monkeypatch):
    monkeypatch.setattr(session_module, "CLOSE_TIMEOUT_S", 0.05)
    session = await met(peer)
    await session.close()  # nothing was sent: nothing to complain about
    session = await met(peer)
    await session.send("chat", b"x")
    with pytest.raises(errors.Disconnected, match="no answer to the request to disconnect"):
        await session.close()


async def test_an_error_in_the_block_is_not_hidden_by_the_close(peer):
    welcomed = asyncio.create_task(asyncio.to_thread(peer.welcome))
    with pytest.raises(ZeroDivisionError):
        async with antiphon.connect(peer.address) as session:
            await welcomed
            await session.send("chat", b"x")
            peer.hang_up()
            1 / 0  # noqa: B018


async def test_a_silent_daemon_is_given_up(peer):
    with pytest.raises(errors.ConnectError, match=r"no answer from unix:.* within 0.05 s"):
        await antiphon.connect(peer.address, timeout_s=0.05)


async def test_what_is_not_a_daemon_is_told_apart(peer):
    async def answer() -> None:
        connection = await asyncio.to_thread(lambda: peer._listener.accept()[0])
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.close()

    answering = asyncio.create_task(answer())
    with pytest.raises(errors.ConnectError, match="not an Antiphon daemon"):
        await antiphon.connect(peer.address)
    await answering


async def test_a_cancelled_connect_leaves_no_session_behind(peer):
    connecting = asyncio.create_task(antiphon.connect(peer.address)._open())
    accepted = await asyncio.to_thread(lambda: peer._listener.accept()[0])
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    accepted.sendall(frames.encode_control(WELCOME))
    accepted.settimeout(30)
    while await asyncio.to_thread(accepted.recv, 4_096):
        pass  # its Connect; then the end of the stream
    accepted.close()
