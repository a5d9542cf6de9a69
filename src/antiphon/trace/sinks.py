"""Where the lines of a live trace go. Both kinds keep what they were given when this process is killed.

A session writes to its file itself. A daemon must not wait for a disk, so it has a small process that does:
what is in the pipe between them reaches the file whatever becomes of the daemon.
"""

import fcntl
import os
import select
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from errno import ENOBUFS, EPIPE
from pathlib import Path
from typing import Protocol

PIPE_BYTES = 1024 * 1024
"""What the pipe holds; more than an unprivileged process may have gives a smaller one."""
BACKLOG_MAX_BYTES = 64 * 1024 * 1024
"""What may wait for a full pipe, that is, for a disk."""
CLOSE_TIMEOUT_S = 5.0
COPYIST = """
import fcntl, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
room_bytes = fcntl.fcntl(0, fcntl.F_GETPIPE_SZ)
while data := os.read(0, room_bytes):
    is_ahead = len(data) < room_bytes / 2
    while data:
        data = data[os.write(1, data):]
    if is_ahead:
        time.sleep(0.02)
"""
"""Copies the pipe to the file until no process has its other end open. A signal that ends the daemon may be
sent to this process, too. It sleeps between two looks, because a daemon whose every write woke another
process would pay more for that than for the writing."""


class Sink(Protocol):
    """Takes lines. OSError if it can take no more, ever."""

    def write(self, data: bytes) -> None:
        """Keep `data`."""

    def close(self) -> None:
        """Nothing more comes."""

    def forget(self) -> None:
        """Close without waiting for records that are still on their way: in a forked child, whose copy
        this is, or after an error."""


def create(path: Path) -> int:
    """A new file; FileExistsError if there is one of that name."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)


class FileSink:
    """Writes to the file, and waits for the disk if the kernel lets it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        os.close(self._descriptor)

    def forget(self) -> None:
        os.close(self._descriptor)


class PipeSink:
    """Never waits: a process of its own writes to the file, and outlives this one for as long as that takes.

    It is in a session of its own, so that Ctrl-C ends the daemon first.
    """

    def __init__(self, descriptor: int) -> None:
        source, self._pipe = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._pipe, False)
        try:
            self._writer = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", COPYIST],
                stdin=source,
                stdout=descriptor,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(source)
            os.close(descriptor)
        self._backlog: deque[bytes | memoryview] = deque()
        self._backlog_bytes = 0

    def write(self, data: bytes) -> None:
        self._backlog.append(data)
        self._backlog_bytes += len(data)
        try:
            self._push()
        except BrokenPipeError:
            raise OSError(EPIPE, "the process that writes the file has ended; is the disk full?") from None
        if self._backlog_bytes > BACKLOG_MAX_BYTES:
            raise OSError(ENOBUFS, "the disk does not keep up")

    def _push(self) -> None:
        """Give the pipe what it takes now."""
        backlog = self._backlog
        while backlog:
            head = backlog[0]
            try:
                count = os.write(self._pipe, head)
            except BlockingIOError:
                return
            self._backlog_bytes -= count
            if count == len(head):
                backlog.popleft()
            else:
                backlog[0] = memoryview(head)[count:]

    def close(self) -> None:
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        room = select.poll()
        room.register(self._pipe, select.POLLOUT)
        with suppress(OSError):  # the writer may have ended
            while self._backlog and (left_s := deadline_s - time.monotonic()) > 0:
                room.poll(left_s * 1_000)
                self._push()
        os.close(self._pipe)
        with suppress(subprocess.TimeoutExpired):  # it goes on until everything is written
            self._writer.wait(max(0.0, deadline_s - time.monotonic()))

    def forget(self) -> None:
        os.close(self._pipe)
