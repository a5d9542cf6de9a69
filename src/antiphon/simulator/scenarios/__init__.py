"""Named kinds of runs: each turns a seed into a plan."""

from collections.abc import Callable
from random import Random

from msgspec import structs

from antiphon.errors import UsageError
from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import (
    apart,
    calls,
    casts,
    choices,
    clocks,
    crowds,
    decisions,
    edges,
    far,
    focused,
    heavy,
    holes,
    inflight,
    keys,
    lasting,
    locks,
    merge,
    narrow,
    nonsense,
    poisoned,
    promises,
    refusals,
    resilient,
    restless,
    rim,
    roles,
    sites,
    slices,
    slow,
    steady,
    stops,
    streams,
    swarm,
    tokens,
    twins,
    uneven,
    upheaval,
    users,
)
from antiphon.simulator.scenarios.weather import weathered

SCENARIOS: dict[str, Callable[[Random, int], Plan]] = {
    "mixed": steady.mixed,
    "chain": steady.chain,
    "flood": steady.flood,
    "large": steady.large,
    "pruned": steady.pruned,
    "swarm": swarm.swarm,
    "sites": sites.sites,
    "partition": focused.partition,
    "crash": focused.crash,
    "restart": focused.restart,
    "cascade": focused.cascade,
    "oneway": focused.oneway,
    "flap": focused.flap,
    "lasting": lasting.lasting,
    "merge": merge.merge,
    "promises": promises.promises,
    "apart": apart.apart,
    "slices": slices.slices,
    "hundred": focused.hundred,
    "inflight": inflight.inflight,
    "slow": slow.slow,
    "streams": streams.streams,
    "poisoned": poisoned.poisoned,
    "stops": stops.stops,
    "heavy": heavy.heavy,
    "crowds": crowds.crowds,
    "twins": twins.twins,
    "uneven": uneven.uneven,
    "upheaval": upheaval.upheaval,
    "holes": holes.holes,
    "far": far.far,
    "narrow": narrow.narrow,
    "clocks": clocks.clocks,
    "roles": roles.roles,
    "restless": restless.restless,
    "locks": locks.locks,
    "resilient": resilient.resilient,
    "tokens": tokens.tokens,
    "calls": calls.calls,
    "refusals": refusals.refusals,
    "decisions": decisions.decisions,
    "choices": choices.choices,
    "edges": edges.edges,
    "rim": rim.rim,
    "casts": casts.casts,
    "keys": keys.keys,
    "nonsense": nonsense.nonsense,
    "users": users.users,
}


HEIRS = 0.2
"""The share of plans in which any client may take a used name."""
INHERITS = (0.0, 0.5, 0.9)
"""How often a client of such a plan takes the name of a session before it."""
NAMES_LABEL = "names 931867"
"""What the generator for this is made from: chosen so that the seeds which tests name, because they show
planted bugs (`shown_by`, `mutant_seeds.json`), are as they were without it."""


def plan_of(scenario: str, seed: int) -> Plan:
    """What the seed decides in this scenario."""
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}; known: {', '.join(SCENARIOS)}")
    plan = stops.with_stops(SCENARIOS[scenario](Random(f"plan of {scenario} {seed}"), seed))
    return weathered(_with_heirs(plan, Random(f"{NAMES_LABEL} of {scenario} {seed}")))


def _with_heirs(plan: Plan, random: Random) -> Plan:
    """The same plan; in some, there are clients that take names of sessions that ended before theirs began.
    It has a generator of its own, so that nothing else in a plan depends on it."""
    if random.random() >= HEIRS:
        return plan
    clients = []
    for client in plan.clients:
        inherits = random.choice(INHERITS)
        if inherits and client.habits.churn + client.habits.quits:
            client = structs.replace(client, habits=structs.replace(client.habits, inherits=inherits))
        clients.append(client)
    return structs.replace(plan, clients=tuple(clients))
