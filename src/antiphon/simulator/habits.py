"""How simulated clients behave, as plain data."""

from msgspec import Struct, structs

from antiphon.service import Service
from antiphon.types import Resilience

EVERY_SERVICE = tuple(Service)
RESILIENCES: tuple[Resilience, ...] = (1, 2, 3, "majority", "total")


class Habits(Struct, frozen=True, omit_defaults=True):
    """How one client behaves."""

    interval_us: int
    """Mean time between actions; the times are exponentially distributed."""
    groups: tuple[str, ...]
    """Groups that it may join and send to."""
    joins: int = 1
    """How many of them it joins at first."""
    services: tuple[Service, ...] = EVERY_SERVICE
    resilient: float = 0.0
    """Probability that an agreed message asks for a resilience, any of `RESILIENCES`."""
    size_max_bytes: int = 2_000
    large: float = 0.0
    """Probability of a message of up to `large_bytes`."""
    large_bytes: int = 300_000
    batch_max: int = 6
    """Messages per bundle."""
    singly: float = 0.5
    """Probability that messages which could share a bundle are sent as bundles of their own, in a row."""
    several_groups: float = 0.15
    private: float = 0.1
    self_discard: float = 0.1
    churn: float = 0.05
    """Probability that an action is a join or a leave."""
    quits: float = 0.0
    """Probability that an action is the end of the session; another one takes its place."""
    answers: float = 0.0
    """Probability that an action sends several bundles in a row at different services."""
    read_bytes_per_s: int = 0
    """The pace of a slow reader."""
    slow: str = ""
    """Its policy for slow receivers; empty for that of the configuration."""
    priority: int = 0
    views: bool = True
    """Whether it wants to be told of the joins and leaves of others."""
    keeps_name: bool = False
    """Whether the session that takes the place of one that ended has its name, too."""
    inherits: float = 0.0
    """Probability that a session takes the name of one that ended before it at its daemon, whosever that was;
    and that a session which ended is followed by one with its name as soon as its daemon gives it."""
    hasty: float = 0.0
    """Probability that a join or leave is asked for before the one before it has taken effect."""
    minimum: int = 0
    """The least size of a part that it wishes with its joins, as in `types.check_minimum`."""
    deliveries: tuple[str, ...] = ()
    """What it chooses with its joins, by chance one of these, of which "" is none; nothing unless told."""
    locks: tuple[str, ...] = ()
    """Locks that it may ask for, in any of its groups."""
    locking: float = 0.0
    """Probability that an action is to ask for a lock, or to give one back."""
    starts_us: int | None = None
    """When it connects; at random in the first quarter of the working phase unless told."""
    busy_us: int = 0
    """How long it acts before it rests for `idle_us`, again and again; 0: it never rests."""
    idle_us: int = 0
    calls: float = 0.0
    """Probability that an action is a call, or some answers; and the sessions of one client are one caller,
    which repeats the calls that wait."""
    serves: bool = False
    """Whether it asks for the handlers of the groups that it joins, and answers calls."""
    patience_us: int = 0
    """How long its calls may wait for their answers before it gives them up; 0: for ever."""
    forbidden: tuple[str, ...] = ()
    """Those of its groups that it may neither join nor send to; it tries all the same."""

    def causal(self) -> "Habits":
        """The same habits, with every third message causal."""
        others = [service for service in self.services if service is not Service.CAUSAL] * 2
        return structs.replace(self, services=(*others, *[Service.CAUSAL] * max(1, len(others) // 2)))

    @property
    def largest_bytes(self) -> int:
        """The payloads of the largest bundle that it is likely to send: one large message among others."""
        largest_bytes = self.large_bytes if self.large else self.size_max_bytes
        return largest_bytes + (self.batch_max - 1) * self.size_max_bytes
