"""What any run of any scenario may have on top: bits that flip on the way, and clocks that run fast or slow.

Chance for these comes from a generator of their own, made from the same seed: a run that is spared all of
them is what it would be if they did not exist.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.incidents import AnyIncident, Trouble
from antiphon.simulator.network import AnyFault, Corrupt
from antiphon.simulator.plan import Daemon, Plan
from antiphon.simulator.scenarios import hardships
from antiphon.simulator.scenarios.parts import wide

FLIPPING = 0.15
"""How many of the plans whose paths have faults."""
DRIFTING = 0.08
"""How many of all plans."""
DRIFT_PPM = (10, 1_000)
"""What clocks of real machines are off by, and ten times as much."""
EXTREME_PPM = 50_000
PLAIN_SEEDS = 20
"""The first seeds of each scenario are spared: a reader of a scenario begins with these."""


def weathered(plan: Plan) -> Plan:
    """This plan, in some cases with weather."""
    if plan.seed < PLAIN_SEEDS:
        return plan
    random = Random(f"weather of {plan.scenario} {plan.seed}")
    # A flipped bit is a lost packet, and where planned stops have a bound, nothing gets lost.
    if random.random() < FLIPPING and _has_faults(plan) and not _flips(plan) and not plan.stop_bound_us:
        flipping = hardships.flipping(random, plan.working_us)
        plan = structs.replace(plan, incidents=(*plan.incidents, flipping))
    if random.random() < DRIFTING and not any(daemon.drift_ppm for daemon in plan.daemons()):
        plan = drifting(random, plan, random.choice((*DRIFT_PPM, EXTREME_PPM)))
    return plan


def drifting(random: Random, plan: Plan, up_to_ppm: int) -> Plan:
    """The same plan with clocks that run at rates of their own, off by up to `up_to_ppm`."""

    def drifts(daemon: Daemon) -> Daemon:
        return structs.replace(daemon, drift_ppm=random.choice((1, -1)) * wide(random, 1, up_to_ppm))

    sites = tuple(structs.replace(site, daemons=tuple(map(drifts, site.daemons))) for site in plan.sites)
    return structs.replace(plan, sites=sites)


def _faults(plan: Plan) -> list[AnyFault]:
    """All that any path has at any time."""
    happening: list[AnyIncident] = [*plan.incidents, *plan.damage]
    happening += (trigger.incident for trigger in plan.triggers)
    return [
        *(fault for site in plan.sites for fault in site.faults),
        *(fault for route in plan.routes for fault in (*route.there, *route.back)),
        *(incident.fault for incident in happening if isinstance(incident, Trouble)),
    ]


def _has_faults(plan: Plan) -> bool:
    return bool(_faults(plan))


def _flips(plan: Plan) -> bool:
    return any(isinstance(fault, Corrupt) for fault in _faults(plan))
