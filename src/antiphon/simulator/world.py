"""Virtual time: an event heap that drives real nodes through a simulated network.

Every event has a time in microseconds and a serial number, so that the order of events is a function of the
seed alone. After each event the world takes what the nodes left behind, exactly as `core.node` asks of its
drivers. Each daemon has a clock of its own, apart from the others' by a constant.

An attentive daemon handles each event when it comes. A busy one lets them gather for a while, handles all of
them and settles once, as a real one does whose loop finds many descriptors ready. A paused one is the same,
only that it takes seconds.
"""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from random import Random

from msgspec import Struct

from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.node import Node
from antiphon.core.status import buffers
from antiphon.simulator.bearers import Bearers
from antiphon.simulator.client import Client, Output, read_frame
from antiphon.simulator.network import Path
from antiphon.simulator.trace import Event, Record
from antiphon.wire import frames
from antiphon.wire.bundle import Flag, Header

TURNS_MAX = 100_000
"""Events at one and the same microsecond; more means that the world goes in circles."""
OVERDUE_MAX = 5_000
"""So many times in a row a node may have something to do at once; more means that it asks for the present
again and again, and that a real daemon would never sleep."""
SOCKET_BYTES = 8 * 1024 * 1024
"""What the socket of a daemon holds that does not read; what comes then is lost."""

Gathered = tuple[Callable[..., None], tuple[object, ...]]
"""An event of a node and what it is told beside the time."""


class Pause(Struct, frozen=True):
    """A daemon handles nothing between these times, and then everything."""

    from_us: int
    until_us: int


class Daemon(Struct, frozen=True):
    """How one daemon enters the world, and how it lives."""

    name: str
    starts_us: int = 0
    clock_us: int = 0
    """What its own clock shows at time 0."""
    gathers_us: int = 0
    """How long a busy daemon lets events gather before it handles them together; 0 for an attentive one."""
    late_us: int = 0
    """Its deadlines are served up to so late."""
    pauses: tuple[Pause, ...] = ()


