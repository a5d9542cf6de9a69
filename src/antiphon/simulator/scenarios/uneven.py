"""The scenario `uneven`: a swarm whose paths take longer in one direction than in the other, with clocks that
run at rates of their own.

Half of a round trip is then no measure for the way there or back, and what one daemon calls a second is more
or less at another. Both directions of a path also change while the cluster works: routes do.
"""

from random import Random

from msgspec import structs

from antiphon.simulator.incidents import AnyIncident, Trouble
from antiphon.simulator.network import Delay
from antiphon.simulator.plan import Plan, Route
from antiphon.simulator.scenarios.parts import wide
from antiphon.simulator.scenarios.swarm import swarm
from antiphon.simulator.scenarios.weather import EXTREME_PPM, drifting

EXTRA_US = (2_000, 100_000)
"""How much longer one direction takes."""
SHIFTS_MAX = 6
DRIFTS_PPM = (100, 100, 1_000, EXTREME_PPM)


def uneven(random: Random, seed: int) -> Plan:
    """As `swarm`, with at least two sites; about two thirds of their pairs have one direction that is slower
    than the other, and some change."""
    plan = swarm(random, seed, "uneven", sites_min=2)
    chance = Random(f"unevenness of uneven {seed}")
    plan = structs.replace(
        plan,
        routes=tuple(_lopsided(chance, route) if chance.random() < 0.7 else route for route in plan.routes),
        incidents=(*plan.incidents, *_shifts(chance, plan)),
    )
    return drifting(chance, plan, chance.choice(DRIFTS_PPM)) if chance.random() < 0.7 else plan


def _lopsided(chance: Random, route: Route) -> Route:
    slower = Delay(wide(chance, *EXTRA_US))
    if chance.random() < 0.5:
        return structs.replace(route, there=(*route.there, slower))
    return structs.replace(route, back=(*route.back, slower))


def _shifts(chance: Random, plan: Plan) -> list[AnyIncident]:
    """A path of one direction becomes slower or faster for a while, or until everything is healed."""
    daemons = {site.name: [daemon.name for daemon in site.daemons] for site in plan.sites}
    shifts: list[AnyIncident] = []
    for _ in range(chance.randint(0, SHIFTS_MAX)):
        one, other = chance.sample(chance.choice(plan.routes).link.sites, 2)
        at_us = chance.randrange(plan.working_us)
        shifts.append(
            Trouble(
                fault=Delay(chance.choice((0, wide(chance, *EXTRA_US)))),
                daemons=(chance.choice(daemons[one]), chance.choice(daemons[other])),
                is_oneway=True,
                at_us=at_us,
                for_us=chance.choice((0, wide(chance, 10_000, plan.working_us - at_us + 10_000))),
            )
        )
    return shifts
