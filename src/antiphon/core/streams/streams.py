"""A node's side of its connections: packets go to the node, the state of each connection to its link."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.gate import Gate
from antiphon.core.links.tcp import Stream, TcpLink
from antiphon.core.membership.engine import Engine
from antiphon.core.membership.suspicion import Suspicion
from antiphon.errors import BadPacket
from antiphon.wire import trains
from antiphon.wire.packet import Packet
from antiphon.wire.versions import OtherVersion

if TYPE_CHECKING:
    from antiphon.core.sealing.seal import Door

ANOTHER_SENDER = "packet: over another one's connection"


class Streams:
    """The talker for which an `exchange.Exchange` keeps connections."""

    def __init__(
        self,
        config: Config,
        me: int,
        working: Callable[[], Engine | None],
        receive: Callable[[Packet, int], None],
        gate: Gate,
        counters: Counter[str],
        datagrams: list[Datagram],
        seal: "Door | None" = None,
    ) -> None:
        """`working` has the links in use, `receive` takes packets; `suspicion` is still to be set. With
        `seal` packets are sealed."""
        self.states = {peer: Stream() for peer in config.stream_peers_of(me)}
        self.suspicion: Suspicion
        self._working = working
        self._receive = receive
        self._counters = counters
        self._datagrams = datagrams
        self._seal = seal
        self._other_versions = gate.other_versions

    def receive_stream(self, peer: int, data: memoryview, now_us: int) -> str:
        """A packet came over the connection to this daemon; why the connection must end, or nothing.

        The buffer may be used again after the call. What is refused is counted.
        """
        self.suspicion.notice_pause(now_us)
        if self._seal is None:
            packets = trains.parse_train(data, len(data))
        else:
            packets = self._seal.read(data, len(data), now_us, peer)
        for incoming in packets:
            if isinstance(incoming, BadPacket):
                self._counters[incoming.reason] += 1
                if isinstance(incoming, OtherVersion):
                    self._other_versions.hear(incoming, peer)
                return incoming.reason
            if incoming.head.sender != peer:
                self._counters[ANOTHER_SENDER] += 1
                return ANOTHER_SENDER
            self._receive(incoming, now_us)
        return ""

    def greeted_otherwise(self, found: OtherVersion) -> None:
        """The process at the other end of a connection greets in another version."""
        self._other_versions.hear(found)

    def stream_opened(self, peer: int, now_us: int) -> None:
        """There is a connection to this daemon, fresh and empty."""
        self.states[peer].is_up = True
        self.states[peer].waiting_bytes = 0
        link = self._link(peer)
        if link is not None:
            link.connected(now_us)

    def stream_lost(self, peer: int, reason: str, now_us: int) -> None:
        """The connection to this daemon is over, and whatever was under way on it is lost."""
        self.states[peer].is_up = False
        self.states[peer].waiting_bytes = 0
        link = self._link(peer)
        if link is not None:
            link.disconnected(reason)
            self.suspicion.due_us = now_us

    def stream_moved(self, peer: int, waiting_bytes: int, now_us: int) -> None:
        """Of what the driver has taken over for this daemon, so much still waits to be written."""
        for datagram in self._datagrams:  # what it has not taken over yet waits, too
            if datagram.receiver == peer:
                waiting_bytes += datagram.size_bytes
        self.states[peer].waiting_bytes = waiting_bytes
        link = self._link(peer)
        if link is not None:
            link.pump(now_us)

    def _link(self, peer: int) -> TcpLink | None:
        engine = self._working()
        link = None if engine is None else engine.links.get(peer)
        return link if isinstance(link, TcpLink) else None
