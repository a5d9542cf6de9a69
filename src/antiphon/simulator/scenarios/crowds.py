"""The scenario `crowds`: hundreds of sessions join, leave and hang up at the same moment, also while daemons
are lost and found.

What one session does is one ordered message. What hundreds do at once is a burst of them in the middle of a
view that is about to end, and members whose join, leave or end some daemons have seen and others have not.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Crowd, Exodus, Partition, Restart, Trigger
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import busy, coalesce_of, daemons_of, lonely_sites, mesh, wide

LATENCIES_US = (200, 8_000)
FIRST_US = 1_000_000
WORKING_US = 8_000_000
SESSIONS = 900
"""The most sessions that come in one run."""
SHAPES = ((1, 120), (4, 300), (12, SESSIONS), (40, SESSIONS))
"""How many groups there are, and how many sessions: a join is told to all members of its group."""
STATES = ("seg", "gather", "statetrans", "evs", "op", "ggather", "gop")


def crowds(random: Random, seed: int) -> Plan:
    """Two to five sites. Crowds come to some of the daemons, two or three times; each time a daemon crashes
    or is cut off shortly before or after, or when the membership is in the middle of something."""
    daemons = busy(random, daemons_of(random, random.randint(2, 5)))
    names = [daemon.name for daemon in daemons]
    group_count, sessions = random.choice(SHAPES)
    groups = tuple(f"g{number}" for number in range(group_count))
    incidents: list[AnyIncident] = []
    triggers: list[Trigger] = []
    rounds = random.randint(2, 3)
    at_us = FIRST_US
    for _ in range(rounds):
        homes = random.sample(names, random.randint(1, len(names)))
        is_together = random.random() < 0.5
        for_us = wide(random, 50_000, 2_000_000)
        for home in homes:
            own_us = for_us if is_together else wide(random, 50_000, 2_000_000)
            incidents.append(_crowd(random, home, groups, sessions // rounds // len(homes), at_us, own_us))
        # Shortly before they come or go, or after.
        near_us = at_us + random.choice((0, for_us)) + random.randint(-50_000, 50_000)
        incidents += _fault(random, names, near_us)
        if random.random() < 0.5:
            state, after_us = random.choice(STATES), wide(random, 1, 50_000)
            daemon = random.choice(names)
            kind = Exodus(daemon=daemon, at_us=at_us)
            triggers.append(Trigger(state, kind, after_us, time=random.randint(1, 2 * len(names))))
            newcomers = _crowd(random, daemon, groups, sessions // 10, at_us, for_us)
            triggers.append(Trigger(state, newcomers, after_us, time=random.randint(1, 2 * len(names))))
        at_us += for_us + wide(random, 100_000, 2_000_000)
    return Plan(
        "crowds",
        seed,
        lonely_sites(daemons),
        mesh(random, len(names), LATENCIES_US),
        tuple(_client(random, f"c{name}", name, groups) for name in names),
        max(WORKING_US, at_us + 1_000_000),
        structs.replace(Settings(delta_ms=wide(random, 2_000, 30_000) / 1_000), membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=tuple(triggers),
    )


def _crowd(
    random: Random, daemon: str, groups: tuple[str, ...], count: int, at_us: int, for_us: int
) -> Crowd:
    return Crowd(
        daemon=daemon,
        groups=groups,
        count=count,
        leaves=random.random() < 0.3,
        graceful=random.random() < 0.5,
        views=random.random() < 0.8,
        at_us=at_us,
        for_us=for_us,
    )


def _fault(random: Random, names: list[str], at_us: int) -> list[AnyIncident]:
    daemon = random.choice(names)
    span_us = wide(random, 10_000, 2_000_000)
    if random.random() < 0.5:
        return [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=at_us + span_us)]
    part = tuple(random.sample(names, random.randint(1, len(names) - 1)))
    return [Partition(parts=(part,), at_us=at_us, for_us=span_us)]


def _client(random: Random, name: str, daemon: str, groups: tuple[str, ...]) -> ClientPlan:
    """One who stays and talks to the crowds."""
    habits = Habits(
        interval_us=wide(random, 50_000, 400_000),
        groups=groups,
        joins=min(3, len(groups)),
        services=tuple(Service)[1:],
        size_max_bytes=300,
        several_groups=0.3,
        starts_us=random.randrange(FIRST_US // 2),
    )
    return ClientPlan(name, daemon, habits)
