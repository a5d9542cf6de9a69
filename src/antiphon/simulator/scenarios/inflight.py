"""A view change while very many messages are under way."""

from random import Random

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Flood, Partition, Restart
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Route, Site

SITES = 5
MESSAGES = 50_000
PER_BUNDLE = 100
SIZE_MAX_BYTES = 40
FLOOD_US = 1_000_000
CUT_US = FLOOD_US + 60_000
"""Some messages have come to some sites, hardly any to all."""


def inflight(random: Random, seed: int) -> Plan:
    """Five sites, 2 to 30 ms apart, send 50,000 messages at one moment; 60 ms later two of them are cut off
    (even seeds), or one daemon crashes (odd seeds)."""
    names = [f"d{number}" for number in range(SITES)]
    bundles = MESSAGES // SITES // PER_BUNDLE
    services = (Service.FIFO, Service.AGREED, Service.SAFE)
    incidents: list[AnyIncident] = [
        Flood(
            daemon=name,
            groups=("g0", "g1"),
            bundles=bundles,
            services=services,
            size_max_bytes=SIZE_MAX_BYTES,
            messages=PER_BUNDLE,
            at_us=FLOOD_US,
        )
        for name in names
    ]
    far = random.sample(names, 2)
    if seed % 2:
        incidents += [Crash(daemon=far[0], at_us=CUT_US), Restart(daemon=far[0], at_us=CUT_US + 2_000_000)]
    else:
        near = tuple(name for name in names if name not in far)
        incidents.append(Partition(parts=(near, tuple(far)), at_us=CUT_US, for_us=3_000_000))
    return Plan(
        "inflight",
        seed,
        tuple(Site(f"s{number}", (Daemon(name),)) for number, name in enumerate(names)),
        tuple(
            Route(LinkConfig((f"s{one}", f"s{other}")), random.randrange(2_000, 30_000))
            for one in range(SITES)
            for other in range(one + 1, SITES)
        ),
        tuple(
            ClientPlan(
                f"c{name}", name, Habits(interval_us=10**12, groups=("g0", "g1"), joins=2, starts_us=0)
            )
            for name in names
        ),
        6_000_000,
        Settings(membership="lan"),
        incidents=tuple(incidents),
    )
