"""The scenario `keys`: a sealed cluster whose keys change, while strangers listen and send what they heard.

First the next key comes to all machines, one after the other; then it takes the place of the one before, in
another order. Meanwhile daemons are cut off, and crash and start again with the files that their machines
have then. In every third run nothing but the keys changes: no view may be lost because of that.
"""

from random import Random
from typing import Literal

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Cut, Partition, Pause, Rekey, Restart, Strangers
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide
from antiphon.simulator.steadiness import Steady

GROUPS = ("g0", "g1")
LATENCIES_US = (100, 40_000)
NEXT_US = (500_000, 8_000_000)
"""When the next key comes to machines."""
SWITCH_US = (8_500_000, 15_000_000)
WORKING_US = 18_000_000
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


def keys(random: Random, seed: int) -> Plan:
    """Two to six daemons in one to four sites; in every second run some of these have the token-site
    protocol."""
    daemons = random.randint(2, 6)
    is_calm = seed % 3 == 0
    cluster = draw_cluster(
        random,
        daemons,
        random.randint(1, min(4, daemons)),
        latencies_us=LATENCIES_US,
        severity=0.0 if is_calm else random.choice((0.0, 0.1, 0.3)),
    )
    incidents: list[AnyIncident] = [
        Strangers(at_us=0, for_us=WORKING_US, every_us=wide(random, 3_000, 60_000)),
        *_change(random, cluster.names, "next", NEXT_US),
        *_change(random, cluster.names, "switch", SWITCH_US),
    ]
    if not is_calm:
        for _ in range(random.randint(1, 6)):
            incidents += _trouble(random, cluster.names)
    plan = Plan(
        "keys",
        seed,
        cluster.sites,
        cluster.routes,
        tuple(_client(random, number, name) for number, name in enumerate(cluster.names)),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 40_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        is_sealed=True,
        steady=Steady(tuple(cluster.names), 0, 0, 0) if is_calm else None,
    )
    return plan.inside("both") if seed % 2 else plan


def _change(
    random: Random, names: list[str], step: Literal["next", "switch"], within_us: tuple[int, int]
) -> list[AnyIncident]:
    """A step at every machine, at any time, or at all of them within a moment."""
    spread_us = within_us[1] - within_us[0] if random.random() < 0.7 else wide(random, 1, 100_000)
    return [Rekey(daemon=name, step=step, at_us=within_us[0] + random.randrange(spread_us)) for name in names]


def _trouble(random: Random, names: list[str]) -> list[AnyIncident]:
    """Something that parts daemons, or ends one for a while."""
    at_us, for_us = random.randrange(WORKING_US), wide(random, 50_000, 8_000_000)
    daemon = random.choice(names)
    match random.randrange(4):
        case 0:
            return [
                Crash(daemon=daemon, at_us=at_us),
                Restart(
                    daemon=daemon,
                    at_us=at_us + for_us,
                    uptime_us=random.choice((None, wide(random, 1, 60_000_000))),
                ),
            ]
        case 1:
            return [Pause(daemon=daemon, at_us=at_us, for_us=for_us)]
        case 2 if len(names) > 2:
            one, other = random.sample(names, 2)
            return [Cut(daemons=(one, other), at_us=at_us, for_us=for_us)]
        case _:
            part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
            return [Partition(parts=(part,), at_us=at_us, for_us=for_us)]


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 50_000, 400_000),
        groups=GROUPS,
        joins=random.randint(1, 2),
        services=SERVICES,
        size_max_bytes=2_000,
    )
    habits = structs.replace(habits, large=0.05, large_bytes=60_000)
    return ClientPlan(f"c{number}", daemon, habits)
