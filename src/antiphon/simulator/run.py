"""Runs: one seed, or many over several cores, with the oracle's verdict on each."""

import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

from antiphon.config import OrderName
from antiphon.simulator.oracle import judge
from antiphon.simulator.outcome import Outcome, Summary, counted, latencies_of, reasons_of, rounds_of
from antiphon.simulator.plan import Plan, SiteProtocols
from antiphon.simulator.play import play
from antiphon.simulator.scenarios import SCENARIOS, plan_of
from antiphon.simulator.stage import Stage
from antiphon.trace import Trace
from antiphon.trace.unsent import take_back

__all__ = ["Outcome", "Summary", "run_plan", "run_seed", "run_seeds", "simulate"]


def run_seed(
    seed: int,
    scenario: str = "mixed",
    trace_dir: Path | None = None,
    order: OrderName | None = None,
    causal: bool = False,
    resilience: bool = False,
    site_protocol: SiteProtocols | None = None,
    sealed: bool = False,
) -> Outcome:
    """One run and its verdict; an exception inside it is part of the outcome. With `order` all daemons have
    that one, whatever the scenario says; with `causal` a third of all messages is causal; with `resilience`
    a third of the agreed ones is resilient; with `site_protocol` sites with several daemons have that one;
    with `sealed` packets between daemons are sealed."""
    if scenario not in SCENARIOS:
        plan_of(scenario, seed)  # says which are known
    make = partial(_varied, scenario, seed, order, causal, resilience, site_protocol, sealed)
    return _judged(make, seed, scenario, trace_dir)


def _varied(
    scenario: str,
    seed: int,
    order: OrderName | None,
    causal: bool,
    resilience: bool,
    site_protocol: SiteProtocols | None,
    sealed: bool,
) -> Plan:
    plan = plan_of(scenario, seed).ordered(order).inside(site_protocol)
    plan = plan.causal() if causal else plan
    plan = plan.sealed() if sealed else plan
    return plan.resilient() if resilience else plan


def run_plan(plan: Plan, trace_dir: Path | None = None) -> Outcome:
    """The outcome of a plan that is already there."""
    return _judged(lambda: plan, plan.seed, plan.scenario, trace_dir)


def simulate(seed: int, scenario: str) -> Stage:
    """The run alone."""
    return play(plan_of(scenario, seed))


def _judged(make: Callable[[], Plan], seed: int, scenario: str, trace_dir: Path | None) -> Outcome:
    started_s = perf_counter()
    # A run makes many long-lived values and no circles: the collector would only search in vain.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        plan = make()
        stage = play(plan)
        daemons = tuple(daemon.name for daemon in plan.daemons())
        sites = tuple(site.name for site in plan.sites for _ in site.daemons)
        order = plan.settings.order
        take_back(stage.world.records)
        edges = tuple(edge.name for edge in plan.edges)
        trace = Trace(scenario, seed, daemons, stage.world.records, sites=sites, order=order, edges=edges)
        if trace_dir is not None:
            trace.write(trace_dir)
        violations = tuple(judge(trace))
        reasons = reasons_of(trace)
        return Outcome(
            seed=seed,
            scenario=scenario,
            sites=len(plan.sites),
            daemons=len(daemons),
            counts=counted(trace, stage),
            digest=trace.digest(),
            latencies=latencies_of(trace),
            rounds=rounds_of(reasons),
            reasons=dict(reasons),
            events=dict(stage.world.cells),
            violations=violations,
            wall_s=perf_counter() - started_s,
        )
    except Exception:
        return Outcome(seed, scenario, wall_s=perf_counter() - started_s, error=traceback.format_exc())
    finally:
        if was_enabled:
            gc.enable()


def run_seeds(
    seeds: range,
    scenario: str,
    *,
    jobs: int = 1,
    trace_dir: Path | None = None,
    order: OrderName | None = None,
    causal: bool = False,
    resilience: bool = False,
    site_protocol: SiteProtocols | None = None,
    sealed: bool = False,
    progress: Callable[[Outcome], None] | None = None,
) -> Summary:
    """Many runs, `jobs` at a time; `progress` hears of each in the order of the seeds."""
    started_s = perf_counter()
    summary = Summary(scenario)
    run = partial(
        run_seed,
        scenario=scenario,
        trace_dir=trace_dir,
        order=order,
        causal=causal,
        resilience=resilience,
        site_protocol=site_protocol,
        sealed=sealed,
    )
    for outcome in _outcomes(seeds, run, jobs):
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
