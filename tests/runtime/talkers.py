"""Programs that use real sessions as people do, from a seed: they talk, join, leave, go away and come back.

One plan serves both libraries; each talker carries it out with its own kind of session and keeps a diary.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Protocol

from diary import Diary
from msgspec import Struct

import antiphon
from antiphon import Message, Service
from antiphon.client import Event as Received
from antiphon.client import ask_status
from antiphon.config import Config
from antiphon.errors import Disconnected, Refused

EVERYBODY = "all"
"""The group of the last words: whoever has heard all of them has heard everything before."""
GROUPS = ("red", "green", "blue")
LARGE_BYTES = 2_500_000
MIDDLING_BYTES = 20_000
UNIQUE_BYTES = 8
"""Of random payload, so that no two messages of a run are alike."""
PATIENCE_S = 60.0
"""Only to keep a failing test from hanging."""
LAST_WORD = b"that was all"


class Say(Struct):
    groups: tuple[str, ...]
    payloads: list[bytes]
    service: Service
    self_discard: bool


class Move(Struct):
    """Join the group, or leave it."""

    group: str
    joins: bool


class Rest(Struct):
    seconds: float


class Restart(Struct):
    """Disconnect and come back under the same name."""


Act = Say | Move | Rest | Restart


def plan(random: Random, others: list[str], *, restless: bool, large: bool) -> Iterator[Act]:
    """What one talker does, without end."""
    joined: set[str] = set()
    for group in random.sample(GROUPS, 2):
        joined.add(group)
        yield Move(group, True)
    if large:
        body = random.randbytes(LARGE_BYTES // 1_000) * 1_000
        yield Say((random.choice(GROUPS),), [body], Service.AGREED, False)
    while True:
        chance = random.random()
        if chance < 0.04:
            group = random.choice(GROUPS)
            yield Move(group, group not in joined)
            joined ^= {group}
        elif chance < 0.07 and restless:
            joined.clear()
            yield Restart()
        elif chance < 0.08:
            body = random.randbytes(UNIQUE_BYTES + random.randrange(MIDDLING_BYTES))
            yield Say((random.choice(GROUPS),), [body], random.choice(list(Service)), False)
        elif chance < 0.16:
            yield Say((random.choice(others),), [random.randbytes(100)], random.choice(list(Service)), False)
        elif chance < 0.6:
            groups = tuple(random.sample(GROUPS, random.choice((1, 1, 1, 2, 3))))
            sizes = [UNIQUE_BYTES + random.randrange(400) for _ in range(random.choice((1, 1, 3, 20)))]
            payloads = [random.randbytes(size) for size in sizes]
            yield Say(groups, payloads, random.choice(list(Service)), random.random() < 0.1)
        else:
            yield Rest(random.uniform(0.001, 0.03))


class BlockingSession(Protocol):
    """What a talker with threads asks of its session."""

    @property
    def name(self) -> str: ...
    @property
    def daemon(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def number(self) -> int: ...
    def join(self, group: str) -> None: ...
    def leave(self, group: str) -> None: ...
    def send(
        self, groups: tuple[str, ...], payload: bytes, service: Service, *, self_discard: bool
    ) -> None: ...
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[Received]: ...


Connect = Callable[[str, str], BlockingSession]
"""From a place and a name."""


def connect_ours(place: str, name: str) -> BlockingSession:
    return antiphon.blocking.connect(place, name=name)


class Assembly:
    """What the talkers of one run share."""

    def __init__(self, config: Config, seed: int, seconds: float, talkers: int) -> None:
        self.config = config
        self.seed = seed
        self.is_troubled = False
        """While something is being done to the daemons; the talkers go on until it is over."""
        self.until_s = time.monotonic() + seconds
        self.diaries: list[Diary] = []
        self.barrier = threading.Barrier(talkers, timeout=PATIENCE_S)
        self.talkers = talkers

    def begin(self, session: antiphon.Session | BlockingSession) -> Diary:
        daemon = session.daemon
        incarnation = ask_status(session.address)["incarnation"]
        diary = Diary(session.name, daemon, self.config.daemon_number(daemon), incarnation, session.number)
        self.diaries.append(diary)
        return diary

    def acts(self, name: str, others: list[str], *, restless: bool, large: bool) -> Iterator[Act]:
        """A talker's plan until the time is over."""
        acts = plan(Random(f"{self.seed}/{name}"), others, restless=restless, large=large)
        while self.is_troubled or time.monotonic() < self.until_s:
            yield next(acts)


def is_last_word(event: object) -> bool:
    return isinstance(event, Message) and event.payload == LAST_WORD


