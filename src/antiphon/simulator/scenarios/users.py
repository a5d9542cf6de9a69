"""Clients whose daemons have an access list: some may neither join nor send to some of their groups.

They try all the same, amid all kinds of faults: everything else is taken from other scenarios.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios import focused, locks, merge, promises, sites, steady, swarm

TROUBLES = (
    focused.partition,
    focused.crash,
    focused.restart,
    focused.cascade,
    locks.locks,
    merge.merge,
    promises.promises,
    steady.mixed,
    steady.pruned,
    swarm.swarm,
    sites.sites,
)
FREE = 0.3
"""The share of clients that may do everything."""
SEVERAL = 0.5
"""The least probability of a message to several groups, one of which may be forbidden."""
ADAPTIVE = 0.4
"""The share of runs with the adaptive order."""


def users(random: Random, seed: int) -> Plan:
    """The daemons and faults of another scenario; each client may do less than it wants."""
    plan = random.choice(TROUBLES)(random, seed)
    clients = tuple(_restricted(random, client) for client in plan.clients)
    plan = structs.replace(plan, scenario="users", clients=clients)
    return plan.ordered("adaptive") if random.random() < ADAPTIVE else plan


def _restricted(random: Random, client: ClientPlan) -> ClientPlan:
    habits = client.habits
    if random.random() < FREE:
        return client
    count = random.randint(1, max(1, len(habits.groups) - 1))
    forbidden = tuple(sorted(random.sample(habits.groups, count)))
    several = max(habits.several_groups, SEVERAL)
    return structs.replace(
        client, habits=structs.replace(habits, forbidden=forbidden, several_groups=several)
    )
