"""Daemons and edges for the tests of this folder, each in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import structs
from process_cluster import ProcessCluster
from raw_client import status, wait_until

import antiphon
from antiphon import Gap, Message, Service, blocking
from antiphon.config import EdgeConfig
from antiphon.runtime.local import local_config

PATIENCE_S = 30.0


class EdgeCluster(ProcessCluster):
    """Three daemons, and edges that attach to these names."""

    def __init__(self, directory: Path, stack: ExitStack, attach: dict[str, Sequence[str]]) -> None:
        self.directory = directory
        edges = tuple(
            EdgeConfig(name, (f"unix:{directory}/{name}.sock",), tuple(targets))
            for name, targets in attach.items()
        )
        super().__init__(structs.replace(local_config(3, directory), edges=edges), directory, stack)
        self.edges = {name: self.start_edge(name) for name in attach}
        for name in attach:
            wait_until(lambda name=name: self.attachment(name) is not None)  # type: ignore[misc]

    def start_edge(self, name: str) -> "subprocess.Popen[bytes]":
        """Run an edge; it ends with the stack."""
        words = [sys.executable, "-m", "antiphon", "daemon", "--config", str(self._file), "--name", name]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(words, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def place(self, name: str) -> str:
        """Where clients of a daemon or an edge connect."""
        return f"unix:{self.directory}/{name}.sock"

    def status(self, name: str) -> dict[str, Any] | None:
        """What it says about itself, if it answers."""
        try:
            return status(self.place(name))
        except (OSError, AssertionError):
            return None

    def attachment(self, name: str) -> str | None:
        """Whom an edge is attached to, if somebody stands by, too."""
        told = self.status(name)
        if told is None or told["attachment"] is None or told["standby"] is None:
            return None
        return str(told["attachment"]["name"])

    def assert_edges_are_well(self) -> None:
        """Every edge that was not killed runs, and no edge has anything to regret."""
        for name in self.edges:
            log = (self.directory / f"{name}.log").read_text()
            assert "Traceback" not in log, log


class Flood:
    """Numbered messages from one session, until it is told to end."""

    def __init__(
        self, place: str, group: str, service: Service = Service.AGREED, pause_s: float = 0.002
    ) -> None:
        self.count = 0
        self._group = group
        self._service = service
        self._pause_s = pause_s
        self._ends = threading.Event()
        self._session = blocking.connect(place)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(self._pause_s):
            self._session.send_many(
                self._group, [b"%d" % (self.count + number) for number in range(10)], self._service
            )
            self.count += 10

    def wait(self, more: int) -> None:
        """Until it has sent so many more."""
        goal = self.count + more
        wait_until(lambda: self.count >= goal)

    def end(self) -> int:
        """How many it has sent; a last message says so."""
        self._ends.set()
        self._thread.join()
        self._session.send(self._group, b"end", self._service)
        self._session.wait_accepted()
        self._session.close()
        return self.count


def numbers(session: blocking.Session) -> list[int]:
    """The messages of a flood up to its end; no gap is told."""
    found: list[int] = []
    while True:
        event = session.receive(timeout_s=PATIENCE_S)
        assert not isinstance(event, Gap), event
        if isinstance(event, Message):
            if event.payload == b"end":
                return found
            found.append(int(event.payload))


def events_until(
    session: blocking.Session, is_last: Callable[[antiphon.Event], bool]
) -> list[antiphon.Event]:
    """What a session gets, up to an event like this."""
    found = [session.receive(timeout_s=PATIENCE_S)]
    while not is_last(found[-1]):
        found.append(session.receive(timeout_s=PATIENCE_S))
    return found
