"""The scenario `restless`: plans of other scenarios, with the adaptive order and roles that always change.

Sources become active and passive, and change their sequencers, every few milliseconds and for no reason, so
that crashes, cuts and merges meet changes of roles at every point.
"""

from collections.abc import Callable
from random import Random

from msgspec import structs

from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import focused, merge, sites, steady, swarm

PLANS: dict[str, Callable[[Random, int], Plan]] = {
    "swarm": swarm.swarm,
    "sites": sites.sites,
    "merge": merge.merge,
    "partition": focused.partition,
    "cascade": focused.cascade,
    "oneway": focused.oneway,
    "pruned": steady.pruned,
}


def restless(random: Random, seed: int) -> Plan:
    """The plan that the seed has in one of the other scenarios; in half of them a third of all messages is
    causal."""
    name = "merge" if random.random() < 0.5 else random.choice(sorted(PLANS))
    plan = PLANS[name](Random(f"plan of {name} {seed}"), seed).ordered("adaptive")
    if random.random() < 0.5:
        plan = plan.causal()
    return structs.replace(plan, scenario="restless", has_restless_roles=True)
