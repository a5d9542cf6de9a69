"""Decisions that are cut in two: a group loses members, and while it is decided whether the others are
enough, these fall apart as well.

The safe event that decides it is then delivered after the signal by those who have it, and never by the
others, who find themselves with the members that were lost before. If both sides took it for decided, or both
for undecided, two parts of the group could go on.
"""

from random import Random

from antiphon.config import Settings
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import Partition, Trigger
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.parts import coalesce_of, daemons_of, lonely_sites, mesh, wide
from antiphon.types import MAJORITY

GROUPS = ("g0", "g1")
LOCKS = ("a",)
LATENCIES_US = (2_000, 15_000)
PARTED_US = 1_500_000
LOST_US = (1_500_000, 4_000_000)
WORKING_US = 8_000_000
MINIMA = (MAJORITY, MAJORITY, 1, 2, 0)


def decisions(random: Random, seed: int) -> Plan:
    """Five or seven sites, each 2 to 15 ms from the others. A minority is cut off. Soon after one of the
    others has the groups of the view without it, most of these are cut off from the rest, which meets those
    who were lost before."""
    daemons = daemons_of(random, random.choice((5, 5, 7)))
    names = [daemon.name for daemon in daemons]
    few = len(names) // 2
    lost = set(random.sample(names, few))
    others = [name for name in names if name not in lost]
    ahead = set(random.sample(others, len(others) // 2 + 1))
    for_us = random.randint(*LOST_US)
    first = Partition(parts=_sides(names, lost), at_us=PARTED_US, for_us=for_us)
    second = Partition(parts=_sides(names, ahead), at_us=PARTED_US, for_us=for_us)
    return Plan(
        "decisions",
        seed,
        lonely_sites(daemons),
        mesh(random, len(names), LATENCIES_US),
        tuple(
            ClientPlan(
                f"c{name}",
                name,
                Habits(
                    200_000, GROUPS, len(GROUPS), churn=0.0, starts_us=0, minimum=random.choice(MINIMA),
                    locks=LOCKS, locking=0.3,
                ),
            )
            for name in names
        ),
        WORKING_US,
        Settings(delta_ms=wide(random, 2_000, 50_000) / 1_000, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=(first,),
        triggers=(
            Trigger("gop", second, wide(random, 1, LATENCIES_US[1]) - 1, daemon=random.choice(sorted(ahead))),
        ),
    )  # fmt: skip


def _sides(names: list[str], far: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(name for name in names if name not in far), tuple(sorted(far))
