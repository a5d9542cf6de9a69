"""Scenarios of a cluster that stays together, more or less: everything below the membership is their subject.

Each has a working phase, in which clients act, and a quiet phase after it, in which everyday faults stay and
everything that was accepted must still arrive.
"""

from itertools import pairwise
from random import Random

from msgspec import structs

from antiphon import limits
from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import EVERY_SERVICE, Habits
from antiphon.simulator.incidents import AnyIncident
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Route
from antiphon.simulator.scenarios import hardships
from antiphon.simulator.scenarios.parts import (
    busy,
    coalesce_of,
    daemons_of,
    lonely_sites,
    pairs_of,
    routes_of,
    wide,
)

UPDATES_BUDGET = 12_000
"""Roughly how many updates of idle sites a working phase may cost; keeps one run near a second."""

LONG_WORK_US = 20_000_000
CHAIN_SERVICES = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
CHAIN_DELTAS_MS = (5.0, 20.0, 100.0)


def mixed(random: Random, seed: int) -> Plan:
    """Two to twelve sites, any shape, any network, a bit of everything."""
    sites = random.randint(10, 12) if seed % 5 < 2 else random.randint(2, 9)
    pairs = pairs_of(random, sites)
    delta_ms = wide(random, 1_000, 100_000) / 1_000
    latencies_us = [wide(random, 100, 80_000) for _ in pairs]
    severity = random.choice((0.0, 0.0, 0.01, 0.05, 0.1, 0.2))
    working_us = int(UPDATES_BUDGET * delta_ms * 1_000 / (sites * sites))
    working_us = min(max(working_us, 150_000), 2_000_000)
    groups = tuple(f"g{number}" for number in range(random.randint(1, 6)))
    count = random.randint(sites, 3 * sites)
    bundles = random.randint(100, 400)
    clients = [
        ClientPlan(
            f"c{number}",
            f"d{random.randrange(sites)}",
            _anybody(random, working_us * count // bundles, groups),
        )
        for number in range(count)
    ]
    routes = routes_of(random, pairs, latencies_us, severity)
    daemons = daemons_of(random, sites)
    coalesce = coalesce_of(random)
    incidents: list[AnyIncident] = []
    hard = Random(f"hardships of mixed {seed}")
    daemons = busy(hard, daemons)
    if hard.random() < 0.1:
        daemons = hardships.late(hard, daemons)
    if hard.random() < 0.2:
        incidents += hardships.paused(hard, daemons, working_us)
    if hard.random() < 0.25:
        if hard.random() < 0.4:  # long enough for clients to meet links that have failed
            stretch = 1 + LONG_WORK_US // working_us
            working_us *= stretch
            clients = [
                structs.replace(
                    client,
                    habits=structs.replace(client.habits, interval_us=client.habits.interval_us * stretch),
                )
                for client in clients
            ]
        incidents += hardships.silent(hard, pairs, working_us)
    if hard.random() < 0.2:
        routes = hardships.regulated(hard, routes)
    if hard.random() < 0.5:
        clients = [structs.replace(client, habits=_eccentric(hard, client.habits)) for client in clients]
    return Plan(
        "mixed",
        seed,
        lonely_sites(daemons),
        routes,
        tuple(clients),
        working_us,
        Settings(delta_ms=delta_ms),
        coalesce=coalesce,
        incidents=tuple(incidents),
    )


def _anybody(random: Random, interval_us: int, groups: tuple[str, ...]) -> Habits:
    return Habits(
        interval_us=max(1_000, interval_us),
        groups=groups,
        joins=random.randint(0, len(groups)),
        services=random.choice(
            (EVERY_SERVICE, EVERY_SERVICE, (Service.AGREED, Service.SAFE), tuple(Service)[1:])
        ),
        large=random.choice((0.0, 0.0, 0.01, 0.05)),
        large_bytes=random.choice((20_000, 100_000, 300_000)),
        churn=random.choice((0.02, 0.1, 0.2)),
        quits=random.choice((0.0, 0.02, 0.05)),
        answers=random.choice((0.0, 0.3)),
        read_bytes_per_s=random.choice((0, 0, 0, 0, 0, 200_000)),
        priority=random.choice((0, 0, 5, 9)),
    )


def _eccentric(random: Random, habits: Habits) -> Habits:
    """The same client with its ways: it does not want views, keeps its name, or does not wait for answers."""
    return structs.replace(
        habits,
        views=random.random() > 0.25,
        keeps_name=random.random() < 0.5,
        hasty=random.choice((0.0, 0.0, 0.5)),
    )


def chain(random: Random, seed: int) -> Plan:
    """Thesis 5.2: four sites in a row, 30 ms a hop, a sender at one end, members everywhere.

    The seed chooses one service for all messages and one delta, as the thesis measured one at a time.
    """
    sites = 4
    service = CHAIN_SERVICES[seed % len(CHAIN_SERVICES)]
    delta_ms = CHAIN_DELTAS_MS[seed // len(CHAIN_SERVICES) % len(CHAIN_DELTAS_MS)]
    talks = Habits(
        interval_us=40_000, groups=("ping",), joins=0, services=(service,), size_max_bytes=200, batch_max=1,
        private=0.0, churn=0.0, starts_us=2_000_000,
    )  # fmt: skip
    listens = Habits(interval_us=10**12, groups=("ping",), starts_us=0)
    return Plan(
        "chain",
        seed,
        lonely_sites([Daemon(f"d{number}") for number in range(sites)]),
        tuple(
            Route(LinkConfig(sites=(f"s{one}", f"s{other}"), cost=30.0), 30_000)
            for one, other in pairwise(range(sites))
        ),
        (
            ClientPlan("talks", "d0", talks),
            *(ClientPlan(f"c{number}", f"d{number}", listens) for number in range(sites)),
        ),
        8_000_000,
        Settings(delta_ms=delta_ms),
    )


def flood(random: Random, seed: int) -> Plan:
    """Few sites, more load than they can carry, slow readers: back-pressure must hold everywhere."""
    sites = random.randint(2, 4)
    pairs = pairs_of(random, sites)
    latencies_us = [wide(random, 200, 20_000) for _ in pairs]
    clients = []
    for number in range(sites * 2):
        habits = Habits(
            interval_us=random.randint(2_000, 10_000), groups=("flood", "other"), joins=2,
            size_max_bytes=30_000, batch_max=8, churn=0.005, answers=0.5,
            read_bytes_per_s=random.choice((0, 0, 0, 400_000, 1_000_000)),
        )  # fmt: skip
        clients.append(ClientPlan(f"c{number}", f"d{number % sites}", habits))
    settings = Settings(
        delta_ms=random.choice((1.0, 5.0, 20.0)),
        unstable_bytes=random.choice((65_536, 200_000, 1_000_000)),
        output_soft_bytes=random.choice((65_536, 500_000)),
        output_hard_bytes=random.choice((600_000, limits.SESSION_OUTPUT_HARD_BYTES)),
    )
    severity = random.choice((0.0, 0.02))
    hard = Random(f"hardships of flood {seed}")
    return Plan(
        "flood",
        seed,
        lonely_sites(busy(hard, daemons_of(random, sites))),
        hardships.narrow(hard, routes_of(random, pairs, latencies_us, severity)),
        tuple(clients),
        300_000,
        settings,
        coalesce=coalesce_of(random),
    )


def large(random: Random, seed: int) -> Plan:
    """Messages of several megabytes among small ones."""
    sites = random.randint(2, 4)
    pairs = pairs_of(random, sites)
    latencies_us = [wide(random, 200, 10_000) for _ in pairs]
    whales = Habits(
        interval_us=150_000, groups=("big",), services=tuple(Service)[1:], large=0.7,
        large_bytes=6_000_000, batch_max=1, churn=0.0, private=0.0,
    )  # fmt: skip
    minnows = Habits(interval_us=20_000, groups=("big", "small"), joins=2)
    return Plan(
        "large",
        seed,
        lonely_sites(busy(Random(f"hardships of large {seed}"), daemons_of(random, sites))),
        routes_of(random, pairs, latencies_us, random.choice((0.0, 0.01))),
        tuple(
            ClientPlan(f"{name}{number}", f"d{number}", habits)
            for number in range(sites)
            for name, habits in ((("w", whales), ("m", minnows)) if number < 2 else (("m", minnows),))
        ),
        600_000,
        Settings(delta_ms=10.0),
        coalesce=coalesce_of(random),
    )


def pruned(random: Random, seed: int) -> Plan:
    """Many groups with members at few sites; sites join just while others flood the same group."""
    sites = random.randint(4, 10)
    pairs = pairs_of(random, sites)
    latencies_us = [wide(random, 500, 60_000) for _ in pairs]
    groups = tuple(f"g{number}" for number in range(random.randint(3, 12)))
    delta_ms = wide(random, 2_000, 50_000) / 1_000
    working_us = min(max(int(UPDATES_BUDGET * delta_ms * 1_000 / (sites * sites)), 300_000), 2_000_000)
    services = tuple(Service)[1:]
    hard = Random(f"hardships of pruned {seed}")
    hasty = hard.choice((0.0, 0.0, 0.5))
    clients = []
    for number in range(sites * 2):
        own = tuple(random.sample(groups, random.randint(1, 3)))
        if number % 2:
            habits = Habits(
                interval_us=working_us // 30, groups=own, joins=0, services=services, churn=0.6, hasty=hasty,
                several_groups=0.3,
            )  # fmt: skip
        else:
            habits = Habits(
                interval_us=working_us // 40, groups=groups, joins=0, services=services, churn=0.03,
                answers=0.5,
            )  # fmt: skip
        clients.append(ClientPlan(f"c{number}", f"d{random.randrange(sites)}", habits))
    return Plan(
        "pruned",
        seed,
        lonely_sites(busy(hard, daemons_of(random, sites))),
        routes_of(random, pairs, latencies_us, random.choice((0.0, 0.0, 0.05, 0.15))),
        tuple(clients),
        working_us,
        Settings(delta_ms=delta_ms),
        coalesce=coalesce_of(random),
    )
