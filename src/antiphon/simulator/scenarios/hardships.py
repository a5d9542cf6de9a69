"""What befalls a cluster beside the everyday faults of its paths: pauses, late starts, silence, slow readers.

Chance for these comes from a generator of their own, made from the same seed: a run that is spared all of
them is what it would be if they did not exist.
"""

from random import Random

from msgspec import structs

from antiphon.config import Settings
from antiphon.simulator.incidents import AnyIncident, Cut, OneWay, Pause, Restart, Trouble
from antiphon.simulator.network import Corrupt
from antiphon.simulator.plan import ClientPlan, Daemon, Route
from antiphon.simulator.scenarios.parts import wide

LATE_START_MAX_US = 3_000_000
UPTIME_MAX_US = 60_000_000
SLOW_OUTPUT_BYTES = 65_536
"""What may wait for a slow reader before those who send to it wait: the least that can be configured."""


def paused(random: Random, daemons: list[Daemon], working_us: int) -> list[AnyIncident]:
    """One or two daemons stop for up to half a minute."""
    return [
        Pause(
            daemon=daemons[number].name,
            at_us=random.randrange(working_us),
            for_us=wide(random, 10_000, 30_000_000),
        )
        for number in random.sample(range(len(daemons)), random.randint(1, 2))
    ]


def late(random: Random, daemons: list[Daemon]) -> list[Daemon]:
    """A few daemons start seconds after the others."""
    chosen = set(random.sample(range(len(daemons)), random.randint(1, max(1, len(daemons) // 3))))
    return [
        structs.replace(daemon, starts_us=random.randrange(LATE_START_MAX_US)) if number in chosen else daemon
        for number, daemon in enumerate(daemons)
    ]


def silent(random: Random, pairs: list[tuple[int, int]], working_us: int) -> list[AnyIncident]:
    """Some links carry nothing for up to a minute, in one direction or in both, once or twice."""
    incidents: list[AnyIncident] = []
    for one, other in random.sample(pairs, min(len(pairs), random.randint(1, 3))):
        for _ in range(random.randint(1, 2)):
            at_us = random.randrange(working_us)
            for_us = wide(random, 100_000, 60_000_000)
            daemons = (f"d{one}", f"d{other}") if random.random() < 0.5 else (f"d{other}", f"d{one}")
            if random.random() < 0.6:
                incidents.append(Cut(daemons=daemons, at_us=at_us, for_us=for_us))
            else:
                incidents.append(OneWay(sender=daemons[0], receiver=daemons[1], at_us=at_us, for_us=for_us))
    return incidents


def regulated(random: Random, routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """About half of the links have a configured top rate."""
    return tuple(
        structs.replace(
            route, link=structs.replace(route.link, rate_bytes_per_s=wide(random, 300_000, 10_000_000))
        )
        if random.random() < 0.5
        else route
        for route in routes
    )


def narrow(random: Random, routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The maximum window of some links is small."""
    return tuple(
        structs.replace(
            route,
            link=structs.replace(
                route.link, window_bytes=random.choice((65_536, 262_144, route.link.window_bytes))
            ),
        )
        for route in routes
    )


def slow_readers(
    random: Random, clients: tuple[ClientPlan, ...], settings: Settings
) -> tuple[tuple[ClientPlan, ...], Settings]:
    """A few clients are members of everything and read slowly, while all send more than such readers take:
    sooner or later those who send to them wait, also when some of their daemons are lost just then."""
    chosen = set(random.sample(range(len(clients)), random.randint(1, max(1, len(clients) // 4))))
    rate = random.choice((10_000, 20_000, 40_000))
    slowed = []
    for number, client in enumerate(clients):
        habits = structs.replace(client.habits, large=0.15, large_bytes=60_000)
        if number in chosen:
            habits = structs.replace(
                habits, joins=len(habits.groups), churn=0.02, quits=0.0, read_bytes_per_s=rate, starts_us=0
            )
        slowed.append(structs.replace(client, habits=habits))
    return tuple(slowed), structs.replace(settings, output_soft_bytes=SLOW_OUTPUT_BYTES)


def flipping(random: Random, working_us: int) -> AnyIncident:
    """All paths flip bits now and then: a bad cable, or memory that fails in a router."""
    return Trouble(fault=Corrupt(wide(random, 1, 100) / 1_000), for_us=working_us)


def rebooted(random: Random, incidents: list[AnyIncident]) -> list[AnyIncident]:
    """About half of the daemons that start again do so because their machines did."""
    return [
        structs.replace(incident, uptime_us=wide(random, 1, UPTIME_MAX_US))
        if isinstance(incident, Restart) and random.random() < 0.5
        else incident
        for incident in incidents
    ]
