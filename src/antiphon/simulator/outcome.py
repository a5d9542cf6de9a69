"""What came of runs, in numbers: of one seed, and of many together."""

from collections import Counter

from msgspec import Struct, field

from antiphon.simulator.oracle import Violation
from antiphon.simulator.stage import Stage
from antiphon.trace import Event, Trace

Cells = dict[tuple[str, str], int]
"""How often something was met in a state."""


class Latency(Struct, frozen=True):
    """The times from send to delivery of the messages of one service."""

    deliveries: int
    mean_us: int
    max_us: int


class Counts(Struct):
    """What can be added up over runs."""

    messages: int = 0
    deliveries: int = 0
    deliveries_after_change: int = 0
    """Deliveries after the daemon view changed for the first time in the working phase."""
    views: int = 0
    """Views of groups, counted at clients."""
    signals: int = 0
    installations: int = 0
    """Installations of daemon views, counted at each daemon, without those of a daemon alone at its start."""
    crashes: int = 0
    restarts: int = 0
    partitions: int = 0
    """Partitions and cuts of pairs, each time anew."""
    packets: int = 0
    lost: int = 0
    duplicated: int = 0
    virtual_us: int = 0
    cast_pieces: int = 0
    """Pieces of casts that coordinators have multicast."""
    cast_missed: int = 0
    """How often an edge missed a piece."""
    cast_requests: int = 0
    cast_repairs: int = 0
    """Repairs that were multicast, by anybody."""
    cast_escalated: int = 0
    """Pieces for which a coordinator was asked over a connection."""
    cast_anew: int = 0
    """How often an edge had to begin anew where it had stopped."""

    def add(self, other: "Counts") -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Outcome(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    scenario: str
    sites: int = 0
    daemons: int = 0
    counts: Counts = field(default_factory=Counts)
    wall_s: float = 0.0
    digest: str = ""
    latencies: dict[str, Latency] = {}
    rounds: dict[str, int] = {}
    """How often a round of the membership began, by its reason."""
    reasons: Cells = {}
    """How often each state of the membership was entered for each reason."""
    events: Cells = {}
    """How often a daemon in each state met each event."""
    violations: tuple[Violation, ...] = ()
    error: str = ""
    """The traceback, if the run ended in an exception."""

    @property
    def is_clean(self) -> bool:
        return not self.violations and not self.error

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the properties that were broken, or of the exception."""
        if self.error:
            return (self.error.strip().rpartition("\n")[2].partition(":")[0],)
        return tuple(sorted({violation.name for violation in self.violations}))


class Summary(Struct):
    """What came of many seeds."""

    scenario: str
    seeds: int = 0
    counts: Counts = field(default_factory=Counts)
    sites: tuple[int, int] = (0, 0)
    """The smallest and the largest run."""
    daemons: tuple[int, int] = (0, 0)
    rounds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    run_s: float = 0.0
    """Wall time summed over the runs: processor time, if every job had a core to itself."""
    slowest_s: float = 0.0
    wall_s: float = 0.0
    failures: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        first = not self.seeds
        self.seeds += 1
        self.counts.add(outcome.counts)
        self.sites = _widened(self.sites, outcome.sites, first)
        self.daemons = _widened(self.daemons, outcome.daemons, first)
        self.rounds.update(outcome.rounds)
        self.reasons.update(outcome.reasons)
        self.events.update(outcome.events)
        self.run_s += outcome.wall_s
        self.slowest_s = max(self.slowest_s, outcome.wall_s)
        if not outcome.is_clean:
            self.failures.append(outcome)

    @property
    def is_clean(self) -> bool:
        return not self.failures

    @property
    def packets_per_s(self) -> float:
        """Simulated packets per second of one core."""
        return self.counts.packets / self.run_s if self.run_s else 0.0


def _widened(span: tuple[int, int], value: int, first: bool) -> tuple[int, int]:
    return (value, value) if first else (min(span[0], value), max(span[1], value))


SEARCHING = ("seg", "gather")
"""The states in which a round of the membership begins."""
GOING_ON = ("alone", "represented")
"""Reasons to enter one of them in a round that began before."""


def counted(trace: Trace, stage: Stage) -> Counts:
    """A run's numbers."""
    seen = Counter(record.event for record in trace.records)
    paths = stage.world.network.paths.values()
    change = next(
        (
            record.position
            for record in trace.records[stage.begins_position :]
            if record.event is Event.SVIEW and len(record.members) > 1
        ),
        len(trace.records),
    )
    happened = stage.happened
    casts: Counter[str] = Counter()
    for edge in stage.world.edges:
        casts += edge.casts
    return Counts(
        messages=seen[Event.SEND],
        deliveries=seen[Event.DELIVER],
        deliveries_after_change=sum(record.event is Event.DELIVER for record in trace.records[change:]),
        views=seen[Event.VIEW],
        signals=seen[Event.TRANSSIG],
        installations=seen[Event.SVIEW] - len(trace.core.of(Event.RECOVER)),
        crashes=seen[Event.CRASH],
        restarts=seen[Event.RECOVER] - len(trace.daemons) - len(trace.edges),
        partitions=happened["partition"] + happened["cut"] + happened["oneway"] + happened["flap"],
        packets=sum(path.sent for path in paths),
        lost=sum(path.lost for path in paths),
        duplicated=sum(path.duplicated for path in paths),
        virtual_us=stage.world.now_us,
        cast_pieces=casts["cast: pieces"],
        cast_missed=casts["missed"],
        cast_requests=casts["requests"],
        cast_repairs=casts["repairs of coordinators"] + casts["repairs of others"],
        cast_escalated=casts["escalated"],
        cast_anew=casts["anew"],
    )


def reasons_of(trace: Trace) -> Counter[tuple[str, str]]:
    """How often each state was entered for each reason."""
    return Counter((record.state, record.reason) for record in trace.records if record.event is Event.STATE)


def rounds_of(reasons: Cells) -> dict[str, int]:
    """How often a search for a new view began, by reason."""
    rounds: Counter[str] = Counter()
    for (state, reason), times in sorted(reasons.items()):
        if state in SEARCHING and reason not in GOING_ON:
            rounds[reason] += times
    return dict(rounds)


def latencies_of(trace: Trace) -> dict[str, Latency]:
    """How long messages took, by service."""
    times: dict[str, list[int]] = {}
    for record in trace.records:
        if record.event is Event.DELIVER and record.message in trace.sends:
            time_us = record.time_us - trace.sends[record.message].time_us
            times.setdefault(record.service, []).append(time_us)
    return {
        service: Latency(len(values), sum(values) // len(values), max(values))
        for service, values in sorted(times.items())
    }
