"""Sessions of Spread's protocol for the talkers: what their frames say, in our words.

Spread's frames name neither messages nor views as the oracle does. Who they are is taken from what the
daemons in this process had to translate; everything that a frame does say is compared with that.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest
from spread_client import (
    BY_DISCONNECT,
    BY_JOIN,
    BY_LEAVE,
    BY_NETWORK,
    JOIN,
    KILL,
    LEAVE,
    SELF_DISCARD,
    TRANSITION,
    VIEW,
    Frame,
    Rejected,
    SpreadClient,
)  # fmt: skip

from antiphon import Left, Message, Service, TransitionalSignal, View
from antiphon.client import Event as Received
from antiphon.client import ask_status
from antiphon.errors import Disconnected, Refused
from antiphon.runtime.spread import SpreadConnection
from antiphon.spreadwire.views import pack_id
from antiphon.types import Cause
from antiphon.wire import bundle, frames

SENT = {service: 1 << place for place, service in enumerate(Service)}
SERVICES = sum(SENT.values())
CAUSES = {Cause.JOIN: BY_JOIN, Cause.LEAVE: BY_LEAVE, Cause.DISCONNECT: BY_DISCONNECT}


class Interpreter:
    """Knows what the daemons said before it was translated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._messages: dict[tuple[str, bytes], Message] = {}
        self._views: dict[tuple[str, str, bytes], View] = {}  # by session, group and identifier
        self._lefts: dict[tuple[str, str], deque[Left]] = {}  # by session and group
        queue = SpreadConnection.queue

        def noting(connection: SpreadConnection, frame: bytes | bytearray | memoryview) -> None:
            self._note(connection.name, frame)
            queue(connection, frame)

        monkeypatch.setattr(SpreadConnection, "queue", noting)

    def _note(self, session: str, frame: bytes | bytearray | memoryview) -> None:
        if frame[4] == frames.FrameKind.BUNDLE:
            for message in bundle.decode(bytes(frame)):
                self._messages[message.sender, message.payload] = message
            return
        value = frames.decode_from_daemon(frame)
        if isinstance(value, frames.ViewFrame):
            self._views[session, value.view.group, pack_id(value.view.id)] = value.view
        elif isinstance(value, frames.LeftFrame):
            self._lefts.setdefault((session, value.left.group), deque()).append(value.left)

    def read(self, session: str, frame: Frame) -> Received:
        """What a session got, as our library would hand it out."""
        if frame.kind & SERVICES:
            message = self._messages[frame.sender, frame.body]
            assert frame.groups == message.groups
            assert frame.kind & SERVICES == SENT[message.service]
            return message
        if frame.kind & VIEW:
            return self._view(session, frame)
        if frame.kind == TRANSITION:
            return TransitionalSignal(frame.sender, self._views[session, frame.sender, frame.body].id)
        assert frame.kind == BY_LEAVE
        return self._lefts[session, frame.sender].popleft()

    def _view(self, session: str, frame: Frame) -> View:
        """A view, with those in it who came along as far as Spread says who did."""
        told = self._views[session, frame.sender, frame.body[:12]]
        assert sorted(frame.groups) == sorted(told.members)
        is_several = told.cause is Cause.DISCONNECT and len(told.changed) > 1  # ended together
        is_network = told.id.branch or is_several or told.cause in (Cause.NETWORK, Cause.MERGE)
        assert frame.kind == VIEW | (BY_NETWORK if is_network else CAUSES[told.cause])
        if is_network:
            assert sorted(name for some in frame.sets for name in some) == sorted(told.members)
            together = frame.own_set
        else:
            assert frame.sets == [told.changed]
            together = told.members
        return View(told.group, told.id, told.members, together, told.cause, told.changed)


class SpreadSession:
    """A session as talkers use it. Of a view it is told who came along only where Spread says so: in others
    all do who were there before."""

    def __init__(self, interpreter: Interpreter, place: str, spread_place: str, name: str) -> None:
        try:
            self._client = SpreadClient(spread_place, name, order="<" if len(name) % 2 else ">")
        except Rejected as rejected:
            assert rejected.code == -6
            raise Refused("name-taken", "its end is on its way") from None
        self._interpreter = interpreter
        self._pen = threading.Lock()
        self._members: dict[str, tuple[str, ...]] = {}
        self.name = self._client.private_group
        self.daemon = self.name.rpartition("#")[2]
        self.address = place
        sessions = ask_status(place)["sessions"]
        self.number = next(one["number"] for one in sessions if one["name"] == self.name)

    def join(self, group: str) -> None:
        self._say(JOIN, (group,))

    def leave(self, group: str) -> None:
        self._say(LEAVE, (group,))

    def send(self, groups: tuple[str, ...], payload: bytes, service: Service, *, self_discard: bool) -> None:
        self._say(SENT[service] | (SELF_DISCARD if self_discard else 0), groups, payload)

    def close(self) -> None:
        self._say(KILL, (self.name,))

    def _say(self, kind: int, groups: tuple[str, ...], body: bytes = b"") -> None:
        with self._pen:
            self._client.say(kind, groups, body)

    def __iter__(self) -> Iterator[Received]:
        while True:
            try:
                frame = self._client.receive()
            except EOFError:
                self._client.socket.close()
                raise Disconnected("the daemon closed the connection") from None
            event = self._interpreter.read(self.name, frame)
            if isinstance(event, View):
                before = self._members.get(event.group, ())
                together = tuple(name for name in before if name in event.transitional)
                self._members[event.group] = event.members
                event = View(event.group, event.id, event.members, together, event.cause, event.changed)
            elif isinstance(event, Left):
                del self._members[event.group]
            yield event


def speaks_spread(
    interpreter: Interpreter, spread_places: dict[str, str]
) -> Callable[[str, str], SpreadSession]:
    """What connects talkers at the places of daemons, where Spread is spoken at these other places."""
    return lambda place, name: SpreadSession(interpreter, place, spread_places[place], name)
