"""The scenario `stops`: daemons are told to stop, one after another or together, on a network without faults.

Nothing else befalls the cluster, so that its clients must see nothing but departures and merges, and no view
may stop for longer than a few round trips. `with_stops` adds planned stops to other scenarios, in which
anything may happen to a daemon on its way out and to those who go on without it.
"""

from math import ceil, log2
from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.core.links.congestion import CONTROLLERS
from antiphon.core.links.flow import ACK_DELAY_MAX_US
from antiphon.service import Service
from antiphon.simulator.incidents import AnyIncident, Flood, Heal, Stop, Trigger, Visit
from antiphon.simulator.network import AnyFault, Duplicate, Jitter, Reorder
from antiphon.simulator.plan import ClientPlan, Plan, Route
from antiphon.simulator.scenarios.clusters import Cluster, draw_clients, draw_cluster
from antiphon.simulator.scenarios.parts import coalesce_of, wide
from antiphon.wire import packet

GROUPS = ("g0", "g1", "g2", "g3")
WITH_STOPS = frozenset(("swarm", "sites", "restart", "cascade", "streams"))
"""Scenarios in which daemons are also told to stop."""
NO_FAULTS = {Flood, Visit, Heal}
"""Incidents that break nothing."""
FIRST_SEED = 40
"""Runs of smaller seeds stay what they were: tests and planted bugs name them."""
STATES = ("seg", "rep", "gather", "statetrans", "evs", "op", "ggather")
LEAVE_US = 8_000_000
"""A stop takes no longer than that, and is over before the end."""
HARMLESS = (Jitter, Reorder, Duplicate)
DELAYS_MAX = 8
"""The longest pause of the others because of a stop, in one-way delays of the longest way there is: the
proposal, the state, what was resent, that all is done; each over at most two links. What was resent takes
longer if it is more than a link may send at once: see `_resending_us`."""
PAUSE_US = 50_000
"""An allowance for what daemons take: timers that are served late, bundles that wait for their turn on a
ring."""


def stops(random: Random, seed: int) -> Plan:
    """One to four times a daemon, or some at once, are told to stop; most come back."""
    is_near = random.random() < 0.6
    daemons = random.randint(2, 9)
    sites = random.randint(1, min(4, daemons))
    mesh = [(one, other) for one in range(sites) for other in range(one + 1, sites)]
    latencies_us = (100, 5_000) if is_near else (1_000, 80_000)
    cluster = draw_cluster(random, daemons, sites, latencies_us=latencies_us, pairs=mesh)
    cluster = Cluster(
        tuple(structs.replace(site, faults=_harmless(site.faults)) for site in cluster.sites),
        tuple(
            structs.replace(route, there=_harmless(route.there), back=_harmless(route.back))
            for route in cluster.routes
        ),
    )
    settings = Settings(delta_ms=wide(random, 5_000, 50_000) / 1_000, membership="lan" if is_near else "wan")
    incidents: list[AnyIncident] = []
    at_us = random.randrange(500_000, 2_000_000)
    for _ in range(random.randint(1, 4)):
        incidents += _stop(random, cluster.names, at_us)
        incidents += [
            Flood(
                daemon=name,
                groups=GROUPS,
                bundles=random.randint(1, 8),
                services=tuple(Service)[1:],
                at_us=max(0, at_us - random.randrange(30_000)),
            )
            for name in random.sample(cluster.names, min(daemons, 3))
        ]
        at_us += wide(random, 50_000, 6_000_000)
    working_us = at_us + LEAVE_US
    clients = draw_clients(random, cluster.names, GROUPS, 2 * daemons, working_us, bundles=150)
    return Plan(
        "stops",
        seed,
        cluster.sites,
        cluster.routes,
        clients,
        working_us,
        settings,
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        stop_bound_us=_bound_us(cluster.routes, clients),
    )


def _harmless(faults: tuple[AnyFault, ...]) -> tuple[AnyFault, ...]:
    return tuple(fault for fault in faults if isinstance(fault, HARMLESS))


def _bound_us(routes: tuple[Route, ...], clients: tuple[ClientPlan, ...]) -> int:
    """For how long the others may be without a view: as many one-way delays as the steps of a change take,
    and what the slowest link needs beyond them for the largest bundle that a client may have under way."""
    longest_us = max(map(_longest_us, routes), default=0)
    largest_bytes = max(client.habits.largest_bytes for client in clients)
    resending_us = max((_resending_us(route, largest_bytes) for route in routes), default=0)
    return PAUSE_US + DELAYS_MAX * longest_us + resending_us


def _resending_us(route: Route, bundle_bytes: int) -> int:
    """How much longer than one delay a new link takes for a bundle at the end of a view.

    Its window begins small and doubles with each round trip. A round trip has the wait for an acknowledgement
    in it, and the last window is paced: it leaves within half of a round trip.
    """
    link = route.link
    window_bytes = CONTROLLERS[link.congestion](link.window_bytes, link.packet_base_bytes).window_bytes
    body_bytes = packet.capacity(link.packet_base_bytes) - packet.FRAGMENT_ITEM_BYTES
    sent_bytes = bundle_bytes * link.packet_base_bytes / body_bytes
    further_windows = ceil(log2(sent_bytes / window_bytes + 1)) - 1
    if further_windows < 1:
        return 0
    longest_us = _longest_us(route)
    return further_windows * (2 * longest_us + ACK_DELAY_MAX_US) + longest_us


def _longest_us(route: Route) -> int:
    """How long a packet may take on this way, with what its delay varies by."""
    jitters_us = [fault.up_to_us for fault in (*route.there, *route.back) if isinstance(fault, Jitter)]
    return route.latency_us + max(jitters_us, default=0)


def _stop(random: Random, names: list[str], at_us: int) -> list[AnyIncident]:
    """A daemon is told to stop, or several within a moment, or all."""
    count = random.choice((1, 1, 1, 2, 2, len(names)))
    return [
        Stop(
            daemon=name,
            at_us=at_us + random.choice((0, 0, wide(random, 1, 300_000))),
            back_us=random.choice((None, 0, wide(random, 1_000, 3_000_000))),
        )
        for name in random.sample(names, min(count, len(names)))
    ]


def with_stops(plan: Plan) -> Plan:
    """This run, in which daemons are also told to stop; in half of the seeds from some on."""
    random = Random(f"stops of {plan.scenario} {plan.seed}")
    if plan.scenario not in WITH_STOPS or plan.seed < FIRST_SEED or random.random() < 0.5:
        return plan
    if plan.scenario == "swarm" and len({type(incident) for incident in plan.incidents} - NO_FAULTS) == 1:
        return plan  # some runs of a swarm have one kind of fault only
    names = [daemon.name for daemon in plan.daemons()]
    incidents: list[AnyIncident] = []
    for _ in range(random.randint(1, 4)):
        incidents += _stop(random, names, random.randrange(plan.working_us))
    triggers = []
    for _ in range(random.randint(0, 3)):
        state, time = random.choice(STATES), wide(random, 1, 12)
        after_us = random.choice((0, wide(random, 1, 50_000)))
        triggers += [
            Trigger(state, structs.replace(stop, at_us=0), after_us + stop.at_us, time=time)
            for stop in _stop(random, names, 0)
        ]
    return structs.replace(
        plan, incidents=(*plan.incidents, *incidents), triggers=(*plan.triggers, *triggers)
    )
