"""The client library's own reconnection in virtual time, against simulated daemons.

Sessions here are the library's: `SessionBase` with its `Incoming`, `SendQueue`, ledgers and
`ReconnectPlan.route`, which decide what has an unknown fate, which groups are joined again, where to ask and
how long to wait. Only what moves bytes is imitated: a socket whose other end is a session of a simulated
daemon.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from antiphon.client._base import SessionBase
from antiphon.client._incoming import Incoming
from antiphon.client._opening import Opened
from antiphon.client._reconnecting import Ask, ReconnectPlan, Wait
from antiphon.client.events import Event
from antiphon.errors import BadFrame, UsageError
from antiphon.runtime.credentials import credentials
from antiphon.service import Service
from antiphon.simulator import machine as machines
from antiphon.simulator.client import Client
from antiphon.simulator.world import World
from antiphon.wire import frames

DELAY_US = 300
"""Between a program and its daemon, each way."""
ROOM_BYTES = 2_000
"""What a socket takes before the daemon has read it: little, so that writes stop in the middle of frames."""


class DaemonEnd(Client):
    """The daemon's end of a connection."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.socket: VirtualSocket | None = None
        self._bytes = bytearray()
        self._frames: deque[tuple[int, bytes]] = deque()

    def arrived(self, data: bytes) -> None:
        """Bytes of the program."""
        self._bytes += data
        whole, used, _ = frames.split(memoryview(bytes(self._bytes)))
        self._frames.extend((kind, bytes(frame)) for kind, frame in whole)
        del self._bytes[:used]
        if self._frames:
            self._waiting[self] = None

    @property
    def asks(self) -> str:
        return "submit" if self._frames else "nothing"

    @property
    def is_busy(self) -> bool:
        return self.open and bool(self._frames)

    def hand_over(self, now_us: int, node_now_us: int) -> None:
        while self._frames and self._node.reads(self.session):
            kind, frame = self._frames.popleft()
            if kind == frames.FrameKind.CONTROL:
                self._node.control(self.session, frames.decode_from_client(frame), node_now_us)
            else:
                self._node.submit(self.session, (bytearray(frame),), node_now_us)
        if not self._frames:
            self._waiting.pop(self, None)

    def take(self, output: Any, now_us: int) -> None:
        assert self.socket is not None
        self.socket.comes(bytes(output))

    def close(self, now_us: int, cause: str) -> None:
        super().close(now_us, cause)
        self._frames.clear()
        if self.socket is not None:
            if cause == "bye":
                self.socket.comes(frames.encode_control(frames.Goodbye("bye", "disconnected as asked")))
            self.socket.comes(b"")


class VirtualSocket:
    """The program's end of a connection: as much of a socket as the library uses."""

    def __init__(self, world: World, number: int, end: DaemonEnd) -> None:
        self.when_readable: Callable[[], None] = lambda: None
        self.when_writable: Callable[[], None] = lambda: None
        self._world = world
        self._number = number
        self._end = end
        self._inbox = bytearray()
        self._is_ended = False
        self._is_closed = False
        self._under_way_bytes = 0
        end.socket = self

    # What the library calls -------------------------------------------------------------------------------

    def recv_into(self, space: memoryview) -> int:
        if self._inbox:
            count = min(len(space), len(self._inbox))
            space[:count] = self._inbox[:count]
            del self._inbox[:count]
            return count
        if self._is_ended:
            return 0
        raise BlockingIOError

    def sendmsg(self, buffers: Sequence[bytes | memoryview]) -> int:
        if self._is_ended:
            raise BrokenPipeError(32, "Broken pipe")
        data = b"".join(buffers)[: ROOM_BYTES - self._under_way_bytes]
        if not data:
            raise BlockingIOError
        self._under_way_bytes += len(data)
        self._later(self._goes, data)
        return len(data)

    def setblocking(self, _flag: bool) -> None: ...

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._later(self._hang_up)

    def breaks(self) -> None:
        """The connection ends, and nobody wanted it to; what is under way is lost."""
        self._is_ended = True
        self._inbox.clear()
        self._hang_up()
        self.when_readable()

    # What happens to it -----------------------------------------------------------------------------------

    def _later(self, happens: Callable[..., None], *arguments: object) -> None:
        self._world.schedule(self._world.now_us + DELAY_US, happens, *arguments)

    def _goes(self, data: bytes) -> None:
        self._under_way_bytes -= len(data)
        if self._end.open:
            self._end.arrived(data)
            self._world.hosts[self._number].settle()
            if not self._is_closed:
                self.when_writable()

    def _hang_up(self) -> None:
        if self._end.open:
            self._world.disconnect(self._number, self._end, graceful=False)

    def comes(self, data: bytes) -> None:
        """Bytes of the daemon; none for their end."""
        self._later(self._came, data)

    def _came(self, data: bytes) -> None:
        if self._is_closed or self._is_ended:
            return
        self._inbox += data
        self._is_ended = not data
        self.when_readable()


