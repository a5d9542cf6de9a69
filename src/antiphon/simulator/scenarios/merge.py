"""Merges under load: views change while much is under way on long paths that deliver late and twice.

A packet of a view that has ended may come when the next one works, over the same link. And where the daemon
that proposes the next view is far away, the clocks of the others are ahead of the view's identifier: by much
if they send much after the last beat that it hears before the view is there.
"""

from collections.abc import Iterator
from random import Random

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.incidents import Flood, Partition, Trigger, Trouble
from antiphon.simulator.network import AnyFault, Duplicate, Loss, Reorder
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Route, Site
from antiphon.simulator.scenarios.parts import coalesce_of, wide

GROUPS = ("g0", "g1")
LATENCIES_US = (10_000, 80_000)
LATE_MAX_US = 200_000
"""The last packets of a view come so late that the next one may work already."""
BUNDLES_PER_S = (200, 600)
"""The rate of all clients together."""
FIRST_US = 500_000
PARTED_US = (900_000, 2_500_000)
TOGETHER_US = 1_500_000
JOIN_MS = 25.0
BURST_BUNDLES = (60, 150)
"""More than there are messages in a recovery, each of which moves the clocks on."""


def merge(random: Random, seed: int) -> Plan:
    """Three to five daemons at sites that are 10 to 80 ms apart part and come together once or twice while
    their clients send hundreds of small bundles a second. In one of four runs the first daemon, which will
    propose the views, is far from all others and does not send: its clock follows theirs, and one of them
    sends much at once when its proposal has almost come."""
    count = random.randint(3, 5)
    sites = random.randint(2, count)
    homes = [*range(sites), *(random.randrange(sites) for _ in range(count - sites))]
    is_lopsided = random.random() < 0.25
    if is_lopsided:
        sites, homes = 2, [0, *(1,) * (count - 1)]
    names = [f"d{number}" for number in range(count)]
    daemons = [
        Daemon(name, clock_us=random.randrange(10**12), wall_us=random.randrange(10**15)) for name in names
    ]
    incidents: list[Partition] = []
    at_us = FIRST_US
    for _ in range(random.randint(1, 2)):
        far = set(names[1:] if is_lopsided else random.sample(names, random.randint(1, count - 1)))
        parts = (tuple(name for name in names if name not in far), tuple(sorted(far)))
        for_us = wide(random, *PARTED_US)
        incidents.append(Partition(parts=parts, at_us=at_us, for_us=for_us))
        at_us += for_us + TOGETHER_US
    interval_us = count * 1_000_000 // random.randint(*BUNDLES_PER_S)
    places = tuple(
        Site(
            f"s{site}",
            tuple(daemon for daemon, home in zip(daemons, sorted(homes), strict=True) if home == site),
            wide(random, 20, 300),
            () if is_lopsided else _late(random),
        )
        for site in range(sites)
    )
    routes = tuple(
        Route(
            LinkConfig((f"s{one}", f"s{other}")),
            wide(random, *LATENCIES_US),
            _late(random),
            _late(random),
        )
        for one in range(sites)
        for other in range(one + 1, sites)
    )
    return Plan(
        "merge",
        seed,
        places,
        routes,
        tuple(ClientPlan(f"c{name}", name, _busy(random, interval_us)) for name in names[is_lopsided:]),
        at_us,
        Settings(
            delta_ms=wide(random, 5_000, 50_000) / 1_000,
            membership="lan",
            suspect_ms=float(wide(random, 300, 800)),
            gather_ms=100.0,
            join_ms=JOIN_MS,
            probe_ms=float(wide(random, 50, 200)),
        ),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=tuple(_bursts(random, names, incidents, routes[0].latency_us)) if is_lopsided else (),
    )


def _bursts(
    random: Random, names: list[str], incidents: list[Partition], latency_us: int
) -> Iterator[Trigger]:
    """After each partition: the first daemon has proposed a view, and one far from it sends much just before
    it learns so. The beats that would tell the first one of that are lost."""
    for parted in incidents:
        burst = Flood(
            at_us=parted.at_us + parted.for_us,
            daemon=random.choice(names[1:]),
            groups=GROUPS,
            bundles=random.randint(*BURST_BUNDLES),
            services=(Service.FIFO, Service.AGREED),
            size_max_bytes=50,
        )
        lossy = Trouble(
            at_us=burst.at_us,
            fault=Loss(random.uniform(0.6, 1.0)),
            daemons=(names[0], names[1]),
            for_us=round(JOIN_MS * 1_000),
        )
        after_us = latency_us - random.randrange(min(latency_us, round(JOIN_MS * 500)))
        yield Trigger("statetrans", burst, after_us, names[0])
        yield Trigger("statetrans", lossy, after_us, names[0])


def _late(random: Random) -> tuple[AnyFault, ...]:
    """Some packets come late, some twice."""
    return (
        Reorder(0.1 * random.random(), wide(random, 1_000, LATE_MAX_US)),
        Duplicate(0.1 * random.random(), wide(random, 1_000, LATE_MAX_US)),
    )


def _busy(random: Random, interval_us: int) -> Habits:
    return Habits(
        interval_us=interval_us,
        groups=GROUPS,
        joins=len(GROUPS),
        services=random.choice((EVERY_SERVICE, tuple(Service)[1:], (Service.AGREED, Service.SAFE))),
        size_max_bytes=200,
        batch_max=2,
        private=0.0,
        churn=0.01,
        starts_us=0,
    )
