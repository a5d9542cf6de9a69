"""Groups that stay apart: the view in which they were to be put together ends before they are.

Two sides of a cut come together again. All daemons but one have the new view when that one is lost, and its
word on its members with it. The others go on together, all of them from the same daemon view, so that only
what they remember tells them that their groups are still those of two sides.
"""

from random import Random

from antiphon.config import Settings
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Restart, Trigger
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import coalesce_of, daemons_of, lonely_sites, mesh, wide

GROUPS = ("g0", "g1")
LATENCIES_US = (1_000, 15_000)
PARTED_US = 1_000_000
UNITED_US = 3_500_000
LOST_MIN_US = 3_000_000
"""Long enough for the others to have a view of their own."""
LOST_MAX_US = 6_000_000
WORKING_US = 10_000_000


def apart(random: Random, seed: int) -> Plan:
    """Four to six sites, each 1 to 15 ms from the others, fall into two parts and come together. As soon as
    any daemon has the view in which the groups are put together, one daemon is lost for seconds."""
    daemons = daemons_of(random, random.randint(4, 6))
    names = [daemon.name for daemon in daemons]
    far = set(random.sample(names, random.randint(2, len(names) - 2)))
    sides = (tuple(name for name in names if name not in far), tuple(sorted(far)))
    return Plan(
        "apart",
        seed,
        lonely_sites(daemons),
        mesh(random, len(names), LATENCIES_US),
        tuple(
            ClientPlan(f"c{name}", name, Habits(100_000, GROUPS, len(GROUPS), churn=0.02, starts_us=0))
            for name in names
        ),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 50_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=(Partition(parts=sides, at_us=PARTED_US, for_us=UNITED_US - PARTED_US),),
        triggers=tuple(_loss(random, names)),
    )


def _loss(random: Random, names: list[str]) -> list[Trigger]:
    lost = random.choice(names)
    after_us = wide(random, 1, LATENCIES_US[0]) - 1
    for_us = random.randint(LOST_MIN_US, LOST_MAX_US)
    happens: list[tuple[AnyIncident, int]]
    if random.random() < 0.5:
        crash, back = Crash(daemon=lost, at_us=UNITED_US), Restart(daemon=lost, at_us=UNITED_US)
        happens = [(crash, after_us), (back, after_us + for_us)]
    else:
        others = tuple(name for name in names if name != lost)
        happens = [(Partition(parts=((lost,), others), at_us=UNITED_US, for_us=for_us), after_us)]
    return [Trigger("ggather", incident, wait_us) for incident, wait_us in happens]
