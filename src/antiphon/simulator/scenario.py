"""Named kinds of runs; the seed decides everything else.

Each has a working phase, in which clients act, and a quiet phase after it, in which faults stay and
everything that was accepted must still arrive.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random

from msgspec import Struct, structs

from antiphon import config, limits
from antiphon.config import Config, DaemonConfig, LinkConfig, Settings, SiteConfig
from antiphon.service import Service
from antiphon.simulator import hardships
from antiphon.simulator.network import Bandwidth, BurstLoss, Duplicate, Fault, Jitter, Loss, Path, Reorder
from antiphon.simulator.workload import EVERY_SERVICE, Habits
from antiphon.simulator.world import Daemon

Pair = tuple[int, int]
UPDATES_BUDGET = 12_000
"""Roughly how many updates of idle sites a working phase may cost; keeps one run near a second."""

LONG_WORK_US = 20_000_000
CHAIN_SERVICES = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
CHAIN_DELTAS_MS = (5.0, 20.0, 100.0)


class Setup(Struct, frozen=True):
    """One run before it begins."""

    config: Config
    daemons: list[Daemon]
    paths: dict[Pair, Path]
    actors: list[tuple[int, Habits]]
    """(daemon, habits) for each client."""
    working_us: int


def _names(count: int) -> tuple[SiteConfig, ...]:
    return tuple(
        SiteConfig(f"s{number}", (DaemonConfig(f"d{number}", f"127.0.0.1:{5000 + number}"),))
        for number in range(count)
    )


def _pairs(random: Random, sites: int) -> list[Pair]:
    """A connected set of links: a chain, a ring, a star, a mesh or something in between."""
    shape = random.choice(("chain", "ring", "star", "mesh", "random", "random"))
    if shape == "mesh" and sites <= 6:
        return [(one, other) for one in range(sites) for other in range(one + 1, sites)]
    if shape == "star":
        hub = random.randrange(sites)
        return [(hub, other) for other in range(sites) if other != hub]
    order = random.sample(range(sites), sites)
    if shape in ("chain", "ring"):
        pairs = list(pairwise(order))
        return [*pairs, (order[-1], order[0])] if shape == "ring" and sites > 2 else pairs
    pairs = [(order[at], random.choice(order[:at])) for at in range(1, sites)]
    known = {frozenset(pair) for pair in pairs}
    for _ in range(random.randint(0, sites)):
        one, other = random.sample(range(sites), 2)
        if frozenset((one, other)) not in known:
            known.add(frozenset((one, other)))
            pairs.append((one, other))
    return pairs


def _faults(random: Random, latency_us: int, severity: float) -> tuple[Fault, ...]:
    """Faults of one direction of a link; `severity` is the run's highest loss rate."""
    faults: list[Fault] = []
    if severity:
        faults.append(Loss(severity * random.random() ** 0.5))
    if random.random() < 0.15:
        faults.append(BurstLoss(enter=0.004, leave=0.2))
    if random.random() < 0.4:
        faults.append(Jitter(random.randint(1, max(2, latency_us // 2))))
    if random.random() < 0.4:
        faults.append(Reorder(0.1 * random.random(), random.randint(100, 2 * latency_us + 200)))
    if random.random() < 0.4:
        faults.append(Duplicate(0.05 * random.random(), random.randint(1, 4 * latency_us + 1_000)))
    if random.random() < 0.25:
        rate = hardships.wide(random, 200_000, 20_000_000)
        faults.append(Bandwidth(rate, max(30_000, int(rate * 0.1))))
    return tuple(faults)


def _network(random: Random, pairs: list[Pair], latencies_us: list[int], severity: float) -> dict[Pair, Path]:
    coalesce = random.choice((0.0, 0.5, 1.0))
    paths: dict[Pair, Path] = {}
    for (one, other), latency_us in zip(pairs, latencies_us, strict=True):
        for pair in ((one, other), (other, one)):
            paths[pair] = Path(latency_us, _faults(random, latency_us, severity), random, coalesce)
    return paths


def _links(random: Random, pairs: list[Pair]) -> tuple[LinkConfig, ...]:
    """The configured links; costs are the latencies only by accident, and packet sizes differ."""
    return tuple(
        LinkConfig(
            sites=(f"s{one}", f"s{other}"),
            cost=random.choice((1.0, 1.0, 2.0, 5.0, 30.0)),
            packet_bytes=random.choice((1_400, 1_400, 1_400, 512, 9_000)),
        )
        for one, other in pairs
    )


def _daemons(random: Random, sites: int) -> list[Daemon]:
    late_us = random.choice((0, 0, 100_000))
    return [
        Daemon(f"d{number}", random.randint(0, late_us), random.randrange(10**12)) for number in range(sites)
    ]


def mixed(random: Random, seed: int) -> Setup:
    """Two to twelve sites, any shape, any network, a bit of everything."""
    sites = random.randint(10, 12) if seed % 5 < 2 else random.randint(2, 9)
    pairs = _pairs(random, sites)
    delta_ms = hardships.wide(random, 1_000, 100_000) / 1_000
    latencies_us = [hardships.wide(random, 100, 80_000) for _ in pairs]
    severity = random.choice((0.0, 0.0, 0.01, 0.05, 0.1, 0.2))
    working_us = int(UPDATES_BUDGET * delta_ms * 1_000 / (sites * sites))
    working_us = min(max(working_us, 150_000), 2_000_000)
    groups = tuple(f"g{number}" for number in range(random.randint(1, 6)))
    clients = random.randint(sites, 3 * sites)
    bundles = random.randint(100, 400)
    actors = []
    for _ in range(clients):
        actors.append(
            (
                random.randrange(sites),
                Habits(
                    interval_us=max(1_000, working_us * clients // bundles),
                    groups=groups,
                    joins=random.randint(0, len(groups)),
                    services=random.choice(
                        (EVERY_SERVICE, EVERY_SERVICE, (Service.AGREED, Service.SAFE), tuple(Service)[1:])
                    ),
                    large=random.choice((0.0, 0.0, 0.01, 0.05)),
                    large_bytes=random.choice((20_000, 100_000, 300_000)),
                    churn=random.choice((0.02, 0.1, 0.2)),
                    quits=random.choice((0.0, 0.02, 0.05)),
                    answers=random.choice((0.0, 0.3)),
                    read_bytes_per_s=random.choice((0, 0, 0, 0, 0, 200_000)),
                    priority=random.choice((0, 0, 5, 9)),
                ),
            )
        )
    links = _links(random, pairs)
    daemons = _daemons(random, sites)
    paths = _network(random, pairs, latencies_us, severity)
    hard = Random(f"hardships of mixed {seed}")
    daemons = hardships.busy(hard, daemons)
    if hard.random() < 0.1:
        daemons = hardships.late(hard, daemons)
        working_us += max(daemon.starts_us for daemon in daemons)
    if hard.random() < 0.2:
        daemons = hardships.paused(hard, daemons, working_us)
    if hard.random() < 0.25:
        if hard.random() < 0.4:  # long enough for clients to meet links that have failed
            stretch = 1 + LONG_WORK_US // working_us
            working_us *= stretch
            actors = [
                (daemon, structs.replace(habits, interval_us=habits.interval_us * stretch))
                for daemon, habits in actors
            ]
        hardships.silent(hard, paths, working_us)
    if hard.random() < 0.2:
        links = hardships.regulated(hard, links)
    if hard.random() < 0.5:
        actors = [(daemon, _eccentric(hard, habits)) for daemon, habits in actors]
    settings = Settings(delta_ms=delta_ms)
    return Setup(config.build(_names(sites), links, settings), daemons, paths, actors, working_us)


def _eccentric(random: Random, habits: Habits) -> Habits:
    """The same client with its ways: it does not want views, keeps its name, or does not wait for answers."""
    return structs.replace(
        habits,
        views=random.random() > 0.25,
        keeps_name=random.random() < 0.5,
        hasty=random.choice((0.0, 0.0, 0.5)),
    )


def chain(random: Random, seed: int) -> Setup:
    """Thesis 5.2: four sites in a row, 30 ms a hop, a sender at one end, members everywhere.

    The seed chooses one service for all messages and one delta, as the thesis measured one at a time.
    """
    sites = 4
    pairs = list(pairwise(range(sites)))
    service = CHAIN_SERVICES[seed % len(CHAIN_SERVICES)]
    delta_ms = CHAIN_DELTAS_MS[seed // len(CHAIN_SERVICES) % len(CHAIN_DELTAS_MS)]
    talks = Habits(
        interval_us=40_000, groups=("ping",), joins=0, services=(service,), size_max_bytes=200, batch_max=1,
        private=0.0, churn=0.0, starts_us=2_000_000,
    )  # fmt: skip
    listens = Habits(interval_us=10**12, groups=("ping",), starts_us=0)
    links = tuple(LinkConfig(sites=(f"s{one}", f"s{other}"), cost=30.0) for one, other in pairs)
    return Setup(
        config.build(_names(sites), links, Settings(delta_ms=delta_ms)),
        [Daemon(f"d{number}") for number in range(sites)],
        {
            pair: Path(30_000, (), random, 0.0)
            for one, other in pairs
            for pair in ((one, other), (other, one))
        },
        [(0, talks), *((number, listens) for number in range(sites))],
        8_000_000,
    )


def flood(random: Random, seed: int) -> Setup:
    """Few sites, more load than they can carry, slow readers: back-pressure must hold everywhere."""
    sites = random.randint(2, 4)
    pairs = _pairs(random, sites)
    latencies_us = [hardships.wide(random, 200, 20_000) for _ in pairs]
    groups = ("flood", "other")
    working_us = 300_000
    actors = []
    for number in range(sites * 2):
        habits = Habits(
            interval_us=random.randint(2_000, 10_000), groups=groups, joins=2, size_max_bytes=30_000,
            batch_max=8, churn=0.005, answers=0.5,
            read_bytes_per_s=random.choice((0, 0, 0, 400_000, 1_000_000)),
        )  # fmt: skip
        actors.append((number % sites, habits))
    settings = Settings(
        delta_ms=random.choice((1.0, 5.0, 20.0)),
        unstable_bytes=random.choice((65_536, 200_000, 1_000_000)),
        output_soft_bytes=random.choice((65_536, 500_000)),
        output_hard_bytes=random.choice((600_000, limits.SESSION_OUTPUT_HARD_BYTES)),
    )
    severity = random.choice((0.0, 0.02))
    hard = Random(f"hardships of flood {seed}")
    return Setup(
        config.build(_names(sites), hardships.narrow(hard, _links(random, pairs)), settings),
        hardships.busy(hard, _daemons(random, sites)),
        _network(random, pairs, latencies_us, severity),
        actors,
        working_us,
    )


def large(random: Random, seed: int) -> Setup:
    """Messages of several megabytes among small ones."""
    sites = random.randint(2, 4)
    pairs = _pairs(random, sites)
    latencies_us = [hardships.wide(random, 200, 10_000) for _ in pairs]
    whales = Habits(
        interval_us=150_000, groups=("big",), services=tuple(Service)[1:], large=0.7,
        large_bytes=6_000_000, batch_max=1, churn=0.0, private=0.0,
    )  # fmt: skip
    minnows = Habits(interval_us=20_000, groups=("big", "small"), joins=2)
    actors = [
        (number, habits)
        for number in range(sites)
        for habits in ((whales, minnows) if number < 2 else (minnows,))
    ]
    return Setup(
        config.build(_names(sites), _links(random, pairs), Settings(delta_ms=10.0)),
        hardships.busy(Random(f"hardships of large {seed}"), _daemons(random, sites)),
        _network(random, pairs, latencies_us, random.choice((0.0, 0.01))),
        actors,
        600_000,
    )


def pruned(random: Random, seed: int) -> Setup:
    """Many groups with members at few sites; sites join just while others flood the same group."""
    sites = random.randint(4, 10)
    pairs = _pairs(random, sites)
    latencies_us = [hardships.wide(random, 500, 60_000) for _ in pairs]
    groups = tuple(f"g{number}" for number in range(random.randint(3, 12)))
    delta_ms = hardships.wide(random, 2_000, 50_000) / 1_000
    working_us = min(max(int(UPDATES_BUDGET * delta_ms * 1_000 / (sites * sites)), 300_000), 2_000_000)
    services = tuple(Service)[1:]
    hard = Random(f"hardships of pruned {seed}")
    hasty = hard.choice((0.0, 0.0, 0.5))
    actors = []
    for number in range(sites * 2):
        own = tuple(random.sample(groups, random.randint(1, 3)))
        if number % 2:
            habits = Habits(
                interval_us=working_us // 30,
                groups=own,
                joins=0,
                services=services,
                churn=0.6,
                hasty=hasty,
                several_groups=0.3,
            )
        else:
            habits = Habits(
                interval_us=working_us // 40,
                groups=groups,
                joins=0,
                services=services,
                churn=0.03,
                answers=0.5,
            )
        actors.append((random.randrange(sites), habits))
    return Setup(
        config.build(_names(sites), _links(random, pairs), Settings(delta_ms=delta_ms)),
        hardships.busy(hard, _daemons(random, sites)),
        _network(random, pairs, latencies_us, random.choice((0.0, 0.0, 0.05, 0.15))),
        actors,
        working_us,
    )


SCENARIOS: dict[str, Callable[[Random, int], Setup]] = {
    "mixed": mixed,
    "chain": chain,
    "flood": flood,
    "large": large,
    "pruned": pruned,
}
