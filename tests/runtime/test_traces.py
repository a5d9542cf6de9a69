"""Traces of real clusters: each process writes its own file, and together they are what the oracle judges."""

import asyncio
import shutil
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from process_cluster import ProcessCluster

import antiphon
from antiphon import Message, Service, Session, View
from antiphon.client import Reconnected
from antiphon.config import Settings
from antiphon.errors import Disconnected, UsageError
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.simulator.oracle import judge
from antiphon.trace import Event, Record, Trace, merge
from antiphon.trace.files import read_records
from antiphon.trace.records import OF_EDGES, OF_LOCKS_AND_CALLS
from antiphon.types import BatchStamp, Cause

GROUP = "red"
LAST_WORD = b"that was all"
BATCH = [b"first of a batch", b"second of a batch"]
PATIENCE_S = 60.0
"""Only to keep a failing test from hanging."""
HASTY = Settings(membership="lan", suspect_ms=700.0)

FLOODER = """
import sys, antiphon
with antiphon.blocking.connect(sys.argv[1], name="flooder", trace=sys.argv[2]) as session:
    session.join("red")
    print("begun", flush=True)
    while True:
        session.send_many("red", [b"x" * 50] * 20)
"""


class Listener:
    """Takes what comes, from its connect on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.views = 0
        self.last_words = 0
        self.returns = 0
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.session:
            self.views += isinstance(event, View)
            self.returns += isinstance(event, Reconnected)
            self.last_words += isinstance(event, Message) and event.payload == LAST_WORD
            async with self._news:
                self._news.notify_all()

    async def until(self, satisfied: Callable[["Listener"], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: satisfied(self))

    async def close(self) -> None:
        with suppress(Disconnected):  # what was under way to the daemon that was killed has an unknown fate
            await self.session.close()
        await self._task


async def talk(people: list[Listener], random: Random, rounds: int) -> None:
    for _ in range(rounds):
        person = random.choice(people)
        service = random.choice(list(Service))
        payloads = [random.randbytes(random.randrange(300)) for _ in range(random.choice((1, 1, 5)))]
        await person.session.send_many(GROUP, payloads, service, self_discard=random.random() < 0.1)
        if random.random() < 0.3:
            await asyncio.sleep(0.005)


async def meet_and_lose_a_daemon(places: list[str], kill: Callable[[], Awaitable[None]]) -> None:
    """People at all three daemons, one of whom has to go on elsewhere when the second daemon dies."""
    random = Random(11)
    async with AsyncExitStack() as stack:

        async def arrive(name: str, *where: str, views: bool = True) -> Listener:
            session = await antiphon.connect(list(where), name=name, views=views, reconnect=True)
            listener = Listener(session)
            stack.push_async_callback(listener.close)
            await session.join(GROUP)
            return listener

        ada = await arrive("ada", places[0])
        bob = await arrive("bob", places[2])
        cleo = await arrive("cleo", places[1], places[0])
        dan = await arrive("dan", places[2], views=False)
        everybody = [ada, bob, cleo, dan]
        await talk(everybody, random, 60)
        for _ in range(2):
            await ada.session.send_many(GROUP, BATCH, batch=BatchStamp("query", 1, 0, 1, 0))
        killing = asyncio.create_task(kill())
        while not killing.done():
            await talk([ada, bob, dan], random, 5)
        await cleo.until(lambda cleo: cleo.returns == 1)
        await talk(everybody, random, 60)
        for person in everybody:
            await person.session.send(GROUP, LAST_WORD)
        for person in everybody:
            await person.until(lambda person: person.last_words == len(everybody))
        views = ada.views
        await arrive("eve", places[0])  # a view after which all know what was in the one before
        await ada.until(lambda ada: ada.views > views)
        await bob.until(lambda bob: bob.views >= views)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The traces of a cluster of processes, one of which was killed."""
    directory = tmp_path_factory.mktemp("cluster")
    traces = directory / "traces"
    config = local_config(3, directory, delay_ms=1, settings=HASTY)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_TRACE", str(traces))
        cluster = ProcessCluster(config, directory, stack)

        async def kill() -> None:
            cluster.kill(1)
            await asyncio.to_thread(cluster.wait_formed, (0, 2))

        asyncio.run(meet_and_lose_a_daemon(cluster.places, kill))
        cluster.processes[0].terminate()
        cluster.processes[0].wait()
        cluster.restart(1)  # a second life, which ends with a kill as well
        cluster.wait_formed((1, 2))
    yield traces


SLEW_US = 50_000
"""By how much the system clock may be corrected in the few seconds of the run."""


def happened(trace: Trace, event: Event, **wanted: object) -> list[Record]:
    return [
        record
        for record in trace.of(event)
        if all(getattr(record, name) == value for name, value in wanted.items())
    ]


