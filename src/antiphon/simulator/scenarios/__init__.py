"""Named kinds of runs: each turns a seed into a plan."""

from collections.abc import Callable
from random import Random

from antiphon.errors import UsageError
from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import (
    apart,
    crowds,
    focused,
    heavy,
    holes,
    inflight,
    merge,
    poisoned,
    promises,
    sites,
    slices,
    slow,
    steady,
    streams,
    swarm,
    twins,
    uneven,
    upheaval,
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
    "merge": merge.merge,
    "promises": promises.promises,
    "apart": apart.apart,
    "slices": slices.slices,
    "hundred": focused.hundred,
    "inflight": inflight.inflight,
    "slow": slow.slow,
    "streams": streams.streams,
    "poisoned": poisoned.poisoned,
    "heavy": heavy.heavy,
    "crowds": crowds.crowds,
    "twins": twins.twins,
    "uneven": uneven.uneven,
    "upheaval": upheaval.upheaval,
    "holes": holes.holes,
}


def plan_of(scenario: str, seed: int) -> Plan:
    """What the seed decides in this scenario."""
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}; known: {', '.join(SCENARIOS)}")
    return weathered(SCENARIOS[scenario](Random(f"plan of {scenario} {seed}"), seed))
