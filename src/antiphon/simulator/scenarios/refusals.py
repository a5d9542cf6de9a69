"""The scenario `refusals`: calls to groups that keep a quorum, while partitions and merges happen.

A part without quorum refuses calls, and what its members have to answer waits until it is whole again. So
callers are on both sides: some call in vain, some repeat in vain what was delivered before, and some give up.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios import decisions, focused, merge, promises, swarm
from antiphon.simulator.scenarios.calls import GROUPS_MAX, with_calls
from antiphon.types import ALL, MAJORITY

TROUBLES = (
    decisions.decisions,
    decisions.decisions,
    focused.partition,
    focused.partition,
    focused.cascade,
    focused.oneway,
    merge.merge,
    merge.merge,
    promises.promises,
    swarm.swarm,
    swarm.swarm,
)
MINIMA = (MAJORITY, MAJORITY, MAJORITY, ALL, 2, 3, 0)
PATIENCE_US = (0, 200_000, 1_000_000, 4_000_000)
STEADFAST = 0.6
"""The share of clients that stay in their groups."""


def refusals(random: Random, seed: int) -> Plan:
    """The daemons and faults of another scenario; clients call and serve, and some wish a quorum."""
    plan = random.choice(TROUBLES)(random, seed)
    minima = random.sample(MINIMA, 3)
    groups = tuple(sorted({group for client in plan.clients for group in client.habits.groups}))[:GROUPS_MAX]
    clients = tuple(_wishing(with_calls(client, random, groups), random, minima) for client in plan.clients)
    return structs.replace(plan, scenario="refusals", clients=clients)


def _wishing(client: ClientPlan, random: Random, minima: list[int]) -> ClientPlan:
    habits = structs.replace(
        client.habits, minimum=random.choice(minima), patience_us=random.choice(PATIENCE_US)
    )
    if random.random() < STEADFAST:
        habits = structs.replace(habits, joins=len(habits.groups), churn=0.0, quits=0.0)
    return structs.replace(client, habits=habits)
