"""The scenario `calls`: the faults of `swarm`, and clients that call groups and answer.

Most clients serve the groups that they join; sessions end often, and what follows one is the same caller, so
that calls are repeated.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.habits import Habits
from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios.swarm import swarm

SERVES = 0.75
GROUPS_MAX = 2


def calls(random: Random, seed: int) -> Plan:
    """What the seed decides."""
    plan = swarm(random, seed)
    groups = tuple(sorted({group for client in plan.clients for group in client.habits.groups}))[:GROUPS_MAX]
    clients = (with_calls(client, random, groups) for client in plan.clients)
    return structs.replace(plan, scenario="calls", clients=tuple(clients))


def with_calls(client: ClientPlan, random: Random, groups: tuple[str, ...]) -> ClientPlan:
    """The same client, calling these groups and, by chance, serving them."""
    old = client.habits
    habits = Habits(
        interval_us=min(old.interval_us, 100_000),
        groups=groups,
        joins=random.randint(0, len(groups)),
        services=old.services,
        size_max_bytes=min(old.size_max_bytes, 1_000),
        churn=old.churn / 2,
        quits=random.choice((0.0, 0.02, 0.1)),
        keeps_name=random.random() < 0.3,
        calls=random.choice((0.3, 0.6, 0.9)),
        serves=random.random() < SERVES,
    )
    return structs.replace(client, habits=habits)
