"""The verb `campaign`: thousands of simulator seeds on Spark, judged twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from antiphon.cli.options import Json, Master, make_folder
from antiphon.cli.runs import SUMMARY_LINES, coverage_of, seed_range, told_of
from antiphon.cli.screen import progress, working
from antiphon.errors import UsageError
from antiphon.plots.page import need_libraries
from antiphon.words import counted

if TYPE_CHECKING:
    from antiphon.spark.campaign.job import Result

_SHOWN = 20
"""Failing seeds that are printed; the page has more, and --json all."""
_SEEDS_MAX = 10_000_000


def campaign(
    seeds: Annotated[
        str,
        typer.Option("--seeds", metavar="A-B", help="The seeds, both ends included; commas between several."),
    ],
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help="As in `antiphon simulate`.")
    ] = "swarm",
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Outcomes, traces and the page; shared by all machines."),
    ] = Path("campaign"),
    master: Master = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, metavar="N", help="Tasks per wave; default: one for 4 seeds."),
    ] = None,
    wave: Annotated[
        int,
        typer.Option(
            "--wave", min=1, metavar="N", help="Seeds per wave; traces of one wave are on disk at a time."
        ),
    ] = 1_000,
    keep_traces: Annotated[
        bool, typer.Option("--keep-traces", help="Keep the traces of clean runs, too.")
    ] = False,
    mutant: Annotated[
        str, typer.Option("--mutant", metavar="NAME", help="Plant this known bug, to see the campaign fail.")
    ] = "",
    json: Json = False,
) -> None:
    """Run many simulator seeds on Spark and check their traces against the promises, in one job a wave.

    Each run is checked twice, by the simulator's oracle and by the conformance job; both must find it clean.
    Seeds with results in DIR are not run again. Exits 0 if all properties are kept, 1 if not.

    \b
    Examples:
      antiphon campaign --seeds 0-199 --scenario swarm
      antiphon campaign --seeds 0-9999 --dir /shared --master spark://head:7077
    """
    from antiphon.spark.campaign.folder import Folder
    from antiphon.spark.campaign.job import Campaign, check_campaign, run_campaign, steps_of
    from antiphon.spark.campaign.page import page_of
    from antiphon.spark.session import spark_session

    wanted = _seeds(seeds)
    plan = Campaign(scenario, wanted, folder, keep_traces, partitions, wave, mutant)
    check_campaign(plan)
    need_libraries("spark")
    make_folder(folder)
    with working("starting Spark", 15, in_logs=True):
        spark = spark_session("antiphon campaign", master)
    with progress(f"simulating and checking {scenario}", steps_of(plan), in_logs=True) as advance:
        result = run_campaign(spark, plan, advance)
    report = _report(result)
    Folder(folder).finish(page_of(result), report)
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        _print(report, result, folder)
    if not result.is_clean:
        raise typer.Exit(1)


def _seeds(text: str) -> tuple[int, ...]:
    """Ranges and single seeds, each once, in order.

    >>> _seeds("7,0-2,1-3")
    (0, 1, 2, 3, 7)
    """
    wanted: set[int] = set()
    for part in text.split(","):
        some = seed_range(text, part=part.strip(), example="0-199 or 3,10-19")
        if len(some) > _SEEDS_MAX:
            raise UsageError(f"--seeds {text!r}: more than {_SEEDS_MAX:,} seeds")
        wanted.update(some)
    return tuple(sorted(wanted))


def _report(result: "Result") -> dict[str, Any]:
    summary = result.summary
    return {
        **told_of(summary),
        "resumed": result.resumed,
        "checked": result.checked,
        "events_checked": result.events_checked,
        "cells": result.growth[-1][1],
        "coverage": coverage_of(summary),
        "disputes": len(result.disputes),
        "failures": [msgspec.to_builtins(one) for one in result.failures],
    }


def _print(report: dict[str, Any], result: "Result", folder: Path) -> None:
    lines = [
        "{scenario}: {all_seeds} of {sites_min} to {sites_max} sites, {daemons_min} to {daemons_max} "
        "daemons; {resumed:,} were there already",
        *SUMMARY_LINES,
        "{packets:,} packets, {lost:,} lost, {duplicated:,} duplicated, {virtual_s:,.1f} s of virtual time",
        "{all_checked} checked on Spark, {events_checked:,} events this time; {cells:,} cells of coverage",
    ]
    counts = {
        "all_seeds": counted(report["seeds"], "seed"),
        "all_checked": counted(report["checked"], "run"),
    }
    for line in lines:
        print(line.format(**report, **counts))
    for one in result.failures[:_SHOWN]:
        oracle, spark = (", ".join(found) or "clean" for found in (one.oracle, one.spark))
        print(f"seed {one.seed}: oracle: {oracle}; Spark: {spark}")
        if one.what:
            print(f"  {one.what.strip()}")
        print(f"  repeat: {one.repeat}")
    if result.failures:
        disputed = f"; the judges disagree on {len(result.disputes):,}" if result.disputes else ""
        print(f"FAILED in {counted(len(result.failures), 'seed')}{disputed}")
    else:
        print("every property was kept, and both judges agree")
    print(f"page: {folder / 'campaign.html'}")
