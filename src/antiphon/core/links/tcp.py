"""TCP: a link whose order and reliability come from a connection between the two daemons.

Follows: thesis 4.2 ("by simply adding a length field to the beginning of every message written to the TCP
connection and discarding any partial messages when a connection is closed").
Deviations:
- the connection outlives views, because beats and proposals go over it, too; a link uses the one connection
  that it began with, and when that breaks the link has failed for good: neither end knows what arrived
- a link has a handshake (see `Link`), and with it a sign of life: a connection that hangs is noticed by
  silence, long before TCP gives up
- little is handed over at a time, so that what waits stays in the link, where updates overtake bundles and
  unreliable traffic is dropped
Checked by: tests/paper/test_tcp.py, the oracle's reliable-delivery rules in the simulator.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.config import LinkConfig
from antiphon.core.effects import Datagram, Outbox
from antiphon.core.links.flow import Regulator
from antiphon.core.links.link import Ends, Link, LinkState, Signs
from antiphon.core.links.packing import Packer
from antiphon.wire.packet import Data, Hello, Packet, PacketKind


class Stream(Struct):
    """The connection to one other daemon, as the driver tells of it."""

    is_up: bool = False
    waiting_bytes: int = 0
    """What was handed over and the connection has not taken yet."""


class TcpLink(Link):
    """One end of a TCP link."""

    protocol = "tcp"

    def __init__(
        self,
        ends: Ends,
        path: LinkConfig,
        *,
        stream: Stream,
        signs: Signs,
        datagrams: Outbox,
        now_us: int,
    ) -> None:
        """`path` is the configuration of the path between the two sites."""
        packet_bytes = limits.STREAM_PACKET_BYTES
        self._stream = stream
        self._handed_max_bytes = min(path.window_bytes, limits.STREAM_HANDED_BYTES)
        window_packets = max(1, self._handed_max_bytes // packet_bytes)
        # A configured rate allows the same bursts as on a Hop link.
        regulator = Regulator(window_packets, path.rate_bytes_per_s, limits.PACKET_DEFAULT_BYTES, now_us)
        super().__init__(ends, packet_bytes, regulator, signs=signs, datagrams=datagrams, now_us=now_us)
        if not stream.is_up:
            self.reason = "no connection yet"
        self._is_bound = False
        """Whether anything went over the connection, in either direction: then no other will do."""
        self._sent = 0
        self._received = 0

    # Questions --------------------------------------------------------------------------------------------

    @property
    def in_flight_packets(self) -> int:
        """Packets that the connection has not taken yet; what it has taken is not ours to count."""
        return -(-self._stream.waiting_bytes // limits.STREAM_PACKET_BYTES)

    @property
    def open_bytes(self) -> int:
        """Bytes that the connection has not taken yet."""
        return self._stream.waiting_bytes

    @property
    def open_limit_bytes(self) -> int:
        """What may be handed over, with one packet too much and with what belongs to no link."""
        return limits.STREAM_OUTPUT_MAX_BYTES + limits.PACKET_MAX_BYTES

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be sent. What is under way will arrive, or the link fails."""
        return not (self._queue or self._unreliable)

    # Requests ---------------------------------------------------------------------------------------------

    def pump(self, now_us: int) -> None:
        """Hand over what the connection has room for, and the configured rate allows."""
        self._refill_us = None
        if self.state is not LinkState.OPEN:
            return
        while self._queue and self._has_room(now_us):
            self._sent += 1
            self._hand_over(self._queue, self._sent)
            self.counters["packets_sent"] += 1
        while self._unreliable and self._has_room(now_us):
            self._hand_over(self._unreliable, 0)

    def _has_room(self, now_us: int) -> bool:
        if self._stream.waiting_bytes >= self._handed_max_bytes:
            return False  # `pump` is called again when it has taken some
        regulator = self.regulator
        if regulator.has_rate and regulator.may_send_bytes(now_us) < limits.STREAM_PACKET_BYTES:
            self._refill_us = now_us + regulator.refill_us(limits.STREAM_PACKET_BYTES)
            return False
        return True

    def _hand_over(self, queue: Packer, number: int) -> None:
        train = queue.train(number, 1)
        self.regulator.sent(train.size_bytes)
        self._emit(train.buffers, train.size_bytes)

    def _emit(self, buffers: list[bytes | memoryview], size_bytes: int) -> None:
        self._is_bound = True
        self._stream.waiting_bytes += size_bytes
        self._datagrams.append(Datagram(self.peer, buffers, size_bytes, size_bytes))

    def _emit_alone(self, receiver: int, data: bytes) -> None:
        if self._stream.is_up and self.state is not LinkState.FAILED:
            self._emit([data], len(data))

    # Events: the connection ---------------------------------------------------------------------------------

    def connected(self, now_us: int) -> None:
        """There is a connection, fresh and empty."""
        if self.state is LinkState.CLOSED:
            self.reason = "no answer yet"
            self._say_hello(now_us, 0)

    def disconnected(self, reason: str) -> None:
        """The connection broke, and whatever was under way on it is lost."""
        if self._is_bound:
            self._fail(f"the connection broke: {reason}")

    # Events: packets ----------------------------------------------------------------------------------------

    def receive(self, incoming: Packet, now_us: int) -> list[Data]:
        """A packet of the peer came in. What it brings, to be handed upwards."""
        if incoming.head.incarnation != self._peer_incarnation or self.state is LinkState.FAILED:
            return []  # the membership detects the restart, or knows of the failure
        self._heard(now_us)
        self._is_bound = True
        if isinstance(incoming, Hello):
            self._receive_hello(incoming, now_us)
            return []
        if not isinstance(incoming, Data):
            return []
        if self.state is LinkState.CLOSED:
            self._open_up("spoke")
            self.pump(now_us)
        if incoming.head.kind == PacketKind.UNRELIABLE:
            return [incoming]
        self.counters["packets_received"] += incoming.count
        if incoming.head.number != self._received + 1:  # no TCP connection reorders or loses
            self._fail(f"packet {incoming.head.number} came after packet {self._received}")
            return []
        self._received += incoming.count
        return [incoming]

    # Time ---------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        if self._hello_us <= now_us:
            self._ask(now_us)
        if self._refill_us is not None and self._refill_us <= now_us:
            self.pump(now_us)

    def next_deadline_us(self) -> int:
        """When `timeout` has something to do."""
        if self._refill_us is not None and self._refill_us < self._hello_us:
            return self._refill_us
        return self._hello_us
