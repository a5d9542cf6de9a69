"""Groups, journals and queries in processes that tests kill, and what must be true afterwards."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

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

    def descendants(self, *words: str) -> list[int]:
        """The processes below it that have all of these words on their command lines, parents first."""
        parents = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                parents[int(folder.name)] = int(
                    folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
                )
        found = [self._process.pid]
        for process in found:
            found += [child for child, parent in parents.items() if parent == process]
        return [process for process in found[1:] if all(word in _command(process) for word in words)]


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

    def start_query(self, max_rows: int = 2_000, group: str = "", address: str = "", *words: str) -> None:
        program = str(HERE / "killed_query.py")
        where = [address, group] if group else []
        arguments = [self.endpoint, str(self.folder), str(max_rows), *where, *words]
        self._query = Process(sys.executable, program, *arguments)

    def kill_query(self) -> None:
        if self._query is not None:
            self._query.kill()

    @property
    def query(self) -> Process:
        assert self._query is not None
        return self._query

    @property
    def endpoint(self) -> str:
        return ",".join(self.places)

    @property
    def query_is_alive(self) -> bool:
        return self._query is not None and self._query.is_alive

    def batches(self) -> int:
        """How many batches the query has finished; Spark keeps notes of the last hundred only."""
        commits = (self.folder / "checkpoint" / "commits").glob("[0-9]*")
        return max((int(commit.name) + 1 for commit in commits), default=0)

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


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _command(process: int) -> list[str]:
    """The words with which a process was started; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    return []
