"""From the outside: processes full of idle sessions or with one that pings, and what a daemon takes of its
machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from antiphon.client import ask_status
from antiphon.errors import AntiphonError
from antiphon.load.crowd import Grow, Grown
from antiphon.load.pinger import Silence
from antiphon.load.plan import Failed


class CrowdProcess:
    """Sessions in another process, more and more of them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def grow(self, sessions: int, *groups: str, views: bool = False) -> Grown:
        """Add so many sessions, each a member of these groups (`{session}` is its number)."""
        told = _ask(self._process, msgspec.json.encode(Grow(sessions, groups, views)).decode() + "\n", Grown)
        if isinstance(told, Failed):
            raise AntiphonError(f"the crowd could not grow: {told.reason}")
        return told

    def hang_up(self) -> None:
        """All of its connections break at once."""
        self._process.kill()
        self._process.wait()


class PingerProcess:
    """A session in another process that pings."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def take(self) -> Silence:
        """What it saw since the last time."""
        told = _ask(self._process, "\n", Silence)
        if isinstance(told, Failed):
            raise AntiphonError(f"the pinger failed: {told.reason}")
        return told


@contextmanager
def crowd(address: str, prefix: str = "idle") -> Iterator[CrowdProcess]:
    """A process for idle sessions of the daemon at `address`, whose names begin with `prefix`; it ends with
    the body."""
    with _running("antiphon.load.crowd", address, prefix) as process:
        yield CrowdProcess(process)


@contextmanager
def pinger(address: str, group: str) -> Iterator[PingerProcess]:
    """A process that pings `group` at the daemon at `address`; it ends with the body."""
    with _running("antiphon.load.pinger", address, group) as process:
        yield PingerProcess(process)


_Answer = TypeVar("_Answer")


def _ask(process: "subprocess.Popen[str]", line: str, kind: type[_Answer]) -> _Answer | Failed:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise AntiphonError(f"a helper ended early with exit code {process.wait()}")
    told: _Answer | Failed = msgspec.json.decode(answer, type=kind | Failed)
    return told


@contextmanager
def _running(module: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    # A session of its own: Ctrl-C ends it through this process.
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def process_of(address: str) -> int:
    """The process of the daemon at `address`."""
    process: int = ask_status(address, groups=0, sessions=0)["runtime"]["pid"]
    return process


def resident_bytes(process: int) -> int:
    """The memory that a process has now."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
