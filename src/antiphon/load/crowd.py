"""Many sessions that are connected and mostly idle, in a process of their own.

    python -m antiphon.load.crowd ADDRESS PREFIX

Each line of stdin is a `Grow` as JSON; when it is done, a `Grown` stands on stdout. What the sessions get is
read and thrown away. They are bare sockets, because thousands of whole sessions would measure this process
and not the daemon. The process ends with its stdin.
"""

import resource
import select
import socket
import sys
import time
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from antiphon import config
from antiphon.errors import AntiphonError, BadFrame, ConnectError
from antiphon.load.plan import Failed
from antiphon.wire import frames

READ_BYTES = 1024 * 1024
ANSWER_WITHIN_S = 120.0
JOINS_AT_ONCE = 256
"""Joins of all sessions that are under way together."""
QUEUE_FULL_PAUSE_S = 0.01


class Grow(Struct, frozen=True):
    """An order to open more sessions, each a member of these groups."""

    sessions: int
    groups: tuple[str, ...]
    """`{session}` in a name stands for the session's number."""
    views: bool = False
    """Whether they want to be told of the views after their first."""


class Grown(Struct, frozen=True, tag="grown"):
    """All are connected and are members."""

    sessions: int
    """The number of sessions in all."""
    seconds: float
    """How long the newest ones took."""


class Idler:
    """One session: a socket, and how many of its requests were answered."""

    def __init__(self, address: str, name: str, *, views: bool) -> None:
        self.socket = dial(address)
        self.answers = 0
        self._name = name.encode()
        self._rest = b""
        self.socket.sendall(frames.encode_control(frames.Connect(frames.PROTOCOL_VERSION, name, views=views)))

    def read(self, buffer: memoryview) -> None:
        """Take what has come: welcomes and first views are answers, all else does not matter."""
        size = self.socket.recv_into(buffer)
        if not size:
            raise ConnectError("the daemon closed the connection of an idle session")
        data = memoryview(self._rest + bytes(buffer[:size])) if self._rest else buffer[:size]
        whole, used, _ = frames.split(data)
        for kind, frame in whole:
            if kind == frames.FrameKind.CONTROL:
                self._count(frames.decode_from_daemon(frame))
        self._rest = bytes(data[used:])

    def _count(self, value: frames.FromDaemon) -> None:
        match value:
            case frames.Welcome() | frames.ViewFrame():
                self.answers += 1
            case frames.Refuse(reason=reason) | frames.Goodbye(reason=reason):
                raise ConnectError(reason)


class Crowd:
    """The sessions of this process."""

    def __init__(self, address: str, prefix: str) -> None:
        self._address = address
        self._prefix = prefix
        self._idlers: dict[int, Idler] = {}
        self._count = 0
        self._poll = select.epoll()
        self._buffer = memoryview(bytearray(READ_BYTES))

    def grow(self, wanted: Grow) -> Grown:
        """Add sessions, and wait until they are what they are to be."""
        begun_s = time.monotonic()
        newest = []
        for _ in range(wanted.sessions):
            idler = Idler(self._address, f"{self._prefix}{self._count}", views=wanted.views)
            self._idlers[idler.socket.fileno()] = idler
            self._poll.register(idler.socket.fileno(), select.EPOLLIN)
            newest.append((idler, self._count))
            self._count += 1
            self._wait([idler], 1)
        for some in _portions(
            [(idler, name.format(session=number)) for name in wanted.groups for idler, number in newest]
        ):
            before = {idler: idler.answers for idler, _ in some}
            for idler, group in some:
                idler.socket.sendall(frames.encode_control(frames.Join(group)))
                before[idler] += 1
            for idler, answers in before.items():
                self._wait([idler], answers)
        return Grown(self._count, time.monotonic() - begun_s)

    def idle(self) -> None:
        """Read on until stdin has something to say."""
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        try:
            while not self._read(None):
                pass
        finally:
            self._poll.unregister(sys.stdin.fileno())

    def _wait(self, idlers: list[Idler], answers: int) -> None:
        deadline_s = time.monotonic() + ANSWER_WITHIN_S
        while any(idler.answers < answers for idler in idlers):
            if time.monotonic() > deadline_s:
                raise ConnectError(f"the daemon did not answer within {ANSWER_WITHIN_S:.0f} s")
            self._read(1.0)

    def _read(self, timeout_s: float | None) -> bool:
        """Read whatever has come; whether something is on stdin."""
        is_told = False
        for descriptor, _ in self._poll.poll(timeout_s):
            idler = self._idlers.get(descriptor)
            if idler is None:
                is_told = True
            else:
                idler.read(self._buffer)
        return is_told


def _portions(pairs: list[tuple[Idler, str]]) -> Iterator[list[tuple[Idler, str]]]:
    for start in range(0, len(pairs), JOINS_AT_ONCE):
        yield pairs[start : start + JOINS_AT_ONCE]


def dial(address: str) -> socket.socket:
    """A connection to `unix:PATH` or `tcp:HOST:PORT`."""
    scheme, _, where = address.partition(":")
    if scheme == "tcp":
        return socket.create_connection(config.address(where))
    deadline_s = time.monotonic() + ANSWER_WITHIN_S
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(where)
            return client
        except BlockingIOError:  # the daemon's queue of newcomers is full
            client.close()
            if time.monotonic() > deadline_s:
                raise ConnectError(f"no answer from {address}") from None
            time.sleep(QUEUE_FULL_PAUSE_S)


def main() -> None:
    """Grow as told until stdin ends."""
    address, prefix = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    crowd = Crowd(address, prefix)
    try:
        while True:
            crowd.idle()
            line = sys.stdin.readline()
            if not line:
                return
            _report(crowd.grow(msgspec.json.decode(line, type=Grow)))
    except (AntiphonError, BadFrame, OSError) as error:
        _report(Failed(str(error)))


def _report(value: Grown | Failed) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
