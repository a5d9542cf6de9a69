"""Latency and packets under light load, in virtual time: what the protocols cost, without the machine.

    .venv/bin/python bench/light_load.py [--json] [--rate 1000] [--seconds 2]

Every number is virtual and repeats exactly. One session sends messages at random times, so many a second on
the average; every daemon but the idle ones has a receiver. A packet takes 100 us from one daemon to another,
in a site and between sites ("far": 25 ms between sites), and handling it takes no time. `p50` and `p99` are
those of the last receiver of each message, `hops` is p50 in units of a packet's time, `packets` counts
datagrams per message of all daemons together, and `idle` datagrams per second while nothing is sent.
"""

import argparse
import json
from random import Random
from typing import NamedTuple

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.client import Client
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World
from antiphon.trace import Event

NEAR_US = 100
FAR_US = 25_000
SETTLE_US = 3_000_000


class Case(NamedTuple):
    """Daemons, and where the receivers are."""

    sites: int
    daemons: int = 1
    """In each site."""
    receivers: tuple[int, ...] = (1,)
    """The daemons that have one."""
    sender: int = 0
    latency_us: int = NEAR_US


CASES = {
    "one daemon": Case(1, receivers=(0,)),
    "two daemons": Case(2),
    "three daemons": Case(3, receivers=(1, 2)),
    "three daemons, one idle": Case(3),
    "ring, sender keeps the token": Case(1, 3, receivers=(1, 2)),
    "ring, sender is next": Case(1, 3, receivers=(0, 2), sender=1),
    "ring, sender is last": Case(1, 3, receivers=(0, 1), sender=2),
    "two rings": Case(2, 3, receivers=(1, 4), sender=2),
    "ten daemons": Case(10, receivers=(1, 9)),
    "three daemons, far": Case(3, receivers=(1, 2), latency_us=FAR_US),
}


def plan(case: Case) -> Plan:
    """The cluster of one case."""
    numbers = iter(range(case.sites * case.daemons))
    layout = tuple(
        Site(
            f"s{site}",
            tuple(Daemon(f"d{next(numbers)}", wall_us=10**15) for _ in range(case.daemons)),
            latency_us=NEAR_US,
        )
        for site in range(case.sites)
    )
    routes = tuple(
        Route(LinkConfig((f"s{one}", f"s{other}")), case.latency_us)
        for one in range(case.sites)
        for other in range(one + 1, case.sites)
    )
    return Plan("bench", 0, layout, routes, (), 0, Settings())


def datagrams(world: World) -> int:
    """How many were sent so far."""
    return sum(path.sent for path in world.network.paths.values())


def measure(name: str, case: Case, service: Service, rate_per_s: float, seconds: float) -> dict[str, object]:
    stage = Stage(plan(case))
    world = stage.world
    everybody = tuple(range(case.sites * case.daemons))
    while not world.has_formed([everybody]):
        world.run(world.now_us + 10_000)
    for number in case.receivers:
        receiver = world.connect(number, "receiver")
        assert receiver is not None
        receiver.join("g")
        world.settle(number)
    sender = world.connect(case.sender, "sender")
    assert sender is not None
    world.run(world.now_us + SETTLE_US)
    before = datagrams(world)
    world.run(world.now_us + SETTLE_US)
    idle_per_s = (datagrams(world) - before) * 1_000_000 / SETTLE_US
    random = Random(name)
    at_us, end_us = world.now_us, world.now_us + round(seconds * 1e6)
    sent = 0
    while at_us < end_us:
        world.schedule(at_us, say, world, case.sender, sender, service)
        at_us += 1 + round(random.expovariate(rate_per_s) * 1e6)
        sent += 1
    before, first = datagrams(world), len(world.records)
    world.run(end_us + SETTLE_US)
    counted = datagrams(world) - before - idle_per_s * (seconds + SETTLE_US / 1e6)
    begun: dict[object, int] = {}
    took: dict[object, int] = {}
    for record in world.records[first:]:
        if record.event is Event.SEND:
            begun[record.message] = record.time_us
        elif record.event is Event.DELIVER:
            took[record.message] = record.time_us - begun[record.message]
    assert len(took) == sent, f"{name}: {len(took)} of {sent} messages came"
    times = sorted(took.values())
    return {
        "case": name,
        "service": service.name.lower(),
        "p50_us": times[len(times) // 2],
        "p99_us": times[len(times) * 99 // 100],
        "hops": round(times[len(times) // 2] / case.latency_us, 1),
        "packets": round(counted / sent, 1),
        "idle_per_s": round(idle_per_s, 1),
    }


def say(world: World, number: int, sender: Client, service: Service) -> None:
    """The sender sends one message."""
    sender.send(("g",), service, [b"light"])
    world.settle(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--rate", type=float, default=1_000.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=2.0, help="of virtual time, for each row")
    wanted = parser.parse_args()
    if not wanted.json:
        print("| case | service | p50 us | p99 us | hops | packets | idle/s |\n|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        for service in (Service.AGREED, Service.SAFE):
            row = measure(name, case, service, wanted.rate, wanted.seconds)
            text = json.dumps(row) if wanted.json else "| " + " | ".join(map(str, row.values())) + " |"
            print(text, flush=True)


if __name__ == "__main__":
    main()
