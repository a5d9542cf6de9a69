"""Sessions of real daemons in processes of their own, some of which are killed."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable

import antiphon
from antiphon import Cause, Message, Reconnected, Service, Session, TransitionalSignal, View
from antiphon.client import ask_status
from antiphon.load.cluster import daemons

GROUP = "ledger"


def kill(address: str) -> None:
    """The daemon there is gone at once."""
    os.kill(ask_status(address)["runtime"]["pid"], signal.SIGKILL)


async def until(session: Session, satisfied: Callable[[antiphon.Event], bool]) -> list[antiphon.Event]:
    """What comes, up to the event that is waited for."""
    seen: list[antiphon.Event] = []
    async with asyncio.timeout(60):
        while not seen or not satisfied(seen[-1]):
            seen.append(await session.receive())
    return seen


def has_members(*names: str) -> Callable[[antiphon.Event], bool]:
    return lambda event: isinstance(event, View) and set(event.members) == set(names)


async def test_what_is_not_told_as_unknown_arrives_though_the_daemon_is_killed_in_mid_flow():
    with daemons(3) as (doomed, spare, far):
        async with antiphon.connect(far, name="bob") as bob:
            await bob.join(GROUP)
            alice = await antiphon.connect((doomed, spare), name="alice", reconnect=True)
            sent = 0

            async def talk() -> None:
                nonlocal sent
                while alice.name == "#alice#d1":
                    await alice.send(GROUP, b"%d" % sent, Service.AGREED)
                    sent += 1
                    if sent % 20 == 0:
                        await asyncio.sleep(0.001)

            talking = asyncio.create_task(talk())
            while sent < 2_000:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(kill, doomed)
            (event,) = await until(alice, lambda event: isinstance(event, Reconnected))
            await talking
            assert isinstance(event, Reconnected)
            assert (event.old_name, event.name) == ("#alice#d1", "#alice#d2")
            unknown = {int(one.payload) for one in event.unknown}
            assert len(unknown) == event.unknown_fate
            await alice.send(GROUP, b"end", Service.SAFE)
            seen = await until(bob, lambda event: isinstance(event, Message) and event.payload == b"end")
            heard = Counter(event.payload for event in seen if isinstance(event, Message))
            assert max(heard.values()) == 1
            missing = set(range(sent)) - {int(payload) for payload in heard if payload != b"end"}
            assert missing <= unknown, "what is not told as unknown must have arrived"
            await alice.close()


async def test_those_who_stay_see_a_signal_and_then_who_is_left():
    with daemons(3) as (near, doomed, far):
        async with (
            antiphon.connect(near, name="ann") as ann,
            antiphon.connect(far, name="fay") as fay,
            antiphon.connect((doomed, far), name="dan", reconnect=True) as dan,
        ):
            for session in (ann, fay, dan):
                await session.join(GROUP)
            for session in (ann, fay, dan):
                await until(session, has_members("#ann#d1", "#fay#d3", "#dan#d2"))
            await asyncio.to_thread(kill, doomed)
            after = has_members("#ann#d1", "#fay#d3", "#dan#d3")
            seen = [await until(session, after) for session in (ann, fay)]
            for events in seen:
                assert isinstance(events[0], TransitionalSignal)
                lost = next(e for e in events if isinstance(e, View) and e.cause is Cause.NETWORK)
                assert lost.changed == ("#dan#d2",)
                assert {"#ann#d1", "#fay#d3"} <= set(lost.transitional)
            views = [[event for event in events if isinstance(event, View)] for events in seen]
            assert [view.id for view in views[0]] == [view.id for view in views[1]]
            returned, *_ = await until(dan, after)
            assert isinstance(returned, Reconnected) and returned.groups == (GROUP,)


def test_blocking_sessions_survive_a_crash():
    with daemons(2) as (doomed, spare):
        places = f"{doomed},{spare}"
        with antiphon.blocking.connect(places, name="bob", reconnect=True) as session:
            session.join(GROUP)
            assert isinstance(session.receive(60), View)
            kill(doomed)
            event = session.receive(60)
            assert isinstance(event, Reconnected) and event.groups == (GROUP,)
            session.send(GROUP, b"still here", Service.SAFE)
            while not isinstance(event, Message):
                event = session.receive(60)
            assert (event.sender, event.payload) == ("#bob#d2", b"still here")
