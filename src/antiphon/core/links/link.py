"""What every link between two daemons has in common, whatever carries its packets."""

from enum import Enum
from typing import Protocol

from antiphon.core.links.flow import Regulator
from antiphon.wire.packet import Data, Fragment, Packet, Skip, Update


class LinkState(Enum):
    """Where a link stands with its other end."""

    CLOSED = "closed"
    """The other side has not answered yet."""
    OPEN = "open"
    FAILED = "failed"
    """Declared failed; what that means is for the membership to decide."""


class Link(Protocol):
    """One end of a reliable link. It belongs to one daemon view and dies with it."""

    protocol: str
    """Its name in the configuration."""
    peer: int
    state: LinkState
    reason: str
    """Why the state is what it is, in words."""
    heard_us: int
    """When a packet of the peer last came in."""
    counters: dict[str, int]
    regulator: Regulator

    @property
    def waiting_bytes(self) -> int:
        """Bytes of reliable traffic not yet sent."""

    @property
    def largest_waiting_bytes(self) -> int:
        """Of the bundles some of whose reliable traffic is not yet sent."""

    @property
    def unreliable_waiting_bytes(self) -> int:
        """Bytes of unreliable traffic not yet sent."""

    @property
    def in_flight_packets(self) -> int:
        """Packets that were sent and may not have arrived."""

    @property
    def open_bytes(self) -> int:
        """Bytes that were sent and are still kept."""

    @property
    def open_limit_bytes(self) -> int:
        """The most that `open_bytes` may be."""

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be sent or repeated."""

    def send(self, fragment: Fragment) -> None:
        """Queue bytes of a bundle; `pump` sends them."""

    def send_update(self, update: Update) -> None:
        """Queue an update; it may overtake what waits."""

    def send_skip(self, skip: Skip) -> None:
        """Queue a skipped range; it may overtake what waits."""

    def send_unreliable(self, fragment: Fragment) -> None:
        """Queue bytes that may be lost; what does not fit is dropped and counted."""

    def pump(self, now_us: int) -> None:
        """Send what may be sent now."""

    def receive(self, incoming: Packet, now_us: int) -> list[Data]:
        """A packet of the peer came in. What is new of it, to be handed upwards."""

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""

    def next_deadline_us(self) -> int:
        """When `timeout` has something to do."""
