"""The scenario `far`: paths that are long and fat beside paths that are thin, each with a bounded queue.

A path of 200 ms and 1 Gbit/s holds 25 MB, and one of 64 kbit/s carries a full packet in 175 ms. What a daemon
orders ahead of its links, and how long the others wait for what is under way, differs by a factor of
thousands; floods and light traffic share both kinds.
"""

from random import Random

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Cut, Flood, Partition, Pause, Restart
from antiphon.simulator.network import AnyFault, Bandwidth, Loss
from antiphon.simulator.plan import ClientPlan, Plan, Route
from antiphon.simulator.scenarios.parts import busy, coalesce_of, daemons_of, lonely_sites, pairs_of, wide

GROUPS = ("all", "some")
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
LONG_US = (50_000, 200_000)
"""One way: round trips from 100 to 400 ms."""
NEAR_US = (1_000, 60_000)
GIGABIT = 125_000_000
THIN_BYTES_PER_S = (8_000, 16_000)
"""64 and 128 kbit/s."""
THIN_LOAD_BYTES = 60_000
"""What one flood sends where a path is thin: it is under way for some seconds."""
LONG_LOAD_BYTES = 6_000_000
LOSSES = (0.0, 0.0, 0.0, 0.001, 0.01)
FIRST_US = 500_000
WORKING_US = 12_000_000


def far(random: Random, seed: int) -> Plan:
    """Two to four sites. In a third of the runs all paths are long and fat, in a third some are thin, and in
    a third all are. One or two floods, light traffic of all, and up to two faults while these are under way.
    """
    sites = random.randint(2, 4)
    names = [f"d{number}" for number in range(sites)]
    thin_share = (0.0, 0.5, 1.0)[seed % 3]
    routes = []
    has_thin = False
    for one, other in pairs_of(random, sites):
        is_thin = random.random() < thin_share
        has_thin |= is_thin
        routes.append(_route(random, one, other, is_thin=is_thin))
    incidents: list[AnyIncident] = []
    for _ in range(random.randint(1, 2)):
        incidents.append(_flood(random, random.choice(names), is_thin=has_thin))
    for _ in range(random.randint(0, 2)):
        incidents += _fault(random, names)
    return Plan(
        "far",
        seed,
        lonely_sites(busy(random, daemons_of(random, sites))),
        tuple(routes),
        tuple(
            _client(random, number, names[number % sites], is_thin=has_thin) for number in range(sites + 1)
        ),
        WORKING_US,
        Settings(unstable_bytes=random.choice((100_000, 1_000_000, 16 * 1024 * 1024))),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
    )


def _route(random: Random, one: int, other: int, *, is_thin: bool) -> Route:
    sites = (f"s{one}", f"s{other}")
    if is_thin:
        rate = random.choice(THIN_BYTES_PER_S)
        # From a quarter of a second to a second and a half: what modems and cheap routers have.
        faults: tuple[AnyFault, ...] = (Bandwidth(rate, wide(random, rate // 4, rate * 3 // 2)),)
        return Route(LinkConfig(sites), wide(random, *NEAR_US), faults, faults)
    latency_us = wide(random, *LONG_US)
    queue_bytes = wide(random, 500_000, GIGABIT // 10)
    faults = (Bandwidth(GIGABIT, queue_bytes), Loss(random.choice(LOSSES)))
    packet_bytes = random.choice((9_000, 9_000, 60_000))  # a run has to carry the bytes in few of them
    return Route(LinkConfig(sites, packet_bytes=packet_bytes), latency_us, faults, faults)


def _flood(random: Random, daemon: str, *, is_thin: bool) -> Flood:
    load_bytes = THIN_LOAD_BYTES if is_thin else LONG_LOAD_BYTES
    messages = random.randint(1, 20)
    size_bytes = random.choice((500, 1_000, 3_000))
    return Flood(
        daemon=daemon,
        groups=GROUPS,
        bundles=max(2, load_bytes // (messages * size_bytes)),
        services=(random.choice(SERVICES),),
        size_max_bytes=size_bytes,
        size_min_bytes=size_bytes // 2,
        messages=messages,
        at_us=random.randrange(FIRST_US, WORKING_US // 3),
    )


def _fault(random: Random, names: list[str]) -> list[AnyIncident]:
    """A daemon crashes and comes back, stands still or is cut off, or a pair is."""
    daemon = random.choice(names)
    others = tuple(name for name in names if name != daemon)
    at_us = random.randrange(FIRST_US, WORKING_US // 2)
    kind = random.random()
    if kind < 0.3:
        back_us = at_us + wide(random, 100_000, 4_000_000)
        return [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=back_us)]
    if kind < 0.55:
        return [Pause(daemon=daemon, at_us=at_us, for_us=wide(random, 50_000, 1_500_000))]
    span_us = wide(random, 100_000, 4_000_000)
    if kind < 0.8:
        return [Partition(parts=((daemon,), others), at_us=at_us, for_us=span_us)]
    return [Cut(daemons=(daemon, random.choice(others)), at_us=at_us, for_us=span_us)]


def _client(random: Random, number: int, daemon: str, *, is_thin: bool) -> ClientPlan:
    """A member of the groups that sends little things beside the floods."""
    habits = Habits(
        interval_us=wide(random, 1_000_000, 4_000_000) if is_thin else wide(random, 100_000, 1_000_000),
        groups=GROUPS,
        joins=len(GROUPS),
        services=SERVICES,
        size_max_bytes=random.choice((100, 400)),
        batch_max=2,
        churn=0.03,
        starts_us=random.randrange(FIRST_US),
        priority=random.choice((0, 0, 5)),
    )
    return ClientPlan(f"c{number}", daemon, habits)