class World:
    """A cluster, its network and its clients in virtual time."""

    def __init__(
        self, config: Config, daemons: list[Daemon], paths: dict[tuple[int, int], Path], random: Random
    ) -> None:
        self.now_us = 0
        self.random = random
        self.records: list[Record] = []
        self.paths = paths
        self.clients: list[dict[int, Client]] = [{} for _ in daemons]
        self._waiting: list[dict[Client, None]] = [{} for _ in daemons]
        """Clients with requests that their daemon has not read yet."""
        self._gathered: list[list[Gathered]] = [[] for _ in daemons]
        self._gathered_bytes = [0] * len(daemons)
        self._turns_us: list[int | None] = [None] * len(daemons)
        """When each daemon will handle what has gathered."""
        self._config = config
        self._daemons = daemons
        self._is_busy = [bool(daemon.gathers_us or daemon.pauses) for daemon in daemons]
        self._nodes: list[Node | None] = [None] * len(daemons)
        self._wakes_us: list[int | None] = [None] * len(daemons)
        self._overdue = [0] * len(daemons)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        self._readers: dict[str, int] = {}
        self._bearers = Bearers()
        for number, daemon in enumerate(daemons):
            self.schedule(daemon.starts_us, self._start, number)

    # Time -------------------------------------------------------------------------------------------------

    def schedule(self, time_us: int, action: Callable[..., None], *arguments: object) -> None:
        """Do `action` at `time_us`; actions of the same time happen in the order of these calls."""
        self._serial += 1
        heappush(self._heap, (time_us, self._serial, action, arguments))

    def run(self, until_us: int) -> None:
        """Let time pass."""
        heap = self._heap
        turns = 0
        while heap and heap[0][0] <= until_us:
            time_us, _, action, arguments = heappop(heap)
            turns = turns + 1 if time_us == self.now_us else 0
            if turns > TURNS_MAX:
                raise RuntimeError(f"time stands still at {time_us} us")
            self.now_us = time_us
            action(*arguments)
        self.now_us = max(self.now_us, until_us)

    # Daemons ----------------------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        daemon = self._daemons[number]
        node = Node(
            self._config,
            daemon.name,
            incarnation=self.random.randrange(1, 1 << 32),
            now_us=self.now_us + daemon.clock_us,
        )
        self._nodes[number] = node
        node.observer = partial(self._hold, number)
        self._settle(number, node)

    def node(self, number: int) -> Node | None:
        """A daemon's node, once it has started."""
        return self._nodes[number]

    def _hold(self, number: int, header: Header) -> None:
        if header.flags & (Flag.EVENT | Flag.LATE):
            return  # no message of a client
        self.records.append(
            Record(
                len(self.records), self.now_us, Event.HOLD, self._daemons[number].name,
                message=(header.daemon, header.session, header.sequence), count=header.message_count,
            )
        )  # fmt: skip

    def _arrive(self, number: int, path: Path, data: bytes, segment_bytes: int) -> None:
        node = self._nodes[number]
        if node is None:
            return
        if not self._is_busy[number]:
            node.receive(memoryview(data), segment_bytes, self.now_us + self._daemons[number].clock_us)
            self._settle(number, node)
        elif self._gathered_bytes[number] + len(data) > SOCKET_BYTES:
            path.lost += -(-len(data) // segment_bytes)
        else:
            self._gathered_bytes[number] += len(data)
            self._gathered[number].append((node.receive, (memoryview(data), segment_bytes)))
            self._gather(number)

    def _wake(self, number: int) -> None:
        node = self._nodes[number]
        if node is None or self._wakes_us[number] != self.now_us:
            return  # an earlier deadline took its place
        self._wakes_us[number] = None
        if self._is_busy[number]:
            self._turn(number)
            return
        node.timeout(self.now_us + self._daemons[number].clock_us)
        self._settle(number, node)

    # Busy and paused daemons ------------------------------------------------------------------------------

    def _gather(self, number: int) -> None:
        """Something has come in: see to it that it will be handled, with what comes until then."""
        if self._turns_us[number] is None:
            self._plan_turn(number, self.now_us + self._daemons[number].gathers_us)

    def _plan_turn(self, number: int, time_us: int) -> None:
        self._turns_us[number] = time_us
        self.schedule(time_us, self._planned_turn, number, time_us)

    def _planned_turn(self, number: int, time_us: int) -> None:
        if self._turns_us[number] == time_us:  # else a deadline was served meanwhile, and this with it
            self._turn(number)

    def _turn(self, number: int) -> None:
        """One pass of a busy daemon's loop: all that has gathered, what is due, then one settle."""
        self._turns_us[number] = None
        until_us = self._paused_until_us(number)
        if until_us is not None:
            self._plan_turn(number, until_us)
            return
        node = self._nodes[number]
        assert node is not None
        node_now_us = self.now_us + self._daemons[number].clock_us
        clients_first = self.random.random() < 0.5
        if clients_first:
            self._read_clients(number)
        for event, arguments in self._gathered[number]:
            event(*arguments, node_now_us)
        self._gathered[number].clear()
        self._gathered_bytes[number] = 0
        if not clients_first:
            self._read_clients(number)
        deadline_us = node.next_deadline_us()
        if deadline_us is not None and deadline_us <= node_now_us:
            node.timeout(node_now_us)
        self._settle(number, node)

    def _paused_until_us(self, number: int) -> int | None:
        for pause in self._daemons[number].pauses:
            if pause.from_us <= self.now_us < pause.until_us:
                return pause.until_us
        return None

    def _read_clients(self, number: int) -> None:
        node_now_us = self.now_us + self._daemons[number].clock_us
        for client in list(self._waiting[number]):
            client.hand_over(self.now_us, node_now_us)

    # What nodes leave behind ------------------------------------------------------------------------------

    def _settle(self, number: int, node: Node) -> None:
        """Take what an event left behind, until nothing more follows from it."""
        waiting = self._waiting[number]
        daemon = self._daemons[number]
        clock_us = daemon.clock_us
        while True:
            if not node.is_settled:
                node.settle(self.now_us + clock_us)
            if node.datagrams:
                datagrams = node.datagrams[:]
                node.datagrams.clear()
                for datagram in datagrams:
                    self._send(number, datagram)
            if node.frames:
                written = node.frames[:]
                node.frames.clear()
                for sessions, frame in written:
                    self._write(number, sessions, frame)
            if node.endings:
                endings = node.endings[:]
                node.endings.clear()
                for session, goodbye in endings:
                    client = self.clients[number].pop(session, None)
                    if client is not None and client.open:
                        client.close(self.now_us, goodbye.code)
            if waiting:
                self._read_clients(number)
            if node.is_settled and not (node.datagrams or node.frames or node.endings):
                break
        deadline_us = node.next_deadline_us()
        if deadline_us is not None:
            deadline_us -= clock_us
            if deadline_us > self.now_us:
                self._overdue[number] = 0
            else:
                deadline_us = self.now_us
                self._overdue[number] += 1
                if self._overdue[number] > OVERDUE_MAX:
                    raise RuntimeError(f"daemon {daemon.name} never sleeps, from {self.now_us} us on")
            wake_us = self._wakes_us[number]
            if wake_us is None or deadline_us < wake_us:
                if daemon.late_us:
                    deadline_us += self.random.randrange(daemon.late_us)
                    if wake_us is not None and wake_us <= deadline_us:
                        return
                self._wakes_us[number] = deadline_us
                self.schedule(deadline_us, self._wake, number)

    def _send(self, number: int, datagram: Datagram) -> None:
        receiver = datagram.receiver
        data = b"".join(datagram.buffers)
        path = self.paths[number, receiver]
        for time_us, packets, segment_bytes in path.carry(data, datagram.segment_bytes, self.now_us):
            self.schedule(time_us, self._arrive, receiver, path, packets, segment_bytes)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self, number: int, name: str, priority: int = 0, read_bytes_per_s: int = 0, views: bool = True
    ) -> Client | None:
        """A new session, if the daemon has started, is awake, and the name is free; a reader with a rate
        takes its time."""
        node = self._nodes[number]
        if node is None or self._paused_until_us(number) is not None:
            return None
        daemon = self._daemons[number]
        request = frames.Connect(frames.PROTOCOL_VERSION, name, priority, views)
        answer = node.connect(request, self.now_us + daemon.clock_us)
        if isinstance(answer, frames.Refuse):
            if answer.code == "name-taken":
                return None
            raise AssertionError(f"{name} was refused: {answer.reason}")
        client = Client(
            node, daemon.name, answer, self._config.settings, self.records, self._waiting[number],
            self._bearers,
        )  # fmt: skip
        self.clients[number][answer.session] = client
        if read_bytes_per_s:
            self._readers[client.process] = read_bytes_per_s
        self.records.append(
            Record(
                len(self.records), self.now_us, Event.CONNECT, daemon.name, client.process, views_wanted=views
            )
        )
        self.settle(number)
        return client

    def settle(self, number: int) -> None:
        """Clients of this daemon have new requests."""
        node = self._nodes[number]
        assert node is not None
        if self._is_busy[number]:
            self._gather(number)
        else:
            self._settle(number, node)

    def disconnect(self, number: int, client: Client, graceful: bool) -> None:
        """End a session from its own side: with a last word, or by breaking the connection."""
        node = self._nodes[number]
        assert node is not None and client.open
        client.close(self.now_us, "disconnect" if graceful else "broken")
        del self.clients[number][client.session]
        if graceful:
            gathered: Gathered = (node.control, (client.session, frames.Disconnect()))
        else:
            gathered = (node.lost, (client.session,))
        if self._is_busy[number]:
            self._gathered[number].append(gathered)
        else:
            event, arguments = gathered
            event(*arguments, self.now_us + self._daemons[number].clock_us)
        self.settle(number)

    def _write(self, number: int, sessions: tuple[int, ...], frame: bytes | bytearray | memoryview) -> None:
        clients = self.clients[number]
        output: Output | None = None
        for session in sessions:
            client = clients.get(session)
            if client is None or not client.open:
                continue
            if output is None:
                output = read_frame(frame)
            rate = self._readers.get(client.process)
            if rate is None:
                client.take(output, self.now_us)
            else:
                self._write_slowly(number, client, rate, len(frame), output)

    def _write_slowly(self, number: int, client: Client, rate: int, size_bytes: int, output: Output) -> None:
        was_idle = not client.unread
        if not client.queue(size_bytes, output, self.now_us + self._daemons[number].clock_us):
            client.close(self.now_us, "slow-receiver")
            del self.clients[number][client.session]
            node = self._nodes[number]
            assert node is not None
            node.lost(client.session, self.now_us + self._daemons[number].clock_us)
        elif was_idle:
            self.schedule(self.now_us + size_bytes * 1_000_000 // rate, self._read, number, client, rate)

    def _read(self, number: int, client: Client, rate: int) -> None:
        if not client.open:
            return
        until_us = self._paused_until_us(number)
        if until_us is not None:  # its output waits in the daemon, which does not write
            self.schedule(until_us, self._read, number, client, rate)
            return
        client.read_next(self.now_us, self.now_us + self._daemons[number].clock_us)
        if client.unread:
            next_us = self.now_us + client.unread[0][0] * 1_000_000 // rate
            self.schedule(next_us, self._read, number, client, rate)
        self.settle(number)

    # Looking ----------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Put the state of every daemon's buffers into the trace; whether all of them are empty."""
        empty = True
        for number, node in enumerate(self._nodes):
            if node is None:
                continue
            fill = {name: (gauge["bytes"], gauge["limit"]) for name, gauge in buffers(node).items()}
            fill["session_output"] = self._output(number, node)
            empty = empty and not any(used for used, _ in fill.values())
            self.records.append(
                Record(
                    len(self.records), self.now_us, Event.BUFFERS, self._daemons[number].name, buffers=fill
                )
            )
        return empty

    def _output(self, number: int, node: Node) -> tuple[int, int]:
        """The most output that waits for one session for which all senders hold, and its limit: until the
        last of them has heard, each site goes on as far as stability lets it."""
        settings = self._config.settings
        per_source_bytes = settings.unstable_bytes + node.order.largest_bytes
        limit_bytes = settings.output_soft_bytes + 2 * len(self._daemons) * per_source_bytes
        slow = node.hold.slow_sessions
        waiting = (client.unread_bytes for session, client in self.clients[number].items() if session in slow)
        return max(waiting, default=0), limit_bytes

    @property
    def is_busy(self) -> bool:
        """Whether a daemon has events to handle, or a client waits for its daemon or has output to read."""
        return any(self._gathered) or any(
            client.is_busy for clients in self.clients for client in clients.values()
        )
