"""What links between sites and site links have in common: queues, packets in and out, deadlines."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from antiphon import limits
from antiphon.core.effects import Datagram, Outbox
from antiphon.core.links.packing import Packer
from antiphon.wire.packet import Data, Fragment, Packet, PacketKind, Pressure, Skip, Update

COUNTERS = (
    "packets_sent",
    "packets_received",
    "duplicates",
    "retransmitted",
    "nacks_sent",
    "unreliable_dropped",
    "failures",
)
"""The counters of every link and ring, so that these can be compared; what cannot happen stays 0."""


class Carrier(ABC):
    """One end of a link of any kind; each kind decides when what waits may be sent."""

    def __init__(self, packet_bytes: int, prefixes: Mapping[PacketKind, bytes], datagrams: Outbox) -> None:
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.packet_bytes = packet_bytes
        """The size of the largest packet that is made now."""
        self._prefixes = prefixes
        self._datagrams = datagrams
        self._counter = datagrams.counter
        self._queue = Packer(packet_bytes, prefixes[PacketKind.DATA], self._counter)
        self._unreliable = Packer(packet_bytes, prefixes[PacketKind.UNRELIABLE], self._counter)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of reliable traffic not yet sent."""
        return self._queue.waiting_bytes

    @property
    def largest_waiting_bytes(self) -> int:
        """The size of the largest bundle some of whose reliable traffic is not yet sent."""
        return self._queue.largest_bytes

    @property
    def unreliable_waiting_bytes(self) -> int:
        """Bytes of unreliable traffic not yet sent."""
        return self._unreliable.waiting_bytes

    @property
    @abstractmethod
    def in_flight_packets(self) -> int:
        """Packets that were sent and may not have arrived at all who must have them."""

    @property
    @abstractmethod
    def open_bytes(self) -> int:
        """Bytes that were sent and are kept for retransmission."""

    @property
    @abstractmethod
    def open_limit_bytes(self) -> int:
        """The most that `open_bytes` may be."""

    @property
    @abstractmethod
    def is_quiet(self) -> bool:
        """Nothing waits to be sent or retransmitted."""

    # Events -----------------------------------------------------------------------------------------------

    @abstractmethod
    def receive(self, incoming: Packet, now_us: int) -> list[Data]:
        """A packet of another end came in. What is new of it, to be handed upwards."""

    @abstractmethod
    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""

    @abstractmethod
    def next_deadline_us(self) -> int:
        """When there is something to do."""

    # Requests ---------------------------------------------------------------------------------------------

    def send(self, fragment: Fragment) -> None:
        """Queue bytes of a bundle."""
        self._queue.add(fragment)

    def send_update(self, update: Update) -> None:
        """Queue an update; it overtakes the bundles that wait."""
        self._queue.add_update(update)

    def send_pressure(self, pressure: Pressure) -> None:
        """Queue a daemon's list of slow sessions; it overtakes the bundles that wait."""
        self._queue.add_pressure(pressure)

    def send_skip(self, skip: Skip) -> None:
        """Queue a skipped range; it overtakes the bundles that wait."""
        self._queue.add_skip(skip)

    def send_unreliable(self, fragment: Fragment) -> None:
        """Queue bytes that may be lost; what does not fit is dropped and counted."""
        self._unreliable.add(fragment)
        while (
            self._unreliable.waiting_bytes > limits.LINK_UNRELIABLE_QUEUE_BYTES
            and self._unreliable.drop_newest()
        ):
            self.counters["unreliable_dropped"] += 1

    def _resize(self, packet_bytes: int) -> None:
        """Packets made from now on have at most this size."""
        if packet_bytes != self.packet_bytes:
            self.packet_bytes = packet_bytes
            self._queue.resize(packet_bytes)
            self._unreliable.resize(packet_bytes)

    def _emit_alone(self, receiver: int, data: bytes) -> None:
        """Send one packet at once."""
        self._datagrams.append(Datagram(receiver, [data], len(data), len(data)))
