"""Rows, logs and clusters for the tests of this folder."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from antiphon.client import ask_status
from antiphon.config import Config, Settings
from antiphon.errors import AntiphonError
from antiphon.journal import lookup
from antiphon.journal.log import Log
from antiphon.journal.reader import Journals
from antiphon.journal.recorder import bundles
from antiphon.journal.rows import Rows
from antiphon.journal.running import Journal
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed
from antiphon.service import Service
from antiphon.types import BatchStamp, Cause, Envelope, Message, View, ViewId

PATIENCE_S = 60.0
"""Only to keep a failing test from hanging."""


def wait_until(is_true: Callable[[], bool], what: str = "that") -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline_s, f"waited for {what} in vain"
        time.sleep(0.02)


# Rows made by hand ----------------------------------------------------------------------------------------


def bundle(
    first: int,
    count: int,
    *,
    service: Service = Service.AGREED,
    groups: tuple[str, ...] = ("tea",),
    lts: int | None = None,
    payload: bytes = b"",
    batch: BatchStamp | None = None,
) -> list[Message]:
    """Messages `first` and on of one session, in one bundle; the payload of each ends with its number."""
    envelope = Envelope(
        "#alice#d1", groups, service, 0, 1, 7, 3, first, lts or (first + 1) << 10, 1_000 + first, batch
    )  # fmt: skip
    return [Message(payload + b"%d" % (first + index), envelope, index) for index in range(count)]


def view(lts: int, group: str = "tea", members: tuple[str, ...] = ("#alice#d1",)) -> View:
    return View(group, ViewId(9, 0, lts, 1), members, members, Cause.JOIN, members[-1:])


def rows_of(
    *events: Message | View, group: str = "tea", shown: str | None = "v", time_us: int = 1_000
) -> Rows:
    """Rows of these events, all delivered at one time."""
    rows = Rows()
    for run in bundles(list(events)):
        if isinstance(run[0], View):
            rows.add_view(run[0], time_us)
        else:
            rows.add_messages(run, group, shown, time_us)
    return rows


def fill(log: Log, batches: int, each: int = 10, *, payload: bytes = b"", first: int = 0) -> None:
    """Append `batches` batches of one bundle each, a millisecond apart."""
    for number in range(batches):
        start = first + number * each
        log.append(rows_of(*bundle(start, each, payload=payload), time_us=(start + 1) * 1_000))


def rows_in(log: Log, groups: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Every row that the log has."""
    have = lookup.positions(log)
    return as_rows(lookup.read(log, have.earliest, have.latest, groups))


def as_rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


# Journals in this process ---------------------------------------------------------------------------------


@contextmanager
def recording(groups: Sequence[str], folder: Path, **options: Any) -> Iterator[Journal]:
    """A journal that records while the body runs; its mistakes are those of the test."""
    over = threading.Event()
    failures: list[BaseException] = []

    def run(journal: Journal) -> None:
        try:
            journal.run(over.is_set)
        except AntiphonError as error:
            failures.append(error)

    with Journal(groups, folder, **options) as journal:
        thread = threading.Thread(target=run, args=(journal,))
        thread.start()
        try:
            yield journal
        finally:
            over.set()
            thread.join()
    assert not failures, failures


def wait_member(journal: Journal, lives: int = 1) -> None:
    """Until the journal has had its own view of each of its groups in `lives` memberships."""

    def is_member() -> bool:
        own = [
            row
            for row in rows_in(journal.log)
            if row["kind"] == "view" and row["cause"] == "join" and len(row["changed"]) == 1
            if row["changed"][0].startswith("#jrn")
        ]
        return len(own) >= lives * len(journal.groups)

    wait_until(is_member, "the journal to be a member")


# Journals and daemons in processes ------------------------------------------------------------------------


class JournalProcess:
    """`antiphon journal` as users run it, serving a folder."""

    def __init__(
        self,
        folder: Path,
        address: str,
        *words: str,
        groups: Sequence[str] = ("flood",),
        file_max_blocks: int | None = None,
    ) -> None:
        command = [sys.executable, "-m", "antiphon", "journal", "--json", "--dir", str(folder)]
        command += ["--address", address, "--groups", *groups, *words]
        if file_max_blocks is not None:  # as on a disk that is nearly full; a block has 512 or 1,024 bytes
            command = ["sh", "-c", f'ulimit -f {file_max_blocks}; exec "$@"', "sh", *command]
        self._errors = folder.with_suffix(".stderr").open("a+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self.serving = self.next_event("serving")
        self.endpoint: str = self.serving["endpoint"]

    def next_event(self, kind: str) -> dict[str, Any]:
        """The next line that tells of an event of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"the journal ended: {self.errors()}")

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def kill(self) -> None:
        """As a crash does: without any last word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


@contextmanager
def journal_process(folder: Path, address: str, *words: str, **options: Any) -> Iterator[JournalProcess]:
    process = JournalProcess(folder, address, *words, **options)
    try:
        yield process
    finally:
        process.close()


class Cluster:
    """Daemons in threads of this process."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        self.config = config
        self.stack = stack
        self.daemons = {name: stack.enter_context(Daemon(config, name)) for name in config.daemon_names}
        self.wait_formed(config.daemon_names)

    def address(self, name: str) -> str:
        return self.daemons[name].places[0]

    def wait_formed(self, names: Sequence[str]) -> None:
        def is_formed() -> bool:
            with contextlib.suppress(OSError, AntiphonError):
                return has_formed([ask_status(self.address(name)) for name in names], names)
            return False

        wait_until(is_formed, f"{names} to be together")


@contextmanager
def cluster(directory: Path, sites: int, settings: Settings | None = None) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(local_config(sites, directory, settings=settings), stack)


def readable(endpoints: Sequence[str], patience_s: float = PATIENCE_S) -> Journals:
    return Journals(endpoints, patience_s=patience_s)
