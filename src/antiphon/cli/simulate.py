"""The verb `simulate`: whole clusters in virtual time, judged by the oracle."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from antiphon.cli.options import Json, make_folder
from antiphon.cli.screen import progress
from antiphon.errors import UsageError
from antiphon.simulator.run import Outcome, Summary, run_seeds
from antiphon.simulator.scenario import SCENARIOS

_DETAILED_SEEDS = 5
"""More failing seeds than these are only counted; `--json` tells all."""


def simulate(
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="A-B", help="The seeds to run, both ends included.")
    ],
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help=f"One of {', '.join(SCENARIOS)}.")
    ] = "mixed",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="DIR", help="Write the trace of each run into this folder."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Runs at a time; without it, one a core.")
    ] = None,
    json: Json = False,
) -> None:
    """Run the protocols on simulated networks and hold every run against the promised properties.

    Exits 0 if all are kept; otherwise 1, with the seed, the property and the command that repeats it.

    \b
    Example:
      antiphon simulate --seeds 0-199
    """
    wanted = _range(seeds)
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}; known: {', '.join(SCENARIOS)}")
    if trace is not None:
        make_folder(trace)
    sites: list[int] = []
    with progress(f"simulating {scenario}", len(wanted)) as advance:

        def heard(outcome: Outcome) -> None:
            sites.append(outcome.sites)
            advance(1)

        summary = run_seeds(
            wanted, scenario, jobs=jobs or os.cpu_count() or 1, trace_dir=trace, progress=heard
        )
    report = _report(summary, wanted, sites)
    if json:
        print(msgspec.json.encode(report).decode())
    else:
        _print(report, summary)
    if not summary.is_clean:
        raise typer.Exit(1)


def _range(text: str) -> range:
    """`A-B`, or a single seed, as a range.

    >>> _range("3-5")
    range(3, 6)
    """
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
    if not match:
        raise UsageError(f"--seeds {text!r} is not A-B, for example 0-199")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"--seeds {text!r}: the last seed is smaller than the first")
    return range(first, last + 1)


def _report(summary: Summary, seeds: range, sites: list[int]) -> dict[str, Any]:
    return {
        "scenario": summary.scenario,
        "first_seed": seeds[0],
        "last_seed": seeds[-1],
        "seeds": summary.seeds,
        "sites_min": min(sites),
        "sites_max": max(sites),
        "messages": summary.messages,
        "deliveries": summary.deliveries,
        "views": summary.views,
        "packets": summary.packets,
        "lost": summary.lost,
        "duplicated": summary.duplicated,
        "virtual_s": round(summary.virtual_us / 1e6, 3),
        "wall_s": round(summary.wall_s, 3),
        "packets_per_s": round(summary.packets_per_s),
        "failures": [_failure(outcome) for outcome in summary.failures],
    }


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "repeat": _repeat(outcome),
        "violations": [msgspec.to_builtins(violation) for violation in outcome.violations],
        "error": outcome.error,
    }


def _repeat(outcome: Outcome) -> str:
    return f"antiphon simulate --seeds {outcome.seed}-{outcome.seed} --scenario {outcome.scenario}"


def _print(report: dict[str, Any], summary: Summary) -> None:
    lines = (
        "{scenario}: {seeds:,} seeds of {sites_min} to {sites_max} sites",
        "{messages:,} messages, {deliveries:,} deliveries, {views:,} views",
        "{packets:,} packets, {lost:,} lost, {duplicated:,} duplicated",
        "{virtual_s:,.1f} s of virtual time in {wall_s:,.1f} s, {packets_per_s:,} packets/s on one core",
    )
    for line in lines:
        print(line.format(**report))
    for outcome in summary.failures[:_DETAILED_SEEDS]:
        print(_explained(outcome))
    failed = [str(outcome.seed) for outcome in summary.failures]
    print(f"FAILED in {len(failed)} seeds: {', '.join(failed)}" if failed else "every property was kept")


def _explained(outcome: Outcome) -> str:
    """The first violation of each property that this seed breaks, or the exception that ended it."""
    if outcome.error:
        return f"seed {outcome.seed} ended in an exception:\n{outcome.error}  repeat: {_repeat(outcome)}"
    first = {violation.name: violation for violation in reversed(outcome.violations)}
    return "\n".join(str(violation) for violation in reversed(first.values()))
