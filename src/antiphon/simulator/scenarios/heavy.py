"""The scenario `heavy`: messages of 1 to 16 MiB are under way while daemons crash and are cut off.

Such a message takes a second or more on its way: whatever happens to the cluster happens in the middle of
one, of several senders', and the recovery has megabytes to send again.
"""

from random import Random

from msgspec import structs

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import AnyIncident, Crash, Cut, Flood, Partition, Restart, Trigger
from antiphon.simulator.network import AnyFault, Bandwidth, Loss
from antiphon.simulator.plan import ClientPlan, Plan, Route
from antiphon.simulator.scenarios.parts import busy, coalesce_of, daemons_of, lonely_sites, pairs_of, wide

MIB = 1024 * 1024
GROUPS = ("all", "some")
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)
LOAD_BYTES = 48 * MIB
"""What all daemons send at most in one run, so that a run takes some seconds."""
FIRST_US = 1_000_000
WORKING_US = 8_000_000
PACKET_BYTES = (1_400, 9_000, 9_000, 60_000)
"""Mostly larger packets than usual: a run has to carry as many bytes in fewer of them."""
LOSSES = (0.0, 0.0, 0.002, 0.01)
RATES_BYTES_PER_S = (0, 5 * MIB, 20 * MIB)
FORMING = ("seg", "gather", "statetrans", "evs", "op", "ggather")


def heavy(random: Random, seed: int) -> Plan:
    """Two to four daemons; one to three of them send large messages, and faults come while these are under
    way: at given times, or when the next view is being formed."""
    sites = random.randint(2, 4)
    names = [f"d{number}" for number in range(sites)]
    faults: list[AnyFault] = [Loss(random.choice(LOSSES))]
    if rate := random.choice(RATES_BYTES_PER_S):
        faults.append(Bandwidth(rate, rate // 4))
    packet_bytes = random.choice(PACKET_BYTES)
    routes = tuple(
        Route(
            LinkConfig((f"s{one}", f"s{other}"), packet_bytes=packet_bytes),
            wide(random, 200, 10_000),
            tuple(faults),
            tuple(faults),
        )
        for one, other in pairs_of(random, sites)
    )
    incidents: list[AnyIncident] = []
    left_bytes = LOAD_BYTES
    at_us = FIRST_US
    while left_bytes > MIB:
        size_bytes = min(left_bytes, wide(random, MIB, 16 * MIB))
        left_bytes -= size_bytes
        incidents.append(
            Flood(
                daemon=random.choice(names),
                groups=GROUPS,
                bundles=1,
                services=(random.choice(SERVICES),),
                size_max_bytes=size_bytes,
                size_min_bytes=size_bytes,
                at_us=at_us,
            )
        )
        at_us += wide(random, 1_000, 1_500_000)
        if random.random() < 0.7:
            incidents += _fault(random, names, max(FIRST_US, at_us - wide(random, 1_000, 800_000)))
    return Plan(
        "heavy",
        seed,
        lonely_sites(busy(random, daemons_of(random, sites))),
        routes,
        tuple(_client(random, number, names[number % sites]) for number in range(sites + 1)),
        max(WORKING_US, at_us + 1_000_000),
        Settings(delta_ms=10.0, membership="lan"),
        coalesce=coalesce_of(random),
        incidents=tuple(incidents),
        triggers=_cues(random, names),
    )


def _fault(random: Random, names: list[str], at_us: int) -> list[AnyIncident]:
    """A daemon crashes and comes back, is cut off, or a pair is."""
    daemon = random.choice(names)
    span_us = wide(random, 10_000, 3_000_000)
    kind = random.random()
    if kind < 0.4:
        return [Crash(daemon=daemon, at_us=at_us), Restart(daemon=daemon, at_us=at_us + span_us)]
    others = tuple(name for name in names if name != daemon)
    if kind < 0.8:
        return [Partition(parts=((daemon,), others), at_us=at_us, for_us=span_us)]
    return [Cut(daemons=(daemon, random.choice(others)), at_us=at_us, for_us=span_us)]


def _cues(random: Random, names: list[str]) -> tuple[Trigger, ...]:
    """The next fault while megabytes are recovered."""
    triggers = []
    for _ in range(random.choice((0, 1, 2))):
        state, after_us, time = random.choice(FORMING), wide(random, 1, 200_000), random.randint(1, 6)
        for incident in _fault(random, names, FIRST_US):
            wait_us = after_us + incident.at_us - FIRST_US
            triggers.append(Trigger(state, structs.replace(incident, at_us=FIRST_US), wait_us, time=time))
    return tuple(triggers)


def _client(random: Random, number: int, daemon: str) -> ClientPlan:
    """A member of the groups that says little things between the large ones."""
    habits = Habits(
        interval_us=wide(random, 100_000, 1_000_000),
        groups=GROUPS,
        joins=random.randint(1, len(GROUPS)),
        services=SERVICES,
        size_max_bytes=1_000,
        churn=random.choice((0.0, 0.05)),
        starts_us=random.randrange(FIRST_US // 2),
    )
    return ClientPlan(f"c{number}", daemon, habits)
