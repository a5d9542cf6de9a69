"""A machine with one process on it: it drives the process's node as `core.node` asks of its drivers.

The process may crash and be started again; the machine, its clocks and its place in the network stay. The
monotonic clock is apart from the others', and runs at a rate of its own.

An attentive process handles each event when it comes. A busy one lets them gather for a while, handles all of
them and settles once, as a real one does whose loop finds many descriptors ready. A paused one is the same,
only that it takes seconds.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from antiphon.config.access import VERBS, UserLimits
from antiphon.core.access.rights import Rights, Rule, Usage, User
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.delivery import Endings, Frames
from antiphon.simulator.client import Client, Output, read_frame
from antiphon.simulator.connections import End
from antiphon.simulator.plan import Daemon
from antiphon.trace import Event, Record
from antiphon.types import PRIORITY_MAX
from antiphon.wire import edges, frames
from antiphon.wire.frames import Connect, FromClient, Refuse, Welcome

if TYPE_CHECKING:
    from antiphon.simulator.guests import Guests
    from antiphon.simulator.world import World

OVERDUE_MAX = 5_000
"""So many times in a row a node may have something to do at once; more means that it asks for the present
again and again, and that a real process would never sleep."""
MILLION = 1_000_000

Gathered = tuple[Callable[..., None], tuple[object, ...]]
"""An event of a node and what it is told beside the time."""


class Driven(Protocol):
    """A node as its driver sees it: that of a daemon, or of an edge."""

    incarnation: int
    frames: Frames
    endings: Endings
    is_settled: bool

    def settle(self, now_us: int) -> None: ...

    def timeout(self, now_us: int) -> None: ...

    def next_deadline_us(self) -> int | None: ...

    def connect(self, request: Connect, now_us: int, rights: Rights | None = None) -> Welcome | Refuse: ...

    def attach(self, request: edges.Attach, now_us: int) -> tuple[int, edges.Attached] | Refuse: ...

    def probe(self, request: edges.Probe) -> edges.Probed: ...

    def control(self, session: int, request: FromClient | edges.FromEdge, now_us: int) -> None: ...

    def submit(self, session: int, bundles: Sequence[bytearray | memoryview], now_us: int) -> None: ...

    def lost(self, session: int, now_us: int) -> None: ...

    def backlog(self, session: int, waiting_bytes: int, read_bytes: int, now_us: int) -> Band: ...

    def reads(self, session: int) -> bool: ...


class Machine:
    """One process's machine."""

    def __init__(self, world: "World", number: int, daemon: Daemon, kind: str) -> None:
        self.number = number
        """Its place in the network."""
        self.daemon = daemon
        self.is_observed = True
        """Whether the trace tells of the process. Of one that runs twice it cannot: see `simulator.twins`."""
        self.node: Driven | None = None
        """The process, while it runs."""
        self.clients: dict[int, Client] = {}
        """Its open sessions."""
        self.guests: Guests | None = None
        """The edges at it, for one life of it."""
        self._world = world
        self._random = world.chance(f"{kind} {daemon.name}")
        self._ahead_us = daemon.clock_us
        """How far its monotonic clock was ahead of the world's in the beginning."""
        self._waiting: dict[Client, None] = {}
        """Clients with requests that the process has not read yet."""
        self._readers: dict[Client, int] = {}
        """How many bytes a second slow readers take."""
        self._paused_until_us = 0
        self.started_us = -1
        """When its process was started last."""
        self._forget()

    def _forget(self) -> None:
        """Nothing is under way between this machine and its process."""
        self._gathered: list[Gathered] = []
        self._turn_us: int | None = None
        """When the process will handle what has gathered."""
        self._wake_us: int | None = None
        self._overdue = 0

    @property
    def name(self) -> str:
        """The process's."""
        return self.daemon.name

    @property
    def clock_us(self) -> int:
        """What its monotonic clock shows now."""
        now_us = self._world.now_us
        if self.daemon.drift_ppm:
            now_us += now_us * self.daemon.drift_ppm // MILLION
        return now_us + self._ahead_us

    def _world_us(self, clock_us: int) -> int:
        """The first moment of the world at which its monotonic clock shows at least this."""
        if not self.daemon.drift_ppm:
            return clock_us - self._ahead_us
        return -(-(clock_us - self._ahead_us) * MILLION // (MILLION + self.daemon.drift_ppm))

    @property
    def is_paused(self) -> bool:
        """Whether the process handles nothing now."""
        return self._paused_until_us > self._world.now_us

    @property
    def has_work(self) -> bool:
        """Whether the process has events to handle, or a client waits for it or has output to read."""
        if self.node is not None and not self.node.is_settled:
            return True
        if self.guests is not None and self.guests.has_output:
            return True
        return bool(self._gathered) or any(client.is_busy for client in self.clients.values())

    def note(self, event: Event, **fields: object) -> None:
        """Put into the trace what has happened to the process."""
        if not self.is_observed:
            return
        records = self._world.records
        records.append(Record(len(records), self._world.now_us, event, self.name, **fields))  # type: ignore[arg-type]

    def _count(self, event: str) -> None:
        """The node has met an event."""

    # The process's life -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process is gone, and with it all sessions, whatever it had not handled and its pause."""
        if self.node is None:
            return
        for client in self.clients.values():
            client.close(self._world.now_us, "crash")
        if self.guests is not None:
            self.guests.crash(self._world.now_us)
        self.note(Event.CRASH, incarnation=self.node.incarnation)
        self.node = None
        self.guests = None
        self._world.connections.crash(self.number)
        self.clients.clear()
        self._waiting.clear()
        self._readers.clear()
        self._paused_until_us = 0
        self._forget()

    def pause(self, for_us: int) -> None:
        """Stop the process for this time."""
        if self.node is not None:
            self._paused_until_us = max(self._paused_until_us, self._world.now_us + for_us)
            self._plan_turn(self._paused_until_us)

    def resume(self) -> None:
        """A pause ends early."""
        if self.is_paused:
            self._paused_until_us = self._world.now_us
            self._plan_turn(self._world.now_us)

    # Events -----------------------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return self.daemon.gathers_us > 0 or self._paused_until_us > self._world.now_us

    def hear(self, end: End, event: str, reason: str) -> None:
        """Something has happened to a connection with another machine."""
        raise NotImplementedError

    def _happen(self, event: Callable[..., None], *arguments: object) -> None:
        """The node is told of something, at once or in its next turn."""
        assert self.node is not None
        if self._is_busy:
            self._gathered.append((event, arguments))
            self._gather()
        else:
            event(*arguments, self.clock_us)
            self._settle(self.node)

    def _wake(self, time_us: int) -> None:
        node = self.node
        if node is None or self._wake_us != time_us:
            return  # an earlier deadline took its place, or the process has crashed
        self._wake_us = None
        if self._is_busy:
            self._turn(node)
            return
        self._count("timeout")
        self._look_around(node)
        node.timeout(self.clock_us)
        self._time_out_connections()
        self._settle(node)

    def _look_around(self, node: Driven) -> None:
        """What a process does at the beginning of each turn."""

    def _time_out_connections(self) -> None:
        """Time has passed for what carries the process's packets, too."""

    # Busy and paused processes ----------------------------------------------------------------------------

    def _gather(self) -> None:
        """Something has come in: see to it that it will be handled, with what comes until then."""
        if self._turn_us is None:
            self._plan_turn(self._world.now_us + self.daemon.gathers_us)

    def _plan_turn(self, time_us: int) -> None:
        self._turn_us = time_us
        self._world.schedule(time_us, self._planned_turn, time_us)

    def _planned_turn(self, time_us: int) -> None:
        # Otherwise a deadline was served meanwhile, and this with it, or the process has crashed.
        if self._turn_us == time_us and self.node is not None:
            self._turn(self.node)

    def _turn(self, node: Driven) -> None:
        """One pass of a busy process's loop: all that has gathered, what is due, then one settle."""
        self._turn_us = None
        if self.is_paused:
            self._plan_turn(self._paused_until_us)
            return
        now_us = self.clock_us
        self._look_around(node)
        clients_first = self._random.random() < 0.5
        if clients_first:
            self._read_clients()
        for event, arguments in self._gathered:
            event(*arguments, now_us)
        self._gathered_is_handled()
        if not clients_first:
            self._read_clients()
        deadline_us = node.next_deadline_us()
        if deadline_us is not None and deadline_us <= now_us:
            self._count("timeout")
            node.timeout(now_us)
        self._time_out_connections()
        self._settle(node)

    def _gathered_is_handled(self) -> None:
        self._gathered.clear()

    def _read_clients(self) -> None:
        for client in list(self._waiting):
            client.hand_over(self._world.now_us, self.clock_us)

    # What the node leaves behind --------------------------------------------------------------------------

    def _settle(self, node: Driven) -> None:
        """Take what an event left behind, until nothing more follows from it."""
        while True:
            if not node.is_settled:
                node.settle(self.clock_us)
            self._carry_out(node)
            self._take_frames(node)
            if self._waiting:
                self._read_clients()
            if self.guests is not None:
                self.guests.go_on(self.clock_us)
            if node.frames or node.endings or self._has_more(node):
                continue
            if node.is_settled:
                break
            if self.daemon.gathers_us:  # the rest of its work comes after what gathers until then
                self._gather()
                break
        self._sleep(node)

    def _carry_out(self, node: Driven) -> None:
        """Send what the node leaves for other machines."""

    def _has_more(self, node: Driven) -> bool:
        """Whether the node has left more of that."""
        return False

    def _take_frames(self, node: Driven) -> None:
        if node.frames:
            written = node.frames[:]
            node.frames.clear()
            for sessions, frame, _ in written:
                self._write(node, sessions, frame)
        if node.endings:
            endings = node.endings[:]
            node.endings.clear()
            for session, goodbye in endings:
                client = self.clients.pop(session, None)
                if client is not None and client.open:
                    client.close(self._world.now_us, goodbye.code)
                elif self.guests is not None:
                    self.guests.dismiss(session, goodbye)

    def _deadline_us(self, node: Driven) -> int | None:
        return node.next_deadline_us()

    def _sleep(self, node: Driven) -> None:
        """Plan to wake at the node's next deadline, or a bit later where deadlines are served late."""
        deadline_us = self._deadline_us(node)
        if deadline_us is None:
            return
        world = self._world
        deadline_us = self._world_us(deadline_us)
        if deadline_us > world.now_us:
            self._overdue = 0
        else:
            deadline_us = world.now_us
            self._overdue += 1
            if self._overdue > OVERDUE_MAX:
                raise RuntimeError(f"daemon {self.name} never sleeps, from {world.now_us} us on")
        wake_us = self._wake_us
        if wake_us is None or deadline_us < wake_us:
            if self.daemon.late_us:
                deadline_us += self._random.randrange(self.daemon.late_us)
                if wake_us is not None and wake_us <= deadline_us:
                    return
            self._wake_us = deadline_us
            world.schedule(deadline_us, self._wake, deadline_us)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self,
        name: str,
        priority: int,
        read_bytes_per_s: int,
        views: bool,
        slow: str,
        forbidden: tuple[str, ...] = (),
    ) -> Client | None:
        """A new session, if the process runs, is awake, and the name is free; a reader with a rate takes its
        time, and groups may be forbidden to it."""
        node = self.node
        if node is None or self.is_paused or not self.is_observed:
            return None
        self._count("connect")
        hello = frames.Connect(frames.PROTOCOL_VERSION, name, priority, views, slow=slow, refusals=True)
        answer = node.connect(hello, self.clock_us, _rights(forbidden))
        if isinstance(answer, frames.Refuse):
            if answer.code in ("name-taken", frames.STOPPING):
                return None
            raise AssertionError(f"{name} was refused: {answer.reason}")
        world = self._world
        client = self._client(node, answer)
        client.forbidden = frozenset(forbidden)
        self.clients[answer.session] = client
        if read_bytes_per_s:
            self._readers[client] = read_bytes_per_s
        world.records.append(
            Record(
                len(world.records), world.now_us, Event.CONNECT, self.name, client.process, forbidden,
                views_wanted=views, incarnation=node.incarnation,
            )
        )  # fmt: skip
        self.settle()
        return client

    def _client(self, node: Driven, welcome: frames.Welcome) -> Client:
        world = self._world
        return Client(
            node, self.name, welcome, world.config.settings, world.records, self._waiting, world.bearers
        )

    def settle(self) -> None:
        """Clients of this process have new requests."""
        node = self.node
        if node is None:
            return
        for client in self._waiting:
            self._count(client.asks)
        if self._is_busy:
            self._gather()
        else:
            self._settle(node)

    def disconnect(self, client: Client, graceful: bool) -> None:
        """End a session from its own side: with a last word, or by breaking the connection."""
        node = self.node
        assert node is not None and client.open
        self._count("disconnect" if graceful else "lost")
        client.close(self._world.now_us, "disconnect" if graceful else "broken")
        self._lose(client)
        if graceful:
            gathered: Gathered = (node.control, (client.session, frames.Disconnect()))
        else:
            gathered = (node.lost, (client.session,))
        if self._is_busy:
            self._gathered.append(gathered)
        else:
            event, arguments = gathered
            event(*arguments, self.clock_us)
        self.settle()

    def _lose(self, client: Client) -> None:
        del self.clients[client.session]
        self._readers.pop(client, None)

    def _write(self, node: Driven, sessions: tuple[int, ...], frame: bytes | bytearray | memoryview) -> None:
        output: Output | None = None
        ending = {session for session, _ in node.endings}
        for session in sessions:
            client = self.clients.get(session)
            if client is None and self.guests is not None:
                self.guests.write(session, frame)
            if client is None or not client.open or (session in ending and client in self._readers):
                continue
            if output is None:
                output = read_frame(frame)
            rate = self._readers.get(client)
            if rate is None:
                client.take(output, self._world.now_us)
            else:
                self._write_slowly(node, client, rate, len(frame), output)

    def _write_slowly(self, node: Driven, client: Client, rate: int, size_bytes: int, output: Output) -> None:
        was_idle = not client.unread
        if not client.queue(size_bytes, output, self._world.now_us, self.clock_us):
            client.close(self._world.now_us, "slow-receiver")
            self._lose(client)
            node.lost(client.session, self.clock_us)
        elif was_idle:
            self._world.schedule(
                self._world.now_us + size_bytes * 1_000_000 // rate, self._read, client, rate
            )

    def _read(self, client: Client, rate: int) -> None:
        if not client.open:
            return
        if self.is_paused:  # its output waits in the process, which does not write
            self._world.schedule(self._paused_until_us, self._read, client, rate)
            return
        client.read_next(self._world.now_us, self.clock_us)
        if client.unread:
            next_us = self._world.now_us + client.unread[0][0] * 1_000_000 // rate
            self._world.schedule(next_us, self._read, client, rate)
        self.settle()


def _rights(forbidden: tuple[str, ...]) -> Rights | None:
    """Those of a user to whom an access list forbids these groups and nothing else."""
    if not forbidden:
        return None
    others = re.compile(f"(?!(?:{'|'.join(map(re.escape, forbidden))})$).*")
    user = User("somebody", (Rule(frozenset(VERBS), others),), PRIORITY_MAX, UserLimits())
    return Rights(user, Usage(user.limits, 0))
