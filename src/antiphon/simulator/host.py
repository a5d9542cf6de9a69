"""The machine that one daemon runs on: it drives the daemon's node as `core.node` asks of its drivers.

The daemon may crash and be started again; the machine, its clocks and its place in the network stay. The
monotonic clock is apart from the others', runs at a rate of its own and begins anew only with the machine;
the wall clock, which a daemon reads only at its start, may step.

An attentive daemon handles each event when it comes. A busy one lets them gather for a while, handles all of
them and settles once, as a real one does whose loop finds many descriptors ready. A paused one is the same,
only that it takes seconds.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from antiphon.core.effects import Datagram
from antiphon.core.node import Node
from antiphon.simulator.client import Client, Output, read_frame
from antiphon.simulator.connections import End
from antiphon.simulator.network import Path
from antiphon.simulator.plan import Daemon
from antiphon.simulator.streams import HostStreams
from antiphon.simulator.watching import HostWatcher
from antiphon.trace import Event, Record
from antiphon.trace.samples import clock_sample, fill, link_samples
from antiphon.wire import frames
from antiphon.wire.packet import PacketKind
from antiphon.wire.versions import kind_of

if TYPE_CHECKING:
    from antiphon.simulator.world import World

OVERDUE_MAX = 5_000
"""So many times in a row a node may have something to do at once; more means that it asks for the present
again and again, and that a real daemon would never sleep."""
SOCKET_BYTES = 8 * 1024 * 1024
"""What the socket of a daemon holds that does not read; what comes then is lost."""
BUSY_SLICE_STEPS = 3
"""What a busy daemon does before it looks for what has gathered: so little that the work of small clusters is
cut into slices, too, with other events between them."""
NEAR_EPOCH_US = 1_000_000
TRUE_US = 1_700_000_000_000_000
"""What a clock that is right shows when the world begins."""
MILLION = 1_000_000

Gathered = tuple[Callable[..., None], tuple[object, ...]]
"""An event of a node and what it is told beside the time."""

_KIND_WORDS = {int(kind): kind.name.lower() for kind in PacketKind}


class Host:
    """One daemon's machine."""

    def __init__(self, world: "World", number: int, daemon: Daemon, kind: str = "daemon") -> None:
        self.number = number
        self.daemon = daemon
        self.is_observed = True
        """Whether the trace tells of the daemon. Of one that runs twice it cannot: see `simulator.twins`."""
        self.node: Node | None = None
        """The daemon, while it runs."""
        self.clients: dict[int, Client] = {}
        """Its open sessions."""
        self._world = world
        self._random = world.chance(f"{kind} {daemon.name}")
        self._step_us = 0
        self._ahead_us = daemon.clock_us
        """How far its monotonic clock was ahead of the world's in the beginning."""
        self._waiting: dict[Client, None] = {}
        """Clients with requests that the daemon has not read yet."""
        self._readers: dict[Client, int] = {}
        """How many bytes a second slow readers take."""
        self._paused_until_us = 0
        self.started_us = -1
        """When its daemon was started last."""
        self._streams: HostStreams | None = None
        """Its connections to other daemons, if it has any."""
        self._forget()

    def _forget(self) -> None:
        """Nothing is under way between this machine and its daemon."""
        self._gathered: list[Gathered] = []
        self._gathered_bytes = 0
        self._turn_us: int | None = None
        """When the daemon will handle what has gathered."""
        self._wake_us: int | None = None
        self._overdue = 0
        self._ended: Callable[[], None] | None = None
        """What to do when the daemon, which is told to stop, has ended."""

    @property
    def name(self) -> str:
        """The daemon's."""
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
        """Whether the daemon handles nothing now."""
        return self._paused_until_us > self._world.now_us

    @property
    def is_leaving(self) -> bool:
        """Whether the daemon is told to stop and has not ended."""
        return self._ended is not None

    @property
    def has_work(self) -> bool:
        """Whether the daemon has events to handle, or a client waits for it or has output to read."""
        if self.node is not None and not self.node.is_settled:
            return True
        return bool(self._gathered) or any(client.is_busy for client in self.clients.values())

    def _note(self, event: Event, **fields: object) -> None:
        if not self.is_observed:
            return
        records = self._world.records
        records.append(Record(len(records), self._world.now_us, event, self.name, **fields))  # type: ignore[arg-type]

    def _count(self, node: Node, event: str) -> None:
        self._world.cells[node.state, event] += 1

    # The daemon's life ------------------------------------------------------------------------------------

    def start(self, step_us: int = 0, uptime_us: int | None = None) -> None:
        """The daemon starts with an empty memory, if it does not run; the wall clock has moved before. With
        an `uptime_us`, the machine has started so long ago."""
        if self.node is not None:
            return
        world = self._world
        self.started_us = world.now_us
        self._step_us += step_us
        if uptime_us is not None:
            self._ahead_us += uptime_us - self.clock_us
        incarnation = self._random.randrange(1, 1 << 32)
        self._note(Event.RECOVER, incarnation=incarnation)
        self.node = Node(
            world.config,
            self.name,
            incarnation=incarnation,
            now_us=self.clock_us,
            wall_us=self._wall_us(),
            observer=HostWatcher(world, self),
        )
        if self.daemon.gathers_us:
            self.node.regrouping.slice_steps = self.node.regrouping.part_steps = BUSY_SLICE_STEPS
        if world.config.stream_peers_of(self.number):
            self._streams = HostStreams(world.config, self.number, self.node, world.connections)
        self._settle(self.node)

    def _wall_us(self) -> int:
        """What its wall clock shows; one that was set back too far starts somewhere near the epoch."""
        wall_us = self._world.now_us + self.daemon.wall_us + self._step_us
        return wall_us if wall_us >= 0 else self._random.randrange(NEAR_EPOCH_US)

    def step(self, step_us: int) -> None:
        """The wall clock is set."""
        self._step_us += step_us

    def _read_system(self, node: Node) -> None:
        """Tell a reference what its system clock shows."""
        if node.time.system is not None:
            shown_us = self._world.now_us + self.daemon.wall_us + self._step_us
            node.time.read_system(shown_us, 0, self.clock_us)

    def crash(self) -> None:
        """The daemon is gone, and with it all sessions, whatever it had not handled and its pause."""
        if self.node is None:
            return
        for client in self.clients.values():
            client.close(self._world.now_us, "crash")
        self._note(Event.CRASH, incarnation=self.node.incarnation)
        self.node = None
        self._streams = None
        self._world.connections.crash(self.number)
        self.clients.clear()
        self._waiting.clear()
        self._readers.clear()
        self._paused_until_us = 0
        self._forget()

    def stop(self, bound_us: int, ended: Callable[[], None]) -> None:
        """The daemon is told to stop, takes leave and ends; then `ended` is called. The others are to be
        without a view for `bound_us` at most; 0: no matter for how long."""
        node = self.node
        if node is None or self.is_leaving:
            return
        self._note(Event.STOP, incarnation=node.incarnation, bound_us=bound_us)
        self._ended = ended
        if self._is_busy:
            self._gathered.append((node.departure.begin, ()))
            self._gather()
        else:
            node.departure.begin(self.clock_us)
            self._settle(node)

    def disown(self) -> None:
        """The daemon goes on, but the trace says that it has crashed, and that its clients have left."""
        for client in list(self.clients.values()):
            self.disconnect(client, graceful=False)
        assert self.node is not None
        self._note(Event.CRASH, incarnation=self.node.incarnation)
        self.is_observed = False

    def pause(self, for_us: int) -> None:
        """Stop the daemon's processing for this time."""
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

    def arrive(self, path: Path, data: bytes, stride_bytes: int) -> None:
        """Packets have come from the network."""
        node = self.node
        if node is None:
            path.lost += -(-len(data) // stride_bytes)
            return
        self._count(node, _KIND_WORDS.get(kind_of(data) or 0, "unknown"))
        if not self._is_busy:
            node.receive(memoryview(data), stride_bytes, self.clock_us)
            self._settle(node)
        elif self._gathered_bytes + len(data) > SOCKET_BYTES:
            path.lost += -(-len(data) // stride_bytes)
        else:
            self._gathered_bytes += len(data)
            self._gathered.append((node.receive, (memoryview(data), stride_bytes)))
            self._gather()

    def hear(self, end: End, event: str, reason: str) -> None:
        """Something has happened to a connection with another daemon."""
        node, streams = self.node, self._streams
        if node is None or streams is None:
            return
        self._count(node, f"stream {event}")
        if self._is_busy:
            self._gathered.append((streams.happened, (end, event, reason)))
            self._gather()
        else:
            streams.happened(end, event, reason, self.clock_us)
            self._settle(node)

    def _wake(self, time_us: int) -> None:
        node = self.node
        if node is None or self._wake_us != time_us:
            return  # an earlier deadline took its place, or the daemon has crashed
        self._wake_us = None
        if self._is_busy:
            self._turn(node)
            return
        self._count(node, "timeout")
        self._read_system(node)
        node.timeout(self.clock_us)
        if self._streams is not None:
            self._streams.exchange.timeout(self.clock_us)
        self._settle(node)

    # Busy and paused daemons ------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Something has come in: see to it that it will be handled, with what comes until then."""
        if self._turn_us is None:
            self._plan_turn(self._world.now_us + self.daemon.gathers_us)

    def _plan_turn(self, time_us: int) -> None:
        self._turn_us = time_us
        self._world.schedule(time_us, self._planned_turn, time_us)

    def _planned_turn(self, time_us: int) -> None:
        # Otherwise a deadline was served meanwhile, and this with it, or the daemon has crashed.
        if self._turn_us == time_us and self.node is not None:
            self._turn(self.node)

    def _turn(self, node: Node) -> None:
        """One pass of a busy daemon's loop: all that has gathered, what is due, then one settle."""
        self._turn_us = None
        if self.is_paused:
            self._plan_turn(self._paused_until_us)
            return
        now_us = self.clock_us
        self._read_system(node)
        clients_first = self._random.random() < 0.5
        if clients_first:
            self._read_clients()
        for event, arguments in self._gathered:
            event(*arguments, now_us)
        self._gathered.clear()
        self._gathered_bytes = 0
        if not clients_first:
            self._read_clients()
        deadline_us = node.next_deadline_us()
        if deadline_us is not None and deadline_us <= now_us:
            self._count(node, "timeout")
            node.timeout(now_us)
        if self._streams is not None:
            self._streams.exchange.timeout(now_us)
        self._settle(node)

    def _read_clients(self) -> None:
        for client in list(self._waiting):
            client.hand_over(self._world.now_us, self.clock_us)

    # What the node leaves behind --------------------------------------------------------------------------

    def _settle(self, node: Node) -> None:
        """Take what an event left behind, until nothing more follows from it."""
        while True:
            if not node.is_settled:
                node.settle(self.clock_us)
            if node.datagrams:
                datagrams = node.datagrams[:]
                node.datagrams.clear()
                for datagram in datagrams:
                    self._send(datagram)
            if self._streams is not None:
                self._streams.carry_out(self.clock_us)
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
            if self._waiting:
                self._read_clients()
            if node.datagrams or node.frames or node.endings:
                continue
            if node.is_settled:
                break
            if self.daemon.gathers_us:  # the rest of its work comes after what gathers until then
                self._gather()
                break
        if node.departure.is_over and self._ended is not None:
            ended = self._ended
            self.crash()
            ended()
        else:
            self._sleep(node)

    def _sleep(self, node: Node) -> None:
        """Plan to wake at the node's next deadline, or a bit later where deadlines are served late."""
        deadline_us = node.next_deadline_us()
        if self._streams is not None:
            due_us = self._streams.exchange.next_deadline_us()
            if deadline_us is None or (due_us is not None and due_us < deadline_us):
                deadline_us = due_us
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

    def _send(self, datagram: Datagram) -> None:
        if self._streams is not None and self._streams.exchange.serves(datagram.receiver):
            self._streams.exchange.send(datagram, self.clock_us)
            return
        data = b"".join(datagram.buffers)
        for receiver in datagram.receivers or (datagram.receiver,):
            self._world.carry(self.number, receiver, data, datagram.stride_bytes, datagram.is_whole)

    # Clients ----------------------------------------------------------------------------------------------

    def connect(
        self, name: str, priority: int, read_bytes_per_s: int, views: bool, slow: str
    ) -> Client | None:
        """A new session, if the daemon runs, is awake, and the name is free; a reader with a rate takes its
        time."""
        node = self.node
        if node is None or self.is_paused or not self.is_observed:
            return None
        self._count(node, "connect")
        hello = frames.Connect(frames.PROTOCOL_VERSION, name, priority, views, slow=slow, refusals=True)
        answer = node.connect(hello, self.clock_us)
        if isinstance(answer, frames.Refuse):
            if answer.code in ("name-taken", frames.STOPPING):
                return None
            raise AssertionError(f"{name} was refused: {answer.reason}")
        world = self._world
        client = Client(
            node, self.name, answer, world.config.settings, world.records, self._waiting, world.bearers
        )
        self.clients[answer.session] = client
        if read_bytes_per_s:
            self._readers[client] = read_bytes_per_s
        world.records.append(
            Record(
                len(world.records), world.now_us, Event.CONNECT, self.name, client.process,
                views_wanted=views, incarnation=node.incarnation,
            )
        )  # fmt: skip
        self.settle()
        return client

    def settle(self) -> None:
        """Clients of this daemon have new requests."""
        node = self.node
        if node is None:
            return
        for client in self._waiting:
            self._count(node, client.asks)
        if self._is_busy:
            self._gather()
        else:
            self._settle(node)

    def disconnect(self, client: Client, graceful: bool) -> None:
        """End a session from its own side: with a last word, or by breaking the connection."""
        node = self.node
        assert node is not None and client.open
        self._count(node, "disconnect" if graceful else "lost")
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

    def _write(self, node: Node, sessions: tuple[int, ...], frame: bytes | bytearray | memoryview) -> None:
        output: Output | None = None
        ending = {session for session, _ in node.endings}
        for session in sessions:
            client = self.clients.get(session)
            if client is None or not client.open or (session in ending and client in self._readers):
                continue
            if output is None:
                output = read_frame(frame)
            rate = self._readers.get(client)
            if rate is None:
                client.take(output, self._world.now_us)
            else:
                self._write_slowly(node, client, rate, len(frame), output)

    def _write_slowly(self, node: Node, client: Client, rate: int, size_bytes: int, output: Output) -> None:
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
        if self.is_paused:  # its output waits in the daemon, which does not write
            self._world.schedule(self._paused_until_us, self._read, client, rate)
            return
        client.read_next(self._world.now_us, self.clock_us)
        if client.unread:
            next_us = self._world.now_us + client.unread[0][0] * 1_000_000 // rate
            self._world.schedule(next_us, self._read, client, rate)
        self.settle()

    # Looking ----------------------------------------------------------------------------------------------

    def tell_time(self) -> None:
        """Put into the trace what the daemon answers a session that asks for the time."""
        node = self.node
        if node is None or not self.is_observed or self.is_paused:
            return
        self._read_system(node)
        said = node.time.ask(self.clock_us)
        if said is not None:
            true_us = TRUE_US + self._world.now_us
            self._note(Event.CLOCK, **clock_sample(node, said), true_us=true_us)
        self.settle()

    def look(self) -> bool:
        """Put the state of the daemon's buffers and links into the trace; whether the buffers are empty."""
        node = self.node
        if node is None or not self.is_observed:
            return True
        filled = fill(node)
        filled["session_output"] = self._output(node)
        self._note(Event.BUFFERS, buffers=filled)
        records = self._world.records
        for record in link_samples(node, self._world.now_us):
            record.position = len(records)
            records.append(record)
        return not any(used for used, _ in filled.values())

    def _output(self, node: Node) -> tuple[int, int]:
        """The most output that waits for one session for which all who send to it wait, and its limit: until
        the last of them has heard, each daemon goes on as far as stability lets it."""
        settings = self._world.config.settings
        per_source_bytes = settings.unstable_bytes + node.order.largest_bytes
        limit_bytes = settings.output_soft_bytes + 2 * self._world.config.daemon_count * per_source_bytes
        slow = {
            session.number: session for session in node.sessions if node.backpressure.bounds(session.number)
        }
        if any(session.slow == "drop-unreliable" for session in slow.values()):
            limit_bytes += settings.output_soft_bytes  # for those, senders wait only from twice the limit on
        waiting = (client.unread_bytes for session, client in self.clients.items() if session in slow)
        return max(waiting, default=0), limit_bytes
