"""The scenario `streams`: a swarm in which some pairs of sites, or all, are joined by TCP."""

from random import Random

from msgspec import structs

from antiphon.simulator.plan import Plan, Route
from antiphon.simulator.scenarios.swarm import swarm

SHARES = (0.3, 0.6, 1.0, 1.0)
"""How many of the pairs, by chance."""


def streams(random: Random, seed: int) -> Plan:
    """As `swarm`, with at least two sites; the protocol between each two of them is drawn."""
    plan = swarm(random, seed, "streams", sites_min=2)
    chance = Random(f"protocols of streams {seed}")
    share = chance.choice(SHARES)
    return structs.replace(
        plan,
        routes=tuple(
            _joined(route, at == 0 or chance.random() < share) for at, route in enumerate(plan.routes)
        ),
    )


def _joined(route: Route, by_tcp: bool) -> Route:
    return structs.replace(route, link=structs.replace(route.link, protocol="tcp" if by_tcp else "hop"))
