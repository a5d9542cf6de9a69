"""The scenario `streams`: a swarm in which some pairs of sites, or all, are joined by TCP.

Beside what befalls any swarm, connections break by themselves: at any time, in the middle of much data, and
whenever the membership is just about to agree on something.
"""

from random import Random

from msgspec import structs

from antiphon.service import Service
from antiphon.simulator.incidents import AnyIncident, Flood, Hangup, Trigger
from antiphon.simulator.plan import Plan, Route
from antiphon.simulator.scenarios.parts import wide
from antiphon.simulator.scenarios.swarm import STATES, swarm

SHARES = (0.3, 0.6, 1.0, 1.0)
"""How many of the pairs, by chance."""
HANGUPS_MAX = 8
MUCH_BYTES = 1_500_000
"""Several times what a link hands over at a time."""


def streams(random: Random, seed: int) -> Plan:
    """As `swarm`, with at least two sites; the protocol between each two of them is drawn."""
    plan = swarm(random, seed, "streams", sites_min=2)
    chance = Random(f"protocols of streams {seed}")
    plan = joined_by_tcp(chance, plan, chance.choice(SHARES), at_least=1)
    pairs = _pairs(plan)
    return structs.replace(
        plan,
        incidents=(*plan.incidents, *_hangups(chance, plan, pairs)),
        triggers=(*plan.triggers, *_cues(chance, pairs)),
    )


def joined_by_tcp(chance: Random, plan: Plan, share: float, at_least: int = 0) -> Plan:
    """The same plan with TCP between about this share of the pairs of sites."""
    routes = tuple(
        _joined(route, at < at_least or chance.random() < share) for at, route in enumerate(plan.routes)
    )
    return structs.replace(plan, routes=routes)


def _joined(route: Route, by_tcp: bool) -> Route:
    return structs.replace(route, link=structs.replace(route.link, protocol="tcp" if by_tcp else "hop"))


def _pairs(plan: Plan) -> list[tuple[str, str]]:
    """The daemons that have connections to each other."""
    daemons = {site.name: [daemon.name for daemon in site.daemons] for site in plan.sites}
    return [
        (one, other)
        for route in plan.routes
        if route.link.protocol == "tcp"
        for one in daemons[route.link.sites[0]]
        for other in daemons[route.link.sites[1]]
    ]


def _hangups(chance: Random, plan: Plan, pairs: list[tuple[str, str]]) -> list[AnyIncident]:
    groups = tuple(sorted({group for client in plan.clients for group in client.habits.groups}))
    incidents: list[AnyIncident] = []
    for _ in range(chance.randint(0, HANGUPS_MAX)):
        pair = chance.choice(pairs)
        at_us = chance.randrange(plan.working_us)
        if chance.random() < 0.5:
            incidents.append(
                _flood(chance, chance.choice(pair), groups, max(0, at_us - wide(chance, 1, 100_000)))
            )
        incidents.append(_hangup(chance, pair, at_us))
    return incidents


def _flood(chance: Random, daemon: str, groups: tuple[str, ...], at_us: int) -> Flood:
    size_bytes = chance.choice((500, 20_000, 60_000))
    return Flood(
        daemon=daemon,
        groups=groups,
        bundles=min(200, MUCH_BYTES // size_bytes),
        services=chance.choice(
            ((Service.RELIABLE, Service.FIFO), (Service.AGREED, Service.SAFE), tuple(Service))
        ),
        size_max_bytes=size_bytes,
        at_us=at_us,
    )


def _hangup(chance: Random, pair: tuple[str, str], at_us: int) -> Hangup:
    one, other = chance.sample(pair, 2)
    return Hangup(daemons=(one, other), is_told=chance.random() < 0.7, at_us=at_us)


def _cues(chance: Random, pairs: list[tuple[str, str]]) -> list[Trigger]:
    """Faults in the middle of a conversation."""
    return [
        Trigger(
            chance.choice(STATES),
            _hangup(chance, chance.choice(pairs), 0),
            chance.choice((0, wide(chance, 1, 50_000))),
            time=wide(chance, 1, 20),
        )
        for _ in range(chance.choice((0, 0, 1, 3)))
    ]
