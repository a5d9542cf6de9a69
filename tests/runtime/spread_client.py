"""A client of the Spread toolkit's protocol, made of a bare socket: nothing of ours is used to read or write.

It can write in either byte order, as the toolkit's C library (little-endian here) and its Java library
(big-endian) do, and it can say what no library would.
"""

import socket
import struct
from types import TracebackType
from typing import NamedTuple

PATIENCE_S = 30.0
"""Only to keep a failing test from hanging."""
MARKER = 0x8000_0080

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
SELF_DISCARD = 0x40
BY_JOIN, BY_LEAVE, BY_DISCONNECT, BY_NETWORK = 0x100, 0x200, 0x400, 0x800
VIEW, TRANSITION = 0x1000, 0x2000
JOIN, LEAVE, KILL = 0x1_0000, 0x2_0000, 0x4_0000


class Frame(NamedTuple):
    """What the daemon sent."""

    kind: int
    sender: str
    groups: tuple[str, ...]
    number: int
    """The application's, of a message."""
    is_swapped: bool
    """Whether the sender's byte order is not the receiver's."""
    body: bytes

    @property
    def view_id(self) -> tuple[int, int, int]:
        first, second, third = struct.unpack_from("<iii", self.body)
        return first, second, third

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """Who came with whom, in a view."""
        (count,) = struct.unpack_from("<I", self.body, 12)
        found, at = [], 20
        for _ in range(count):
            (members,) = struct.unpack_from("<I", self.body, at)
            found.append(tuple(name_in(self.body, at + 4 + 32 * place) for place in range(members)))
            at += 4 + 32 * members
        assert at == len(self.body)
        return found

    @property
    def own_set(self) -> tuple[str, ...]:
        """Those who came with the receiver, in a view."""
        (offset,) = struct.unpack_from("<I", self.body, 16)
        (members,) = struct.unpack_from("<I", self.body, 20 + offset)
        return tuple(name_in(self.body, 24 + offset + 32 * place) for place in range(members))


def name_in(data: bytes, at: int) -> str:
    return data[at : at + 32].partition(b"\0")[0].decode("ascii")


def name_field(name: str) -> bytes:
    return name.encode("latin-1").ljust(32, b"\0")


class Rejected(Exception):
    """The daemon does not want this client."""

    def __init__(self, code: int) -> None:
        super().__init__(f"rejected with {code}")
        self.code = code


def dial(place: str) -> socket.socket:
    """A connection to `unix:PATH` or `tcp:HOST:PORT`."""
    scheme, _, where = place.partition(":")
    if scheme == "unix":
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.connect(where)
    else:
        host, _, port = where.rpartition(":")
        connected = socket.create_connection((host, int(port)))
    connected.settimeout(PATIENCE_S)
    return connected


class SpreadClient:
    """One connection."""

    def __init__(
        self,
        place: str,
        name: str = "",
        *,
        membership: bool = True,
        priority: int = 0,
        version: tuple[int, int, int] = (5, 0, 1),
        order: str = "<",
        methods: tuple[str, ...] = ("NULL",),
    ) -> None:
        self.order = order
        self.socket = dial(place)
        try:
            self.private_group = self._introduce(name, membership, priority, version, methods)
        except BaseException:
            self.socket.close()
            raise

    def _introduce(
        self,
        name: str,
        membership: bool,
        priority: int,
        version: tuple[int, int, int],
        methods: tuple[str, ...],
    ) -> str:
        numbers = version if version >= (3, 15, 0) else version[:2]
        hello = bytes((*numbers, (priority << 4) | membership, len(name))) + name.encode("ascii")
        self.socket.sendall(hello)
        if version >= (3, 16, 0):
            length = self._code()
            self.offered = self.take(length)
            self.socket.sendall(
                b"".join(method.encode().ljust(30, b"\0") for method in methods).ljust(90, b"\0")
            )
        accepted = self._code()
        assert accepted == 1
        self.daemon_version = tuple(self.take(len(numbers)))
        return self.take(self.take(1)[0]).decode("ascii")

    def _code(self) -> int:
        (code,) = struct.unpack("b", self.take(1))
        if code < 0:
            raise Rejected(code)
        return int(code)

    def __enter__(self) -> "SpreadClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # Talking ----------------------------------------------------------------------------------------------

    def frame(self, kind: int, groups: tuple[str, ...], body: bytes = b"", number: int = 0) -> bytes:
        """A frame, ready to be sent."""
        marker = MARKER if self.order == "<" else 0
        header = struct.pack(
            self.order + "I32siIi",
            kind | marker,
            name_field(self.private_group),
            len(groups),
            (number & 0xFFFF) << 8 | marker,
            len(body),
        )
        return header + b"".join(map(name_field, groups)) + body

    def say(self, kind: int, groups: tuple[str, ...], body: bytes = b"", number: int = 0) -> None:
        self.socket.sendall(self.frame(kind, groups, body, number))

    def join(self, group: str) -> None:
        self.say(JOIN, (group,))

    def leave(self, group: str) -> None:
        self.say(LEAVE, (group,))

    def multicast(self, kind: int, *groups: str, body: bytes, number: int = 0) -> None:
        self.say(kind, groups, body, number)

    def disconnect(self) -> None:
        """The last word, after which the toolkit's libraries close at once."""
        self.say(KILL, (self.private_group,))

    # Listening --------------------------------------------------------------------------------------------

    def take(self, size: int) -> bytes:
        """So many bytes; EOFError if the connection ends before."""
        data = bytearray()
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError(f"the connection ended after {len(data)} of {size} bytes")
            data += more
        return bytes(data)

    def receive(self) -> Frame:
        """The next frame."""
        header = self.take(48)
        (word,) = struct.unpack_from("<I", header)
        order = "<" if word & MARKER == MARKER else ">"
        kind, sender, count, hint, size = struct.unpack(order + "I32si4si", header)
        names = self.take(32 * count)
        (word,) = struct.unpack("<I", hint)
        sent_little = word & MARKER == MARKER
        if not sent_little:
            (word,) = struct.unpack(">I", hint)
        number = word >> 8 & 0xFFFF
        return Frame(
            kind & ~MARKER,
            name_in(sender, 0),
            tuple(name_in(names, 32 * place) for place in range(count)),
            number - 0x1_0000 if number & 0x8000 else number,
            sent_little != (self.order == "<"),
            self.take(size),
        )

    def hear(self, kind: int) -> Frame:
        """The next frame with these bits of its type; whatever comes before it is skipped."""
        while True:
            frame = self.receive()
            if frame.kind & kind == kind:
                return frame

    def message(self) -> Frame:
        """The next message."""
        while True:
            frame = self.receive()
            if frame.kind & 0x3F:
                return frame

    def is_closed(self) -> bool:
        """Read to the end, which must come."""
        try:
            while True:
                self.receive()
        except EOFError:
            return True
