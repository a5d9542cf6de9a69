"""Packets that no daemon has sent, and which bring the order or the agreement on a view to a standstill."""

from random import Random

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Partition, Trigger, Usurp
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.clusters import draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide

GROUPS = ("g0", "g1")
NEAR_US = (100, 5_000)
WORKING_US = 30_000_000
"""Long enough to notice a standstill, to end it, and to take in again who was left out because of it."""
EVERY_US = 300_000
FORMING = ("statetrans", "evs")
SERVICES = (Service.FIFO, Service.AGREED, Service.AGREED, Service.SAFE)


def poisoned(random: Random, seed: int) -> Plan:
    """Two to six daemons with a steady murmur of messages. A packet takes the place of a genuine one, once or
    in every view for a while; in every third run while a view is being formed."""
    daemons = random.randint(2, 6)
    cluster = draw_cluster(random, daemons, random.randint(1, min(4, daemons)), latencies_us=NEAR_US)
    pairs = cluster.pairs()
    incidents: list[AnyIncident] = []
    triggers: list[Trigger] = []
    if seed % 3 == 2:
        chosen = random.choice(cluster.names)
        parts = ((chosen,), tuple(name for name in cluster.names if name != chosen))
        for_us = wide(random, 1_000_000, 3_000_000)
        incidents.append(Partition(parts=parts, at_us=1_000_000, for_us=for_us))
        for time in range(1, 1 + random.randint(1, 3)):
            usurp = _usurp(random, pairs, at_us=1_000_000)
            triggers.append(Trigger(random.choice(FORMING), usurp, wide(random, 1, 5_000), time=time))
    else:
        for _ in range(random.randint(1, 3)):
            incidents.append(_usurp(random, pairs, at_us=wide(random, 1_000_000, 6_000_000)))
    if seed % 6 == 1:  # in each view anew, until its source is left out
        usurp = _usurp(random, pairs, at_us=1_000_000, times=20_000_000 // EVERY_US)
        incidents = [usurp]
    return Plan(
        "poisoned",
        seed,
        cluster.sites,
        cluster.routes,
        tuple(_client(random, number, name) for number, name in enumerate(cluster.names)),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 50_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=tuple(triggers),
    )


def _usurp(random: Random, pairs: list[tuple[str, str]], at_us: int, times: int = 1) -> Usurp:
    sender, receiver = random.sample(random.choice(pairs), 2)
    return Usurp(sender=sender, receiver=receiver, at_us=at_us, every_us=EVERY_US, times=times)


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 100_000, 600_000),
        groups=GROUPS,
        joins=random.randint(1, 2),
        services=SERVICES,
        size_max_bytes=300,
    )
    return ClientPlan(f"c{number}", daemon, habits)
