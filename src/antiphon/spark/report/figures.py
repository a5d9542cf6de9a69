"""The numbers of a report: plain values, ready for JSON and for the page."""

from msgspec import Struct

QUANTILES = (0.5, 0.9, 0.99)
MARKS = ("p50", "p90", "p99", "max")
STAGES = ("waiting", "transport", "ordering", "client")
"""The way of a message: to its place in the order at its daemon, to the receiving daemon, to its turn there,
to the application."""


class Spread(Struct, frozen=True):
    """How long the deliveries of one thing took, in microseconds."""

    name: str
    deliveries: int
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float

    @property
    def marks(self) -> tuple[float, ...]:
        return (self.p50_us, self.p90_us, self.p99_us, self.max_us)


class Pair(Struct, frozen=True):
    """How long deliveries took from one place to another."""

    origin: str
    target: str
    deliveries: int
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float


class OneWay(Struct, frozen=True):
    """How long bundles took from the daemons of one place to those of another, by the common time."""

    origin: str
    target: str
    bundles: int
    """Counted at each daemon to which they came."""
    p50_us: float
    p50_error_us: float
    """The p50 is at most so much less or more."""
    p99_us: float
    p99_error_us: float
    error_max_us: float
    """The greatest error of a single latency."""
    bases: tuple[str, ...]
    """On what the common time was based: `reference`, `internal`, or `virtual` in the simulator."""


class OneWays(Struct, frozen=True):
    """What is known of the way between daemons."""

    pairs: tuple[OneWay, ...]
    """Those with most bundles first."""
    known: int
    """Arrivals of bundles at other daemons for which both ends had a common time."""
    unknown: int
    """Those for which they had none."""
    impossible: int
    """Known ones that came before they were sent, by more than the bounds allow."""


class Stage(Struct, frozen=True):
    """How long one part of the way took."""

    mean_us: float
    p50_us: float
    p99_us: float


class Way(Struct, frozen=True):
    """The parts of the way of the messages of one service; those for which all parts are known."""

    service: str
    deliveries: int
    waiting: Stage
    transport: Stage
    ordering: Stage
    client: Stage

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.waiting, self.transport, self.ordering, self.client)


class Talker(Struct, frozen=True):
    """How much a session sent, or how much was sent to a group."""

    name: str
    sent: int
    delivered: int


class Rate(Struct, frozen=True):
    """Messages in one step of time."""

    start_us: int
    """Microseconds since the run began."""
    sent: int
    delivered: int


class StateSpan(Struct, frozen=True):
    """How long the membership of a daemon was in one state."""

    daemon: str
    state: str
    """The state of the membership, or `down`."""
    reason: str
    start_us: int
    end_us: int
    is_working: bool
    """Whether clients could send meanwhile."""


class Pause(Struct, frozen=True):
    """A time in which a daemon took no message of a client."""

    run: str
    daemon: str
    start_us: int
    took_us: int
    reason: str
    """Why it left its view."""
    ended: str
    """The state that ended it, `crash`, `stop`, or nothing if it lasted to the end of the trace."""


class Installation(Struct, frozen=True):
    """One daemon view."""

    run: str
    view: int
    first_us: int
    last_us: int
    members: tuple[str, ...]
    installed_at: int
    """Daemons that installed it."""
    reasons: tuple[str, ...]
    """Why its members had left their views."""


class Link(Struct, frozen=True):
    """One direction between two daemons, over all of the run."""

    run: str
    origin: str
    target: str
    packets: int
    """Reliable ones, each counted once however often it was sent."""
    resent: int
    received: int
    """Packets that the other end reported as received; -1 if it reported none."""
    duplicates: int
    failures: int
    round_trip_us: float

    @property
    def sent(self) -> int:
        """All packets that left, those that were sent again included."""
        return self.packets + self.resent

    @property
    def resent_share(self) -> float:
        """Packets that were sent again, as a part of all that left."""
        return self.resent / self.sent if self.sent else 0.0

    @property
    def lost(self) -> int | None:
        """Packets that did not come; None if the other end told nothing.

        Each of these was sent again, and what was sent again without need came twice. What one end has sent
        less what the other has received would also count whatever was sent between the last looks of both.
        """
        return max(0, self.resent - self.duplicates) if self.received >= 0 else None

    @property
    def lost_share(self) -> float:
        return (self.lost or 0) / self.sent if self.sent else 0.0


class Run(Struct, frozen=True):
    """One run of the folder."""

    name: str
    live: bool
    daemons: int
    processes: int
    events: int
    start_us: int
    end_us: int
    sent: int
    delivered: int
    views: int
    signals: int
    installations: int
    crashes: int
    """Ends of daemons that were not told to stop."""
    stops: int = 0
    """Ends of those that were."""
    early: int = 0
    """Deliveries that, by the clocks, happened before the message was sent."""
    earliest_us: float = 0.0
    """The greatest amount by which it was too early."""

    @property
    def span_us(self) -> int:
        return self.end_us - self.start_us


class Story(Struct, frozen=True):
    """What is drawn of one run."""

    run: str
    step_us: int
    rates: tuple[Rate, ...]
    spans: tuple[StateSpan, ...]
    moments_us: tuple[int, ...]
    """When a daemon view was installed for the first time."""


class Report(Struct, frozen=True):
    """Everything that the page shows."""

    folder: str
    runs: tuple[Run, ...]
    groups_count: int
    events: dict[str, int]
    services: tuple[Spread, ...]
    groups: tuple[Spread, ...]
    pairs: tuple[Pair, ...]
    pairs_of: str
    """`sites` or `daemons`."""
    one_ways: OneWays
    ways: tuple[Way, ...]
    talkers: tuple[Talker, ...]
    busiest_groups: tuple[Talker, ...]
    pauses: tuple[Pause, ...]
    pauses_count: int
    pauses_by_reason: tuple[Spread, ...]
    installations: tuple[Installation, ...]
    installations_count: int
    links: tuple[Link, ...]
    links_count: int
    stories: tuple[Story, ...]
