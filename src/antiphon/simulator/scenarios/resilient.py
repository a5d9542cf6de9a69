"""The scenario `resilient`: plans of other scenarios, in which a third of all agreed messages is resilient.

Half of them have the adaptive order, and in half of these sources change their roles all the time.
"""

from collections.abc import Callable
from random import Random

from msgspec import structs

from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import focused, merge, promises, sites, steady, streams, swarm

PLANS: dict[str, Callable[[Random, int], Plan]] = {
    "swarm": swarm.swarm,
    "sites": sites.sites,
    "merge": merge.merge,
    "partition": focused.partition,
    "crash": focused.crash,
    "cascade": focused.cascade,
    "streams": streams.streams,
    "promises": promises.promises,
    "pruned": steady.pruned,
}


def resilient(random: Random, seed: int) -> Plan:
    """The plan that the seed has in one of the other scenarios; in a third of them a third of all messages is
    causal."""
    name = random.choice(sorted(PLANS))
    plan = PLANS[name](Random(f"plan of {name} {seed}"), seed)
    is_adaptive, is_restless = random.random() < 0.5, random.random() < 0.5
    plan = plan.ordered("adaptive" if is_adaptive else "symmetric")
    if random.random() < 1 / 3:
        plan = plan.causal()
    return structs.replace(
        plan.resilient(), scenario="resilient", has_restless_roles=is_adaptive and is_restless
    )
