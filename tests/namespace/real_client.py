"""A client of a real daemon that does what the simulator's actors and incidents ask of their clients.

Requests are queued and made in their order by a task, as fast as the library takes them; another task takes
events. Both keep the diary of the session.
"""

import asyncio
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

import antiphon
from antiphon import Left, Message, Service, Session, TransitionalSignal, View
from antiphon.client import Event as Received
from antiphon.errors import ConnectError, Disconnected, Refused
from antiphon.types import Resilience

sys.path.append(str(Path(__file__).parents[1] / "runtime"))  # where real sessions are written down as well
from diary import Diary, Entry, merge

__all__ = ["Entry", "Home", "RealClient", "RealDiary", "merge"]

CREDENTIALS = struct.Struct("3i")
"""Process, user and group of those who listen on a unix socket."""


class Join(Struct, frozen=True):
    group: str


class Leave(Struct, frozen=True):
    group: str


class Send(Struct, frozen=True):
    groups: tuple[str, ...]
    service: Service
    payloads: tuple[bytes, ...]
    self_discard: bool


class Home(Struct, frozen=True):
    """Where a client lives: one incarnation of a daemon."""

    daemon: str
    number: int
    place: str
    process: int
    incarnation: Callable[[], "asyncio.Future[int]"]
    """Is known some time after the start."""


class RealDiary(Diary):
    """Also of sessions that want no views, and of those that ended otherwise than by a goodbye."""

    is_confirmed = False
    """Whether the session's daemon has taken everything that was sent, and said so."""

    def want_no_views(self) -> None:
        self.entries[0][2].views_wanted = False

    def took(self, event: Received) -> None:
        if isinstance(event, TransitionalSignal):  # may be for a view of which nobody has told it
            self._views[event.group] = (event.id.epoch, event.id.branch, event.id.lts, event.id.daemon)
        super().took(event)

    def end(self, cause: str) -> None:
        """Nothing happens at this process any more."""
        if not self.is_over:
            self.disconnect()
            self.entries[-1][2].cause = cause

    def strike(self, entry: Entry) -> None:
        """The library did not take what was about to be sent."""
        self.entries.remove(entry)


