"""Runs: one seed, or many over several cores, with the oracle's verdict on each."""

import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.simulator.oracle import Violation, judge
from antiphon.simulator.scenario import SCENARIOS, Setup
from antiphon.simulator.trace import Event, Trace
from antiphon.simulator.workload import Actor
from antiphon.simulator.world import World

LOOKS = 20
"""How often buffers are looked at during the working phase."""
QUIET_STEP_US = 100_000
STILL_MAX_US = 300_000_000
"""Virtual time without any event after which a run that has not come to rest is judged as it stands."""
QUIET_MAX_US = 7_200_000_000
"""The same, whatever happens."""


class Latency(Struct, frozen=True):
    """From the send to the deliveries of the messages of one service."""

    deliveries: int
    mean_us: int
    max_us: int


class Outcome(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    scenario: str
    sites: int = 0
    messages: int = 0
    deliveries: int = 0
    views: int = 0
    packets: int = 0
    lost: int = 0
    duplicated: int = 0
    virtual_us: int = 0
    wall_s: float = 0.0
    digest: str = ""
    latencies: dict[str, Latency] = {}
    violations: tuple[Violation, ...] = ()
    error: str = ""
    """The traceback, if the run ended in an exception."""

    @property
    def is_clean(self) -> bool:
        return not self.violations and not self.error


class Summary(Struct):
    """What came of many seeds."""

    scenario: str
    seeds: int = 0
    messages: int = 0
    deliveries: int = 0
    views: int = 0
    packets: int = 0
    lost: int = 0
    duplicated: int = 0
    virtual_us: int = 0
    run_s: float = 0.0
    """Wall time summed over the runs: processor time, if every job had a core to itself."""
    wall_s: float = 0.0
    failures: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.messages += outcome.messages
        self.deliveries += outcome.deliveries
        self.views += outcome.views
        self.packets += outcome.packets
        self.lost += outcome.lost
        self.duplicated += outcome.duplicated
        self.virtual_us += outcome.virtual_us
        self.run_s += outcome.wall_s
        if not outcome.is_clean:
            self.failures.append(outcome)

    @property
    def is_clean(self) -> bool:
        return not self.failures

    @property
    def packets_per_s(self) -> float:
        """Simulated packets per second of one core."""
        return self.packets / self.run_s if self.run_s else 0.0


def run_seed(seed: int, scenario: str = "mixed", trace_dir: Path | None = None) -> Outcome:
    """One run and its verdict; an exception inside it is part of the outcome."""
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}; known: {', '.join(SCENARIOS)}")
    started_s = perf_counter()
    # A run makes many long-lived values and no circles: the collector would only search in vain.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        setup, world = simulate(seed, scenario)
        trace = Trace(scenario, seed, tuple(daemon.name for daemon in setup.daemons), world.records)
        if trace_dir is not None:
            trace.write(trace_dir)
        return _outcome(trace, setup, world, started_s)
    except Exception:
        return Outcome(seed, scenario, wall_s=perf_counter() - started_s, error=traceback.format_exc())
    finally:
        if was_enabled:
            gc.enable()


def simulate(seed: int, scenario: str) -> tuple[Setup, World]:
    """The run alone: the working phase, then time until nothing is left to do."""
    random = Random(f"{scenario} {seed}")
    setup = SCENARIOS[scenario](random, seed)
    world = World(setup.config, setup.daemons, setup.paths, random)
    for number, (daemon, habits) in enumerate(setup.actors):
        actor = Actor(world, daemon, f"c{number}", habits, setup.working_us)
        early_us = random.randint(0, setup.working_us // 4)
        actor.start(early_us if habits.starts_us is None else habits.starts_us)
    for turn in range(1, LOOKS + 1):
        world.run(setup.working_us * turn // LOOKS)
        world.look()
    _come_to_rest(world)
    return setup, world


def _come_to_rest(world: World) -> None:
    """Let time pass until all buffers are empty and stay so while anything could still be under way."""
    grace_us = 500_000 + 8 * max(path.latency_us for path in world.paths.values())
    end_us = world.now_us + QUIET_MAX_US
    still_us = world.now_us
    step_us = QUIET_STEP_US
    while world.now_us < min(end_us, still_us + STILL_MAX_US):
        events = len(world.records)
        world.run(world.now_us + step_us)
        if len(world.records) > events:
            still_us = world.now_us
        if not world.is_busy and world.look():
            events = len(world.records)
            world.run(world.now_us + grace_us)
            if len(world.records) == events and world.look() and not world.is_busy:
                return
        step_us = min(step_us * 2, 5_000_000)


def _outcome(trace: Trace, setup: Setup, world: World, started_s: float) -> Outcome:
    violations = tuple(judge(trace))
    paths = world.paths.values()
    counts = dict.fromkeys(Event, 0)
    for record in trace.records:
        counts[record.event] += 1
    return Outcome(
        seed=trace.seed,
        scenario=trace.scenario,
        sites=len(setup.daemons),
        messages=counts[Event.SEND],
        deliveries=counts[Event.DELIVER],
        views=counts[Event.VIEW],
        packets=sum(path.sent for path in paths),
        lost=sum(path.lost for path in paths),
        duplicated=sum(path.duplicated for path in paths),
        virtual_us=world.now_us,
        digest=trace.digest(),
        latencies=_latencies(trace),
        violations=violations,
        wall_s=perf_counter() - started_s,
    )


def _latencies(trace: Trace) -> dict[str, Latency]:
    times: dict[str, list[int]] = {}
    for record in trace.records:
        if record.event is Event.DELIVER and record.message in trace.sends:
            time_us = record.time_us - trace.sends[record.message].time_us
            times.setdefault(record.service, []).append(time_us)
    return {
        service: Latency(len(values), sum(values) // len(values), max(values))
        for service, values in sorted(times.items())
    }


def run_seeds(
    seeds: range,
    scenario: str,
    *,
    jobs: int = 1,
    trace_dir: Path | None = None,
    progress: Callable[[Outcome], None] | None = None,
) -> Summary:
    """Many runs, `jobs` at a time; `progress` hears of each in the order of the seeds."""
    started_s = perf_counter()
    summary = Summary(scenario)
    for outcome in _outcomes(seeds, partial(run_seed, scenario=scenario, trace_dir=trace_dir), jobs):
        summary.add(outcome)
        if progress is not None:
            progress(outcome)
    summary.wall_s = perf_counter() - started_s
    return summary


def _die_when_told() -> None:
    """In a process of the pool: SIGTERM ends it at once. A handler inherited from the program would run only
    between two steps of Python, where one that waits for a lock never comes; the pool would wait for it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _outcomes(seeds: range, run: Callable[[int], Outcome], jobs: int) -> Iterator[Outcome]:
    if jobs <= 1 or len(seeds) <= 1:
        yield from map(run, seeds)
        return
    # Ctrl-C reaches the whole process group. The pool's processes are born deaf to it: their owner ends them.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with multiprocessing.get_context("fork").Pool(min(jobs, len(seeds)), _die_when_told) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            yield from pool.imap(run, seeds)
            pool.close()
            pool.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
