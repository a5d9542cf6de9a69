"""The scenario `upheaval`: a hundred daemons at ten sites, of which many crash, come back and are cut off."""

from random import Random

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Cut, Flood, Partition, Restart
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import Cluster, draw_cluster
from antiphon.simulator.scenarios.parts import wide

GROUPS = ("g0", "g1", "g2")
SITES = 10
CLIENTS = 25
FIRST_US = 1_500_000
PAUSE_US = (500_000, 3_000_000)
"""Between one blow and the next: some come before the view without the last victims is there."""


def upheaval(random: Random, seed: int) -> Plan:
    """Two blows, one after the other: a few daemons crash, or all of a site, or sites are cut off, or single
    pairs of daemons. All that crash come back."""
    ring = [(site, (site + 1) % SITES) for site in range(SITES)]
    cluster = draw_cluster(random, SITES**2, SITES, latencies_us=(2_000, 20_000), pairs=ring, even=True)
    incidents: list[AnyIncident] = []
    at_us = FIRST_US
    for kind in random.sample(("crash", "site", "split", "cut"), 2):
        incidents += _blow(random, cluster, kind, at_us)
        incidents.append(
            Flood(
                daemon=random.choice(cluster.names),
                groups=GROUPS,
                bundles=3,
                services=(Service.RELIABLE, Service.AGREED, Service.SAFE),
                at_us=max(0, at_us - random.randrange(50_000)),
            )
        )
        at_us += wide(random, *PAUSE_US)
    clients = tuple(
        ClientPlan(f"c{name}", name, _habits(random)) for name in random.sample(cluster.names, CLIENTS)
    )
    return Plan(
        "upheaval",
        seed,
        cluster.sites,
        cluster.routes,
        clients,
        at_us + 2_000_000,
        Settings(delta_ms=100.0, membership="lan"),
        incidents=tuple(incidents),
    )


def _blow(random: Random, cluster: Cluster, kind: str, at_us: int) -> list[AnyIncident]:
    span_us = wide(random, 200_000, 4_000_000)
    if kind == "split":
        far = random.sample(cluster.sites, random.randint(1, SITES // 2))
        part = tuple(daemon.name for site in far for daemon in site.daemons)
        return [Partition(parts=(part,), at_us=at_us, for_us=span_us)]
    if kind == "cut":
        pairs = random.sample(cluster.pairs(), 20)
        return [Cut(daemons=pair, at_us=at_us, for_us=span_us) for pair in pairs]
    if kind == "site":
        victims = [daemon.name for daemon in random.choice(cluster.sites).daemons]
    else:
        victims = random.sample(cluster.names, random.randint(3, 12))
    incidents: list[AnyIncident] = []
    for victim in victims:
        gone_us = at_us + random.randrange(100_000)
        back_us = gone_us + wide(random, 10_000, 4_000_000)
        incidents += [Crash(daemon=victim, at_us=gone_us), Restart(daemon=victim, at_us=back_us)]
    return incidents


def _habits(random: Random) -> Habits:
    return Habits(
        interval_us=3_000_000,
        groups=GROUPS,
        joins=random.randint(1, 2),
        services=(Service.FIFO, Service.AGREED, Service.SAFE),
        size_max_bytes=300,
        starts_us=random.randrange(400_000),
    )
