"""Members that chose how to receive: some want less order than senders ask for, amid all kinds of faults.

Everything else is taken from other scenarios: members with different choices share the groups of these.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import ClientPlan, Plan
from antiphon.simulator.scenarios import focused, merge, promises, sites, steady, swarm

TROUBLES = (
    focused.partition,
    focused.crash,
    focused.restart,
    focused.cascade,
    focused.oneway,
    merge.merge,
    promises.promises,
    steady.mixed,
    steady.pruned,
    swarm.swarm,
    sites.sites,
)
CHOICES = ("", "", "agreed", "fifo", "arrival")
SAME = 0.5
"""The share of clients that choose the same for all of their groups."""
ADAPTIVE = 0.4
"""The share of runs with the adaptive order."""


def choices(random: Random, seed: int) -> Plan:
    """The daemons and faults of another scenario; each client chooses with every join."""
    plan = random.choice(TROUBLES)(random, seed)
    clients = tuple(_choosing(random, client) for client in plan.clients)
    plan = structs.replace(plan, scenario="choices", clients=clients)
    return plan.ordered("adaptive") if random.random() < ADAPTIVE else plan


def _choosing(random: Random, client: ClientPlan) -> ClientPlan:
    deliveries = (random.choice(CHOICES),) if random.random() < SAME else CHOICES
    return structs.replace(client, habits=structs.replace(client.habits, deliveries=deliveries))
