"""Clusters and clients for the scenarios in which the membership is the subject."""

from random import Random

from msgspec import Struct, structs

from antiphon.config import LinkConfig
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.network import AnyFault, Bandwidth, Duplicate, Loss, Pair, Reorder
from antiphon.simulator.plan import ClientPlan, Daemon, Route, Site
from antiphon.simulator.scenarios.parts import busy, faults_of, pairs_of, wide

WALLS_US = (0, 1 << 31, 1 << 32, 1 << 48, 1_700_000_000_000_000)
"""Where wall clocks may stand: at the beginning, shortly before numbers that overflow something, and now."""
APART_US = (0, 10_000, 3_600_000_000)
"""How far the wall clocks of one cluster may be apart."""
SLOW_PATH_BYTES_PER_S = 1_000_000
"""Slower paths are left to the scenarios in which flow is the subject."""


class Cluster(Struct, frozen=True):
    """Sites with their daemons, and what lies between them."""

    sites: tuple[Site, ...]
    routes: tuple[Route, ...]

    @property
    def names(self) -> list[str]:
        """The names of the daemons, by daemon number."""
        return [daemon.name for site in self.sites for daemon in site.daemons]

    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of daemons that have a path each way."""
        linked = {frozenset(route.link.sites) for route in self.routes}
        places = [(site.name, daemon.name) for site in self.sites for daemon in site.daemons]
        return [
            (daemon, other)
            for at, (site, daemon) in enumerate(places)
            for other_site, other in places[at + 1 :]
            if site == other_site or frozenset((site, other_site)) in linked
        ]


def draw_cluster(
    random: Random,
    daemons: int,
    sites: int,
    *,
    latencies_us: tuple[int, int],
    severity: float = 0.0,
    late_us: int = 0,
    pairs: list[Pair] | None = None,
    even: bool = False,
    homes: list[int] | None = None,
) -> Cluster:
    """A cluster of this size; where its daemons live, what they are like and how they are joined is drawn.

    `homes` decides the first: the number of each daemon's site, ascending.
    """
    if homes is None:
        homes = [*range(sites), *(random.randrange(sites) for _ in range(daemons - sites))]
        if even:
            homes = [number % sites for number in range(daemons)]
        homes.sort()
    living = busy(random, _clocks(random, daemons, late_us))
    return Cluster(
        tuple(
            Site(
                f"s{site}",
                tuple(daemon for daemon, home in zip(living, homes, strict=True) if home == site),
                wide(random, 20, 300),
                _local_faults(random, severity),
            )
            for site in range(sites)
        ),
        tuple(
            _route(random, pair, wide(random, *latencies_us), severity)
            for pair in (pairs_of(random, sites) if pairs is None else pairs)
        ),
    )


def _clocks(random: Random, count: int, late_us: int) -> list[Daemon]:
    """Daemons whose clocks show anything; some start late."""
    wall_us = random.choice(WALLS_US)
    wall_us -= random.randrange(10_000_000) if wall_us else 0
    apart_us = random.choice(APART_US)
    return [
        Daemon(
            f"d{number}",
            starts_us=random.randint(0, late_us) if random.random() < 0.3 else 0,
            clock_us=random.randrange(10**12),
            wall_us=max(0, wall_us + random.randint(-apart_us, apart_us)),
        )
        for number in range(count)
    ]


def _local_faults(random: Random, severity: float) -> tuple[AnyFault, ...]:
    faults: list[AnyFault] = []
    if severity and random.random() < 0.5:
        faults.append(Loss(severity * random.random()))
    if random.random() < 0.3:
        faults.append(Reorder(0.1 * random.random(), 500))
    if random.random() < 0.2:
        faults.append(Duplicate(0.05 * random.random(), 2_000))
    return tuple(faults)


def _route(random: Random, pair: Pair, latency_us: int, severity: float) -> Route:
    one, other = pair
    link = LinkConfig(
        sites=(f"s{one}", f"s{other}"),
        cost=random.choice((1.0, 1.0, 2.0, 30.0)),
        packet_bytes=random.choice((1_400, 1_400, 512)),
    )
    there, back = (_fast_enough(faults_of(random, latency_us, severity)) for _ in range(2))
    return Route(link, latency_us, there, back)


def _fast_enough(faults: tuple[AnyFault, ...]) -> tuple[AnyFault, ...]:
    return tuple(
        fault
        for fault in faults
        if not isinstance(fault, Bandwidth) or fault.bytes_per_s >= SLOW_PATH_BYTES_PER_S
    )


def draw_clients(
    random: Random, names: list[str], groups: tuple[str, ...], count: int, working_us: int, bundles: int
) -> tuple[ClientPlan, ...]:
    """Clients that come and go, and send about so many bundles in all; each daemon has one at least."""
    homes = [*names, *(random.choice(names) for _ in range(count - len(names)))]
    usual = Habits(
        interval_us=max(1_000, working_us * len(homes) // bundles),
        groups=groups,
        several_groups=0.2,
        size_max_bytes=random.choice((200, 1_000)),
        large=random.choice((0.0, 0.0, 0.02)),
        large_bytes=random.choice((10_000, 60_000)),
    )
    return tuple(
        ClientPlan(
            f"c{number}",
            home,
            structs.replace(
                usual,
                joins=random.choice((0, 1, 1, 2, len(groups))),
                services=random.choice((EVERY_SERVICE, (Service.AGREED, Service.SAFE), tuple(Service)[1:])),
                churn=random.choice((0.02, 0.1, 0.3)),
                quits=random.choice((0.0, 0.03, 0.1)),
                answers=random.choice((0.0, 0.3, 0.6)),
                hasty=random.choice((0.0, 0.0, 0.5)),
                priority=random.choice((0, 0, 9)),
                views=random.random() > 0.05,
            ),
        )
        for number, home in enumerate(homes)
    )
