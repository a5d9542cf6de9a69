"""Locks and handlers in both client libraries."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest
from scripted_daemon import WELCOME, ScriptedDaemon

import antiphon
from antiphon import Cause, Lock, LockCause, LockChanged, LockGone, LockGranted, View, ViewId, errors
from antiphon.client._locks import LockTable
from antiphon.wire import frames

ME, OTHER = "#alice#d1", "#bob#d1"
ID = ViewId(1, 0, 1, 0)
SECOND = msgspec.structs.replace(WELCOME, name="#alice#d2", daemon="d2", daemon_number=4, session=1)


def change(cause: LockCause, session: str, holder: str = "", fence: int = 0, *waiting: str) -> LockChanged:
    return LockChanged("g", ID, Lock("L", holder, fence, waiting), cause, session)


def view(*locks: Lock, cause: Cause = Cause.DISCONNECT, has_quorum: bool = True) -> View:
    return View("g", ID, (ME,), (ME,), cause, (), has_quorum=has_quorum, locks=locks)


# The table ------------------------------------------------------------------------------------------------


def test_a_request_is_granted_by_its_own_answer_by_a_release_or_by_a_view() -> None:
    table = LockTable(ME)
    own = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, ME, 5))
    assert own.is_held and own.fence == 5
    assert table.release(own) and not table.release(own)
    table.change(change(LockCause.RELEASED, ME, OTHER, 6))
    own = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, OTHER, 6, ME))
    assert not own.is_held
    table.change(change(LockCause.RELEASED, OTHER, ME, 7))
    assert own.is_held and own.fence == 7
    table.release(own)
    table.change(change(LockCause.RELEASED, ME, OTHER, 8))
    own = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, OTHER, 8, ME))
    assert table.view(view(Lock("L", ME, 9))) == [LockGranted("g", "L", 9, ID)]
    assert own.is_held


def test_a_grant_of_a_request_that_was_taken_back_is_not_that_of_the_next() -> None:
    table = LockTable(ME)
    first = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, OTHER, 5, ME))
    table.release(first)
    second = table.ask("g", "L")
    table.change(change(LockCause.RELEASED, OTHER, ME, 6))  # that was for the first
    assert table.view(view(Lock("L", ME, 6))) == [] and not second.is_held
    table.change(change(LockCause.RELEASED, ME, "", 0))
    assert not second.is_held
    table.change(change(LockCause.ASKED, ME, ME, 7))
    assert second.is_held and second.fence == 7 and not first.is_held


def test_a_view_without_this_holder_is_a_loss() -> None:
    table = LockTable(ME)
    own = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, ME, 5))
    (event,) = table.view(view(has_quorum=False))
    assert event == LockGone("g", "L", 5, "the group has no quorum") and not own.is_held and own.is_over
    assert table.view(view()) == []


def test_a_merge_gives_a_greater_fence() -> None:
    table = LockTable(ME)
    own = table.ask("g", "L")
    table.change(change(LockCause.ASKED, ME, ME, 5))
    assert table.view(view(Lock("L", ME, 50), cause=Cause.MERGE)) == [LockGranted("g", "L", 50, ID)]
    assert own.is_held and own.fence == 50


def test_who_does_not_wait_is_refused() -> None:
    table = LockTable(ME)
    own = table.ask("g", "L")
    table.change(change(LockCause.REFUSED, ME, OTHER, 5))
    assert own.is_refused and own.is_over
    table.ask("g", "L")


# Real daemons ---------------------------------------------------------------------------------------------


async def test_locks_exclude_and_pass_on_with_greater_fences(address):
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="b") as b:
        for session in (a, b):
            await session.join("jobs")
        async with a.lock("jobs", "nightly") as held:
            assert held.is_held and held.fence > 0 and not held.lost.is_set()
            assert await b.try_lock("jobs", "nightly") is None
            with pytest.raises(TimeoutError, match=r"no lock 'nightly' of 'jobs' within 0\.1 s"):
                await b.lock("jobs", "nightly", timeout_s=0.1)
            waiting = asyncio.create_task(b.lock("jobs", "nightly")._take())
            await asyncio.sleep(0.1)
            assert not waiting.done()
            first = held.fence
        assert not held.is_held
        with pytest.raises(errors.LockLost, match="it was released"):
            held.check()
        after = await waiting
        assert after.fence > first
        await after.release()
        async with asyncio.timeout(10):  # a release is asked for over one connection, the lock over another
            while (again := await a.try_lock("jobs", "nightly")) is None:
                await asyncio.sleep(0.01)
        assert again.fence > after.fence


async def test_a_wait_that_is_cancelled_takes_the_request_back(address):
    async with antiphon.connect(address, name="a") as a, antiphon.connect(address, name="b") as b:
        for session in (a, b):
            await session.join("jobs")
        held = await a.lock("jobs", "L")
        waiting = asyncio.create_task(b.lock("jobs", "L")._take())
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await held.release()
        assert (await a.lock("jobs", "L", timeout_s=10)).is_held
        changes = []
        async with asyncio.timeout(10):
            while len(changes) < 5:
                event = await a.receive()
                if isinstance(event, LockChanged):
                    changes.append((event.cause, event.session, event.lock.holder, event.lock.waiting))
        assert changes == [
            (LockCause.ASKED, "#a#d1", "#a#d1", ()),
            (LockCause.ASKED, "#b#d1", "#a#d1", ("#b#d1",)),
            (LockCause.RELEASED, "#b#d1", "#a#d1", ()),
            (LockCause.RELEASED, "#a#d1", "", ()),
            (LockCause.ASKED, "#a#d1", "#a#d1", ()),
        ]


async def test_a_holder_that_is_gone_makes_way_and_a_holder_that_leaves_has_lost(address):
    async with antiphon.connect(address, name="b") as b:
        a = await antiphon.connect(address, name="a")
        for session in (a, b):
            await session.join("jobs")
        await a.lock("jobs", "L")
        waiting = asyncio.create_task(b.lock("jobs", "L")._take())
        await asyncio.sleep(0.1)
        await a.close()
        held = await asyncio.wait_for(waiting, 10)
        await b.leave("jobs")
        assert held.lost.is_set() and not held.is_held
        with pytest.raises(errors.LockLost, match="has left the group"):
            held.check()
        events = []
        async with asyncio.timeout(10):
            while not events or not isinstance(events[-1], LockGone):
                events.append(await b.receive())
        assert any(isinstance(event, LockGranted) for event in events)


async def test_what_cannot_be_locked(address):
    async with antiphon.connect(address) as session, antiphon.connect(address, views=False) as blind:
        with pytest.raises(errors.UsageError, match="not joined"):
            await session.lock("jobs", "L")
        await session.join("jobs")
        await blind.join("jobs")
        with pytest.raises(errors.UsageError, match="lock name"):
            await session.lock("jobs", "no spaces")
        with pytest.raises(errors.UsageError, match="needs views"):
            await blind.lock("jobs", "L")
        with pytest.raises(errors.UsageError, match="numbered from 0 to 255"):
            session.handle("jobs", 256)
        await session.lock("jobs", "L")
        with pytest.raises(errors.UsageError, match="holds the lock 'L' of 'jobs' already"):
            await session.lock("jobs", "L")


def test_the_blocking_twins(address):
    with antiphon.blocking.connect(address, name="a") as a, antiphon.blocking.connect(address) as b:
        for session in (a, b):
            session.join("jobs")
        got = threading.Event()

        def wait() -> None:
            with b.lock("jobs", "L"):
                got.set()

        with a.lock("jobs", "L") as held:
            assert held.is_held and b.try_lock("jobs", "L") is None
            with pytest.raises(TimeoutError):
                b.lock("jobs", "L", timeout_s=0.1)
            waiter = threading.Thread(target=wait)
            waiter.start()
            assert not got.wait(0.2)
        assert got.wait(10)
        waiter.join()
        with a.handle("jobs", 9) as handler:
            assert handler.name == "handler/9"


# Lost connections -----------------------------------------------------------------------------------------


async def test_locks_are_gone_with_the_connection_and_the_application_is_told(tmp_path: Path):
    peers = [ScriptedDaemon(tmp_path, name) for name in ("one", "two")]
    welcomed = asyncio.create_task(asyncio.to_thread(peers[0].welcome))
    session = await antiphon.connect([peer.address for peer in peers], name="alice", reconnect=True)
    await welcomed
    await session.join("g", wait=False)
    peers[0].say(frames.ViewFrame(View("g", ID, (ME,), (), Cause.JOIN, (ME,))))
    asking = asyncio.create_task(session.lock("g", "L")._take())
    words = [await asyncio.to_thread(peers[0].hear_control) for _ in range(2)]
    assert words[1] == frames.AskLock("g", "L", True)
    peers[0].say(frames.LockFrame(change(LockCause.ASKED, ME, ME, 5)))
    held = await asking
    assert held.is_held
    peers[0].hang_up()
    await asyncio.wait_for(held.lost.wait(), 10)
    assert not held.is_held
    await asyncio.to_thread(peers[1].welcome, SECOND)
    assert await asyncio.to_thread(peers[1].hear_control) == frames.Join("g")
    events = [await session.receive() for _ in range(4)]
    assert [type(event) for event in events] == [View, LockChanged, LockGone, antiphon.Reconnected]
    await held.release()  # nothing is said for it
    asking = asyncio.create_task(session.lock("g", "L")._take())
    assert await asyncio.to_thread(peers[1].hear_control) == frames.AskLock("g", "L", True)
    peers[1].hang_up()
    with pytest.raises(errors.LockLost, match="connection was lost"):
        await asking
    for peer in peers:
        peer.close()
    session._over("the test is over")


async def test_a_block_whose_lock_is_lost_ends_with_lock_lost(tmp_path: Path):
    peer = ScriptedDaemon(tmp_path)
    welcomed = asyncio.create_task(asyncio.to_thread(peer.welcome))
    session = await antiphon.connect(peer.address)
    await welcomed
    await session.join("g", wait=False)

    def grant() -> None:
        assert [peer.hear_control(), peer.hear_control()][1] == frames.AskLock("g", "L", True)
        peer.say(frames.LockFrame(change(LockCause.ASKED, ME, ME, 5)))

    granting = asyncio.create_task(asyncio.to_thread(grant))
    with pytest.raises(errors.LockLost, match="a view"):
        async with session.lock("g", "L") as held:
            await granting
            peer.say(frames.ViewFrame(view(Lock("L", OTHER, 8), cause=Cause.MERGE)))
            await asyncio.wait_for(held.lost.wait(), 10)
    peer.close()
    session._over("the test is over")
