"""The machine that one daemon runs on.

Its monotonic clock begins anew only with the machine; the wall clock, which a daemon reads only at its start,
may step.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from antiphon.core.effects import Datagram
from antiphon.core.node import Node
from antiphon.simulator.connections import End
from antiphon.simulator.key_files import KeyFiles
from antiphon.simulator.machine import Driven, Machine
from antiphon.simulator.network import Path
from antiphon.simulator.plan import Daemon
from antiphon.simulator.strangers import Nonces, Receive
from antiphon.simulator.streams import HostStreams
from antiphon.simulator.watching import HostWatcher
from antiphon.trace import Event
from antiphon.trace.samples import clock_sample, fill, link_samples
from antiphon.wire.packet import PacketKind
from antiphon.wire.versions import kind_of

if TYPE_CHECKING:
    from antiphon.simulator.world import World

SOCKET_BYTES = 8 * 1024 * 1024
"""What the socket of a daemon holds that does not read; what comes then is lost."""
BUSY_SLICE_STEPS = 3
"""What a busy daemon does before it looks for what has gathered: so little that the work of small clusters is
cut into slices, too, with other events between them."""
NEAR_EPOCH_US = 1_000_000
TRUE_US = 1_700_000_000_000_000
"""What a clock that is right shows when the world begins."""

Read = Callable[[memoryview, int, int], None]
"""Reads packets for a node: given the bytes, the size of packets, and the time."""

_KIND_WORDS = {int(kind): kind.name.lower() for kind in PacketKind}


class Host(Machine):
    """One daemon's machine."""

    node: Node | None

    def __init__(self, world: "World", number: int, daemon: Daemon, kind: str = "daemon") -> None:
        self._step_us = 0
        self._streams: HostStreams | None = None
        """Its connections to other daemons, if it has any."""
        self.key_files = KeyFiles(self)
        self._kind = kind
        self._lives = 0
        self._nonces: Nonces | None = None
        """Those of the packets of the process that runs, where packets are sealed."""
        super().__init__(world, number, daemon, kind)

    def _forget(self) -> None:
        super()._forget()
        self._gathered_bytes = 0
        self._ended: Callable[[], None] | None = None
        """What to do when the daemon, which is told to stop, has ended."""

    @property
    def is_leaving(self) -> bool:
        """Whether the daemon is told to stop and has not ended."""
        return self._ended is not None

    def _count(self, event: str) -> None:
        assert self.node is not None
        self._world.cells[self.node.state, event] += 1

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
        self.note(Event.RECOVER, incarnation=incarnation)
        sealing = None
        if world.strangers is not None:
            self._lives += 1
            self._nonces = Nonces()
            sealing = self.key_files.sealing(world.chance(f"secrets {self._kind} {self.name} {self._lives}"))
        self.node = Node(
            world.config,
            self.name,
            incarnation=incarnation,
            now_us=self.clock_us,
            wall_us=self._wall_us(),
            observer=HostWatcher(world, self),
            sealing=sealing,
        )
        if self.daemon.gathers_us:
            self.node.regrouping.slice_steps = self.node.regrouping.part_steps = BUSY_SLICE_STEPS
        if world.config.stream_peers_of(self.number):
            self._streams = HostStreams(world.config, self.number, self.node, world.connections)
        self.guests = world.guests_of(self, self.node)
        self._settle(self.node)

    def _wall_us(self) -> int:
        """What its wall clock shows; one that was set back too far starts somewhere near the epoch."""
        wall_us = self._world.now_us + self.daemon.wall_us + self._step_us
        return wall_us if wall_us >= 0 else self._random.randrange(NEAR_EPOCH_US)

    def step(self, step_us: int) -> None:
        """The wall clock is set."""
        self._step_us += step_us

    def _look_around(self, node: Driven) -> None:
        """Tell a reference what its system clock shows."""
        assert isinstance(node, Node)
        if node.time.system is not None:
            shown_us = self._world.now_us + self.daemon.wall_us + self._step_us
            node.time.read_system(shown_us, 0, self.clock_us)

    def crash(self) -> None:
        """The daemon is gone, and with it all sessions, whatever it had not handled and its pause."""
        if self.node is not None:
            self._streams = None
        super().crash()

    def stop(self, bound_us: int, ended: Callable[[], None]) -> None:
        """The daemon is told to stop, takes leave and ends; then `ended` is called. The others are to be
        without a view for `bound_us` at most; 0: no matter for how long."""
        node = self.node
        if node is None or self.is_leaving:
            return
        self.note(Event.STOP, incarnation=node.incarnation, bound_us=bound_us)
        self._ended = ended
        self._happen(node.departure.begin)

    def disown(self) -> None:
        """The daemon goes on, but the trace says that it has crashed, and that its clients have left."""
        for client in list(self.clients.values()):
            self.disconnect(client, graceful=False)
        assert self.node is not None
        self.note(Event.CRASH, incarnation=self.node.incarnation)
        self.is_observed = False

    # Events -----------------------------------------------------------------------------------------------

    def read_keys(self) -> None:
        """The files with keys have changed, and the daemon is told to read them."""
        node = self.node
        if node is not None and node.seal is not None:
            self._happen(node.seal.change_keys, self.key_files.keys())

    def arrive(self, path: Path, data: bytes, stride_bytes: int, watched: Receive | None = None) -> None:
        """Packets have come from the network; `watched` reads them for the node, if they are special."""
        node = self.node
        if node is None:
            path.lost += -(-len(data) // stride_bytes)
            return
        self._count(_KIND_WORDS.get(kind_of(data) or 0, "unknown"))
        receive: Read = node.receive
        if watched is not None:
            receive = partial(watched, node)
        elif self._world.strangers is not None:
            receive = partial(self._world.strangers.receive, self, node)
        if self._world.babble:
            receive = partial(self._read_nonsense, node, receive)
        if not self._is_busy:
            receive(memoryview(data), stride_bytes, self.clock_us)
            self._settle(node)
        elif self._gathered_bytes + len(data) > SOCKET_BYTES:
            path.lost += -(-len(data) // stride_bytes)
        else:
            self._gathered_bytes += len(data)
            self._gathered.append((receive, (memoryview(data), stride_bytes)))
            self._gather()

    def _read_nonsense(
        self, node: Node, receive: Read, data: memoryview, stride_bytes: int, now_us: int
    ) -> None:
        """Packets are read, and the trace tells if no daemon makes such."""
        self._world.babble.came(self, node, data, stride_bytes)
        receive(data, stride_bytes, now_us)

    def _gathered_is_handled(self) -> None:
        super()._gathered_is_handled()
        self._gathered_bytes = 0

    def hear(self, end: End, event: str, reason: str) -> None:
        """Something has happened to a connection with another daemon, or with an edge."""
        if self.node is None:
            return
        if self.guests is not None and self.guests.is_from_edge(end):
            self._happen(self.guests.happened, end, event, reason)
        elif self._streams is not None:
            self._count(f"stream {event}")
            self._happen(self._streams.happened, end, event, reason)

    def _time_out_connections(self) -> None:
        if self._streams is not None:
            self._streams.exchange.timeout(self.clock_us)

    # What the node leaves behind --------------------------------------------------------------------------

    def _carry_out(self, node: Driven) -> None:
        assert isinstance(node, Node)
        if node.datagrams:
            datagrams = node.datagrams[:]
            node.datagrams.clear()
            for datagram in datagrams:
                self._send(datagram)
        if self._streams is not None:
            self._streams.carry_out(self.clock_us)

    def _has_more(self, node: Driven) -> bool:
        assert isinstance(node, Node)
        return bool(node.datagrams)

    def _deadline_us(self, node: Driven) -> int | None:
        deadline_us = node.next_deadline_us()
        if self._streams is not None:
            due_us = self._streams.exchange.next_deadline_us()
            if deadline_us is None or (due_us is not None and due_us < deadline_us):
                deadline_us = due_us
        return deadline_us

    def _sleep(self, node: Driven) -> None:
        assert isinstance(node, Node)
        if node.departure.is_over and self._ended is not None:
            ended = self._ended
            self.crash()
            ended()
        else:
            super()._sleep(node)

    def _send(self, datagram: Datagram) -> None:
        if self._streams is not None and self._streams.exchange.serves(datagram.receiver):
            self._watch(datagram, b"".join(datagram.buffers))
            self._streams.exchange.send(datagram, self.clock_us)
            return
        data = b"".join(datagram.buffers)
        self._watch(datagram, data)
        for receiver in datagram.receivers or (datagram.receiver,):
            self._world.carry(self.number, receiver, data, datagram.stride_bytes, datagram.is_whole)

    def _watch(self, datagram: Datagram, data: bytes) -> None:
        """Where packets are sealed, each has a nonce of its own, and strangers hear them."""
        strangers = self._world.strangers
        if strangers is None or self._nonces is None:
            return
        if not self._nonces.take(data, datagram.stride_bytes):
            strangers.note_breach(self, "two packets were sealed with one nonce")
        receivers = datagram.receivers or (datagram.receiver,)
        strangers.overhear(self.number, receivers, data, datagram.stride_bytes)

    # Looking ----------------------------------------------------------------------------------------------

    def tell_time(self) -> None:
        """Put into the trace what the daemon answers a session that asks for the time."""
        node = self.node
        if node is None or not self.is_observed or self.is_paused:
            return
        self._look_around(node)
        said = node.time.ask(self.clock_us)
        if said is not None:
            true_us = TRUE_US + self._world.now_us
            self.note(Event.CLOCK, **clock_sample(node, said), true_us=true_us)
        self.settle()

    def look(self) -> bool:
        """Put the state of the daemon's buffers and links into the trace; whether the buffers are empty."""
        node = self.node
        if node is None or not self.is_observed:
            return True
        filled = fill(node)
        filled["session_output"] = self._output(node)
        self.note(Event.BUFFERS, buffers=filled)
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
