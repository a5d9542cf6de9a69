"""What scenarios are made of: topologies, paths with their everyday faults, and daemons with their ways."""

from itertools import combinations, pairwise
from random import Random

from msgspec import structs

from antiphon.config import LinkConfig
from antiphon.simulator.network import AnyFault, Bandwidth, BurstLoss, Duplicate, Jitter, Loss, Pair, Reorder
from antiphon.simulator.plan import Daemon, Route, Site


def wide(random: Random, low: int, high: int) -> int:
    """A number between the two, evenly distributed on a logarithmic scale."""
    return int(low * (high / low) ** random.random())


def pairs_of(random: Random, sites: int) -> list[Pair]:
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
    for _ in range(random.randint(0, sites) if sites > 1 else 0):
        one, other = random.sample(range(sites), 2)
        if frozenset((one, other)) not in known:
            known.add(frozenset((one, other)))
            pairs.append((one, other))
    return pairs


def faults_of(random: Random, latency_us: int, severity: float) -> tuple[AnyFault, ...]:
    """Faults of one direction of a link; `severity` is the run's highest loss rate."""
    faults: list[AnyFault] = []
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
        rate = wide(random, 200_000, 20_000_000)
        faults.append(Bandwidth(rate, max(30_000, int(rate * 0.1))))
    return tuple(faults)


def routes_of(
    random: Random, pairs: list[Pair], latencies_us: list[int], severity: float
) -> tuple[Route, ...]:
    """Links with paths; costs are the latencies only by accident, and packet sizes differ."""
    return tuple(
        Route(
            LinkConfig(
                sites=(f"s{one}", f"s{other}"),
                cost=random.choice((1.0, 1.0, 2.0, 5.0, 30.0)),
                packet_bytes=random.choice((1_400, 1_400, 1_400, 512, 9_000)),
            ),
            latency_us,
            faults_of(random, latency_us, severity),
            faults_of(random, latency_us, severity),
        )
        for (one, other), latency_us in zip(pairs, latencies_us, strict=True)
    )


def mesh(random: Random, sites: int, latencies_us: tuple[int, int]) -> tuple[Route, ...]:
    """Links between all sites, with paths that have no fault."""
    return tuple(
        Route(LinkConfig((f"s{one}", f"s{other}")), wide(random, *latencies_us))
        for one, other in combinations(range(sites), 2)
    )


def coalesce_of(random: Random) -> float:
    """How often trains stay together."""
    return random.choice((0.0, 0.5, 1.0))


def lonely_sites(daemons: list[Daemon]) -> tuple[Site, ...]:
    """One daemon a site."""
    return tuple(Site(f"s{number}", (daemon,)) for number, daemon in enumerate(daemons))


def daemons_of(random: Random, count: int) -> list[Daemon]:
    """Daemons with clocks of their own, some of them a bit late."""
    late_us = random.choice((0, 0, 100_000))
    return [
        Daemon(f"d{number}", random.randint(0, late_us), random.randrange(10**12), random.randrange(10**15))
        for number in range(count)
    ]


def busy(random: Random, daemons: list[Daemon]) -> list[Daemon]:
    """No daemon, some or all gather events and serve their deadlines late."""
    share = random.choice((0.0, 0.0, 0.4, 1.0))
    return [
        structs.replace(
            daemon, gathers_us=random.choice((50, 300, 1_000)), late_us=random.choice((0, 500, 5_000))
        )
        if random.random() < share
        else daemon
        for daemon in daemons
    ]
