"""The sockets of an edge towards its attachments: what its node wants dialled, written and closed.

Names of hosts are resolved anew for each attempt, in a thread: an edge may outlive an address of its
attachment, and a resolver that does not answer must not stop it.
"""

import errno
import os
import socket
import threading
from collections.abc import Callable
from functools import partial

from antiphon import limits
from antiphon.config import address
from antiphon.core.edge.node import EdgeNode
from antiphon.errors import BadFrame, UsageError
from antiphon.runtime.addresses import is_number, is_on_loopback
from antiphon.runtime.connection import READ_BYTES, Connection, Phase
from antiphon.runtime.credentials import Credentials
from antiphon.runtime.lan import LOOPBACK
from antiphon.runtime.loop import READABLE, WRITABLE, Loop, now_us
from antiphon.runtime.tls import TlsSocket
from antiphon.wire import frames

READS_PER_WAKE = 4
"""Then clients and timers get their turn."""
OUTPUT_MAX_BYTES = 2 * (limits.EDGE_QUEUE_BYTES + limits.FRAME_MAX_BYTES)
"""Far more than the node lets wait for one attachment: beyond it the connection is given up."""
KERNEL_BYTES = 4 * 1024 * 1024
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))

SocketAddress = str | tuple[str | int | bytes, ...]
Place = tuple[int, SocketAddress]
"""Socket family and address."""


class Line(Connection):
    """One connection to an attachment."""

    def __init__(self, plain: socket.socket, tls: TlsSocket | None, place: str) -> None:
        super().__init__(plain if tls is None else tls)
        self.plain = plain
        self.phase = Phase.OPEN
        self.place = place
        self.greeting = tls
        """While the two ends have not introduced themselves."""
        self.is_dialled = False
        self.is_connected = False


