"""Local groups that multicast: coordinators with many children, which all want much of the same.

Pieces are lost on the way, overtake one another or come twice; some edges lose every multicast for seconds,
some never get any. Coordinators and children crash, pause, and lose their connections.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.incidents import AnyIncident, Flood
from antiphon.simulator.network import AnyFault, BurstLoss, Duplicate, Jitter, Loss, Reorder
from antiphon.simulator.plan import ClientPlan, Daemon, Edge, Memory, Plan
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.edges import KINDS
from antiphon.simulator.scenarios.parts import coalesce_of, wide

WORKING_US = (2_000_000, 6_000_000)
LOSSES = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Of multicasts on the way to one edge, at the most."""
ALONE = 0.1
"""How many children are in no LAN with others."""
CHILDREN_START_US = 1_000_000
"""When coordinators are attached in most runs."""
KEEPS = ((1 << 20, 30_000_000), (1 << 16, 300_000))
"""What is kept of a feed: enough, or so little that gaps must be told; in bytes and microseconds."""
MEMORIES = (
    Memory(),
    Memory(),
    Memory(output_bytes=1 << 14),
    Memory(cast_us=30_000),
    Memory(cast_bytes=6_000),
)


def casts(random: Random, seed: int) -> Plan:
    """A small core, one or two coordinators, and their children."""
    cluster = draw_cluster(
        random, 3, random.choice((1, 3)), latencies_us=(500, 20_000), severity=random.choice((0.0, 0.0, 0.02))
    )
    hubs = random.choice((1, 1, 2))
    children = random.choice((3, 4, 5, 6, 8, 12))
    loss = random.choice(LOSSES)
    around = tuple(_edge(random, cluster.names, hubs, number, loss) for number in range(hubs + children))
    if random.random() < 0.5:
        around = tuple(structs.replace(edge, shares_place=True) for edge in around)
    groups = tuple(f"g{number}" for number in range(random.randint(1, 3)))
    working_us = wide(random, *WORKING_US)
    kept_bytes, kept_us = random.choice(KEEPS)
    settings = Settings(
        membership="lan", delta_ms=wide(random, 2_000, 20_000) / 1_000,
        feed_retain_bytes=kept_bytes, feed_retain_ms=kept_us / 1_000,
    )  # fmt: skip
    return Plan(
        "casts", seed, cluster.sites, cluster.routes,
        (
            *draw_clients(random, cluster.names, groups, 4, working_us, bundles=random.randint(100, 400)),
            *_receivers(random, around, groups, working_us),
        ),
        working_us,
        settings,
        coalesce=coalesce_of(random),
        incidents=(
            *_floods(random, cluster.names, groups, working_us),
            *_troubles(random, cluster, around, working_us),
        ),
        edges=around,
        memory=random.choice(MEMORIES),
    )  # fmt: skip


def _edge(random: Random, daemons: list[str], hubs: int, number: int, loss: float) -> Edge:
    """A coordinator, or a child of one."""
    near = tuple(random.sample(daemons, 2))
    is_child = number >= hubs
    if is_child:
        near = (f"e{random.randrange(hubs)}", random.choice([*daemons, *(f"e{hub}" for hub in range(hubs))]))
    machine = Daemon(
        f"e{number}",
        starts_us=CHILDREN_START_US + random.randrange(1_000_000) if is_child else 0,
        clock_us=random.randrange(10**12),
        gathers_us=random.choice((0, 0, 0, 300, 5_000)),
        late_us=random.choice((0, 0, 500)),
    )
    span_us = random.choice((300, 3_000, 15_000))
    lan = random.choice(("", f"e{number}")) if is_child and random.random() < ALONE else "lan"
    return Edge(
        machine,
        tuple(dict.fromkeys(near)),
        wide(random, 200, 5_000),
        at=(random.randrange(span_us), random.randrange(span_us)),
        lan=lan,
        cast_faults=_faults(random, loss),
    )


def _faults(random: Random, loss: float) -> tuple[AnyFault, ...]:
    """What multicasts suffer on the way to one edge."""
    faults: list[AnyFault] = [Loss(loss * random.random())]
    if random.random() < 0.3:
        faults.append(BurstLoss(0.005, 0.3))
    elif random.random() < 0.2:
        faults.append(BurstLoss(0.005, 0.002, within_us=3_000_000))
    if random.random() < 0.3:
        faults.append(Jitter(random.randrange(5_000)))
    if random.random() < 0.3:
        faults.append(Reorder(0.1 * random.random(), random.randrange(1, 20_000)))
    if random.random() < 0.3:
        faults.append(Duplicate(0.1 * random.random()))
    return tuple(faults)


def _receivers(
    random: Random, around: tuple[Edge, ...], groups: tuple[str, ...], working_us: int
) -> list[ClientPlan]:
    """One or two clients at each edge, which mostly listen."""
    found: list[ClientPlan] = []
    for edge in around:
        for _ in range(random.choice((1, 1, 2))):
            habits = Habits(
                interval_us=working_us // random.choice((2, 5, 10)),
                groups=groups,
                joins=len(groups),
                services=random.choice((EVERY_SERVICE, (Service.AGREED, Service.SAFE))),
                size_max_bytes=random.choice((200, 3_000)),
                large=random.choice((0.0, 0.05)),
                large_bytes=20_000,
                churn=random.choice((0.0, 0.05, 0.3)),
                quits=random.choice((0.0, 0.0, 0.05)),
                views=random.random() > 0.05,
            )
            found.append(ClientPlan(f"x{len(found)}", edge.name, habits))
    return found


def _floods(
    random: Random, daemons: list[str], groups: tuple[str, ...], working_us: int
) -> list[AnyIncident]:
    """Much is sent at once, now and then."""
    step_us = max(50_000, working_us // random.randint(2, 20))
    return [
        Flood(
            daemon=random.choice(daemons), groups=groups, bundles=random.randint(1, 30),
            services=random.choice((tuple(Service)[1:], (Service.AGREED,))),
            size_max_bytes=random.choice((100, 2_000)), at_us=at_us,
        )
        for at_us in range(300_000, working_us, step_us)
    ]  # fmt: skip


def _troubles(
    random: Random, cluster: Cluster, around: tuple[Edge, ...], working_us: int
) -> list[AnyIncident]:
    """What happens to edges and daemons in the scenario `edges`, but not so often."""
    kinds = random.sample(KINDS, random.randint(1, len(KINDS)))
    incidents: list[AnyIncident] = []
    at_us = wide(random, 500_000, 3_000_000)
    while at_us < working_us:
        incidents += random.choice(kinds)(random, cluster, around, at_us)
        at_us += wide(random, 300_000, 5_000_000)
    return incidents
