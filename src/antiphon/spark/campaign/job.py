"""The campaign itself: waves of seeds, each simulated by many tasks and then checked by one job."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.simulator.outcome import Outcome, Summary
from antiphon.simulator.scenarios import SCENARIOS
from antiphon.spark.campaign.folder import Checked, Folder, Maker, code_digest, mutant_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antiphon.spark.conformance import Property

WAVE_SEEDS = 1_000
"""Seeds whose traces are on disk at a time: some 1.5 GB."""
TASK_SEEDS = 4
"""Seeds a task: few, since some take fifty times as long as others."""
_LOOK_S = 0.5
_SHARED_PATIENCE_S = 30.0
"""A shared folder may show what another machine wrote only after a while."""


class Campaign(Struct, frozen=True):
    """What is to be run."""

    scenario: str
    seeds: tuple[int, ...]
    folder: Path
    keep_traces: bool = False
    partitions: int | None = None
    """Tasks a wave."""
    wave_seeds: int = WAVE_SEEDS
    mutant: str = ""
    """A planted bug, to see that a campaign can fail."""


class Verdict(Struct, frozen=True):
    """One run that something is wrong with."""

    run: str
    seed: int
    repeat: str
    oracle: tuple[str, ...]
    """Properties that the simulator's oracle found broken, or the exception that ended the run."""
    spark: tuple[str, ...]
    """Properties that the conformance job found broken."""
    what: str
    """The first violation in words."""

    @property
    def is_disputed(self) -> bool:
        """Whether one of the two judges finds it clean."""
        return bool(self.oracle) != bool(self.spark)


class Result(Struct):
    """What came of a campaign."""

    summary: Summary
    failures: list[Verdict]
    checked: int
    """Runs that the conformance job has seen."""
    events_checked: int
    """Events of this time's conformance jobs; runs that were checked before are not among them."""
    growth: list[tuple[int, int]]
    """(seeds, cells of the coverage that these had met)."""
    resumed: int
    """Runs that were there already."""

    @property
    def is_clean(self) -> bool:
        return not self.failures

    @property
    def disputes(self) -> list[Verdict]:
        return [one for one in self.failures if one.is_disputed]


Advance = Callable[[int], None]
"""Hears of each step that is done: a run, or a property of a wave."""


def check_campaign(campaign: Campaign) -> None:
    """UsageError if it cannot be run; before anything is started."""
    if campaign.scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {campaign.scenario!r}; known: {', '.join(SCENARIOS)}")
    if campaign.mutant:
        mutant_named(campaign.mutant)


def steps_of(campaign: Campaign) -> int:
    """How many steps a campaign has."""
    from antiphon.spark.conformance import PROPERTIES

    return len(campaign.seeds) + len(list(_waves(campaign))) * len(PROPERTIES)


def run_campaign(
    spark: "SparkSession",
    campaign: Campaign,
    advance: Advance = lambda steps: None,
    properties: "Sequence[Property] | None" = None,
) -> Result:
    """Run what is not done yet, check what is not checked yet, and add everything up; traces are checked
    against all properties, or against some."""
    from antiphon.spark.conformance import PROPERTIES

    properties = PROPERTIES if properties is None else properties
    check_campaign(campaign)
    folder = Folder(campaign.folder)
    folder.prepare(Maker(code_digest(), campaign.mutant))
    resumed = 0
    events = 0
    for wave in _waves(campaign):
        todo = _todo(folder, campaign, wave)
        resumed += len(wave) - len(todo)
        advance(len(wave) - len(todo))
        if todo:
            _simulate(spark, folder, campaign, todo, advance)
        if folder.waiting():
            events += _check(spark, folder, campaign.keep_traces, advance, properties)
        else:
            advance(len(properties))
    return _added_up(folder, campaign, events, resumed)


def _waves(campaign: Campaign) -> Iterator[Sequence[int]]:
    for start in range(0, len(campaign.seeds), campaign.wave_seeds):
        yield campaign.seeds[start : start + campaign.wave_seeds]


def _todo(folder: Folder, campaign: Campaign, wave: Sequence[int]) -> list[int]:
    """The seeds that have no outcome, or whose trace was lost before it was checked."""
    finished, known = folder.finished(), folder.waiting() | folder.checked().keys()
    runs = {seed: f"{campaign.scenario}-{seed}" for seed in wave}
    return [seed for seed, run in runs.items() if run not in finished or not _is_complete(folder, run, known)]


def _is_complete(folder: Folder, run: str, known: set[str]) -> bool:
    if run in known:
        return True
    outcome = folder.outcome(run)
    return outcome is not None and bool(outcome.error)  # it has no trace


