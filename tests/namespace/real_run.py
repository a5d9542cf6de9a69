"""Play a plan of the simulator on real daemons in network namespaces, and judge it by the same oracle.

python tests/namespace/real_run.py scenarios/partition.json
python tests/namespace/real_run.py --scenario crash --seeds 0-4 --trace traces
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast

from msgspec import Struct
from real_client import Entry, RealDiary, merge
from real_world import RealWorld
from wires import why_not

from antiphon.simulator import plan as plans
from antiphon.simulator.oracle import Violation, judge
from antiphon.simulator.outcome import Counts, counted, reasons_of, rounds_of
from antiphon.simulator.plan import Plan
from antiphon.simulator.play import perform
from antiphon.simulator.scenarios import plan_of
from antiphon.simulator.stage import Stage
from antiphon.simulator.world import World
from antiphon.trace import RELIABLE_SERVICES, Event, Identity, Record, Trace


class RealOutcome(Struct, frozen=True):
    """What came of one plan."""

    trace: Trace
    violations: list[Violation]
    counts: Counts
    rounds: dict[str, int]
    """How often a round of the membership began, by its reason."""
    happened: Counter[str]
    """How many incidents of each kind took effect."""
    regrets: dict[str, str]
    """The logs of daemons that met an error."""
    rings: dict[str, bool]
    """For each daemon that was in a ring at the end, whether its multicasts got through."""
    wall_s: float

    @property
    def is_clean(self) -> bool:
        return not self.violations and not self.regrets

    def __str__(self) -> str:
        counts = self.counts
        lines = [
            f"{self.trace.run}: {len(self.trace.daemons)} daemons, {self.wall_s:.0f} s",
            f"  {counts.messages:,} messages, {counts.deliveries:,} deliveries, {counts.views:,} views, "
            f"{counts.signals:,} signals, {counts.installations:,} daemon views, {counts.crashes} crashes, "
            f"{counts.partitions} partitions and cuts",
            f"  {counts.packets:,} packets, {counts.lost:,} lost, {counts.duplicated:,} duplicated; "
            f"{len(self.trace.records):,} events",
            f"  rounds: {', '.join(f'{reason} {times}' for reason, times in self.rounds.items())}",
            f"  {len(self.rings)} daemons in rings, {sum(self.rings.values())} with multicast",
            *map(str, self.violations),
            *(f"daemon {name} met an error:\n{log}" for name, log in self.regrets.items()),
            "  every property was kept" if self.is_clean else "  FAILED",
        ]
        return "\n".join(lines)


class RealStage(Stage):
    """The simulator's stage with a real world; the simulated one that it comes with never runs."""

    def __init__(self, plan: Plan, world: RealWorld) -> None:
        super().__init__(plan)
        self.world = cast(World, world)


def run_really(plan: Plan, mutants: tuple[str, ...] = (), *, has_multicast: bool = True) -> RealOutcome:
    """One plan, played and judged; with the names of mutants, by daemons that are broken in these ways.

    Without `has_multicast` the network carries none.
    """
    began_s = time.monotonic()
    world = RealWorld(plan, mutants, has_multicast=has_multicast)
    try:
        stage = RealStage(plan, world)
        perform(stage)
        world.network.count()
        witnessed = world.witnessed()
        regrets = {host.name: log for host in world.hosts if "Traceback" in (log := host.log())}
        rings = {
            host.name: bool(told["runtime"]["multicast"]["works"])
            for host in world.hosts
            if (told := host.status()) is not None and told["ring"] is not None
        }
    finally:
        world.close()
    clients = [client for host in world.hosts for client in host.all_clients]
    diaries = [client.diary for client in clients if client.diary is not None]
    trace = _merged(plan, world, diaries, witnessed)
    begins_us = stage.begins_us
    stage.begins_position = next(
        (record.position for record in trace.records if record.time_us >= begins_us), len(trace.records)
    )
    counts = counted(trace, stage)
    violations = judge(trace)
    rounds = rounds_of(reasons_of(trace))
    wall_s = time.monotonic() - began_s
    return RealOutcome(trace, violations, counts, rounds, stage.happened, regrets, rings, wall_s)


def _merged(plan: Plan, world: RealWorld, diaries: list[RealDiary], witnessed: list[Entry]) -> Trace:
    """One trace of all diaries, with times from the beginning of the run."""
    _leave_out_the_unread(diaries, witnessed)
    names = world.config.daemon_names
    trace = merge(plan.seed, names, diaries, witnessed)
    for record in trace.records:
        record.time_us -= world.began_ns // 1_000
    return Trace(plan.scenario, plan.seed, names, trace.records, live=True)


def _leave_out_the_unread(diaries: list[RealDiary], witnessed: list[Entry]) -> None:
    """A message counts as sent when the daemon reads it. Of a session that broke off nobody can tell what was
    read, except for what its daemon then sent."""
    carried: set[Identity] = set()
    for _, _, record in witnessed:
        if record.event is Event.SSEND and record.message is not None:
            daemon, incarnation, session, sequence = record.message
            carried.update((daemon, incarnation, session, sequence + place) for place in range(record.count))
    for diary in diaries:
        if diary.is_over and not diary.is_confirmed:
            diary.entries = [entry for entry in diary.entries if _counts(entry[2], carried)]


def _counts(record: Record, carried: set[Identity]) -> bool:
    """Unreliable messages are not promised anything, nor are their bundles told of."""
    is_promise = record.event is Event.SEND and record.service in RELIABLE_SERVICES
    return not is_promise or record.message in carried


def main() -> int:
    """Plans in files, or of a named scenario; 1 if any promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="plans of runs")
    parser.add_argument("--scenario", default="swarm", help="one of the simulator's")
    parser.add_argument("--seeds", default="", metavar="A-B", help="seeds of that scenario")
    parser.add_argument("--trace", type=Path, metavar="DIR", help="write the trace of each run there")
    parser.add_argument("--no-multicast", action="store_true", help="the network carries no multicasts")
    parser.add_argument("--mutant", action="append", default=[], metavar="NAME", help="break all daemons")
    words = parser.parse_args()
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 2
    todo = [plans.read(file) for file in words.files]
    if words.seeds:
        first, _, last = words.seeds.partition("-")
        todo += [plan_of(words.scenario, seed) for seed in range(int(first), int(last or first) + 1)]
    failures = 0
    for plan in todo:
        outcome = run_really(plan, tuple(words.mutant), has_multicast=not words.no_multicast)
        if words.trace is not None:
            outcome.trace.write(words.trace)
        print(outcome, flush=True)
        failures += not outcome.is_clean
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
