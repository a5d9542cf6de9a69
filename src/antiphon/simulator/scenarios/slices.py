"""Work that is cut into slices: daemons that take their time are met by faults before they are done.

Every daemon does little before it looks for events again, and looks for them seldom. With a dozen groups the
end of a view and a merge take tens of milliseconds then. In the middle of that daemons crash and are cut off
once more, clients hang up all together, and others come.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Exodus, Partition, Restart, Trigger, Visit
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import coalesce_of, daemons_of, lonely_sites, mesh, wide

GROUPS = tuple(f"g{number}" for number in range(12))
LATENCIES_US = (500, 8_000)
GATHERS_US = (1_000, 8_000)
FIRST_US = 1_200_000
PARTED_US = (700_000, 1_500_000)
TOGETHER_US = 1_500_000
AFTER_MAX_US = 60_000
"""How long after a daemon has entered a state the next fault comes: the work there may last as long."""
LOST_US = (700_000, 2_000_000)


def slices(random: Random, seed: int) -> Plan:
    """Three to five sites fall into two parts and come together twice. When a daemon has a new view, or
    begins to put groups together, and is not done with it, the next thing happens."""
    daemons = [
        structs.replace(daemon, gathers_us=wide(random, *GATHERS_US))
        for daemon in daemons_of(random, random.randint(3, 5))
    ]
    names = [daemon.name for daemon in daemons]
    incidents: list[AnyIncident] = []
    triggers: list[Trigger] = []
    at_us = FIRST_US
    for _ in range(2):
        far = set(random.sample(names, random.randint(1, len(names) - 1)))
        parts = (tuple(name for name in names if name not in far), tuple(sorted(far)))
        for_us = wide(random, *PARTED_US)
        incidents.append(Partition(parts=parts, at_us=at_us, for_us=for_us))
        incidents.append(Exodus(daemon=random.choice(names), at_us=at_us + random.randrange(for_us)))
        triggers += _meanwhile(random, names, at_us, "op")
        triggers += _meanwhile(random, names, at_us + for_us, "ggather")
        at_us += for_us + TOGETHER_US
    return Plan(
        "slices",
        seed,
        lonely_sites(daemons),
        mesh(random, len(names), LATENCIES_US),
        tuple(
            ClientPlan(f"c{name}{number}", name, _habits(random))
            for name in names
            for number in range(random.randint(1, 4))
        ),
        at_us,
        Settings(delta_ms=wide(random, 2_000, 20_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=tuple(triggers),
    )


def _meanwhile(random: Random, names: list[str], at_us: int, state: str) -> list[Trigger]:
    """What happens when some daemon enters a state after this time."""
    victim = random.choice(names)
    after_us = wide(random, 1, AFTER_MAX_US)
    lost_us = random.randint(*LOST_US)
    happens: list[tuple[AnyIncident, int]]
    match random.randrange(4):
        case 0:
            back = Restart(daemon=victim, at_us=at_us)
            happens = [(Crash(daemon=victim, at_us=at_us), after_us), (back, after_us + lost_us)]
        case 1:
            others = tuple(name for name in names if name != victim)
            cut = Partition(parts=((victim,), others), at_us=at_us, for_us=lost_us)
            happens = [(cut, after_us)]
        case 2:
            happens = [(Exodus(daemon=victim, at_us=at_us), after_us)]
        case _:
            visit = Visit(
                daemon=victim, group=random.choice(GROUPS), service=random.choice(EVERY_SERVICE),
                graceful=random.random() < 0.5, at_us=at_us, for_us=wide(random, 1_000, 500_000),
            )  # fmt: skip
            happens = [(visit, after_us)]
    return [Trigger(state, incident, wait_us) for incident, wait_us in happens]


def _habits(random: Random) -> Habits:
    return Habits(
        interval_us=wide(random, 20_000, 200_000),
        groups=GROUPS,
        joins=random.randint(1, len(GROUPS)),
        services=random.choice((EVERY_SERVICE, (Service.AGREED, Service.SAFE))),
        size_max_bytes=200,
        churn=0.1,
        quits=0.02,
        views=random.random() < 0.8,
        starts_us=0,
    )
