"""Receivers that do not keep up, by either policy, beside senders of every priority."""

from random import Random

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Restart
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import (
    busy,
    coalesce_of,
    daemons_of,
    lonely_sites,
    pairs_of,
    routes_of,
    wide,
)
from antiphon.types import SLOW_POLICIES

SOFT_BYTES = 65_536
"""The least that can be configured."""
WORKING_US = 1_500_000
SERVICES = (
    (Service.UNRELIABLE, Service.UNRELIABLE, Service.FIFO),
    (Service.UNRELIABLE, Service.AGREED),
    tuple(Service),
)


def slow(random: Random, seed: int) -> Plan:
    """Two to four sites send more than some members of the groups read. These go without unreliable messages,
    or those who send to them wait; some are cut off. Others have a group of their own and are to notice
    nothing. In every third run the cluster falls apart meanwhile."""
    sites = random.randint(2, 4)
    pairs = pairs_of(random, sites)
    latencies_us = [wide(random, 200, 20_000) for _ in pairs]
    services = random.choice(SERVICES)
    clients = []
    for number in range(sites * 2):
        reads_slowly = number % 3 == 0
        habits = Habits(
            interval_us=random.randint(5_000, 20_000),
            groups=("all", "some"),
            joins=2 if reads_slowly else random.randint(1, 2),
            services=services,
            size_max_bytes=8_000,
            batch_max=4,
            churn=0.02,
            quits=0.0 if reads_slowly else 0.01,
            answers=0.3,
            read_bytes_per_s=random.choice((20_000, 100_000, 300_000)) if reads_slowly else 0,
            slow=random.choice(("", *SLOW_POLICIES, "drop-unreliable")),
            priority=random.choice((0, 0, 5, 9)),
        )
        clients.append(ClientPlan(f"c{number}", f"d{number % sites}", habits))
    settings = Settings(
        unstable_bytes=random.choice((65_536, 300_000)),
        output_soft_bytes=SOFT_BYTES,
        output_hard_bytes=random.choice((SOFT_BYTES + 1, 4 * SOFT_BYTES, 10_000_000)),
        slow_policy=random.choice(SLOW_POLICIES),
        slow_patience_ms=random.choice((50.0, 500.0, 3_000.0)),
        membership="lan",
    )
    return Plan(
        "slow",
        seed,
        lonely_sites(busy(random, daemons_of(random, sites))),
        routes_of(random, pairs, latencies_us, random.choice((0.0, 0.0, 0.02))),
        (*clients, *_uninvolved(Random(f"uninvolved {seed}"), sites)),
        WORKING_US,
        settings,
        coalesce=coalesce_of(random),
        incidents=_troubles(random, sites) if seed % 3 == 0 else (),
    )


def _uninvolved(random: Random, sites: int) -> list[ClientPlan]:
    """Clients that share no group with a slow reader; their chance is their own, so that adding them has
    changed nothing else in a run."""
    habits = Habits(
        interval_us=random.randint(20_000, 60_000),
        groups=("calm",),
        services=(Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE),
        size_max_bytes=500,
        batch_max=2,
        several_groups=0.0,
        private=0.0,
    )
    return [ClientPlan(f"u{number}", f"d{number}", habits) for number in range(sites)]


def _troubles(random: Random, sites: int) -> tuple[AnyIncident, ...]:
    """A daemon is cut off for a while, or crashes and comes back."""
    names = [f"d{number}" for number in range(sites)]
    chosen = random.choice(names)
    at_us = random.randrange(WORKING_US // 4, WORKING_US)
    if random.random() < 0.5:
        others = tuple(name for name in names if name != chosen)
        return (Partition(parts=((chosen,), others), at_us=at_us, for_us=wide(random, 500_000, 3_000_000)),)
    return (Crash(daemon=chosen, at_us=at_us), Restart(daemon=chosen, at_us=at_us + 1_500_000))
