"""One client's connection as bytes: frames in, frames out, and nothing about what they mean."""

import fcntl
import select
import socket
import sys
import termios
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from itertools import islice

from antiphon.core.access.rights import Rights, User
from antiphon.errors import BadFrame
from antiphon.runtime.evidence import NOTHING_SHOWN
from antiphon.runtime.tls import TlsSocket
from antiphon.wire import frames
from antiphon.wire.bundle import FRAME_KIND_BUNDLE

READ_BYTES = 1024 * 1024
"""The size of the buffer that all connections of a daemon share for reading."""
LARGE_FRAME_BYTES = READ_BYTES // 2
"""A larger frame is gathered in a buffer of its own, which grows as the bytes come in."""
GREETING_MAX_BYTES = 4_096
"""The largest frame of a client that has not been welcomed yet: a greeting is never longer."""
WRITE_BYTES = 1024 * 1024
"""The most that one system call writes, and that one connection writes before the others get their turn."""
IOVEC_MAX = 1_024
TLS_BEGINS = b"\x16\x03"
"""The first bytes of a TLS connection: kind of record and version."""

Buffer = bytes | bytearray | memoryview


class Phase(Enum):
    """Where a connection stands in its life."""

    GREETING = auto()
    """The client has no session; it may only ask about the daemon."""
    OPEN = auto()
    """The connection has a session."""
    LEAVING = auto()
    """The client has disconnected; the node will end the session."""
    FAREWELL = auto()
    """The session is over: what waits goes out, what comes in is thrown away."""
    CLOSED = auto()


OPEN, LEAVING, CLOSED = Phase.OPEN, Phase.LEAVING, Phase.CLOSED
"""Plain names for what is asked with every frame, as in `service`."""