class UpstreamSockets:
    """An edge's connections to its attachments."""

    def __init__(self, loop: Loop, node: EdgeNode, shown: Credentials) -> None:
        """Attachments are `shown` who this edge is."""
        self._loop = loop
        self._node = node
        self._shown = shown
        self._lines: dict[int, Line] = {}
        self._resolving: set[int] = set()
        """Links whose host is being looked for."""
        self._shared = memoryview(bytearray(READ_BYTES))

    @property
    def waiting_bytes(self) -> int:
        """Output that no socket has taken yet."""
        return sum(line.waiting_bytes for line in self._lines.values())

    def interface_of(self, link: int) -> str:
        """The IPv4 address of the interface over which a connection goes; empty if there is none."""
        line = self._lines.get(link)
        if line is None or not line.is_connected:
            return ""
        if line.plain.family == socket.AF_UNIX:
            return LOOPBACK
        return str(line.plain.getsockname()[0]) if line.plain.family == socket.AF_INET else ""

    def close(self) -> None:
        """All connections are over."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    # The daemon's turn ------------------------------------------------------------------------------------

    def carry_out(self, now: int) -> None:
        """Dial, write and close what the node wants dialled, written and closed."""
        node = self._node
        dials, node.dials[:] = list(node.dials), []
        for dial in dials:
            self._dial(dial.link, dial.address, now)
        written: dict[int, Line] = {}
        for link, frame in node.upstream:
            line = self._lines.get(link)
            if line is not None:
                line.queue(frame)
                written[link] = line
        node.upstream.clear()
        for link, line in written.items():
            if line.is_connected and not line.interest & WRITABLE:
                self._write(link, line, now)
        hang_ups, node.hang_ups[:] = list(node.hang_ups), []
        for link in hang_ups:
            self._resolving.discard(link)
            self._drop(link)

    # Beginning --------------------------------------------------------------------------------------------

    def _dial(self, link: int, place: str, now: int) -> None:
        scheme, _, where = place.partition(":")
        if scheme == "unix":
            self._connect(link, (socket.AF_UNIX, where), place, now)
            return
        host, port = address(where)
        if is_number(host):
            found = _resolve(host, port)
            if isinstance(found, str):
                self._node.broken(link, found, now)
            else:
                self._connect(link, found, place, now)
            return
        self._resolving.add(link)
        resolve_soon(host, port, self._loop, partial(self._resolved, link, place))

    def _resolved(self, link: int, place: str, found: Place | str) -> None:
        """The host was found, or the reason why not."""
        if link not in self._resolving:
            return
        self._resolving.discard(link)
        if isinstance(found, str):
            self._node.broken(link, found, now_us())
        else:
            self._connect(link, found, place, now_us())

    def _connect(self, link: int, found: Place, place: str, now: int) -> None:
        family, where = found
        try:
            plain = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no descriptor left
            self._node.broken(link, error.strerror or str(error), now)
            return
        plain.setblocking(False)
        if family == socket.AF_UNIX:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        else:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, value in _KEEPALIVE:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        code = plain.connect_ex(where)
        if code not in (0, errno.EINPROGRESS):
            plain.close()
            self._node.broken(link, os.strerror(code), now)
            return
        try:
            line = Line(plain, self._tls(plain, place), place)
        except UsageError as error:
            plain.close()
            self._node.broken(link, str(error), now)
            return
        self._lines[link] = line
        line.interest = WRITABLE
        self._loop.register(line.fileno(), partial(self._happened, link, line, plain), WRITABLE, urgent=True)

    def _dialled(self, link: int, line: Line, plain: socket.socket, now: int) -> None:
        code = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._lose(link, os.strerror(code), now)
            return
        line.is_dialled = True
        self._introduce(link, line, plain, now)

    def _tls(self, plain: socket.socket, place: str) -> TlsSocket | None:
        if not place.startswith("tls:"):
            return None
        server_name = self._shown.tls.server_name or address(place[4:])[0]
        return TlsSocket(plain, self._shown.context(), server_name=server_name)

    def _introduce(self, link: int, line: Line, plain: socket.socket, now: int) -> None:
        """The other side is there: speak TLS if that is wanted, and show who this is."""
        try:
            if line.greeting is not None and not line.greeting.handshake():
                self._watch(line)
                return
        except (BadFrame, OSError) as error:
            self._lose(link, f"no TLS with {line.place}: {str(error).removeprefix('tls: ')}", now)
            return
        if self._shown.token and line.place.startswith("tcp:") and not is_on_loopback(plain):
            self._lose(link, f"the token is not sent to {line.place}, which is plain: use tls:", now)
            return
        line.greeting = None
        line.is_connected = True
        if self._shown.token:
            line.queue(frames.encode_control(frames.Credential(self._shown.token)))
        self._watch(line)
        self._node.dialled(link, now)

    # Reading and writing ----------------------------------------------------------------------------------

    def _happened(self, link: int, line: Line, plain: socket.socket, events: int) -> None:
        now = now_us()
        if not line.is_dialled:
            self._dialled(link, line, plain, now)
            return
        if not line.is_connected:
            self._introduce(link, line, plain, now)
            return
        if events & ~WRITABLE:  # errors and the end are read, too
            self._read(link, line, now)
        if events & WRITABLE and link in self._lines:
            self._write(link, line, now)

    def _read(self, link: int, line: Line, now: int) -> None:
        node = self._node
        reads = 0
        while reads < READS_PER_WAKE or line.has_unread:  # of the latter, no descriptor tells
            reads += 1
            try:
                received = line.read(self._shared)
            except BadFrame as error:
                self._lose(link, f"what answers there is not a daemon of ours: {error.reason}", now)
                return
            if received is None:
                self._lose(link, "the other side has closed the connection", now)
                return
            for kind, frame in received:
                node.heard(link, kind, memoryview(frame), now)
            if not (received or line.has_unread) or link in node.hang_ups:
                return

    def _write(self, link: int, line: Line, now: int) -> None:
        line.flush()
        if line.is_deaf:
            # What the other side has said before its end is still to be read: its goodbye, perhaps.
            self._read(link, line, now)
            if link in self._lines:
                self._lose(link, "the other side takes nothing more", now)
            return
        if line.waiting_bytes > OUTPUT_MAX_BYTES:
            self._lose(link, f"the other side does not read: {line.waiting_bytes} bytes wait for it", now)
            return
        self._node.waiting(link, line.waiting_bytes, now)
        self._watch(line)

    def _watch(self, line: Line) -> None:
        interest = READABLE | WRITABLE if line.waiting_bytes else READABLE
        if line.interest != interest:
            line.interest = interest
            self._loop.change(line.fileno(), interest)

    # The end ----------------------------------------------------------------------------------------------

    def _lose(self, link: int, reason: str, now: int) -> None:
        self._drop(link)
        self._node.broken(link, reason, now)

    def _drop(self, link: int) -> None:
        line = self._lines.pop(link, None)
        if line is None:
            return
        if line.is_connected:
            line.flush()  # its last words, if it takes them at once
        self._loop.unregister(line.fileno())
        line.close()


def resolve_soon(host: str, port: int, loop: Loop, tell: Callable[[Place | str], None]) -> None:
    """Look for a host in a thread, and have the loop's thread told."""

    def resolve() -> None:
        found = _resolve(host, port)
        loop.call_soon_threadsafe(partial(tell, found))

    threading.Thread(target=resolve, name="antiphon-resolver", daemon=True).start()


def _resolve(host: str, port: int) -> Place | str:
    """Where a host is, or why that is not known."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return f"{host} cannot be resolved: {error.strerror or error}"
    return family, place
