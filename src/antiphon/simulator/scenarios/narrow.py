"""The scenario `narrow`: paths that carry packets up to a size which nobody has configured, and may become
narrower while large packets are under way.

Small packets of the base size always get through, so daemons must work together all the time: links have to
find out what gets through, and to recover the packets that were too large when the path changed.
"""

from random import Random

from antiphon import limits
from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Flood, Restart, Trouble
from antiphon.simulator.network import AnyFault, Loss, Mtu, Oversize
from antiphon.simulator.plan import ClientPlan, Plan, Route
from antiphon.simulator.scenarios.parts import busy, coalesce_of, daemons_of, lonely_sites, pairs_of, wide
from antiphon.simulator.steadiness import Steady

GROUPS = ("g0", "g1")
SERVICES = (Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
LATENCIES_US = (100, 20_000)
MTUS_BYTES = (1_232, 1_372, 1_472, 2_900, 8_972, 65_507)
"""What UDP carries whole: over the smallest MTU of IPv6, a tunnel, Ethernet, jumbo frames, loopback."""
CEILINGS_BYTES = (None, None, None, 9_000, limits.PACKET_MAX_BYTES)
LOSSES = (0.0, 0.0, 0.01, 0.05)
FIRST_US = 1_000_000
WORKING_US = 10_000_000
PEACE_US = 20_000_000
FLOOD_BYTES = (200, 2_000, 30_000, 58_000)


def narrow(random: Random, seed: int) -> Plan:
    """Two to four daemons, each at a site of its own. Some paths become black holes for large packets while
    floods are under way: for a while, or, in half of the runs, for good. Where no daemon crashes, that costs
    no view."""
    sites = random.randint(2, 4)
    names = [f"d{number}" for number in range(sites)]
    pairs = pairs_of(random, sites)
    routes = tuple(
        Route(
            LinkConfig((f"s{one}", f"s{other}"), packet_bytes=random.choice(CEILINGS_BYTES)),
            wide(random, *LATENCIES_US),
            _faults(random),
            _faults(random),
        )
        for one, other in pairs
    )
    incidents: list[AnyIncident] = []
    for _ in range(random.randint(4, 8)):
        size_bytes = random.choice(FLOOD_BYTES)
        incidents.append(
            Flood(
                daemon=random.choice(names),
                groups=GROUPS,
                bundles=max(3, 600_000 // (size_bytes + 2_000)),
                services=(random.choice(SERVICES),),
                size_max_bytes=size_bytes,
                size_min_bytes=size_bytes // 2,
                at_us=random.randrange(FIRST_US, WORKING_US * 2 // 3),
            )
        )
    holes = [_hole(random, names, pair) for pair in pairs if random.random() < 0.7]
    damage = tuple(holes) if seed % 2 else ()
    for hole in holes:
        at_us = random.randrange(FIRST_US, WORKING_US // 2)
        for_us = 0 if damage else wide(random, 50_000, 5_000_000)
        incidents.append(
            Trouble(
                fault=hole.fault, daemons=hole.daemons, is_oneway=hole.is_oneway, at_us=at_us, for_us=for_us
            )
        )
    steady: Steady | None = Steady(tuple(names), FIRST_US, views=0, silent_us=0)
    if random.random() < 0.3:
        steady = None
        daemon = random.choice(names)
        at_us = random.randrange(FIRST_US, WORKING_US)
        back_us = at_us + wide(random, 10_000, 2_000_000)
        incidents += [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=back_us)]
    return Plan(
        "narrow",
        seed,
        lonely_sites(busy(random, daemons_of(random, sites))),
        routes,
        tuple(_client(random, number, name) for number, name in enumerate(names)),
        WORKING_US,
        Settings(delta_ms=10.0, membership=random.choice(("lan", "wan"))),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        damage=damage,
        peace_us=PEACE_US if damage else 0,
        steady=steady,
    )


def _faults(random: Random) -> tuple[AnyFault, ...]:
    return (Mtu(random.choice(MTUS_BYTES)), Loss(random.choice(LOSSES)))


def _hole(random: Random, names: list[str], pair: tuple[int, int]) -> Trouble:
    one, other = random.sample(pair, 2)
    above_bytes = wide(random, limits.PACKET_BASE_BYTES, 20_000)
    return Trouble(
        fault=Oversize(above_bytes), daemons=(names[one], names[other]), is_oneway=random.random() < 0.5
    )


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    habits = Habits(
        interval_us=wide(random, 50_000, 300_000),
        groups=GROUPS,
        joins=len(GROUPS),
        services=SERVICES,
        size_max_bytes=random.choice((500, 8_000, 40_000)),
        private=0.0,
        churn=0.02,
        starts_us=random.randrange(1_000_000),
    )
    return ClientPlan(f"c{number}", daemon, habits)