def test_a_traced_cluster_is_judged_clean(folder: Path) -> None:
    trace = merge(folder)
    violations = judge(trace)
    assert not violations, "\n".join(map(str, violations[:5]))
    assert {record.event for record in trace.records} == set(Event) - OF_LOCKS_AND_CALLS - OF_EDGES - {
        Event.RESTORED,
        Event.LEAVE,
        Event.LEFT,
        Event.SLOW,
        Event.FORGED,
        Event.BREACH,
        Event.NONSENSE,
        Event.STEADY,
    }
    assert trace.daemons == ("d1", "d2", "d3")
    assert trace.sites == ("site1", "site2", "site3")
    assert len({record.service for record in trace.of(Event.DELIVER)}) == 6
    assert len(happened(trace, Event.RECOVER, daemon="d2")) == 2
    assert {"#cleo#d2", "#cleo#d1", "#dan#d3", "#eve#d1"} < set(trace.by_process)
    assert happened(trace, Event.VIEW, process="#dan#d3", cause="join")
    assert happened(trace, Event.CONNECT, process="#dan#d3", views_wanted=False)
    assert all(record.lts for record in trace.of(Event.DELIVER))
    links = happened(trace, Event.LINK, daemon="d1", peer="d3")
    assert links[-1].link["packets"] > 0
    assert links[-1].link["round_trip_us"] > 0


def test_a_daemon_tells_what_the_time_is_when_its_system_clock_shows_something(folder: Path) -> None:
    """There is one system clock on one machine, from which every internal time begins."""
    samples = happened(merge(folder), Event.CLOCK, state="internal")
    assert {record.daemon for record in samples} == {"d1", "d2", "d3"}
    for record in samples:
        off_us = record.clock["time_us"] - record.time_us
        assert abs(off_us) <= record.clock["error_us"] + SLEW_US
    alone = [record for record in samples if record.peer == record.daemon]
    assert all(record.clock["error_us"] < SLEW_US for record in alone)


def test_a_copy_of_a_batch_is_delivered_as_far_as_the_trace_goes(folder: Path) -> None:
    """The library drops it; for the daemons it is a message as any other."""
    trace = merge(folder)
    for payload in BATCH:
        checksum = zlib.crc32(payload)
        sent = happened(trace, Event.SEND, process="#ada#d1", checksum=checksum)
        assert len(sent) == 2
        for process in ("#ada#d1", "#bob#d3", "#dan#d3"):
            copies = happened(trace, Event.DELIVER, process=process, checksum=checksum)
            assert [copy.message for copy in copies] == [one.message for one in sent]


def test_the_file_of_a_killed_daemon_just_ends(folder: Path) -> None:
    lives = sorted(folder.glob("daemon.d2.*.jsonl"))
    assert len(lives) == 2
    for life in lives:
        records = read_records(life)[1]
        assert records[0].event is Event.RECOVER
        assert records[-1].event is not Event.CRASH
    (ended,) = folder.glob("daemon.d1.*.jsonl")
    assert read_records(ended)[1][-1].event is Event.CRASH


def without(folder: Path, path: Path, line: int) -> Path:
    """A copy of all traces in which one line is missing."""
    copy = folder.with_name("doctored")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[line]
    (copy / path.name).write_bytes(b"".join(lines))
    return copy


def line_of(path: Path, event: Event, service: str) -> int:
    """The line of the last such event but one."""
    found = [
        line
        for line, text in enumerate(path.read_bytes().splitlines())
        if (told := msgspec.json.decode(text)).get("event") == event and told.get("service") == service
    ]
    return found[-2]


@pytest.mark.parametrize("event", [Event.DELIVER, Event.SEND])
def test_a_line_less_of_a_session_is_noticed(folder: Path, event: Event) -> None:
    path = folder / "client.ada@d1.jsonl"
    assert judge(merge(without(folder, path, line_of(path, event, "agreed"))))


@pytest.mark.parametrize("event", [Event.SDELIVER, Event.SSEND])
def test_a_line_less_of_a_daemon_is_noticed(folder: Path, event: Event) -> None:
    (path,) = folder.glob("daemon.d3.*.jsonl")
    assert judge(merge(without(folder, path, line_of(path, event, "agreed"))))


def test_a_killed_client_has_written_down_all_that_others_got_of_it(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    with ExitStack() as stack:
        daemon = stack.enter_context(Daemon(local_config(1, tmp_path), "d1", trace=traces))
        place = daemon.places[0]
        ada = stack.enter_context(antiphon.blocking.connect(place, name="ada", trace=traces))
        ada.join(GROUP)
        words = [sys.executable, "-c", FLOODER, place, str(traces)]
        flooder = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
        stack.callback(flooder.kill)
        assert flooder.stdout is not None
        assert flooder.stdout.readline() == b"begun\n"
        messages = 0
        while messages < 2_000:
            messages += sum(isinstance(event, Message) for event in ada.receive_many())
        flooder.kill()
        for event in ada:
            messages += isinstance(event, Message)
            if isinstance(event, View) and event.cause is Cause.DISCONNECT:
                break
    trace = merge(traces)
    assert not judge(trace)
    assert len(happened(trace, Event.DELIVER, process="#ada#d1")) == messages
    assert trace.by_process["#flooder#d1"][-1].cause == "killed"


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no trace can be written"):
        antiphon.connect("unix:/nowhere", trace=tmp_path / "file")
