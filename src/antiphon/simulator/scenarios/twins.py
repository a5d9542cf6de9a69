"""The scenario `twins`: a daemon of the configuration runs twice, on two machines, by mistake.

Both processes say that they are the same daemon, all others hear both, and what these send reaches one of the
two or both. No promise holds for that daemon; the others must work as if it were gone.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Restart, Twin
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import busy, coalesce_of, daemons_of, lonely_sites, mesh, wide

GROUPS = ("g0", "g1")
LATENCIES_US = (200, 8_000)
FIRST_US = 1_500_000
WORKING_US = 20_000_000
PEACE_US = 60_000_000
"""Several times as long as a daemon that runs twice is left out after the last sign of that."""
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


def twins(random: Random, seed: int) -> Plan:
    """Three to six daemons, one a site. One of them runs twice, for seconds, and in every third run for good;
    in every other run others crash or are cut off meanwhile."""
    daemons = busy(random, daemons_of(random, random.randint(3, 6)))
    names = [daemon.name for daemon in daemons]
    twin = random.choice(names)
    others = [name for name in names if name != twin]
    is_lasting = seed % 3 == 0
    takes_over = random.random() < 0.5
    # If the others reach the same one of the two, they may as well go on with it, so what lasts is worse.
    fewest, most = (1, len(others) - takes_over) if is_lasting else (0, len(others))
    second = Twin(
        daemon=twin,
        reached_by=tuple(sorted(random.sample(others, random.randint(fewest, most)))),
        takes_over=takes_over,
    )
    for_us = random.choice((0, wide(random, 500_000, WORKING_US - FIRST_US)))
    incidents: list[AnyIncident] = [structs.replace(second, at_us=FIRST_US, for_us=for_us)]
    if seed % 2:
        for _ in range(random.randint(1, 3)):
            at_us = random.randrange(FIRST_US, WORKING_US - 4_000_000)
            span_us = wide(random, 10_000, 4_000_000)
            daemon = random.choice(others)
            if random.random() < 0.5:
                incidents.append(Crash(daemon=daemon, at_us=at_us))
                incidents.append(Restart(daemon=daemon, at_us=at_us + span_us))
            else:
                part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
                incidents.append(Partition(parts=(part,), at_us=at_us, for_us=span_us))
    return Plan(
        "twins",
        seed,
        lonely_sites(daemons),
        mesh(random, len(names), LATENCIES_US),
        tuple(_client(random, f"c{name}", name) for name in names),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 30_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        damage=(second,) if is_lasting else (),
        peace_us=PEACE_US if is_lasting else 0,
    )


def _client(random: Random, name: str, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 100_000, 500_000),
        groups=GROUPS,
        joins=random.randint(1, 2),
        services=SERVICES,
        size_max_bytes=500,
        starts_us=random.randrange(1_000_000),
    )
    return ClientPlan(name, daemon, habits)
