"""Edges at the rim of a cluster: they lose packets, their attachments and themselves, and miss nothing
unsaid.

Sessions at edges send and listen beside those of the core. Some edges are behind others. In most runs what
attachments keep is enough for an edge that goes on elsewhere; in others it is so little that gaps must be
told. In some, edges go on where daemons went another way (`strays`).
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.incidents import (
    AnyIncident,
    Crash,
    Cut,
    Flood,
    Hangup,
    Heal,
    Partition,
    Pause,
    Restart,
    Stop,
    Trouble,
)
from antiphon.simulator.network import AnyFault, Bandwidth, Jitter, Loss
from antiphon.simulator.plan import ClientPlan, Daemon, Edge, Memory, Plan
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide
from antiphon.simulator.scenarios.strays import with_strays

EDGE_COUNTS = ((5, 5), (5, 8), (6, 12), (12, 25), (25, 60))
EDGE_WEIGHTS = (10, 6, 2, 0.7, 0.3)
SEVERITIES = (0.0, 0.0, 0.01, 0.05, 0.2)
"""Loss between edges and their attachments."""
BEHIND = 0.25
"""How many edges may attach to other edges."""
ADAPTIVE = 0.3
WORKING_US = (1_500_000, 5_000_000)


def edges(random: Random, seed: int) -> Plan:
    """A cluster of a few sites, edges around it, and what happens to both."""
    return with_strays(draw(random, seed), Random(f"strays of edges {seed}"))


def draw(random: Random, seed: int) -> Plan:
    """The same, with edges that lose their attachments at any time."""
    count = random.randint(*random.choices(EDGE_COUNTS, EDGE_WEIGHTS)[0])
    daemons = random.choice((3, 3, 4, 4, 5, 6))
    cluster = draw_cluster(
        random, daemons, daemons, latencies_us=(500, 30_000),
        severity=random.choice((0.0, 0.0, 0.02, 0.05)),
    )  # fmt: skip
    groups = tuple(f"g{number}" for number in range(random.randint(2, 6)))
    around = _edges(random, cluster, count)
    working_us = wide(random, *WORKING_US)
    is_little = random.random() < 0.3
    plan = Plan(
        "edges",
        seed,
        cluster.sites,
        cluster.routes,
        _clients(random, cluster, around, groups, working_us),
        working_us,
        Settings(membership="lan", delta_ms=wide(random, 2_000, 30_000) / 1_000),
        coalesce=coalesce_of(random),
        incidents=tuple(_incidents(random, cluster, around, groups, working_us)),
        edges=around,
        memory=Memory(output_bytes=1 << 14) if is_little else Memory(),
    )
    if is_little:
        little = structs.replace(
            plan.settings,
            feed_retain_bytes=wide(random, 1 << 16, 1 << 18),
            feed_retain_ms=wide(random, 20_000, 5_000_000) / 1_000,
        )
        plan = structs.replace(plan, settings=little)
    return plan.ordered("adaptive") if random.random() < ADAPTIVE else plan


def _edges(random: Random, cluster: Cluster, count: int) -> tuple[Edge, ...]:
    """Edges that attach to daemons, and some to edges before them; all have a daemon at last, or an edge that
    has."""
    severity = random.choice(SEVERITIES)
    behind = random.choice((0.0, BEHIND))
    found: list[Edge] = []
    for number in range(count):
        near = random.sample(cluster.names, min(len(cluster.names), random.choice((1, 2, 2, 3))))
        before = [edge.name for edge in found]
        if before and random.random() < behind:
            near[: random.randint(0, len(near))] = random.sample(
                before, min(len(before), random.choice((1, 1, 2)))
            )
        faults: list[AnyFault] = [Loss(severity * random.random())] if severity else []
        if random.random() < 0.3:
            faults.append(Jitter(wide(random, 100, 20_000)))
        if random.random() < 0.1:
            faults.append(Bandwidth(wide(random, 50_000, 500_000), 60_000))
        machine = Daemon(
            f"e{number}",
            starts_us=random.choice((0, 0, random.randrange(2_000_000))),
            clock_us=random.randrange(10**12),
            gathers_us=random.choice((0, 0, 0, 300, 5_000)),
            late_us=random.choice((0, 0, 500)),
        )
        found.append(Edge(machine, tuple(near), wide(random, 200, 40_000), tuple(faults)))
    return tuple(found)


def _clients(
    random: Random, cluster: Cluster, around: tuple[Edge, ...], groups: tuple[str, ...], working_us: int
) -> tuple[ClientPlan, ...]:
    """Some in the core, and more at edges."""
    bundles = random.randint(40, 120)
    core = draw_clients(
        random, cluster.names, groups, random.randint(len(cluster.names), 2 * len(cluster.names)), working_us,
        bundles=bundles,
    )  # fmt: skip
    homes = [edge.name for edge in around] + [
        random.choice(around).name for _ in range(max(random.randint(0, 12), 20 - len(around)))
    ]
    usual = Habits(
        interval_us=max(1_000, working_us * len(homes) // bundles),
        groups=groups,
        several_groups=0.2,
        size_max_bytes=random.choice((200, 1_000)),
        large=random.choice((0.0, 0.0, 0.02)),
        large_bytes=random.choice((10_000, 60_000)),
    )
    return (
        *core,
        *(
            ClientPlan(
                f"x{number}",
                home,
                structs.replace(
                    usual,
                    joins=random.choice((1, 1, 2, len(groups))),
                    services=random.choice(
                        (EVERY_SERVICE, (Service.AGREED, Service.SAFE), tuple(Service)[1:])
                    ),
                    churn=random.choice((0.02, 0.1, 0.3)),
                    quits=random.choice((0.0, 0.03, 0.1)),
                    answers=random.choice((0.0, 0.3)),
                    hasty=random.choice((0.0, 0.0, 0.5)),
                    priority=random.choice((0, 0, 9)),
                    views=random.random() > 0.05,
                ),
            )
            for number, home in enumerate(homes)
        ),
    )


def _incidents(
    random: Random, cluster: Cluster, around: tuple[Edge, ...], groups: tuple[str, ...], working_us: int
) -> list[AnyIncident]:
    """Troubles of daemons, of edges, and of what lies between them."""
    kinds = random.sample(KINDS, random.randint(1, len(KINDS)))
    incidents: list[AnyIncident] = []
    at_us = random.randrange(200_000, 1_000_000)
    while at_us < working_us:
        incidents += random.choice(kinds)(random, cluster, around, at_us)
        if random.random() < 0.5:
            homes = [*cluster.names, *(edge.name for edge in around)]
            incidents += [
                Flood(
                    daemon=name,
                    groups=groups,
                    bundles=random.randint(1, 8),
                    services=tuple(Service)[1:],
                    at_us=max(0, at_us - random.randrange(30_000)),
                )
                for name in random.sample(homes, min(len(homes), 3))
            ]
        at_us += wide(random, 50_000, 3_000_000)
    return incidents


def _span_us(random: Random) -> int:
    return wide(random, 5_000, 4_000_000)


def _crash(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    """A daemon of the core is gone, mostly for a while; or two at once."""
    incidents: list[AnyIncident] = []
    for name in random.sample(cluster.names, random.choice((1, 1, 1, 2))):
        incidents.append(Crash(daemon=name, at_us=at_us))
        incidents.append(Restart(daemon=name, at_us=at_us + _span_us(random)))
    return incidents


def _edge_crash(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    name = random.choice(around).name
    return [Crash(daemon=name, at_us=at_us), Restart(daemon=name, at_us=at_us + _span_us(random))]


def _stop(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    return [Stop(daemon=random.choice(cluster.names), at_us=at_us, back_us=_span_us(random))]


def _cut(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    """Edges and their first attachments cannot reach one another."""
    return [
        Cut(daemons=(edge.name, random.choice(edge.attachments)), at_us=at_us, for_us=_span_us(random))
        for edge in random.sample(around, random.randint(1, 3))
    ]


def _hangup(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    """Connections break."""
    return [
        Hangup(daemons=(edge.name, name), at_us=at_us, is_told=random.random() < 0.7)
        for edge in random.sample(around, random.randint(1, 4))
        for name in edge.attachments[:1]
    ]


def _partition(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    """The core falls apart; each edge is on one side."""
    parts: list[list[str]] = [[], []]
    names = random.sample(cluster.names, len(cluster.names))
    parts[0].append(names[0])
    parts[1].append(names[1])
    for name in [*names[2:], *(edge.name for edge in around)]:
        random.choice(parts).append(name)
    return [Partition(parts=tuple(map(tuple, parts)), at_us=at_us, for_us=_span_us(random))]


def _core_partition(
    random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int
) -> list[AnyIncident]:
    """The core falls apart, and edges reach all of it."""
    alone = random.choice(cluster.names)
    for_us = _span_us(random)
    pairs = [pair for pair in cluster.pairs() if alone in pair]
    return [Cut(daemons=pair, at_us=at_us, for_us=for_us) for pair in pairs]


def _pause(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    name = random.choice([*cluster.names, *(edge.name for edge in around)])
    return [Pause(daemon=name, at_us=at_us, for_us=_span_us(random))]


def _trouble(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    edge = random.choice(around)
    pair = (edge.name, random.choice(edge.attachments))
    fault = random.choice((Loss(random.uniform(0.1, 0.6)), Bandwidth(wide(random, 5_000, 100_000), 30_000)))
    return [Trouble(fault=fault, daemons=pair, at_us=at_us, for_us=_span_us(random))]


def _heal(random: Random, cluster: Cluster, around: tuple[Edge, ...], at_us: int) -> list[AnyIncident]:
    return [Heal(at_us=at_us)]


KINDS = (
    _crash,
    _edge_crash,
    _stop,
    _cut,
    _hangup,
    _partition,
    _core_partition,
    _pause,
    _trouble,
    _heal,
)
