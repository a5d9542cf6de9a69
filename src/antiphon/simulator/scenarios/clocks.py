"""The scenario `clocks`: daemons whose clocks drift and step tell one another the time.

Some sites have references, some promise that packets arrive tightly, some have neither. References crash and
come back, the wall clocks of daemons are set wrong for a while, sites are cut off, paths take longer in one
direction, and daemons are asked for the time again and again. All that is drawn keeps the assumptions of
`core.clock`: clocks drift by up to 100 ppm, the wall clock of a reference is right but for its error whenever
it starts, and where arrival is said to be tight, no daemon is late.
"""

from random import Random

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.host import TRUE_US
from antiphon.simulator.incidents import AnyIncident, Crash, Partition, Pause, Restart, Step, Trouble
from antiphon.simulator.network import AnyFault, Delay, Duplicate, Jitter, Loss, Reorder
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Route, Site
from antiphon.simulator.scenarios.parts import coalesce_of, pairs_of, wide

DRIFT_PPM = 100
SITE_JITTER_US = 50
WRONG_US = 3_600_000_000
"""How far the wall clocks of daemons that are no references may be off."""
STEPS_US = (200_000, 60_000_000)
"""By how much the clock of a reference is set wrong: more than what its error hides."""
ASKED_US = (50_000, 400_000)


def clocks(random: Random, seed: int) -> Plan:
    """Two to five sites of one to five daemons; in one run of four there is no reference."""
    count = random.randint(2, 5)
    homes = [random.randint(1, 5) for _ in range(count)]
    working_us = random.choice((8_000_000, 20_000_000, 45_000_000))
    chance = random.choice((0.0, 0.3, 0.5, 0.7))
    numbers = iter(range(100))
    sites = tuple(_site(random, f"s{place}", [next(numbers) for _ in range(home)], chance)
                  for place, home in enumerate(homes))  # fmt: skip
    routes = tuple(_route(random, pair) for pair in pairs_of(random, count))
    names = [daemon.name for site in sites for daemon in site.daemons]
    habits = Habits(
        interval_us=working_us // 20,
        groups=("g0",),
        services=(Service.AGREED, Service.SAFE),
        size_max_bytes=200,
    )
    return Plan(
        "clocks",
        seed,
        sites,
        routes,
        tuple(ClientPlan(f"c{name}", name, habits) for name in random.sample(names, min(3, len(names)))),
        working_us,
        Settings(),
        coalesce=coalesce_of(random),
        incidents=tuple(_incidents(random, sites, routes, working_us)),
        asks_time_us=wide(random, *ASKED_US),
    )


def _site(random: Random, name: str, numbers: list[int], chance: float) -> Site:
    is_tight = random.random() < 0.5
    jitter_us = random.randint(1, SITE_JITTER_US)
    faults: list[AnyFault] = [Jitter(jitter_us)]
    if random.random() < 0.5:
        faults.append(Loss(random.choice((0.01, 0.05, 0.1, 0.3))))
    if random.random() < 0.3:
        faults.append(Duplicate(0.2 * random.random(), 3_000))
    if not is_tight and random.random() < 0.3:
        faults.append(Reorder(0.2 * random.random(), 500))
    return Site(
        name,
        tuple(_daemon(random, number, chance, is_tight) for number in numbers),
        wide(random, 20, 300),
        tuple(faults),
        tight_us=jitter_us + 1 if is_tight else None,
    )


def _daemon(random: Random, number: int, chance: float, is_tight: bool) -> Daemon:
    error_us = random.choice((0, 50, 1_000, 10_000)) if random.random() < chance else None
    apart_us = WRONG_US if error_us is None else error_us
    return Daemon(
        f"d{number}",
        clock_us=random.randrange(10**12),
        wall_us=TRUE_US + random.randint(-apart_us, apart_us),
        gathers_us=0 if is_tight or random.random() < 0.7 else wide(random, 100, 5_000),
        late_us=random.choice((0, 0, 2_000)),
        drift_ppm=random.choice((-1, 1)) * random.randint(1, DRIFT_PPM),
        time_error_us=error_us,
    )


def _route(random: Random, pair: tuple[int, int]) -> Route:
    latency_us = wide(random, 500, 80_000)
    ways: list[list[AnyFault]] = [[Jitter(1 + latency_us // random.choice((3, 10, 50)))] for _ in range(2)]
    for way in ways:
        if random.random() < 0.4:
            way.append(Delay(wide(random, 500, 60_000)))
        if random.random() < 0.4:
            way.append(Loss(0.05 * random.random()))
    one, other = pair
    return Route(LinkConfig(sites=(f"s{one}", f"s{other}")), latency_us, tuple(ways[0]), tuple(ways[1]))


def _incidents(
    random: Random, sites: tuple[Site, ...], routes: tuple[Route, ...], working_us: int
) -> list[AnyIncident]:
    found: list[AnyIncident] = []
    daemons = [daemon for site in sites for daemon in site.daemons]
    for daemon in daemons:
        # A clock that is wrong when its daemon starts would be believed: nobody could know better.
        if random.random() < 0.4:
            at_us = random.randrange(working_us // 2)
            found.append(Crash(at_us=at_us, daemon=daemon.name))
            if random.random() < 0.8:
                found.append(Restart(at_us=at_us + wide(random, 10_000, working_us // 3), daemon=daemon.name))
        elif random.random() < 0.4:
            step_us = random.choice((-1, 1)) * wide(random, *STEPS_US)
            at_us = random.randrange(working_us // 2)
            for_us = wide(random, 1_000_000, working_us // 3)
            found.append(Step(at_us=at_us, for_us=for_us, daemon=daemon.name, step_us=step_us))
    for site in sites:
        if site.tight_us is None and random.random() < 0.3:
            victim = random.choice(site.daemons).name
            found.append(Pause(at_us=random.randrange(working_us), for_us=wide(random, 10_000, 2_000_000),
                               daemon=victim))  # fmt: skip
    if random.random() < 0.6:
        apart = set(random.sample(range(len(sites)), random.randint(1, len(sites) - 1)))
        parts = tuple(
            tuple(daemon.name for place, site in enumerate(sites) if (place in apart) is is_apart
                  for daemon in site.daemons)
            for is_apart in (True, False)
        )  # fmt: skip
        at_us = random.randrange(working_us // 2)
        found.append(Partition(at_us=at_us, for_us=working_us // 3, parts=parts))
    for route in routes:
        if random.random() < 0.3:
            found.append(_shift(random, sites, route, working_us))
    return found


def _shift(random: Random, sites: tuple[Site, ...], route: Route, working_us: int) -> AnyIncident:
    """One direction becomes slower or faster for a while."""
    members = {site.name: [daemon.name for daemon in site.daemons] for site in sites}
    one, other = random.sample(route.link.sites, 2)
    return Trouble(
        fault=Delay(random.choice((0, wide(random, 500, 60_000)))),
        daemons=(random.choice(members[one]), random.choice(members[other])),
        is_oneway=True,
        at_us=random.randrange(working_us),
        for_us=wide(random, 100_000, working_us // 2),
    )