class AsyncTalker:
    """A talker on an event loop: one task talks, another listens."""

    def __init__(self, assembly: Assembly, place: str, name: str) -> None:
        self._assembly = assembly
        self._place = place
        self._name = name

    async def run(self, others: list[str], *, restless: bool = False, large: bool = False) -> None:
        assembly = self._assembly
        await self._connect()
        for act in assembly.acts(self._name, others, restless=restless, large=large):
            match act:
                case Say():
                    await self._say(act)
                case Move(group, joins):
                    await self._move(group, joins)
                case Rest(seconds):
                    await asyncio.sleep(seconds)
                case Restart():
                    self._diary.disconnect()
                    await self._session.close()
                    await self._listening
                    await self._connect()
        await asyncio.to_thread(assembly.barrier.wait)
        await self._say(Say((EVERYBODY,), [LAST_WORD], Service.AGREED, False))
        async with asyncio.timeout(PATIENCE_S):
            await self._listening
        await asyncio.to_thread(assembly.barrier.wait)
        await self._session.close()

    async def _connect(self) -> None:
        while True:
            try:
                self._session = await antiphon.connect(self._place, name=self._name)
                break
            except Refused as refused:  # the old session's end is still on its way
                assert refused.code == "name-taken"
                await asyncio.sleep(0.01)
        self._diary = self._assembly.begin(self._session)
        self._listening = asyncio.create_task(self._listen(self._session, self._diary))
        await self._move(EVERYBODY, True)

    async def _listen(self, session: antiphon.Session, diary: Diary) -> None:
        last_words = 0
        async for event in session:
            diary.took(event)
            last_words += is_last_word(event)
            if last_words == self._assembly.talkers:
                return

    async def _move(self, group: str, joins: bool) -> None:
        if joins:
            self._diary.join(group)
            await self._session.join(group)
        else:
            self._diary.leave(group)
            await self._session.leave(group)

    async def _say(self, act: Say) -> None:
        for payload in act.payloads:
            self._diary.send(act.groups, payload, act.service, act.self_discard)
            await self._session.send(act.groups, payload, act.service, self_discard=act.self_discard)


class BlockingTalker:
    """A talker with threads: one talks, another listens. `connect` makes its sessions."""

    def __init__(self, assembly: Assembly, place: str, name: str, connect: Connect) -> None:
        self._assembly = assembly
        self._connect_session = connect
        self._place = place
        self._name = name

    def run(self, others: list[str], *, restless: bool = False, large: bool = False) -> None:
        assembly = self._assembly
        self._connect()
        for act in assembly.acts(self._name, others, restless=restless, large=large):
            match act:
                case Say():
                    self._say(act)
                case Move(group, joins):
                    self._move(group, joins)
                case Rest(seconds):
                    time.sleep(seconds)
                case Restart():
                    self._diary.disconnect()
                    self._session.close()
                    self._listening.join(PATIENCE_S)
                    self._connect()
        assembly.barrier.wait()
        self._say(Say((EVERYBODY,), [LAST_WORD], Service.AGREED, False))
        self._listening.join(PATIENCE_S)
        assert not self._listening.is_alive(), f"{self._name} did not hear all last words"
        assembly.barrier.wait()
        self._session.close()

    def _connect(self) -> None:
        while True:
            try:
                self._session = self._connect_session(self._place, self._name)
                break
            except Refused as refused:  # the old session's end is still on its way
                assert refused.code == "name-taken"
                time.sleep(0.01)
        self._diary = self._assembly.begin(self._session)
        self._listening = threading.Thread(target=self._listen, args=(self._session, self._diary))
        self._listening.start()
        self._move(EVERYBODY, True)

    def _listen(self, session: BlockingSession, diary: Diary) -> None:
        last_words = 0
        try:
            for event in session:
                diary.took(event)
                last_words += is_last_word(event)
                if last_words == self._assembly.talkers:
                    return
        except Disconnected:
            assert diary.is_over

    def _move(self, group: str, joins: bool) -> None:
        if joins:
            self._diary.join(group)
            self._session.join(group)
        else:
            self._diary.leave(group)
            self._session.leave(group)

    def _say(self, act: Say) -> None:
        for payload in act.payloads:
            self._diary.send(act.groups, payload, act.service, act.self_discard)
            self._session.send(act.groups, payload, act.service, self_discard=act.self_discard)


def talk(
    config: Config,
    places: list[str],
    seed: int,
    seconds: float,
    trouble: Callable[[], None] | None = None,
    connect_others: Connect | None = None,
) -> list[Diary]:
    """Two talkers at each of `places`, one of each kind; every second place has restless ones, and the last
    talker begins with a large message. With `connect_others`, the first of each two has sessions of that
    kind instead of an event loop.

    They talk for so long, and for as long as `trouble` takes, which runs meanwhile and leaves all together.
    """
    kinds = ("aio" if connect_others is None else "other", "thread")
    names = [(f"{kind}{index}", place) for index, place in enumerate(places) for kind in kinds]
    daemon_at = {place: daemon.name for _, daemon in config.daemons() for place in daemon.clients}
    private = [f"#{name}#{daemon_at[place]}" for name, place in names]
    assembly = Assembly(config, seed, seconds, len(names))
    failures: list[BaseException] = []

    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)
            assembly.barrier.abort()

    async def all_async() -> None:
        async with asyncio.TaskGroup() as tasks:
            for index, (name, place) in enumerate(names):
                if name.startswith("aio"):
                    talker = AsyncTalker(assembly, place, name)
                    others = [one for one in private if f"#{name}#" not in one]
                    tasks.create_task(talker.run(others, restless=index % 4 == 0))

    def blocking(index: int, name: str, place: str) -> None:
        others = [one for one in private if f"#{name}#" not in one]
        connect = connect_others if connect_others and name.startswith("other") else connect_ours
        talker = BlockingTalker(assembly, place, name, connect)
        talker.run(others, restless=index % 4 < 2, large=index == len(names) - 1)

    def make_trouble(trouble: Callable[[], None]) -> None:
        try:
            trouble()
        finally:
            assembly.is_troubled = False

    threads = [threading.Thread(target=guarded, args=(lambda: asyncio.run(all_async()),))]
    if trouble is not None:
        assembly.is_troubled = True
        threads.append(threading.Thread(target=guarded, args=(partial(make_trouble, trouble),)))
    for index, (name, place) in enumerate(names):
        if not name.startswith("aio"):
            threads.append(threading.Thread(target=guarded, args=(partial(blocking, index, name, place),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return assembly.diaries
