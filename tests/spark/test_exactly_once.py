"""Queries and journals are killed with SIGKILL during a flood: the table has each message once, in order."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from killed_query import start_query
from recorded_groups import Room, room, wait_until

from antiphon import Message, Reconnected, blocking
from antiphon.journal.reader import Journals

HERE = Path(__file__).parent


class Process:
    """A program in a process group of its own, so that nothing of it outlives it."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None


class Flood:
    """Sends numbered messages at each daemon until it is stopped; a listener notes the order of all."""

    def __init__(self, room: Room, group: str, pause_s: float) -> None:
        self.sent = 0
        self.heard: list[bytes] = []
        self._group = group
        self._pause_s = pause_s
        self._over = threading.Event()
        self._counting = threading.Lock()
        self._listener = blocking.connect(room.addresses[0], name="witness")
        self._listener.join(group)
        self._threads = [
            threading.Thread(target=self._send, args=(address, number))
            for number, address in enumerate(room.addresses)
        ]
        self._listening = threading.Thread(target=self._listen)
        for thread in (*self._threads, self._listening):
            thread.start()

    def _send(self, address: str, number: int) -> None:
        with blocking.connect(address) as session:
            at = 0
            while not self._over.wait(self._pause_s):
                session.send_many(self._group, [b"%d.%d" % (number, at + place) for place in range(20)])
                at += 20
            session.wait_accepted()
            with self._counting:
                self.sent += at

    def _listen(self) -> None:
        while not self._over.is_set() or len(self.heard) < self.sent or self._is_sending:
            with suppress(TimeoutError):
                events = self._listener.receive_many(timeout_s=0.2)
                assert not any(isinstance(event, Reconnected) for event in events)
                self.heard += [event.payload for event in events if isinstance(event, Message)]

    @property
    def _is_sending(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._over.set()
        for thread in (*self._threads, self._listening):
            thread.join()
        self._listener.close()


class Story:
    """Two daemons, two journals as processes, a flood, and a query that comes and goes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.room = stack.enter_context(room(folder, daemons=2))
        self._stack = stack
        self._journals: list[Process | None] = [None, None]
        self._query: Process | None = None
        self.places = [f"grpc://127.0.0.1:{port}" for port in _free_ports(2)]
        stack.callback(self.kill_query)
        for number in (0, 1):
            stack.callback(self.kill_journal, number)
            self.start_journal(number)

    def start_journal(self, number: int) -> None:
        process = self._journals[number] = Process(
            sys.executable, "-m", "antiphon", "journal", "--groups", "flood",
            "--dir", str(self.folder / f"journal{number}"), "--listen", self.places[number],
            "--address", self.room.addresses[number], "--fsync", "never", "--json",
        )  # fmt: skip
        before = json.loads(process.line())["latest"]
        reader = Journals([self.places[number]], patience_s=60)
        wait_until(lambda: reader.positions().latest > before, f"journal {number} is a member")

    def kill_journal(self, number: int) -> None:
        process = self._journals[number]
        if process is not None:
            process.kill()

    def flood(self, pause_s: float = 0.05) -> Flood:
        flood = Flood(self.room, "flood", pause_s)
        self._stack.callback(flood.stop)
        return flood

    def start_query(self, max_rows: int = 2_000, group: str = "", address: str = "") -> None:
        program = str(HERE / "killed_query.py")
        where = [address, group] if group else []
        self._query = Process(sys.executable, program, self.endpoint, str(self.folder), str(max_rows), *where)

    def kill_query(self) -> None:
        if self._query is not None:
            self._query.kill()

    @property
    def endpoint(self) -> str:
        return ",".join(self.places)

    @property
    def query_is_alive(self) -> bool:
        return self._query is not None and self._query.is_alive

    def batches(self) -> int:
        """How many batches the query has finished."""
        return len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))

    def journals_read(self) -> list[str]:
        """The journal in which each batch of the query ended."""
        logs = sorted((self.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda log: int(log.name))
        return [json.loads(log.read_text().splitlines()[-1])["journal"] for log in logs]

    def wait_batches(self, more: int) -> None:
        wanted = self.batches() + more
        wait_until(lambda: self.batches() >= wanted or not self.query_is_alive, f"{more} more batches")
        assert self.query_is_alive, "the query has ended by itself"

    def finish(self, spark: Any, flood: Flood) -> list[Any]:
        """Let the query read the rest, in the session of the tests; the rows of the table in agreed order."""
        flood.stop()
        query = start_query(spark, self.endpoint, str(self.folder), "200000", availableNow=True)
        assert query.awaitTermination(200)
        table = spark.read.parquet(f"{self.folder}/table").where("kind = 'message'")
        return table.orderBy("lts", "place").select("payload", "lts", "place").collect()

    def check(self, rows: list[Any], flood: Flood) -> None:
        """Each message once, and in the order in which a member had them."""
        assert flood.sent == len(flood.heard)
        found = [bytes(row.payload) for row in rows]
        assert len(found) == len(set(found)), "some message is there twice"
        assert set(found) == set(flood.heard)
        assert found == flood.heard


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with ExitStack() as stack:
        yield Story(tmp_path, stack)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_journals_and_a_killed_query_lose_and_repeat_nothing(spark: Any, story: Story) -> None:
    """The journal that the query reads is killed, then the query; the journal comes back with a gap."""
    flood = story.flood()
    story.start_query()
    wait_until(lambda: story.batches() >= 2, "the query has begun")
    first = story.journals_read()[-1]
    dead = 0 if Journals([story.places[0]]).positions().journal == first else 1
    story.kill_journal(dead)
    wait_until(lambda: story.journals_read()[-1] != first, "the query goes on in the other journal")
    story.wait_batches(1)
    story.kill_query()
    story.start_journal(dead)
    story.check(story.finish(spark, flood), flood)
    back = Journals([story.places[dead]])
    have = back.positions()
    kinds = [kind for batch in back.read(0, have.latest) for kind in batch.column("kind").to_pylist()]
    assert "gap" in kinds, "what it missed is marked"


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_many_kills_of_everything(spark: Any, story: Story) -> None:
    """Queries and journals are killed in turn at arbitrary moments; never both journals at once."""
    chance = random.Random(4)
    flood = story.flood(0.05)
    for _ in range(6):
        story.start_query(chance.choice((500, 2_000, 10_000)))
        story.wait_batches(2)
        for number in chance.sample((0, 1), 2):
            time.sleep(chance.uniform(0, 2))
            story.kill_journal(number)
            time.sleep(chance.uniform(0, 6))
            story.start_journal(number)
            story.wait_batches(1)
        time.sleep(chance.uniform(0, 1))
        story.kill_query()
    story.check(story.finish(spark, flood), flood)


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_killed_sink_sends_each_message_once(spark: Any, story: Story) -> None:
    """A query from a group to another is killed in the middle of its batches, again and again."""
    flood = story.flood(0.1)
    chance = random.Random(5)
    with blocking.connect(story.room.addresses[1]) as listener:
        listener.join("copy")
        copies: list[bytes] = []
        for _ in range(5):
            story.start_query(1_000, "copy", story.room.addresses[0])
            story.wait_batches(2)
            time.sleep(chance.uniform(0, 2))
            story.kill_query()
        flood.stop()
        target = (story.room.addresses[0], "copy")
        query = start_query(spark, story.endpoint, str(story.folder), "5000", *target, availableNow=True)
        assert query.awaitTermination(600)
        listener.send("copy", b"end")
        while not copies or copies[-1] != b"end":
            event = listener.receive(timeout_s=60)
            if isinstance(event, Message):
                copies.append(event.payload)
    assert copies[:-1] == flood.heard
