"""The scenario `holes`: paths that carry small packets and lose the large ones.

Beats, acknowledgements and tokens get through, full packets do not, or hardly: somewhere on the way the MTU
is smaller than both ends believe, and nothing tells them. Daemons on such a path hear each other and cannot
work together.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Restart, Trouble
from antiphon.simulator.network import Oversize
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide

GROUPS = ("g0", "g1")
NEAR_US = (100, 5_000)
ABOVE_BYTES = (200, 480)
"""What still gets through: less than the smallest packets that are configured, and more than a beat."""
FIRST_US = 2_000_000
LASTING_US = 45_000_000
"""Long enough for traffic to find out about each path that is bad for good."""
PASSING_US = 12_000_000
PEACE_US = 50_000_000
"""Longer than a path that was lost is kept out."""
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


def holes(random: Random, seed: int) -> Plan:
    """Two to six daemons that send more than fits a small packet. In half of the runs some paths are bad for
    good, in half of these all paths of one daemon; in the others for a while, among crashes."""
    daemons = random.randint(2, 6)
    sites = random.randint(1, min(4, daemons))
    cluster = draw_cluster(random, daemons, sites, latencies_us=NEAR_US)
    pairs = cluster.pairs()
    few = random.sample(pairs, random.randint(1, max(1, len(pairs) // 3)))
    lonely = random.choice(cluster.names)
    if seed % 4 == 1:
        few = [pair for pair in pairs if lonely in pair]
    above_bytes = random.randint(*ABOVE_BYTES)
    incidents: list[AnyIncident] = []
    damage: tuple[Trouble, ...] = ()
    if seed % 2:
        damage = tuple(
            Trouble(
                fault=Oversize(above_bytes),
                daemons=tuple(random.sample(pair, 2)),
                is_oneway=random.random() < 0.5,
            )
            for pair in few
        )
        incidents += (structs.replace(trouble, at_us=FIRST_US) for trouble in damage)
        working_us = LASTING_US
        if seed % 4 == 1:  # a new process that the others know nothing of, but for its paths
            incidents.append(Crash(daemon=lonely, at_us=working_us - 4_000_000))
            incidents.append(Restart(daemon=lonely, at_us=working_us - 3_000_000))
    else:
        working_us = PASSING_US
        for _ in range(random.randint(1, 3)):
            at_us = random.randrange(FIRST_US, working_us)
            rate = random.choice((1.0, 1.0, random.uniform(0.2, 0.95)))
            incidents += (
                Trouble(
                    fault=Oversize(above_bytes, rate),
                    daemons=tuple(random.sample(pair, 2)),
                    is_oneway=random.random() < 0.5,
                    at_us=at_us,
                    for_us=wide(random, 50_000, 8_000_000),
                )
                for pair in few
            )
        if random.random() < 0.5:
            daemon = random.choice(cluster.names)
            at_us = random.randrange(FIRST_US, working_us)
            back_us = at_us + wide(random, 10_000, 3_000_000)
            incidents += [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=back_us)]
    return Plan(
        "holes",
        seed,
        cluster.sites,
        cluster.routes,
        tuple(_client(random, number, name) for number, name in enumerate(cluster.names)),
        working_us,
        Settings(delta_ms=wide(random, 5_000, 50_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        damage=damage,
        peace_us=PEACE_US if damage else 0,
    )


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 100_000, 500_000),
        groups=GROUPS,
        joins=len(GROUPS),
        services=SERVICES,
        size_max_bytes=random.choice((2_000, 8_000)),
        private=0.0,
        churn=0.02,
        starts_us=random.randrange(1_000_000),
    )
    return ClientPlan(f"c{number}", daemon, habits)
