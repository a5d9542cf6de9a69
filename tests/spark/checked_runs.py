"""Runs, most of them not clean, held against the properties by one job: most of what a check costs is fixed.

There are the lies of `doctoring`, each told in a simulated run and in the same run written as if it had been
real, beside the truth in both forms. The clean ones are in `clean_runs`. And there is, for a job of its own,
one run of each mutant; `mutant_seeds.json` says which seed of its scenario shows the bug soonest, so that
nothing is searched. Those of edges have small runs only, which are searched.
"""

import gc
import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from clean_runs import write_clean_runs
from doctoring import LIES, as_live
from lock_lies import LOCK_LIES
from membership_lies import MEMBERSHIP_LIES, SIMULATED_ONLY

from antiphon.simulator.mutants import MUTANTS, Mutant
from antiphon.simulator.mutants.causal import CAUSAL
from antiphon.simulator.oracle import judge
from antiphon.simulator.run import simulate
from antiphon.simulator.scenarios import plan_of
from antiphon.spark.conformance import LEFT_OUT, Outcome, Violation, check
from antiphon.trace import Trace, promises

_LEFT_OUT = {promise.number for promise in LEFT_OUT}
_OF_CAUSAL_MESSAGES = {"2.12", "causes", "2.9", *_LEFT_OUT}
CHECKED = tuple(
    mutant
    for mutant in MUTANTS
    if not mutant.breaks <= (_OF_CAUSAL_MESSAGES if mutant in CAUSAL else _LEFT_OUT)
)
"""The mutants that break something which Spark checks. The oracle alone follows the causes of messages that
are delivered ahead of their places."""
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("mutant_seeds.json").read_text())
KINDS = ("simulated", "live")
SCENARIO, SEED = "swarm", 0
"""A small run that has all services, crashes and signals: the truth."""
TRUTH_ABOUT_LOCKS = "truth about locks"
LOCKS_SEED = 64
"""A small run of the scenario `locks`, in which parts lose their quorum: the truth about these."""


def run_of_mutant(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "-")


def run_of_lie(lie: str, kind: str) -> str:
    return f"{kind} {lie}".replace(" ", "-")


def simulated(scenario: str, seed: int, run: str = "") -> Trace:
    plan = plan_of(scenario, seed)
    daemons = tuple(daemon.name for daemon in plan.daemons())
    edges = tuple(edge.name for edge in plan.edges)
    gc.disable()  # a run makes many long-lived values and no circles
    try:
        return Trace(scenario, seed, daemons, simulate(seed, scenario).world.records, run=run, edges=edges)
    finally:
        gc.enable()


def is_of_edges(mutant: Mutant) -> bool:
    """Whether Spark can see it by what happens at edges alone."""
    return mutant.breaks - _LEFT_OUT == {promises.EDGES.number}


def trace_of_mutant(mutant: Mutant) -> Trace:
    """A run of a broken protocol: of those of edges, the first that shows it to the oracle."""
    seeds = (mutant.shown_by, *range(mutant.seeds)) if is_of_edges(mutant) else (SEEDS[mutant.name],)
    for seed in dict.fromkeys(seeds):
        with mutant.active():
            trace = simulated(mutant.scenario, seed, run_of_mutant(mutant))
        if len(seeds) == 1 or any(violation.name == promises.EDGES.name for violation in judge(trace)):
            break
    return trace


@cache
def truth() -> Trace:
    return simulated(SCENARIO, SEED)


@cache
def truth_about_locks() -> Trace:
    return simulated("locks", LOCKS_SEED)


def _write_lies(folder: Path) -> None:
    _write_lies_about_locks(folder)
    lies = {"truth": lambda trace: (trace.records, ""), **LIES, **MEMBERSHIP_LIES, **SIMULATED_ONLY}
    for lie, doctor in lies.items():
        records, _ = doctor(truth())
        run = Trace(SCENARIO, SEED, truth().daemons, records, run=run_of_lie(lie, "simulated"))
        run.write(folder)
        if lie in SIMULATED_ONLY:
            continue
        as_live(Trace(SCENARIO, SEED, truth().daemons, records, run=run_of_lie(lie, "live")), folder)


def write_some_lies(folder: Path) -> None:
    """A simulated run with each second lie: few enough traces to be held in memory."""
    lies = {**LIES, **MEMBERSHIP_LIES, **SIMULATED_ONLY}
    for lie, doctor in list(lies.items())[::2]:
        records, _ = doctor(truth())
        run = run_of_lie(lie, "simulated")
        Trace(SCENARIO, SEED, truth().daemons, records, run=run).write(folder)


def _write_lies_about_locks(folder: Path) -> None:
    truth = truth_about_locks()
    lies = {TRUTH_ABOUT_LOCKS: lambda trace: (trace.records, ""), **LOCK_LIES}
    for lie, doctor in lies.items():
        records, _ = doctor(truth)
        Trace("locks", LOCKS_SEED, truth.daemons, records, run=run_of_lie(lie, "simulated")).write(folder)
        as_live(Trace("locks", LOCKS_SEED, truth.daemons, records, run=run_of_lie(lie, "live")), folder)


_oracle_faults: dict[str, list[str]] = {}


def oracle_faults() -> dict[str, list[str]]:
    """What the simulator's oracle finds in the clean runs, once the job has run."""
    return _oracle_faults


@cache
def outcomes(spark: Any, scratch: Path) -> list[Outcome]:
    """What every property says of all these runs."""
    folder = Path(mkdtemp(dir=scratch))
    _write_lies(folder)
    _oracle_faults.update(write_clean_runs(folder))
    return check(spark, str(folder), mkdtemp(dir=scratch))


def violations(spark: Any, scratch: Path) -> dict[str, list[Violation]]:
    """The same, run by run; the first who asks waits for the job."""
    return _by_run(outcomes(spark, scratch))


def violations_of_mutants(spark: Any, scratch: Path) -> dict[str, list[Violation]]:
    """What is found in the runs of the mutants."""
    folder = Path(mkdtemp(dir=scratch))
    for mutant in CHECKED:
        trace_of_mutant(mutant).write(folder)
    return _by_run(check(spark, str(folder), mkdtemp(dir=scratch)))


def _by_run(told: list[Outcome]) -> dict[str, list[Violation]]:
    found: dict[str, list[Violation]] = {}
    for outcome in told:
        for violation in outcome.told:
            found.setdefault(violation.run, []).append(violation)
    return found
