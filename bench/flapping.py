"""What a flapping pair, daemon or site costs the daemons that are well, in virtual time.

    .venv/bin/python bench/flapping.py [--json] [--minutes 10]

Four sites, each joined to each other: one daemon a site for the pair and the daemon, two for the site. What
flaps is cut off and well again in turn. Every number is virtual and repeats exactly. At two daemons that are
well, members of one group send an agreed message every 200 ms. Counted are, per minute, the daemon views that
a daemon which is well installs, the seconds in which it has no view that works (silent), and those in which
a member gets nothing although both send (waiting: gaps of more than 0.5 s between deliveries, with whatever
they are caused by). The worst daemon is shown, first for two minutes in which damping grows, then later ones.
"""

import argparse
import json
from itertools import product

from antiphon.config import LinkConfig, Settings
from antiphon.config.timing import Preset
from antiphon.service import Service
from antiphon.simulator.client import Client
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.play import form
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World
from antiphon.trace import Event, Record

NETWORKS: dict[Preset, int] = {"lan": 100, "wan": 50_000}
"""Latency between sites one way, in microseconds."""
RHYTHMS: dict[Preset, dict[str, tuple[int, int]]] = {
    "lan": {"pair": (1_500_000, 6_000_000), "daemon": (1_500_000, 6_000_000), "site": (700_000, 700_000)},
    "wan": {"pair": (4_000_000, 9_000_000), "daemon": (4_000_000, 9_000_000), "site": (3_000_000, 3_000_000)},
}
"""How long what flaps is cut off, and how long it is well: the silences are longer than the suspicion."""
SITES = 4
GROWING_US = 120_000_000
TALK_US = 200_000
GAP_US = 500_000
COUNTED = ("views", "silent_s", "waiting_s")
MINUTE_US = 60_000_000


def plan(preset: Preset, per_site: int) -> Plan:
    sites = tuple(
        Site(f"s{site}", tuple(Daemon(f"d{site}{daemon}", wall_us=10**15) for daemon in range(per_site)))
        for site in range(SITES)
    )
    routes = tuple(
        Route(LinkConfig((f"s{one}", f"s{other}")), NETWORKS[preset])
        for one in range(SITES)
        for other in range(one + 1, SITES)
    )
    return Plan("bench", 0, sites, routes, (), 0, Settings(membership=preset, delta_ms=20.0))


def talk(world: World, number: int, client: Client) -> None:
    """A member says something now, and again and again."""
    client.send(("g",), Service.AGREED, [b"tick"])
    world.settle(number)
    world.schedule(world.now_us + TALK_US, talk, world, number, client)


def run(what: str, preset: Preset, minutes: int) -> dict[str, object]:
    """One row of the table."""
    per_site = 2 if what == "site" else 1
    world = Stage(plan(preset, per_site)).world
    form(world)
    sick = range(SITES * per_site - per_site, SITES * per_site)
    well = [number for number in range(SITES * per_site) if number not in sick]
    for number in well[:2]:
        client = world.connect(number, f"c{number}")
        assert client is not None
        client.join("g")
        talk(world, number, client)
    world.run(world.now_us + 5_000_000)
    others = [0] if what == "pair" else well
    pairs = [pair for one, other in product(sick, others) for pair in ((one, other), (other, one))]
    down_us, up_us = RHYTHMS[preset][what]
    begin_us = world.now_us
    while world.now_us < begin_us + minutes * MINUTE_US:
        for pair in pairs:
            world.network.block(pair)
        world.run(world.now_us + down_us)
        for pair in pairs:
            world.network.unblock(pair)
        world.run(world.now_us + up_us)
    row: dict[str, object] = {"network": preset, "flaps": what, "down_s": down_us / 1e6, "up_s": up_us / 1e6}
    middle_us = begin_us + GROWING_US
    for span, from_us, to_us in (("growing", begin_us, middle_us), ("later", middle_us, world.now_us)):
        span_min = (to_us - from_us) / MINUTE_US
        names = [world.config.daemon_names[number] for number in well]
        counts = [counted(world.records, name, from_us, to_us) for name in names]
        for place, count in enumerate(COUNTED):
            row[f"{span}_{count}"] = round(max(each[place] for each in counts) / span_min, 2)
    return row


def counted(records: list[Record], daemon: str, from_us: int, to_us: int) -> tuple[float, float, float]:
    """Of a daemon in this span: views installed, seconds without one that works, seconds of waiting."""
    views = silent_us = waiting_us = 0
    since_us: int | None = None
    heard_us: int | None = None
    for record in records:
        if record.daemon != daemon:
            continue
        is_inside = from_us <= record.time_us < to_us
        if record.event is Event.SVIEW and is_inside:
            views += 1
        elif record.event is Event.DELIVER and is_inside:
            if heard_us is not None and record.time_us - heard_us > GAP_US:
                waiting_us += record.time_us - heard_us
            heard_us = record.time_us
        elif record.event is Event.STATE and record.state in ("seg", "statetrans") and since_us is None:
            since_us = record.time_us
        elif record.event is Event.STATE and record.state == "op" and since_us is not None:
            silent_us += max(0, min(record.time_us, to_us) - max(since_us, from_us))
            since_us = None
    if since_us is not None:
        silent_us += max(0, to_us - max(since_us, from_us))
    return views, silent_us / 1e6, waiting_us / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--minutes", type=int, default=10)
    arguments = parser.parse_args()
    rows = [run(what, preset, arguments.minutes) for preset in NETWORKS for what in RHYTHMS[preset]]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'':38}{'first two minutes':^32}{'after them':^32}")
    print(
        f"{'network':8}{'flaps':10}{'down s':>10}{'up s':>10}"
        + f"{'views':>10}{'silent':>11}{'waiting':>11}" * 2
    )
    for row in rows:
        print(
            f"{row['network']:8}{row['flaps']:10}{row['down_s']:>10}{row['up_s']:>10}"
            f"{row['growing_views']:>10}{row['growing_silent_s']:>11}{row['growing_waiting_s']:>11}"
            f"{row['later_views']:>10}{row['later_silent_s']:>11}{row['later_waiting_s']:>11}"
        )


if __name__ == "__main__":
    main()
