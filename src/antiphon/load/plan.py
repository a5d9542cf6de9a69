"""What a run of load is to do, and what its processes report: values that travel as JSON."""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.service import Service

END_TAG = -32_768
"""Tag of the message after the last one."""


class Plan(Struct, frozen=True):
    """One run: who sends what, how fast and for how long."""

    address: str | None
    """The sender's daemon; None is the usual place."""
    members: tuple[str | None, ...]
    """Each receiving member's daemon."""
    group: str = "flood"
    service: Service = Service.AGREED
    priority: int = 0
    """The priority of the sender and the members."""
    size_bytes: int = 100
    rate_per_s: float = 0.0
    """Messages a second; 0 is as fast as the system takes them."""
    after_s: float = 0.0
    """How long the sender waits before it begins."""
    seconds: float = 5.0
    count: int = 0
    """The most messages to send; 0: as many as the time allows."""
    bundle: bool = True
    """Whether the sender's library gathers messages into bundles."""
    spread: bool = False
    """Whether the addresses are places where Spread is spoken, and the sender and the members speak it."""
    trace: str | None = None
    """A folder for the traces of the sender and the members."""


class Sent(Struct, frozen=True, tag="sent"):
    """The sender's report."""

    messages: int
    seconds: float


class Received(Struct, frozen=True, tag="received"):
    """One member's report; times from its first message to its last."""

    messages: int
    payload_bytes: int
    seconds: float
    p50_us: int
    p99_us: int
    out_of_order: int = 0
    """Messages that came after one that had been sent later; counted by `bench peers` only."""

    @property
    def messages_per_s(self) -> float:
        """The rate between the first message and the last: so one message less than were counted."""
        return (self.messages - 1) / self.seconds if self.seconds > 0 else 0.0

    @property
    def megabytes_per_s(self) -> float:
        """Payload only, a megabyte being a million bytes."""
        return self.messages_per_s * self.payload_bytes / self.messages / 1e6 if self.messages else 0.0


class Ready(Struct, frozen=True, tag="ready"):
    """A member has joined: the sender may start."""


class Failed(Struct, frozen=True, tag="failed"):
    """A process could not do its part."""

    reason: str
    is_wrong_use: bool = False


class Outcome(Struct, frozen=True):
    """A whole run."""

    sent: Sent
    received: tuple[Received, ...]


def percentile(samples: Sequence[tuple[int, int]], fraction: float) -> int:
    """The value below which `fraction` of the weight of the sorted (value, weight) samples lies; 0 for none.

    >>> percentile([(10, 1), (20, 98), (30, 1)], 0.5)
    20
    """
    wanted = fraction * sum(weight for _, weight in samples)
    for value, weight in samples:
        wanted -= weight
        if wanted <= 0:
            return value
    return 0
