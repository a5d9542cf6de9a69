"""Virtual time: an event heap that drives real nodes through a simulated network.

Every event has a time in microseconds and a serial number, so that the order of events is a function of the
seed alone. After each event the world takes what the nodes left behind, exactly as `core.node` asks of its
drivers. Each daemon has a clock of its own, apart from the others' by a constant.
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
from antiphon.simulator.client import Client, Output, read_frame
from antiphon.simulator.network import Path
from antiphon.simulator.trace import Event, Record
from antiphon.wire import frames
from antiphon.wire.bundle import Flag, Header

TURNS_MAX = 100_000
"""Events at one and the same microsecond; more means that a node asks for the present again and again."""


class Daemon(Struct, frozen=True):
    """How one daemon enters the world."""

    name: str
    starts_us: int = 0
    clock_us: int = 0
    """What its own clock shows at time 0."""


class World:
    """A cluster, its network and its clients in virtual time."""

    def __init__(
        self,
        config: Config,
        daemons: list[Daemon],
        paths: dict[tuple[int, int], Path],
        random: Random,
        *,
        drain_us: int = 0,
    ) -> None:
        self.now_us = 0
        self.random = random
        self.records: list[Record] = []
        self.paths = paths
        self.clients: list[dict[int, Client]] = [{} for _ in daemons]
        self._drain_us = drain_us
        """How long a daemon goes on reading packets before it settles."""
        self._draining: set[int] = set()
        self._waiting: list[dict[Client, None]] = [{} for _ in daemons]
        """Clients with requests that their daemon has not read yet."""
        self._config = config
        self._daemons = daemons
        self._nodes: list[Node | None] = [None] * len(daemons)
        self._wakes_us: list[int | None] = [None] * len(daemons)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        self._readers: dict[str, int] = {}
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
        if header.flags & (Flag.EVENT | Flag.LATE):
            return  # only bundles of messages are traced
        self.records.append(
            Record(
                len(self.records), self.now_us, Event.HOLD, self._daemons[number].name,
                message=(header.daemon, header.session, header.sequence), count=header.message_count,
            )
        )  # fmt: skip

    def _arrive(self, number: int, data: bytes, segment_bytes: int) -> None:
        node = self._nodes[number]
        if node is not None:
            node.receive(memoryview(data), segment_bytes, self.now_us + self._daemons[number].clock_us)
            if not self._drain_us:
                self._settle(number, node)
            elif number not in self._draining:
                self._draining.add(number)
                self.schedule(self.now_us + self._drain_us, self._drained, number, node)

    def _drained(self, number: int, node: Node) -> None:
        self._draining.remove(number)
        self._settle(number, node)

    def _wake(self, number: int) -> None:
        node = self._nodes[number]
        if node is None or self._wakes_us[number] != self.now_us:
            return  # an earlier deadline took its place
        self._wakes_us[number] = None
        node.timeout(self.now_us + self._daemons[number].clock_us)
        self._settle(number, node)

    def _settle(self, number: int, node: Node) -> None:
        """Take what an event left behind, until nothing more follows from it."""
        waiting = self._waiting[number]
        clock_us = self._daemons[number].clock_us
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
                node_now_us = self.now_us + clock_us
                for client in list(waiting):
                    client.hand_over(self.now_us, node_now_us)
            if node.is_settled and not (node.datagrams or node.frames or node.endings):
                break
        deadline_us = node.next_deadline_us()
        if deadline_us is not None:
            deadline_us = max(deadline_us - clock_us, self.now_us)
            wake_us = self._wakes_us[number]
            if wake_us is None or deadline_us < wake_us:
                self._wakes_us[number] = deadline_us
                self.schedule(deadline_us, self._wake, number)

    def _send(self, number: int, datagram: Datagram) -> None:
        receiver = datagram.receiver
        data = b"".join(datagram.buffers)
        for time_us, packets, segment_bytes in self.paths[number, receiver].carry(
            data, datagram.segment_bytes, self.now_us
        ):
            self.schedule(time_us, self._arrive, receiver, packets, segment_bytes)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(self, number: int, name: str, priority: int = 0, read_bytes_per_s: int = 0) -> Client | None:
        """A new session at a daemon that has started; a reader with a rate takes its time."""
        node = self._nodes[number]
        if node is None:
            return None
        daemon = self._daemons[number]
        request = frames.Connect(frames.PROTOCOL_VERSION, name, priority)
        answer = node.connect(request, self.now_us + daemon.clock_us)
        if isinstance(answer, frames.Refuse):
            raise AssertionError(f"{name} was refused: {answer.reason}")
        client = Client(node, daemon.name, answer, self._config.settings, self.records, self._waiting[number])
        self.clients[number][answer.session] = client
        if read_bytes_per_s:
            self._readers[client.process] = read_bytes_per_s
        self.records.append(
            Record(len(self.records), self.now_us, Event.CONNECT, daemon.name, client.process)
        )
        self._settle(number, node)
        return client

    def settle(self, number: int) -> None:
        """Clients of this daemon have new requests."""
        node = self._nodes[number]
        assert node is not None
        self._settle(number, node)

    def disconnect(self, number: int, client: Client, graceful: bool) -> None:
        """End a session from its own side: with a last word, or by breaking the connection."""
        node = self._nodes[number]
        assert node is not None and client.open
        client.close(self.now_us, "disconnect" if graceful else "broken")
        del self.clients[number][client.session]
        node_now_us = self.now_us + self._daemons[number].clock_us
        if graceful:
            node.control(client.session, frames.Disconnect(), node_now_us)
        else:
            node.lost(client.session, node_now_us)
        self._settle(number, node)

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
            fill = _fill(node)
            empty = empty and not any(used for used, _ in fill.values())
            self.records.append(
                Record(
                    len(self.records), self.now_us, Event.BUFFERS, self._daemons[number].name, buffers=fill
                )
            )
        return empty

    @property
    def is_busy(self) -> bool:
        """Whether some client waits for its daemon, or has output to read."""
        return any(client.is_busy for clients in self.clients for client in clients.values())


def _fill(node: Node) -> dict[str, tuple[int, int]]:
    """How full each buffer of a node is, and its limit."""
    return {name: (gauge["bytes"], gauge["limit"]) for name, gauge in buffers(node).items()}
