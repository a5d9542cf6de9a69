"""How long views take, in virtual time: crash, partition and merge for 3 to 100 daemons, near and far.

    .venv/bin/python bench/membership.py [--json] [--sizes 3,10,30,100]

Every number is virtual and repeats exactly. `noticed` is when the first daemon gives up its view (or, for a
merge, begins to gather), `agreed` when the last one has installed the next view and its groups are whole;
both count from the crash, the cut or the heal. The pause is the longest time for which a daemon took no
client message. Up to 10 daemons have a site each; more share ten sites.
"""

import argparse
import json
import sys
from collections.abc import Callable
from random import Random
from time import perf_counter

from antiphon.config import LinkConfig, Settings
from antiphon.config.timing import Preset
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World

NETWORKS: dict[str, tuple[Preset, int]] = {"lan": ("lan", 100), "wan 100 ms": ("wan", 100_000)}
"""Preset, and latency between sites one way, in microseconds."""
STEP_US = 1_000
LIMIT_US = 60_000_000


def plan(daemons: int, network: str) -> Plan:
    preset, latency_us = NETWORKS[network]
    sites = min(daemons, 10)
    names = iter(range(daemons))
    layout = tuple(
        Site(
            f"s{site}",
            tuple(Daemon(f"d{next(names)}", wall_us=10**15) for _ in range(daemons // sites)),
            latency_us=50,
        )
        for site in range(sites)
    )
    routes = tuple(
        Route(LinkConfig((f"s{one}", f"s{other}")), latency_us)
        for one in range(sites)
        for other in range(one + 1, sites)
    )
    return Plan("bench", 0, layout, routes, (), 0, Settings(membership=preset, delta_ms=20.0))


def is_one_view(world: World, members: set[int]) -> bool:
    """Whether exactly these are in one view and messages flow."""
    nodes = [world.node(number) for number in members]
    return (
        all(node is not None and node.is_operational and set(node.view.members) == members for node in nodes)
        and len({node.view.id for node in nodes if node is not None}) == 1
    )


def measure(world: World, done: Callable[[], bool]) -> tuple[float, float, float]:
    """Let time pass until `done`: when it was noticed, when all had agreed, the longest pause; in ms."""
    begin_us = world.now_us
    noticed_us: int | None = None
    stopped: dict[int, int] = {}
    longest_us = 0
    while not done():
        if world.now_us - begin_us > LIMIT_US:
            raise SystemExit("no view within a minute")
        world.run(world.now_us + STEP_US)
        for number in world.alive:
            node = world.node(number)
            assert node is not None
            if node.state != "op" and noticed_us is None:
                noticed_us = world.now_us
            if not (node.membership.is_active and node.merging is None):
                stopped.setdefault(number, world.now_us)
            elif number in stopped:
                longest_us = max(longest_us, world.now_us - stopped.pop(number))
    for since_us in stopped.values():
        longest_us = max(longest_us, world.now_us - since_us)
    noticed = (noticed_us or world.now_us) - begin_us
    return noticed / 1_000, (world.now_us - begin_us) / 1_000, longest_us / 1_000


def run(daemons: int, network: str) -> list[dict[str, object]]:
    started_s = perf_counter()
    stage = Stage(plan(daemons, network))
    world = stage.world
    everybody = set(range(daemons))
    rows = []

    def row(event: str, result: tuple[float, float, float]) -> None:
        noticed_ms, agreed_ms, pause_ms = result
        rows.append(
            {
                "daemons": daemons,
                "network": network,
                "event": event,
                "noticed_ms": round(noticed_ms),
                "agreed_ms": round(agreed_ms),
                "pause_ms": round(pause_ms),
            }
        )

    row("start", measure(world, lambda: is_one_view(world, everybody)))
    world.run(world.now_us + 3_000_000)
    half = set(range(daemons // 2 + daemons % 2))
    world.network.split([tuple(half), tuple(everybody - half)])
    row(
        "partition", measure(world, lambda: is_one_view(world, half) and is_one_view(world, everybody - half))
    )
    world.run(world.now_us + 10_000_000 + Random(daemons).randrange(2_000_000))
    world.network.unite()
    row("merge", measure(world, lambda: is_one_view(world, everybody)))
    world.run(world.now_us + 3_000_000)
    world.hosts[daemons - 1].crash()
    row("crash", measure(world, lambda: is_one_view(world, everybody - {daemons - 1})))
    world.run(world.now_us + 3_000_000)
    world.hosts[0].crash()
    row("crash of the smallest", measure(world, lambda: is_one_view(world, everybody - {0, daemons - 1})))
    print(f"{network}, {daemons} daemons: {perf_counter() - started_s:.1f} s of wall time", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default="3,10,30,100")
    arguments = parser.parse_args()
    rows = [
        row
        for network in NETWORKS
        for size in map(int, arguments.sizes.split(","))
        for row in run(size, network)
    ]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'network':12}{'daemons':>8}  {'event':24}{'noticed':>10}{'agreed':>10}{'pause':>10}   (ms)")
    for row in rows:
        print(
            f"{row['network']:12}{row['daemons']:>8}  {row['event']:24}"
            f"{row['noticed_ms']:>10}{row['agreed_ms']:>10}{row['pause_ms']:>10}"
        )


if __name__ == "__main__":
    main()
