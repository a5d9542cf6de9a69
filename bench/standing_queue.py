"""What a flood costs others in latency, in virtual time: queues in front of links, without the machine.

    .venv/bin/python bench/standing_queue.py [--json] [--seconds 4] [--case NAME]

Every number is virtual and repeats exactly. A session floods its group, which has a receiver at every other
daemon, with messages of 1 KB; another session of the same daemon sends a small message every 50 ms.
Handling a packet takes no time. `mb_per_s` is what each receiver gets from the flood, `flood p50` how long
half of its messages take to the last receiver, `ping` the same for the small ones; `round trips` is the
flood's p50 in round trips of the longest path. The first second, in which links find their rate, does not
count. "paused": one receiver stands still for 0.3 s in the middle; "lossy": a burst of loss; "idle": the
flood rests for three seconds first.
"""

import argparse
import json
from collections.abc import Iterator
from typing import NamedTuple

from antiphon.config import LinkConfig, Settings
from antiphon.service import Service
from antiphon.simulator.client import Client
from antiphon.simulator.incidents import AnyIncident, Pause, Trouble
from antiphon.simulator.network import AnyFault, Bandwidth, Loss
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World
from antiphon.trace import Event

SECOND_US = 1_000_000
TICK_US = 1_000
PING_US = 50_000
MESSAGES = 58
"""Of 1 KB, in one bundle: what a client library gathers under a flood."""
GROUP = ("flood",)


class Case(NamedTuple):
    """Sites with one daemon each, all of them joined to one another."""

    sites: int
    latency_us: int
    bytes_per_s: int
    queue_bytes: int
    packet_bytes: int = 9_000
    daemons: int = 1
    paused: bool = False
    lossy: bool = False
    idle_us: int = 0
    stretch: int = 1
    """It is measured for so many times as long."""


CASES = {
    "three sites, 50 ms, 20 MB/s": Case(3, 25_000, 20_000_000, 2_000_000),
    "three sites, 50 ms, 40 MB/s": Case(3, 25_000, 40_000_000, 4_000_000, packet_bytes=20_000),
    "three sites, paused": Case(3, 25_000, 20_000_000, 2_000_000, paused=True),
    "three sites, lossy": Case(3, 25_000, 20_000_000, 2_000_000, lossy=True),
    "three sites, idle": Case(3, 25_000, 20_000_000, 2_000_000, idle_us=3 * SECOND_US),
    "two sites, 50 ms, 1 MB/s": Case(2, 25_000, 1_000_000, 100_000, packet_bytes=1_400),
    "two sites, 200 ms, 1 Gbit/s": Case(2, 100_000, 125_000_000, 12_500_000, packet_bytes=60_000),
    "two sites, 20 ms, 64 kbit/s": Case(2, 10_000, 8_000, 8_000, packet_bytes=1_400, stretch=20),
    "two sites, near": Case(2, 100, 100_000_000, 1_000_000, packet_bytes=60_000),
    "ring of three, near": Case(1, 100, 100_000_000, 1_000_000, daemons=3),
}


def plan(case: Case) -> Plan:
    """The cluster of one case."""
    rate: tuple[AnyFault, ...] = (Bandwidth(case.bytes_per_s, case.queue_bytes),)
    numbers = iter(range(case.sites * case.daemons))
    sites = tuple(
        Site(
            f"s{site}",
            tuple(Daemon(f"d{next(numbers)}", wall_us=10**15) for _ in range(case.daemons)),
            latency_us=100,
            faults=rate if case.daemons > 1 else (),
        )
        for site in range(case.sites)
    )
    routes = tuple(
        Route(
            LinkConfig((f"s{one}", f"s{other}"), packet_bytes=case.packet_bytes), case.latency_us, rate, rate
        )
        for one in range(case.sites)
        for other in range(one + 1, case.sites)
    )
    return Plan("bench", 0, sites, routes, (), 0, Settings())


class Flooder:
    """A session that always has something to send until its end."""

    def __init__(self, world: World, client: Client, until_us: int) -> None:
        self._world = world
        self._client = client
        self._until_us = until_us
        self._body = b"f" * 1_000

    def go_on(self) -> None:
        """Send as much as the daemon reads, now and at every tick."""
        world, client = self._world, self._client
        while not client.is_busy:
            client.send(GROUP, Service.AGREED, [self._body] * MESSAGES)
            world.settle(0)
        if world.now_us < self._until_us:
            world.schedule(world.now_us + TICK_US, self.go_on)