# Simulating -----------------------------------------------------------------------------------------------


def _run_some(seeds: Iterator[int], folder: Folder, scenario: str, mutant: str) -> Iterator[int]:
    """One task: its seeds, one after another. Runs in an executor."""
    for seed in seeds:
        folder.run(seed, scenario, mutant)
        gc.collect()  # a run is made without the collector
        yield seed


def _simulate(
    spark: "SparkSession",
    folder: Folder,
    campaign: Campaign,
    seeds: Sequence[int],
    advance: Advance,
) -> None:
    context = spark.sparkContext
    tasks = campaign.partitions or -(-len(seeds) // TASK_SEEDS)
    work = partial(_run_some, folder=folder, scenario=campaign.scenario, mutant=campaign.mutant)
    job = context.parallelize(list(seeds), min(tasks, len(seeds))).mapPartitions(work)
    runs = {f"{campaign.scenario}-{seed}" for seed in seeds}
    known = 0
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(job.count)
        try:
            while not done.done():
                time.sleep(_LOOK_S)
                known = _tell(folder, runs, known, advance)
            done.result()
        except BaseException:  # also Ctrl-C: tasks must not go on when their result is not wanted
            context.cancelAllJobs()
            raise
    _await_all(folder, runs)
    _tell(folder, runs, known, advance)


def _tell(folder: Folder, runs: set[str], known: int, advance: Advance) -> int:
    finished = len(runs & folder.finished())
    advance(finished - known)
    return finished


def _await_all(folder: Folder, runs: set[str]) -> None:
    deadline_s = time.monotonic() + _SHARED_PATIENCE_S
    while missing := runs - folder.finished():
        if time.monotonic() > deadline_s:
            raise UsageError(
                f"{len(missing)} runs were done, and {folder.path} does not show them: on a cluster --dir "
                "must be a folder that all machines share"
            )
        time.sleep(_LOOK_S)


# Checking -------------------------------------------------------------------------------------------------


def _check(
    spark: "SparkSession",
    folder: Folder,
    keep_traces: bool,
    advance: Advance,
    properties: "Sequence[Property]",
) -> int:
    """One conformance job over all traces that wait; how many events it saw."""
    from antiphon.spark.conformance import check_tables
    from antiphon.spark.traces import ingest_traces, read_traces

    waiting = folder.waiting()
    broken: dict[str, set[str]] = {run: set() for run in waiting}
    tables = f"{folder.work}/tables"
    ingest_traces(spark, str(folder.unchecked), tables)
    events = read_traces(spark, tables).count()
    for outcome in check_tables(spark, tables, str(folder.work), properties, lambda outcome: advance(1)):
        for run in outcome.by_run:
            broken[run].add(outcome.name)

    def keeps(run: str) -> bool:
        outcome = folder.outcome(run)
        return keep_traces or bool(broken[run]) or (outcome is not None and not outcome.is_clean)

    folder.note((Checked(run, tuple(sorted(broken[run]))) for run in sorted(waiting)), keeps)
    return events


# Adding up ------------------------------------------------------------------------------------------------


def _added_up(folder: Folder, campaign: Campaign, events: int, resumed: int) -> Result:
    summary = Summary(campaign.scenario)
    checked = folder.checked()
    result = Result(summary, [], 0, events, [], resumed)
    for seed in campaign.seeds:
        run = f"{campaign.scenario}-{seed}"
        outcome = folder.outcome(run)
        assert outcome is not None, f"{run} was run and has no outcome"
        summary.add(outcome)
        result.growth.append((summary.seeds, len(summary.reasons) + len(summary.events)))
        verdict = checked.get(run)
        result.checked += verdict is not None
        found = verdict.broken if verdict is not None else ()
        if found or not outcome.is_clean:
            result.failures.append(_verdict(outcome, found, campaign.mutant))
    return result


def _verdict(outcome: Outcome, found: tuple[str, ...], mutant: str) -> Verdict:
    run = f"{outcome.scenario}-{outcome.seed}"
    repeat = f"antiphon simulate --seeds {outcome.seed}-{outcome.seed} --scenario {outcome.scenario}"
    if mutant:
        words = f"--seeds {outcome.seed} --scenario {outcome.scenario} --mutant {mutant}"
        repeat = f"antiphon campaign {words} --dir again"
    if outcome.error:
        # Without a trace there is nothing that the second judge could disagree with.
        return Verdict(run, outcome.seed, repeat, outcome.faults, outcome.faults, outcome.error)
    what = outcome.violations[0].what if outcome.violations else ""
    return Verdict(run, outcome.seed, repeat, outcome.faults, found, what)
