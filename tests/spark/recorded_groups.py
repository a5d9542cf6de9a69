"""Daemons, and journals of their groups, in threads of the test's process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from antiphon import Message, Service, blocking
from antiphon.client import ask_status
from antiphon.config import Settings
from antiphon.journal.log import LogSettings
from antiphon.journal.reader import Journals
from antiphon.journal.running import Journal
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.runtime.status import has_formed

PATIENCE_S = 180.0
"""Spark on a busy machine takes its time."""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Until it is so; an error that says what did not come about."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)


class RunningJournal:
    """A journal that is a member until `stop`, or the end of its `with`."""

    def __init__(
        self,
        groups: list[str],
        folder: Path,
        address: str,
        *,
        listen: str = "grpc://127.0.0.1:0",
        settings: LogSettings | None = None,
    ) -> None:
        self._journal = Journal(groups, folder, settings, listen=listen, linger_ms=1, address=address)
        self._journal.__enter__()
        self.endpoint = self._journal.endpoint
        self.reader = Journals([self.endpoint], patience_s=10)
        self._over = threading.Event()
        before = self.latest
        self._thread = threading.Thread(target=self._journal.run, args=(self._over.is_set,))
        self._thread.start()
        wait_until(lambda: self.latest > before, "the journal is a member")

    @property
    def latest(self) -> int:
        return self.reader.positions().latest

    @property
    def id(self) -> str:
        return self.reader.positions().journal

    def wait_for(self, payload: bytes) -> None:
        """Until the journal has this message as its last row."""

        def has_it() -> bool:
            end = self.latest
            rows = [row for batch in self.reader.read(end - 1, end) for row in batch.to_pylist()]
            return bool(rows and rows[-1]["payload"] == payload)

        wait_until(has_it, f"the journal has {payload!r}")

    def wait_latest(self, latest: int) -> None:
        """Until the journal ends before this offset; the rows may be removed by then."""
        wait_until(lambda: self.latest == latest, f"the journal ends before {latest}")

    def rows(self) -> list[dict]:
        """Every row."""
        have = self.reader.positions()
        return [row for batch in self.reader.read(have.earliest, have.latest) for row in batch.to_pylist()]

    def stop(self) -> None:
        if self._thread.is_alive():
            self._over.set()
            self._thread.join()
            self._journal.__exit__(None, None, None)


class Room:
    """A cluster of daemons; `journal` starts one, `send` sends."""

    def __init__(self, folder: Path, stack: ExitStack, daemons: int) -> None:
        self.folder = folder
        self._stack = stack
        config = local_config(daemons, folder, settings=Settings(slow_patience_ms=60_000.0))
        self.daemons = [stack.enter_context(Daemon(config, name)) for name in config.daemon_names]
        self.addresses = [daemon.places[0] for daemon in self.daemons]
        wait_until(
            lambda: has_formed([ask_status(one) for one in self.addresses], config.daemon_names),
            "the daemons are together",
        )

    def journal(self, name: str, *groups: str, daemon: int = 0, **options: object) -> RunningJournal:
        """A journal in the folder `name`, at that daemon."""
        running = RunningJournal(list(groups), self.folder / name, self.addresses[daemon], **options)
        self._stack.callback(running.stop)
        return running

    def send(
        self, group: str, payloads: list[bytes], service: Service = Service.AGREED, *, daemon: int = -1
    ) -> None:
        """Send these at that daemon, and wait until they are everywhere."""
        with blocking.connect(self.addresses[daemon]) as session:
            session.send_many(group, payloads, service)
            session.wait_accepted()

    @contextmanager
    def listening(self, *groups: str) -> Iterator["Listener"]:
        """A member of these groups."""
        with blocking.connect(self.addresses[0]) as session:
            for group in groups:
                session.join(group)
            yield Listener(session)


class Listener:
    """Takes messages."""

    def __init__(self, session: blocking.Session) -> None:
        self._session = session

    def take(self, count: int) -> list[Message]:
        """The next so many messages."""
        found: list[Message] = []
        while len(found) < count:
            events = self._session.receive_many(timeout_s=PATIENCE_S)
            found += [event for event in events if isinstance(event, Message)]
        assert len(found) == count, f"{len(found)} messages instead of {count}"
        return found

    def take_until(self, payload: bytes) -> list[Message]:
        """All messages before the one with this payload."""
        found: list[Message] = []
        while not found or found[-1].payload != payload:
            event = self._session.receive(timeout_s=PATIENCE_S)
            if isinstance(event, Message):
                found.append(event)
        return found[:-1]


@contextmanager
def room(folder: Path, daemons: int = 1) -> Iterator[Room]:
    """A cluster for a test."""
    with ExitStack() as stack:
        yield Room(folder, stack, daemons)


def numbered(first: int, count: int) -> list[bytes]:
    """Payloads that tell their place."""
    return [b"%d" % number for number in range(first, first + count)]
