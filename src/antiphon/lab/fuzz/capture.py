"""Genuine conversations of clients: a relay between client and daemon that keeps what the client says."""

import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import antiphon.blocking
from antiphon.client import ask_status
from antiphon.errors import BadFrame
from antiphon.lab.fuzz.talkers import GROUP
from antiphon.load.crowd import dial
from antiphon.load.spread import SpreadConnection
from antiphon.service import Service
from antiphon.spreadwire import greeting, layout
from antiphon.types import BatchStamp
from antiphon.wire import frames

OWN_GROUP = "fuzz"
READ_BYTES = 65_536
PATIENCE_S = 30.0
_HELLO_BYTES = len(greeting.VERSION) + 2


def overheard(place: str, work: Callable[[str], None]) -> list[bytes]:
    """What a client says while it does this work, connection by connection; it is given the relay's place."""
    said: list[bytearray] = []
    with tempfile.TemporaryDirectory(prefix="antiphon-relay-") as folder:
        path = Path(folder) / "relay"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen()
            threads: list[threading.Thread] = []
            accepting = threading.Thread(target=_accept, args=(listening, place, said, threads), daemon=True)
            accepting.start()
            work(f"unix:{path}")
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE_S)
            for thread in threads:
                thread.join(PATIENCE_S)
    return [bytes(one) for one in said]


def _accept(
    listening: socket.socket, place: str, said: list[bytearray], threads: list[threading.Thread]
) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        daemon = dial(place)
        kept = bytearray()
        said.append(kept)
        for one, other, keep in ((client, daemon, kept), (daemon, client, None)):
            threads.append(threading.Thread(target=_pass_on, args=(one, other, keep), daemon=True))
            threads[-1].start()


def _pass_on(one: socket.socket, other: socket.socket, keep: bytearray | None) -> None:
    with suppress(OSError):
        while data := one.recv(READ_BYTES):
            if keep is not None:
                keep += data
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


# Our own clients ------------------------------------------------------------------------------------------


def client_frames(place: str) -> dict[str, list[bytes]]:
    """Genuine frames of our own client, by kind."""
    found: dict[str, list[bytes]] = {}
    for conversation in overheard(place, _talk):
        whole, _, _ = frames.split(memoryview(conversation))
        for kind, frame in whole:
            found.setdefault(_client_kind(kind, bytes(frame)), []).append(bytes(frame))
    return found


def _client_kind(kind: int, frame: bytes) -> str:
    if kind == frames.FrameKind.CONTROL:
        return str(frames.decode_from_client(frame).__struct_config__.tag)
    return "batch" if b"genuine-batch" in frame else "bundle"


def _talk(place: str) -> None:
    with antiphon.blocking.connect(place, name="genuine") as session:
        session.join(OWN_GROUP)
        for service in Service:
            session.send(OWN_GROUP, b"to all", service)
            session.send((OWN_GROUP, GROUP), b"to two groups", service, tag=-3)
            session.flush()
        session.send(GROUP, b"x" * 5_000)
        session.flush()
        session.send_many(GROUP, [b"one", b"two", b""])
        session.flush()
        session.send_many(OWN_GROUP, [b"1", b"2"], batch=BatchStamp("genuine-batch", 1, 0, 1, 0))
        session.flush()
        session.leave(OWN_GROUP)
    ask_status(place)


# Spread's clients -----------------------------------------------------------------------------------------


def spread_frames(place: str) -> dict[str, list[bytes]]:
    """Genuine pieces of a conversation by Spread's protocol, by kind."""
    (conversation,) = overheard(place, _talk_spread)
    found = {
        "hello": [conversation[:_HELLO_BYTES]],
        "choice": [conversation[_HELLO_BYTES : _HELLO_BYTES + greeting.CHOICE_BYTES]],
    }
    at = _HELLO_BYTES + greeting.CHOICE_BYTES
    while at < len(conversation):
        kind, _, count, _, size = layout.parse_header(conversation, at)
        end = at + layout.HEADER_BYTES + layout.NAME_BYTES * count + size
        found.setdefault(_spread_kind(kind), []).append(conversation[at:end])
        at = end
    return found


def _spread_kind(kind: int) -> str:
    for bit, name in ((layout.JOIN, "join"), (layout.LEAVE, "leave"), (layout.KILL, "kill")):
        if kind & bit:
            return name
    if kind & layout.SERVICES:
        return "message"
    raise BadFrame("spread: a frame without an action")


def _talk_spread(place: str) -> None:
    session = SpreadConnection(place, priority=0, views=True)
    session.join(OWN_GROUP)
    for service in layout.SERVICE_OF:
        session.send(session.start(service, OWN_GROUP, 5, 4) + b"body")
        session.send(session.start(service | layout.SELF_DISCARD, GROUP, -1, 0))
    session.send(session.start(layout.AGREED, GROUP, 0, 5_000) + bytes(5_000))
    session.send(session.start(layout.LEAVE, OWN_GROUP, 0, 0))
    session.close()
