"""The scenario `roles`: loads wander between the sites of a cluster with the adaptive order.

Each site is busy for some seconds and then rests, at other times than the others. So sources become active
and passive many times a minute, and passive ones change their sequencers, while daemons crash, are cut off
and come back.
"""

from random import Random

from antiphon.config import Settings
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Restart
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import Cluster, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide

GROUPS = ("g0", "g1", "g2")
DELAYS_US = (20_000, 80_000)
WORKING_US = 16_000_000
BUSY_US = (1_200_000, 2_500_000)
BUNDLES = 80
"""That a busy daemon sends in one go, more or less."""


def roles(random: Random, seed: int) -> Plan:
    """Two to four sites, most of them with one daemon."""
    sites = random.randint(2, 4)
    daemons = random.randint(sites, sites + 2)
    cluster = draw_cluster(random, daemons, sites, latencies_us=DELAYS_US)
    return Plan(
        "roles",
        seed,
        cluster.sites,
        cluster.routes,
        _clients(random, cluster),
        WORKING_US,
        Settings(order="adaptive", delta_ms=wide(random, 1_000, 10_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(_incidents(random, cluster)),
    )


def _clients(random: Random, cluster: Cluster) -> tuple[ClientPlan, ...]:
    """At each daemon one that is busy now and then, at some one that hardly ever says anything."""
    clients: list[ClientPlan] = []
    span_us = wide(random, *BUSY_US)
    for number, site in enumerate(cluster.sites):
        for daemon in site.daemons:
            busy = Habits(
                interval_us=span_us // BUNDLES,
                groups=GROUPS,
                joins=random.randint(1, 3),
                starts_us=number * span_us + random.randrange(span_us // 2),
                busy_us=span_us,
                idle_us=span_us * random.randint(1, len(cluster.sites)),
                batch_max=2,
                size_max_bytes=300,
            )
            clients.append(ClientPlan(f"b{len(clients)}", daemon.name, busy))
            if random.random() < 0.5:
                rare = Habits(interval_us=700_000, groups=GROUPS, joins=2, churn=0.2, quits=0.05)
                clients.append(ClientPlan(f"r{len(clients)}", daemon.name, rare))
    return tuple(clients)


def _incidents(random: Random, cluster: Cluster) -> list[AnyIncident]:
    """Sites are cut off, daemons crash; time passes between, so that roles are not those of a new view."""
    incidents: list[AnyIncident] = []
    at_us = wide(random, 4_000_000, 7_000_000)
    while at_us < WORKING_US - 3_000_000:
        for_us = wide(random, 500_000, 3_000_000)
        if random.random() < 0.5:
            victim = random.choice(cluster.names)
            incidents.append(Crash(daemon=victim, at_us=at_us))
            incidents.append(Restart(daemon=victim, at_us=at_us + for_us))
        else:
            far = random.randrange(len(cluster.sites))
            parts: tuple[list[str], list[str]] = ([], [])
            for number, site in enumerate(cluster.sites):
                parts[number == far].extend(daemon.name for daemon in site.daemons)
            incidents.append(Partition(parts=tuple(map(tuple, parts)), at_us=at_us, for_us=for_us))
        at_us += for_us + wide(random, 3_000_000, 6_000_000)
    return incidents