class RealClient:
    """One session, from its connect to its end."""

    def __init__(self, home: Home, name: str, read_bytes_per_s: int, views: bool) -> None:
        self.name = f"#{name}#{home.daemon}"
        self.process = self.name
        self.open = True
        self.wanted: set[str] = set()
        """Groups that it asked to join and did not ask to leave."""
        self.joining: set[str] = set()
        self.leaving: set[str] = set()
        self.diary: RealDiary | None = None
        """From its welcome on."""
        self._home = home
        self._read_bytes_per_s = read_bytes_per_s
        self._views = views
        self._requests: deque[Join | Leave | Send] = deque()
        self._has_requests = asyncio.Event()
        self._is_talking = True  # until it is connected
        self._is_reading = False
        """Whether a slow reader has not yet come to ask for the next event."""
        self._session: Session | None = None
        self._cause = ""
        """Why it is about to end."""
        self.life: asyncio.Task[None] | None = None
        """Runs `live`: done when nothing can happen to it any more."""

    # What the application asks ----------------------------------------------------------------------------

    def join(self, group: str, minimum: int = 0, delivery: str = "") -> None:
        self.joining.add(group)
        self.wanted.add(group)
        assert not minimum, "no scenario of real runs wishes a quorum"
        assert not delivery, "nobody chooses how to receive in real runs"
        self._ask(Join(group))

    def leave(self, group: str) -> None:
        self.leaving.add(group)
        self.wanted.discard(group)
        self._ask(Leave(group))

    def send(
        self,
        groups: tuple[str, ...],
        service: Service,
        payloads: Sequence[bytes],
        self_discard: bool = False,
        resilience: Resilience | None = None,
    ) -> None:
        assert resilience is None, "no scenario of real runs asks for a resilience"
        self._ask(Send(groups, service, tuple(payloads), self_discard))

    def _ask(self, request: Join | Leave | Send) -> None:
        self._requests.append(request)
        self._has_requests.set()

    @property
    def is_busy(self) -> bool:
        """Whether requests wait for the library, or the library for its daemon, or events for the reader."""
        return self.open and bool(self._requests or self._is_talking or self._is_reading)

    # Its end ----------------------------------------------------------------------------------------------

    def disconnect(self, graceful: bool) -> None:
        """End the session from its own side: with a last word, or by breaking the connection."""
        self._stop("disconnect" if graceful else "broken")
        if self.diary is not None:
            self.diary.end(self._cause)
        if self._session is not None and not graceful:
            self._session._socket.shutdown(socket.SHUT_RDWR)

    def crash(self) -> None:
        """Its daemon was killed. What it had written before is still to be read."""
        self._stop("crash")

    def _stop(self, cause: str) -> None:
        self.open = False
        self._cause = cause
        self._requests.clear()
        self._has_requests.set()

    # Its life ---------------------------------------------------------------------------------------------

    async def live(self, name: str, priority: int, slow: str) -> None:
        """All of it, from the connect on."""
        try:
            session = await antiphon.connect(
                self._home.place,
                name=name,
                priority=priority,
                slow=slow or None,  # type: ignore[arg-type]
                views=self._views,
            )
        except (ConnectError, Refused) as error:
            assert not isinstance(error, Refused) or error.code == "name-taken", error
            self._stop("refused")
            return
        credentials = session._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(credentials)[0] != self._home.process or not self.open:
            # It came too late: its daemon has been started again, or it is not wanted any more.
            self._stop("late")
            with suppress(Disconnected):
                await session.close()
            return
        incarnation = await self._home.incarnation()
        self.diary = RealDiary(
            session.name, self._home.daemon, self._home.number, incarnation, session.number
        )
        if not self._views:
            self.diary.want_no_views()
            # The library keeps to itself what confirms a join or leave; the trace is to have it.
            session._incoming.shows_views = True
        self._session = session
        listening = asyncio.create_task(self._listen(session, self.diary))
        await self._talk(session, self.diary)
        if self._cause == "disconnect":
            with suppress(Disconnected):
                await session.close()
                self.diary.is_confirmed = True
        await listening

    async def _talk(self, session: Session, diary: RealDiary) -> None:
        """Until the end, whichever side it comes from."""
        while True:
            while self.open and not self._requests:
                self._is_talking = False
                self._has_requests.clear()
                await self._has_requests.wait()
            if not self.open:
                return
            self._is_talking = True
            try:
                await self._do(session, diary, self._requests.popleft())
            except Disconnected:
                return

    async def _do(self, session: Session, diary: RealDiary, request: Join | Leave | Send) -> None:
        match request:
            case Join(group):
                diary.join(group)
                await session.join(group, wait=False)
            case Leave(group):
                diary.leave(group)
                await session.leave(group, wait=False)
            case Send(groups, service, payloads, self_discard):
                for payload in payloads:
                    if not self.open:
                        return
                    diary.send(groups, payload, service, self_discard)
                    entry = diary.entries[-1]
                    try:
                        await session.send(groups, payload, service, self_discard=self_discard)
                    except Disconnected:
                        diary.strike(entry)
                        raise

    async def _listen(self, session: Session, diary: RealDiary) -> None:
        """Until nothing more can come; a slow reader takes its time, but not after the end."""
        try:
            while True:
                event = await session.receive()
                self._take(event, diary)
                if self._read_bytes_per_s and isinstance(event, Message) and self.open:
                    self._is_reading = True
                    await asyncio.sleep(len(event.payload) / self._read_bytes_per_s)
                self._is_reading = False
        except Disconnected as error:
            diary.end(self._cause or error.reason)
            self._stop(self._cause or error.reason)

    def _take(self, event: Received, diary: RealDiary) -> None:
        diary.took(event)
        if isinstance(event, View):
            self.joining.discard(event.group)
        elif isinstance(event, Left):
            self.leaving.discard(event.group)
