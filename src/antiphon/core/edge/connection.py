"""One connection of an edge to an attachment, and what is known of it."""

from enum import Enum

from antiphon import limits
from antiphon.wire import edges


class Stage(Enum):
    """How far a connection has come."""

    DIALLING = "dialling"
    """The driver is connecting."""
    GREETING = "greeting"
    """Attach is sent, and not answered."""
    STANDBY = "standby"
    """The attachment keeps what the edge listens to, and feeds it with nothing."""
    FEEDING = "attached"
    """Go is sent."""


class Connection:
    """A connection to one of the addresses."""

    def __init__(self, link: int, place: int, address: str, now_us: int, is_probe: bool = False) -> None:
        self.link = link
        self.place = place
        """Which address it goes to."""
        self.address = address
        self.is_probe = is_probe
        """Whether it is there for one question only."""
        self.is_answered = False
        """Whether that was answered."""
        self.probed_us = now_us
        """When the last question was asked."""
        self.stage = Stage.DIALLING
        self.since_us = now_us
        """When it came to this stage."""
        self.heard_us = self.said_us = now_us
        self.attached: edges.Attached | None = None
        """The attachment's answer."""
        self.listened: dict[str, None] = {}
        """The groups that the attachment was asked for."""
        self.left: dict[str, None] = {}
        """Those that it was asked for no longer, newest last: something of them may still be under way."""
        self.waiting_bytes = 0
        """Output that waits in the driver, as it said last."""
        self.written_bytes = 0
        """Output that the driver has not taken yet."""

    def enter(self, stage: Stage, now_us: int) -> None:
        self.stage, self.since_us = stage, now_us

    @property
    def is_greeted(self) -> bool:
        """Whether the attachment has taken the edge."""
        return self.stage is Stage.STANDBY or self.stage is Stage.FEEDING

    @property
    def room_bytes(self) -> int:
        """How many bytes of bundles may be written to it now."""
        return limits.EDGE_OUTPUT_BYTES - self.waiting_bytes - self.written_bytes

    @property
    def beat_us(self) -> int:
        """How often both sides say something at the least."""
        return limits.EDGE_BEAT_US if self.attached is None else self.attached.beat_us

    @property
    def silent_at_us(self) -> int:
        """When it is given up, if nothing comes until then."""
        if self.is_probe:
            return self.since_us + limits.EDGE_PROBE_US
        if self.is_greeted:
            return self.heard_us + 3 * self.beat_us
        return self.since_us + limits.EDGE_ANSWER_US

    @property
    def due_us(self) -> int:
        """When something is to be done about it."""
        if self.is_greeted:
            return min(self.silent_at_us, self.said_us + self.beat_us)
        return self.silent_at_us

    def listen(self, group: str) -> None:
        """The attachment is asked for a group."""
        self.listened[group] = None
        self.left.pop(group, None)

    def unlisten(self, group: str) -> None:
        """The attachment is asked for a group no longer."""
        del self.listened[group]
        self.left[group] = None
        if len(self.left) > limits.EDGE_GROUPS_MAX:
            del self.left[next(iter(self.left))]
