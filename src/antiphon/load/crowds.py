"""From the outside: a process full of idle sessions, and what a daemon process takes of its machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from antiphon.client import ask_status
from antiphon.errors import AntiphonError
from antiphon.load.crowd import Grow, Grown
from antiphon.load.plan import Failed


class CrowdProcess:
    """Sessions in another process, more and more of them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def grow(self, sessions: int, *groups: str) -> Grown:
        """Add so many sessions, each a member of these groups (`{session}` is its number)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Grow(sessions, groups)).decode() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AntiphonError(f"the crowd ended early with exit code {self._process.wait()}")
        told = msgspec.json.decode(line, type=Grown | Failed)
        if isinstance(told, Failed):
            raise AntiphonError(f"the crowd could not grow: {told.reason}")
        return told


@contextmanager
def crowd(address: str, prefix: str = "idle") -> Iterator[CrowdProcess]:
    """A process for idle sessions of the daemon at `address`, whose names begin with `prefix`; it ends with
    the body."""
    words = [sys.executable, "-m", "antiphon.load.crowd", address, prefix]
    # A session of its own: Ctrl-C ends it through this process.
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield CrowdProcess(process)
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