class Connection:
    """The socket of one client, what has come of its next frame, and the frames that wait for it."""

    def __init__(self, client: socket.socket | TlsSocket) -> None:
        self.phase = Phase.GREETING
        self.session = -1
        """The number of its session, from Phase.OPEN on."""
        self.deadline_us = 0
        """When to give up, in the phases GREETING and FAREWELL."""
        self.interest = 0
        """What the loop watches for."""
        self.low_bytes = -1
        self.high_bytes = 0
        """The node is told when at most, or more than, this waits."""
        self.spared_until_us = sys.maxsize
        """It is not cut off as a slow receiver before this; known once it was warned."""
        self._written_bytes = 0
        self.is_edge = False
        """Whether it is an edge's, not a client's."""
        self.name = ""
        self.priority = 0
        """The priority of its session."""
        self.is_paused = False
        """Whether the node wants this session's input left in its socket for now."""
        self.is_touched = False
        """Whether output has come since the last flush."""
        self.user: User | None = None
        """Who the client is, as far as it is known."""
        self.evidence = NOTHING_SHOWN
        """By what that is known."""
        self.rights: Rights | None = None
        """What its session may do; None: everything."""
        self.is_deaf = False
        """Whether the client no longer takes anything; what it sent before may still be there to read."""
        self.waiting_bytes = 0
        self._client = client
        self._tls = client if isinstance(client, TlsSocket) else None
        self._output: deque[Buffer] = deque()
        self._is_begun = False
        """Whether part of the first waiting frame is out."""
        self._begun: Buffer | None = None
        """All of that frame, which lives until the rest of it is out, too."""
        self._partial = bytearray()
        self._needed_bytes = 0

    def fileno(self) -> int:
        return self._client.fileno()

    def close(self) -> None:
        self.phase = Phase.CLOSED
        self._client.close()

    @property
    def is_tls(self) -> bool:
        """Whether what goes over the socket is sealed."""
        return self._tls is not None

    @property
    def has_unread(self) -> bool:
        """Whether more may be there to read, though the descriptor does not tell."""
        return self._tls is not None and self._tls.has_unread

    def certificate_names(self) -> tuple[str, ...]:
        """What the client is called by a certificate that was checked."""
        return () if self._tls is None else self._tls.certificate_names()

    def has_hung_up(self) -> bool:
        """Whether the client has closed its end; what it sent before that may still be there to read."""
        poll = select.poll()
        poll.register(self._client, select.POLLRDHUP)
        return bool(poll.poll(0))

    # Input ------------------------------------------------------------------------------------------------

    def read(
        self, shared: memoryview, room_bytes: int = READ_BYTES
    ) -> Sequence[tuple[int, memoryview | bytearray]] | None:
        """Read once; the frames that are now whole, or None if the client has gone. They have `room_bytes` at
        most in all, but for a single one that is larger.

        Views among them lie in `shared` and hold until the next read of any connection; a bytearray is the
        caller's own. BadFrame if what came can be no frame.
        """
        if self._needed_bytes > LARGE_FRAME_BYTES:
            return self._read_large(shared)
        data = self._receive(shared, room_bytes)
        if not data:
            return None if data is None else []
        try:
            whole, used, self._needed_bytes = frames.split(data)
        except BadFrame:
            if self.phase is Phase.GREETING and bytes(data[:2]) == TLS_BEGINS:
                raise BadFrame("tls: this place does not speak TLS, and what came is TLS") from None
            raise
        self._partial = bytearray(data[used:])
        if self._needed_bytes > GREETING_MAX_BYTES and self.phase is Phase.GREETING:
            raise BadFrame("frame: longer than a greeting")
        return whole

    def _receive(self, shared: memoryview, room_bytes: int) -> memoryview | None:
        """What was kept and what has come behind it, in `shared`; empty if nothing has, None at the end."""
        kept = len(self._partial)
        if kept:
            shared[:kept] = self._partial
        most = max(room_bytes, self._needed_bytes, kept + frames.HEAD_BYTES)
        try:
            size = self._client.recv_into(shared[kept:most])
        except BlockingIOError:
            return shared[:0]
        except OSError:
            return None
        return shared[: kept + size] if size else None

    def _read_large(self, shared: memoryview) -> Sequence[tuple[int, memoryview | bytearray]] | None:
        """More of a large frame, and not a byte of the next: when it is whole it need not be copied."""
        missing = self._needed_bytes - len(self._partial)
        try:
            size = self._client.recv_into(shared, min(missing, len(shared)))
        except BlockingIOError:
            return []
        except OSError:
            return None
        if size == 0:
            return None
        self._partial += shared[:size]
        if size < missing:
            return []
        frame, self._partial, self._needed_bytes = self._partial, bytearray(), 0
        return [(frames.HEAD.unpack_from(frame)[1], frame)]

    def discard(self, shared: memoryview) -> bool:
        """Read and throw away; False once the client has closed its side."""
        try:
            return self._client.recv_into(shared) > 0
        except BlockingIOError:
            return True
        except OSError:
            return False

    @property
    def needed_bytes(self) -> int:
        """The size of the frame that has begun to come in; 0 if it is not known, or no frame has begun."""
        return self._needed_bytes

    @property
    def partial_bytes(self) -> int:
        """What has come of that frame."""
        return len(self._partial)

    def forget_input(self) -> None:
        """The rest of a frame that has begun to come in is of no interest."""
        self._partial = bytearray()
        self._needed_bytes = 0

    # Output -----------------------------------------------------------------------------------------------

    def queue(self, frame: Buffer) -> None:
        """Have a whole frame written, after those that wait already."""
        if not self.is_deaf:
            self._output.append(frame)
            self.waiting_bytes += len(frame)

    def _put(self, data: Buffer) -> None:
        if data and not self.is_deaf:
            self._output.append(data)
            self.waiting_bytes += len(data)

    def queue_first(self, frame: Buffer) -> None:
        """Have a whole frame written before those that wait, but not into one that is begun."""
        if not self.is_deaf:
            self._output.insert(self._begun_frames(), frame)
            self.waiting_bytes += len(frame)

    def _begun_frames(self) -> int:
        """How many of the first frames cannot be taken back: some of their bytes are out, or sealed."""
        sealed_bytes = 0 if self._tls is None else self._tls.sealed_bytes
        count = 0
        for frame in self._output:
            if sealed_bytes <= 0:
                break
            sealed_bytes -= len(frame)
            count += 1
        return max(count, int(self._is_begun))

    def flush(self) -> None:
        """Write as much as the socket takes, up to a fair share."""
        if not self._output:
            return
        batch: deque[Buffer] | list[Buffer] = self._output
        if len(self._output) > IOVEC_MAX or self.waiting_bytes > WRITE_BYTES:
            batch = self._first_batch()
        try:
            sent = self._client.sendmsg(batch)
        except BlockingIOError:
            return
        except OSError:
            self.is_deaf = True
            sent = self.waiting_bytes
        self._written_bytes += sent
        if sent == self.waiting_bytes:
            self._output.clear()
            self.waiting_bytes = 0
            self._is_begun = False
            self._begun = None
        else:
            self._drop_sent(sent)

    def _first_batch(self) -> list[Buffer]:
        batch: list[Buffer] = []
        size = 0
        for frame in islice(self._output, IOVEC_MAX):
            batch.append(frame)
            size += len(frame)
            if size >= WRITE_BYTES:
                break
        return batch

    def _drop_sent(self, sent: int) -> None:
        self.waiting_bytes -= sent
        output = self._output
        while sent >= (size := len(output[0])):
            output.popleft()
            self._is_begun = False
            self._begun = None
            sent -= size
        if sent:
            if not self._is_begun:
                self._begun = output[0]
            output[0] = memoryview(output[0])[sent:]
            self._is_begun = True

    @property
    def read_bytes(self) -> int:
        """How much output the client has read in all, but for a constant: what was written, less what the
        kernel still has. The kernel keeps so much that a slow reader makes no room for more for long."""
        kept = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self._client, termios.TIOCOUTQ, kept)
        return self._written_bytes - int.from_bytes(kept, sys.byteorder)

    def drop_output(self) -> None:
        """Forget what waits, but for the rest of frames that the client sees the start of."""
        begun = list(islice(self._output, self._begun_frames()))
        self._output.clear()
        self.waiting_bytes = 0
        for frame in begun:
            self._put(frame)

    def finish(self) -> None:
        """Tell the client that nothing more comes."""
        with suppress(OSError):  # it may have gone already
            self._client.shutdown(socket.SHUT_WR)


def by_kind(
    received: Sequence[tuple[int, memoryview | bytearray]],
) -> Iterator[tuple[int, list[memoryview | bytearray]]]:
    """Bundles that came one after the other, together; each control frame with its place, and no bundle."""
    bundles: list[memoryview | bytearray] = []
    for place, (kind, frame) in enumerate(received):
        if kind == FRAME_KIND_BUNDLE:
            bundles.append(frame)
            continue
        if bundles:
            yield place, bundles
            bundles = []
        yield place, []
    if bundles:
        yield len(received), bundles


def waiting_bytes(connections: Mapping[int, Connection], numbers: Iterable[int]) -> dict[int, int]:
    """The output that waits for each of these, as far as there is such a connection, and output."""
    known = ((number, connections.get(number)) for number in numbers)
    return {
        number: connection.waiting_bytes
        for number, connection in known
        if connection is not None and connection.waiting_bytes
    }