def _faults(case: Case, seconds: float) -> Iterator[tuple[int, AnyIncident]]:
    middle_us = SECOND_US + round(seconds * SECOND_US / 2)
    if case.paused:
        yield middle_us, Pause(daemon="d1", for_us=300_000)
    if case.lossy:
        yield middle_us, Trouble(fault=Loss(0.3), daemons=("d0", "d1"), for_us=50_000)


def measure(name: str, case: Case, seconds: float) -> dict[str, object]:
    """One row."""
    stage = Stage(plan(case))
    world = stage.world
    count = case.sites * case.daemons
    while not world.has_formed([tuple(range(count))]):
        world.run(world.now_us + 10_000)
    for number in range(1, count):
        receiver = world.connect(number, "receiver")
        assert receiver is not None
        receiver.join(GROUP[0])
        world.settle(number)
    flooder, pinger = world.connect(0, "flooder"), world.connect(0, "pinger")
    assert flooder is not None and pinger is not None
    world.run(world.now_us + 3 * SECOND_US)
    if case.idle_us:  # it has found the rate once
        flood = Flooder(world, flooder, world.now_us + SECOND_US)
        world.schedule(world.now_us, flood.go_on)
        world.run(world.now_us + 2 * SECOND_US + case.idle_us)
    began_us = world.now_us
    counts_us, end_us = began_us + SECOND_US, began_us + SECOND_US + round(seconds * SECOND_US)
    for at_us, incident in _faults(case, seconds):
        world.schedule(began_us + at_us, stage._happen, incident)
    world.schedule(began_us, Flooder(world, flooder, end_us).go_on)
    for at_us in range(counts_us, end_us, PING_US):
        world.schedule(at_us, _ping, world, pinger)
    first = len(world.records)
    world.run(end_us)
    got = {(record.message, record.process) for record in _delivered(world, first, counts_us, end_us)}
    rate = len({message for message, _ in got if _is_of(message, flooder)}) * 1_000 / seconds
    allowed = _allowed(world)
    world.run(end_us + 60 * SECOND_US)
    begun: dict[object, int] = {}
    took: dict[object, int] = {}
    for record in world.records[first:]:
        if record.event is Event.SEND:
            begun[record.message] = record.time_us
        elif record.event is Event.DELIVER and begun.get(record.message, 0) >= counts_us:
            took[record.message] = record.time_us - begun[record.message]
    flood = sorted(time for message, time in took.items() if _is_of(message, flooder))
    pings = sorted(time for message, time in took.items() if _is_of(message, pinger))
    return {
        "case": name,
        "mb_per_s": round(rate / 1e6, 2),
        "flood_p50_ms": round(flood[len(flood) // 2] / 1_000, 1) if flood else None,
        "round_trips": round(flood[len(flood) // 2] / 2 / case.latency_us, 1) if flood else None,
        "ping_p50_ms": round(pings[len(pings) // 2] / 1_000, 1) if pings else None,
        "ping_max_ms": round(pings[-1] / 1_000, 1) if pings else None,
        "allowed_bytes": allowed,
    }


def _delivered(world: World, first: int, from_us: int, to_us: int) -> Iterator[object]:
    for record in world.records[first:]:
        if record.event is Event.DELIVER and from_us <= record.time_us < to_us:
            yield record


def _is_of(message: object, client: Client) -> bool:
    return isinstance(message, tuple) and message[2] == client.session


def _allowed(world: World) -> int:
    node = world.node(0)
    assert node is not None
    allowance = getattr(node.admission, "allowance", None)
    return node.config.settings.unstable_bytes if allowance is None else allowance.bytes


def _ping(world: World, pinger: Client) -> None:
    """The other session sends one message."""
    pinger.send(GROUP, Service.AGREED, [b"ping"])
    world.settle(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--seconds", type=float, default=4.0, help="of virtual time, for each row")
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    wanted = parser.parse_args()
    if not wanted.json:
        print("| case | MB/s | flood p50 ms | round trips | ping p50 ms | ping max ms | allowed bytes |")
        print("|---|---|---|---|---|---|---|")
    for name in wanted.case or CASES:
        row = measure(name, CASES[name], wanted.seconds * CASES[name].stretch)
        text = json.dumps(row) if wanted.json else "| " + " | ".join(map(str, row.values())) + " |"
        print(text, flush=True)


if __name__ == "__main__":
    main()
