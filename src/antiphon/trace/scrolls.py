"""Live traces: the file of one daemon's life, or of one session, while it is being written.

A scroll takes records as a list does, or lines that are encoded already, and gives them on when it is told
to: before another process can have seen what they tell of. A disk that takes no more ends the trace, with one
line in the log, and nothing else.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from antiphon.errors import UsageError
from antiphon.trace.bearers import process_name
from antiphon.trace.files import LIVE, SUFFIX, live_run
from antiphon.trace.records import FORMAT, VERSION, Header, Record
from antiphon.trace.sinks import FileSink, PipeSink, Sink, create

RECORDS_MAX = 1_024
"""Records that wait to be encoded; more are encoded at once, and wait as lines."""

BEARERS_A_LIFE = 1_000_000
"""Sessions that bear one name in one life of a daemon, at the most that can be told apart."""

_logger = logging.getLogger("antiphon.trace")
_START = b'{"position":'
"""The beginning of every line that a record becomes. No text inside a record can have these bytes: its quotes
are escaped."""


def wall_us() -> int:
    """Unix time in microseconds: the time of live traces."""
    return time.time_ns() // 1_000


class Scroll:
    """One file of a live run. Positions begin at the time at which the file was begun, so that those of a
    daemon's next life are greater."""

    def __init__(
        self,
        sink: Sink,
        name: str,
        cluster: str,
        daemons: tuple[str, ...],
        sites: tuple[str, ...],
        edges: tuple[str, ...] = (),
    ) -> None:
        self.stopped = ""
        """Why the trace has ended before its time."""
        self.lost = 0
        """Records since then."""
        self._sink = sink
        self._name = name
        self._position = self._first = wall_us()
        self._records: list[Record] = []
        self._lines: list[bytes] = []
        run = live_run(cluster)
        self._encoder = msgspec.json.Encoder()
        header = Header(FORMAT, VERSION, run, LIVE, 0, daemons, True, sites, edges=edges or UNSET)
        self._lines.append(self._encoder.encode(header) + b"\n")
        self.start = b'{"run":%b,"position":' % self._encoder.encode(run)
        """The beginning of every line; the position follows."""

    def __len__(self) -> int:
        """How many records there are."""
        return self._position - self._first

    @property
    def state(self) -> dict[str, object]:
        """What `antiphon status` tells of it."""
        return {"records": len(self), "lost": self.lost, "stopped": self.stopped}

    @property
    def has_news(self) -> bool:
        """Whether something waits to be given on."""
        return bool(self._records or self._lines)

    def append(self, record: Record) -> None:
        """Take a record, which gets its position here."""
        if self.stopped:
            self.lost += 1
            return
        record.position = self._position
        self._position += 1
        self._records.append(record)
        if len(self._records) >= RECORDS_MAX:
            self._encode()

    def extend(self, make: Callable[[int], list[bytes]]) -> None:
        """Take the lines that `make` makes, given the position of the first of them."""
        lines = make(self._position)
        if self.stopped:
            self.lost += len(lines)
            return
        self._encode()
        self._position += len(lines)
        self._lines += lines

    def _encode(self) -> None:
        if self._records:
            lines = self._encoder.encode_lines(self._records)
            self._lines.append(lines.replace(_START, self.start))
            self._records.clear()

    def flush(self) -> None:
        """Give on what there is."""
        self._encode()
        if self._lines:
            data = b"".join(self._lines)
            self._lines.clear()
            try:
                self._sink.write(data)
            except OSError as error:
                self._stop(error.strerror or str(error))

    def close(self) -> None:
        """This was the last of it."""
        if not self.stopped:
            self.flush()
        if not self.stopped:
            self._sink.close()

    def forget(self) -> None:
        """In a forked child: the file is the parent's."""
        if not self.stopped:
            self.stopped = "forked"
            self._sink.forget()

    def _stop(self, reason: str) -> None:
        self.stopped = reason
        self._lines.clear()
        _logger.warning("the trace of %s has stopped: %s", self._name, reason)
        self._sink.forget()


def make_folder(folder: Path) -> Path:
    """The folder, made if it is not there; UsageError if no trace can be written to it."""
    probe = folder / f".probe-{time.time_ns()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"no trace can be written to the folder {folder}: {error.strerror}") from None
    return folder


def daemon_scroll(
    folder: Path, name: str, incarnation: int, cluster: str, daemons: tuple[str, ...], sites: tuple[str, ...]
) -> Scroll:
    """The file of one life of a daemon."""
    sink = PipeSink(create(_life(make_folder(folder), name, f"{incarnation:08x}")))
    return Scroll(sink, f"daemon {name}", cluster, daemons, sites)


def edge_scroll(
    folder: Path, name: str, incarnation: int, cluster: str, daemons: tuple[str, ...], sites: tuple[str, ...]
) -> Scroll:
    """The file of one life of an edge, and of the sessions there."""
    sink = PipeSink(create(_life(make_folder(folder), name, f"{incarnation:08x}")))
    return Scroll(sink, f"edge {name}", cluster, daemons, sites, (name,))


def _life(folder: Path, name: str, incarnation: str) -> Path:
    return folder / f"daemon.{quote(name, safe='')}.{incarnation}{SUFFIX}"


class LiveNames:
    """Tells the sessions of which the file of a daemon, or of an edge, tells from those of its other lives:
    in each file that it begins in a folder it counts the bearers of a name from another million on."""

    def __init__(self, folder: Path, daemon: str) -> None:
        """Before the file of this life is made."""
        files = _life(folder, daemon, "*")
        self._before = sum(1 for _ in folder.glob(files.name)) * BEARERS_A_LIFE
        self._counts: Counter[str] = Counter()

    def born(self, name: str) -> str:
        """A session called `name` begins; its process."""
        self._counts[name] += 1
        return process_name(name, self._before + self._counts[name])


def session_scroll(folder: Path, name: str, cluster: str, daemons: tuple[str, ...]) -> tuple[Scroll, str]:
    """The file of one session, and the process that it tells of: the first of its name in the folder, the
    second, and so on."""
    session, _, daemon = name[1:].partition("#")
    for place in count(1):
        heir = f"!{place}" if place > 1 else ""
        path = folder / f"client.{quote(session, safe='')}{heir}@{quote(daemon, safe='')}{SUFFIX}"
        try:
            descriptor = create(path)
        except FileExistsError:
            continue
        process = process_name(name, place)
        return Scroll(FileSink(descriptor), f"session {process}", cluster, daemons, ()), process
    raise AssertionError