class VirtualSearch:
    """`Search` in virtual time."""

    def __init__(self, session: "VirtualSession", reconnect_plan: ReconnectPlan) -> None:
        library = self._library = session.library
        self._session = session
        self._is_stopped = False
        self.steps: list[Ask | Wait] = []
        self._route = reconnect_plan.route(
            session.address,
            may_try=session._may_try,
            now_s=lambda: library.world.now_us / 1e6,
            chance=library.random.random,
        )

    def start(self) -> None:
        self._go_on(None)

    def stop(self) -> None:
        self._is_stopped = True

    def _go_on(self, failure: str | None) -> None:
        if self._is_stopped:
            return
        try:
            step = self._route.send(failure)
        except StopIteration as end:
            self._session._not_found(end.value)
            return
        self.steps.append(step)
        if isinstance(step, Wait):
            self._library.later(round(step.seconds * 1e6), self._go_on, None)
        else:
            self._library.later(2 * DELAY_US, self._ask, step.place)

    def _ask(self, place: str) -> None:
        if self._is_stopped:
            return
        opened = self._library.open(place, self._session.wanted_name)
        if isinstance(opened, str):
            self._go_on(opened)
        else:
            self._session._found(opened)


class VirtualSession(SessionBase):
    """A session of the library whose input and output take no thread and no loop."""

    def __init__(self, library: "Library", opened: Opened, name: str, reconnect_plan: ReconnectPlan) -> None:
        self.library = library
        self.wanted_name = name
        self.connections: list[list[tuple[bytes, Service]]] = [[]]
        """What was sent over each."""
        self.searches: list[tuple[str, VirtualSearch]] = []
        """Each with the place that was lost."""
        self.complaints: list[str] = []
        """What the daemon could not carry out."""
        super().__init__(opened, bundle=True, release=None, reconnect_plan=reconnect_plan, batches=None)
        self._attach()

    def _attach(self) -> None:
        self._socket.when_readable = self.readable  # type: ignore[attr-defined]
        self._socket.when_writable = self.write  # type: ignore[attr-defined]

    # What the application does ----------------------------------------------------------------------------

    @property
    def is_present(self) -> bool:
        return self._loss is None and not self._is_over

    def is_member(self, group: str) -> bool:
        """Whether all that was asked for has taken effect, and the group was asked for."""
        return group in self._groups and self._incoming.effects[group] >= self._asked[group]

    def send(self, group: str, payload: bytes, service: Service, *, writes: bool) -> None:
        self._send_queue.add(group, payload, service, 0, False)
        self.connections[-1].append((payload, service))
        if writes:
            self.write()

    def join(self, group: str) -> None:
        self._ask_join(group)
        self.write()

    def leave(self, group: str) -> None:
        self._ask_leave(group)
        self.write()

    def take(self) -> list[Event]:
        """All events that have arrived."""
        events: list[Event] = []
        while self._refill():
            events += self._ready
            self._ready.clear()
        return events

    def _refill(self) -> bool:
        try:
            return self._incoming.refill()
        except BadFrame as error:
            self._lost(f"the daemon sent what cannot be read: {error.reason}")
            return False
        except UsageError as error:
            self.complaints.append(str(error))
            return True

    # What sessions do below -------------------------------------------------------------------------------

    def write(self) -> None:
        if not self.is_present:
            return
        self._send_queue.close_bundle()
        while self._send_queue.queued_bytes:
            try:
                self._send_queue.written(self._socket.sendmsg(self._send_queue.buffers()))
            except BlockingIOError:
                return
            except OSError as error:
                self.readable()
                self._lost(error.strerror or str(error))
                return

    def readable(self) -> None:
        while self.is_present and self._read():
            pass
        self._incoming.ledger.forget()

    def _cut(self) -> None:
        self._socket.close()
        self._send_queue.drop()

    def _over(self, reason: str) -> None:
        super()._over(reason)
        self._cut()

    def _begin_search(self, reconnect_plan: ReconnectPlan) -> Any:
        search = VirtualSearch(self, reconnect_plan)
        self.searches.append((self.address, search))
        return search

    def _found(self, opened: Opened) -> None:
        self._come_back(opened)
        self.connections.append([])
        self._attach()
        self.write()
        self.readable()

    def _not_found(self, failure: str) -> None:
        self._over(f"{self._loss}; and {failure}")


class Library:
    """The programs of a world, all of which use the library."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random

    def later(self, after_us: int, happens: Callable[..., None], *arguments: object) -> None:
        self.world.schedule(self.world.now_us + after_us, happens, *arguments)

    def connect(self, places: tuple[str, ...], name: str, limit_s: float) -> VirtualSession | None:
        opened = self.open(places[0], name)
        if isinstance(opened, str):
            return None
        hello = frames.Connect(frames.PROTOCOL_VERSION, name, accepts=True)
        return VirtualSession(self, opened, name, ReconnectPlan(places, hello, 1.0, limit_s))

    def open(self, place: str, name: str) -> Opened | str:
        """As `open_session`, of a daemon that is called `place`."""
        number = self.world.config.daemon_names.index(place)
        host = self.world.hosts[number]
        if host.node is None:
            return f"no daemon at {place}"
        end = host.connect(name, 0, 0, True, "")
        if end is None:
            return f"a session called {name!r} is here"
        assert isinstance(end, DaemonEnd)
        session = host.node.sessions.get(end.session)
        assert session is not None
        session.accepts = True
        welcome = frames.Welcome(
            frames.PROTOCOL_VERSION, end.session, end.name, place, number, message_max_bytes=1 << 20
        )
        incoming = Incoming()
        frame = frames.encode_control(welcome)
        incoming.space()[: len(frame)] = frame
        incoming.filled(len(frame))
        socket = VirtualSocket(self.world, number, end)
        return Opened(socket, place, welcome, incoming, credentials(None, None))  # type: ignore[arg-type]


def use_library(monkeypatch: Any) -> None:
    """Let simulated daemons write bytes to ends of connections instead of telling simulated clients."""
    monkeypatch.setattr(machines, "Client", DaemonEnd)
    monkeypatch.setattr(machines, "read_frame", bytes)
