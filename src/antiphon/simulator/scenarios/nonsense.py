"""The scenario `nonsense`: a daemon of a sealed cluster sends others what no daemon makes, under its seal.

In every third run it sends too little for anything to follow: then no view may be lost. In the others it
sends enough to be left out, to one daemon or to several, for a moment or for so long that it is left out
again and again, while there are losses, crashes and partitions.
"""

from random import Random

from antiphon import limits
from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Babble, Crash, Partition, Restart
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide
from antiphon.simulator.steadiness import Steady

GROUPS = ("g0", "g1")
LATENCIES_US = (100, 20_000)
WORKING_US = 30_000_000
BEGINS_US = (500_000, 3_000_000)
EVERY_US = (2_000, 60_000)
TIMES_MAX = 8 * limits.NONSENSE_MAX
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.AGREED, Service.SAFE)


def nonsense(random: Random, seed: int) -> Plan:
    """Two to six daemons in one to four sites; in every second run some of these have the token-site
    protocol."""
    daemons = random.randint(2, 6)
    is_little = seed % 3 == 0
    cluster = draw_cluster(
        random,
        daemons,
        random.randint(1, min(4, daemons)),
        latencies_us=LATENCIES_US,
        severity=0.0 if is_little else random.choice((0.0, 0.1, 0.3)),
    )
    sender = random.choice(cluster.names)
    near = [one if other == sender else other for one, other in cluster.pairs() if sender in (one, other)]
    chosen = random.sample(near, random.randint(1, len(near)))
    incidents: list[AnyIncident] = [_babble(random, sender, name, is_little) for name in chosen]
    if not is_little and random.random() < 0.5:
        incidents += _trouble(random, cluster.names)
    plan = Plan(
        "nonsense",
        seed,
        cluster.sites,
        cluster.routes,
        tuple(_client(random, number, name) for number, name in enumerate(cluster.names)),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 40_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        is_sealed=True,
        steady=Steady(tuple(cluster.names), 0, 0, 0) if is_little else None,
    )
    return plan.inside("both") if seed % 2 else plan


def _babble(random: Random, sender: str, receiver: str, is_little: bool) -> Babble:
    """One packet less than it takes, or up to several times as many."""
    times = limits.NONSENSE_MAX - 1 if is_little else wide(random, limits.NONSENSE_MAX, TIMES_MAX)
    every_us = wide(random, *EVERY_US)
    if not is_little:
        every_us = min(every_us, (WORKING_US - BEGINS_US[1]) // (2 * times))  # it ends in time
    return Babble(
        sender=sender, receiver=receiver, at_us=wide(random, *BEGINS_US), every_us=every_us, times=times
    )


def _trouble(random: Random, names: list[str]) -> list[AnyIncident]:
    """Something that ends a daemon for a while, or parts daemons."""
    at_us, for_us = random.randrange(WORKING_US // 2), wide(random, 50_000, 5_000_000)
    if random.random() < 0.5:
        daemon = random.choice(names)
        return [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=at_us + for_us)]
    part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
    return [Partition(parts=(part,), at_us=at_us, for_us=for_us)]


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 100_000, 500_000),
        groups=GROUPS,
        joins=random.randint(1, 2),
        services=SERVICES,
        size_max_bytes=500,
    )
    return ClientPlan(f"c{number}", daemon, habits)
