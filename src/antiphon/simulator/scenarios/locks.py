"""Locks and quorum: members wish a least size of their group, and ask for locks, while all kinds of faults
happen.

Everything else is taken from other scenarios: what they do to daemons and paths is what locks and quorum must
survive.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios import focused, merge, promises, sites, swarm
from antiphon.types import ALL, MAJORITY

TROUBLES = (
    focused.partition,
    focused.partition,
    focused.crash,
    focused.restart,
    focused.cascade,
    focused.oneway,
    merge.merge,
    promises.promises,
    promises.promises,
    promises.promises,
    swarm.swarm,
    sites.sites,
)
LOCKS = ("a", "b")
MINIMA = (0, 0, MAJORITY, MAJORITY, ALL, 1, 2, 3, 5)
STEADFAST = 0.6
"""The share of clients that stay in their groups."""


def locks(random: Random, seed: int) -> Plan:
    """The daemons and faults of another scenario; most clients stay in all of their groups, all of them use
    locks, and in most runs some of them wish a quorum."""
    plan = random.choice(TROUBLES)(random, seed)
    minima = random.sample(MINIMA, 3)
    groups = tuple(sorted({group for client in plan.clients for group in client.habits.groups}))[:3]
    clients = tuple(_with_locks(random, client, groups, minima) for client in plan.clients)
    return structs.replace(plan, scenario="locks", clients=clients)


def _with_locks(random: Random, client: ClientPlan, groups: tuple[str, ...], minima: list[int]) -> ClientPlan:
    habits = structs.replace(
        client.habits,
        groups=groups,
        minimum=random.choice(minima),
        locks=LOCKS,
        locking=random.choice((0.2, 0.5, 0.8)),
        interval_us=max(1_000, client.habits.interval_us // 2),
    )
    if random.random() < STEADFAST:
        habits = structs.replace(habits, joins=len(groups), churn=0.0, quits=0.0, views=True)
    return structs.replace(client, habits=habits)
