"""The driver of a simulated daemon's connections: what `runtime.streams` is to a real one."""

from typing import TYPE_CHECKING

from antiphon.core.node import Node
from antiphon.core.streams.channel import Channel, ChannelPhase
from antiphon.core.streams.exchange import Exchange
from antiphon.simulator.connections import Connections, End

if TYPE_CHECKING:
    from antiphon.config import Config


class HostStreams:
    """One daemon's connections to other daemons, for one life of it."""

    def __init__(self, config: "Config", number: int, node: Node, connections: Connections) -> None:
        peers = config.stream_peers_of(number)
        proofs = None if node.seal is None else node.seal.proofs
        self.exchange = Exchange(number, config.digest, node.incarnation, peers, node.streams, proofs)
        self._number = number
        self._connections = connections
        self._ends: dict[Channel, End] = {}
        self._channels: dict[End, Channel] = {}
        self._blocked: set[Channel] = set()

    def carry_out(self, now_us: int) -> None:
        """Dial, write and close what the exchange wants dialled, written and closed."""
        exchange = self.exchange
        while exchange.dials:
            channel = exchange.dials.pop()
            assert channel.peer is not None
            self._know(channel, self._connections.dial(self._number, channel.peer))
        for channel in list(exchange.outputs):
            if channel not in self._blocked and channel.is_writable:
                self._write(channel, now_us)
        while exchange.closings:
            channel = exchange.closings.pop()
            end = self._ends.pop(channel, None)
            if end is not None:
                end.write(channel.batch())
                end.close()
                del self._channels[end]
            self._blocked.discard(channel)

    def _know(self, channel: Channel, end: End) -> None:
        self._ends[channel] = end
        self._channels[end] = channel

    def _write(self, channel: Channel, now_us: int) -> None:
        end = self._ends[channel]
        while channel.waiting_bytes:
            taken = end.write(channel.batch())
            if not taken:
                self._blocked.add(channel)
                return
            self.exchange.written(channel, taken, now_us)

    # Events, as they are called in `connections` ----------------------------------------------------------

    def happened(self, end: End, event: str, reason: str, now_us: int) -> None:
        """The kernel has news of a connection."""
        if event == "called":
            self._know(self.exchange.accepted(now_us), end)
            return
        channel = self._channels.get(end)
        if channel is None:
            return
        if event == "connected":
            self.exchange.connected(channel, now_us)
        elif event == "readable":
            self._read(channel, end, now_us)
        elif event == "writable":
            self._blocked.discard(channel)
        else:
            self._read(channel, end, now_us)
            self.exchange.ended(channel, reason, now_us)

    def _read(self, channel: Channel, end: End, now_us: int) -> None:
        data = end.read()
        if data:
            self.exchange.received(channel, memoryview(data), now_us)
        if end.is_over and channel.phase is not ChannelPhase.CLOSED:
            self.exchange.ended(channel, "the other side has closed it", now_us)
