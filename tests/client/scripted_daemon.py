"""The daemon's end of one connection, spoken by a test: for what a real daemon does not do on cue."""

import socket
from pathlib import Path

import msgspec

from antiphon.service import Service
from antiphon.types import Message
from antiphon.wire import bundle, frames

WELCOME = frames.Welcome(
    version=frames.PROTOCOL_VERSION,
    session=7,
    name="#alice#d1",
    daemon="d1",
    daemon_number=3,
    message_max_bytes=1 << 24,
)
OWN = {"sender": WELCOME.name, "daemon": WELCOME.daemon_number, "session": WELCOME.session}
"""How a message of the welcomed session itself comes back."""


class ScriptedDaemon:
    """Listens at `address`; after `welcome` the test says and hears frames itself."""

    def __init__(self, directory: Path, name: str = "s") -> None:
        path = directory / f"{name}.sock"
        self.address = f"unix:{path}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(30)
        self._heard = bytearray()

    def welcome(self, answer: frames.FromDaemon = WELCOME) -> frames.FromClient:
        """Take the next connection and answer its first word; what that was."""
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(30)
        self._heard.clear()
        word = self.hear_control()
        self.say(answer)
        return word

    def say(self, *values: frames.FromDaemon | bytes) -> None:
        for value in values:
            self.connection.sendall(value if isinstance(value, bytes) else frames.encode_control(value))

    def hear(self) -> tuple[int, bytes]:
        """The next frame: kind and bytes."""
        while True:
            found, _, _ = frames.split(memoryview(bytes(self._heard)))
            if found:
                kind, frame = found[0]
                del self._heard[: len(frame)]
                return kind, bytes(frame)
            data = self.connection.recv(1 << 20)
            assert data, "the client hung up"
            self._heard += data

    def hear_control(self) -> frames.FromClient:
        kind, frame = self.hear()
        assert kind == frames.FrameKind.CONTROL
        return frames.decode_from_client(frame)

    def hear_bundle(self) -> list[Message]:
        kind, frame = self.hear()
        assert kind == frames.FrameKind.BUNDLE
        return bundle.decode(frame)

    def hear_messages(self, count: int) -> list[list[Message]]:
        """Bundles until they hold `count` messages."""
        bundles: list[list[Message]] = []
        while sum(map(len, bundles)) < count:
            bundles.append(self.hear_bundle())
        return bundles

    def hang_up(self) -> None:
        self.connection.close()

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()
        self._listener.close()


def delivered(
    *payloads: bytes,
    sender: str = "#bob#d2",
    daemon: int = 4,
    session: int = 9,
    sequence: int = 1,
    service: Service = Service.SAFE,
) -> bytes:
    """A bundle as a daemon delivers it."""
    names = bundle.names_area(sender, ["chat"])
    data = bytearray(b"".join(bundle.encode(names, 1, service, payloads)))
    bundle.stamp(
        data,
        msgspec.structs.replace(
            bundle.parse(data),
            daemon=daemon,
            session=session,
            incarnation=1,
            sequence=sequence,
            number=1,
            previous=0,
            lts=1,
            aru=0,
            destinations=1,
        ),
    )
    return bytes(data)
