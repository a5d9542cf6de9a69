"""A client made of a bare socket and `wire.frames`: it can also say what the client library never would."""

import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from antiphon import limits
from antiphon.service import Service
from antiphon.types import Message, View
from antiphon.wire import bundle, edges, frames

Heard = TypeVar("Heard")

PATIENCE_S = 30.0
"""Only to keep a failing test from hanging."""


class RawClient:
    """One connection to a daemon's listener."""

    def __init__(self, place: str, name: str | None = None) -> None:
        """Connects; with a name (it may be empty) also asks for a session."""
        scheme, _, where = place.partition(":")
        if scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(where)
        else:
            host, _, port = where.rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(PATIENCE_S)
        self._input = bytearray()
        self.name = ""
        self.views: list[View] = []
        """Every view that has come."""
        if name is not None:
            self.say(frames.Connect(frames.PROTOCOL_VERSION, name))
            welcome = self.hear(frames.Welcome)
            self.name = welcome.name

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # Talking ----------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, value: frames.FromClient | edges.FromEdge) -> None:
        self.send_bytes(frames.encode_control(value))

    def bundle(self, group: str, payloads: list[bytes], service: Service = Service.AGREED) -> bytes:
        return b"".join(bundle.encode(bundle.names_area(self.name, [group]), 1, service, payloads))

    def send(self, group: str, *payloads: bytes, service: Service = Service.AGREED) -> None:
        self.send_bytes(self.bundle(group, list(payloads), service))

    def join(self, group: str) -> View:
        """Join and wait for the first view."""
        self.say(frames.Join(group))
        return self.hear(frames.ViewFrame).view

    # Listening --------------------------------------------------------------------------------------------

    def next_frame(self) -> tuple[int, bytes] | None:
        """The next frame, or None when the daemon has closed the connection."""
        while True:
            if len(self._input) >= frames.HEAD_BYTES:
                length, kind = frames.HEAD.unpack_from(self._input)
                if len(self._input) >= length:
                    frame = bytes(self._input[:length])
                    del self._input[:length]
                    self._note_view(kind, frame)
                    return kind, frame
            try:
                data = self.socket.recv(1024 * 1024)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._input += data

    def _note_view(self, kind: int, frame: bytes) -> None:
        if kind == frames.FrameKind.CONTROL:
            value = frames.decode_to_edge(frame)
            if isinstance(value, frames.ViewFrame):
                self.views.append(value.view)

    def hear(self, kind: type[Heard]) -> Heard:
        """The next control value of this kind; whatever comes before it is skipped."""
        while (frame := self.next_frame()) is not None:
            if frame[0] == frames.FrameKind.CONTROL:
                value = frames.decode_to_edge(frame[1])
                if isinstance(value, kind):
                    return value
        raise AssertionError(f"the connection ended before a {kind.__name__}")

    def messages(self, count: int) -> list[Message]:
        """The next `count` messages; control frames between them are skipped."""
        found: list[Message] = []
        while len(found) < count:
            frame = self.next_frame()
            assert frame is not None, f"the connection ended after {len(found)} of {count} messages"
            if frame[0] == frames.FrameKind.BUNDLE:
                found += bundle.decode(frame[1])
        return found

    def is_closed(self) -> bool:
        """Read to the end, which must come."""
        while self.next_frame() is not None:
            pass
        return True


def exchange_the_largest(one: str, other: str) -> None:
    """Two clients, each at one place, send each other a message of the greatest size at the same time."""
    with RawClient(one, "ada") as ada, RawClient(other, "bob") as bob:
        ada.join("chat")
        bob.join("chat")
        payload = bytes(range(256)) * (limits.MESSAGE_MAX_BYTES // 256)
        ada.send("chat", payload)
        bob.send("chat", payload[::-1])
        heard = [client.messages(2) for client in (ada, bob)]
        assert heard[0] == heard[1]
        assert {message.payload for message in heard[0]} == {payload, payload[::-1]}


def status(place: str) -> dict[str, Any]:
    """What the daemon at `place` says about itself."""
    with RawClient(place) as client:
        client.say(frames.AskStatus())
        told: dict[str, Any] = msgspec.json.decode(client.hear(frames.Status).json)
        return told


def wait_until(condition: Callable[[], bool]) -> None:
    """Until `condition` holds, which it must."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
