"""The verb `simulate`: whole clusters in virtual time, judged by the oracle."""

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
import typer

from antiphon.cli.options import Json, among, make_folder
from antiphon.cli.runs import SUMMARY_LINES, coverage_of, seed_range, told_of
from antiphon.cli.screen import progress
from antiphon.config import OrderName
from antiphon.errors import UsageError
from antiphon.short_views import with_short_views
from antiphon.simulator import plan as plans
from antiphon.simulator.outcome import Outcome, Summary
from antiphon.simulator.run import run_plan, run_seeds
from antiphon.simulator.scenarios import SCENARIOS, plan_of
from antiphon.simulator.shrink import shrink

_DETAILED_SEEDS = 5
"""More failing seeds than these are only counted; `--json` tells all."""
_SHRINKING_S = 600.0


def simulate(
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="A-B", help="The seeds to run, both ends included.")
    ] = "",
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help=f"One of {', '.join(SCENARIOS)}.",
            autocompletion=among(SCENARIOS),
        ),
    ] = "mixed",
    order: Annotated[
        str,
        typer.Option(
            "--order",
            metavar="NAME",
            help="One of symmetric, adaptive; without it, the plan's own.",
            autocompletion=among(get_args(OrderName)),
        ),
    ] = "",
    causal: Annotated[bool, typer.Option("--causal", help="Make a third of all messages causal.")] = False,
    resilience: Annotated[
        bool,
        typer.Option(
            "--resilience", help="Let a third of the agreed messages be resilient, whatever the plan says."
        ),
    ] = False,
    site_protocol: Annotated[
        str,
        typer.Option(
            "--site-protocol",
            metavar="NAME",
            help="Inside sites with several daemons: one of ring, token-site, both (by chance, half of the "
            "sites each); without it, the plan's own.",
            autocompletion=among(get_args(plans.SiteProtocols)),
        ),
    ] = "",
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Let packets between daemons be sealed, whatever the plan says.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Run the plan in this file instead of seeds."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="DIR", help="Write the trace of each run into this folder."),
    ] = None,
    smaller: Annotated[
        bool,
        typer.Option(
            "--shrink",
            help="Print the smallest plan with which the first failing seed still fails; the rest on stderr.",
        ),
    ] = False,
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Show which events happened in which state of the membership."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, metavar="N", help="Number of runs in parallel; default: one per core."),
    ] = None,
    json: Json = False,
) -> None:
    """Run the protocols on simulated networks and check every run against the promised properties.

    Exits 0 if all are kept; otherwise 1, with the seed, the property and the command that repeats it.

    \b
    Examples:
      antiphon simulate --seeds 0-199
      antiphon simulate --seeds 17 --scenario swarm --shrink > small.json
      antiphon simulate --file small.json --trace traces
    """
    if bool(seeds) == (file is not None):
        raise UsageError("either --seeds A-B or --file FILE is needed, for example --seeds 0-199")
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}; known: {', '.join(SCENARIOS)}")
    again = _Again(file, _order(order), causal, resilience, _site_protocol(site_protocol), sealed)
    if trace is not None:
        make_folder(trace)
    if file is not None:
        summary = _run_file(file, again, trace)
        wanted = range(0)
    else:
        wanted = seed_range(seeds)
        summary = _run_seeds(wanted, scenario, again, jobs, trace)
    report = _report(summary, wanted, coverage, again)
    with redirect_stdout(sys.stderr if smaller else sys.stdout):
        if json:
            print(msgspec.json.encode(report).decode())
        else:
            _print(report, summary, again)
    if smaller and summary.failures:
        _shrink(summary.failures[0], again)
    if not summary.is_clean:
        raise typer.Exit(1)


class _Again(NamedTuple):
    """What a run was made from, besides its seed."""

    file: Path | None
    order: OrderName | None
    causal: bool
    resilience: bool
    site_protocol: plans.SiteProtocols | None
    sealed: bool

    def vary(self, plan: plans.Plan) -> plans.Plan:
        """The plan as it is run."""
        plan = plan.ordered(self.order).inside(self.site_protocol)
        plan = plan.causal() if self.causal else plan
        plan = plan.sealed() if self.sealed else plan
        return plan.resilient() if self.resilience else plan


def _order(word: str) -> OrderName | None:
    """The order called `word`; None if there is no word."""
    for known in get_args(OrderName):
        if word == known:
            return known  # type: ignore[no-any-return]
    if word:
        raise UsageError(f"unknown order {word!r}; known: {', '.join(get_args(OrderName))}")
    return None


def _site_protocol(word: str) -> plans.SiteProtocols | None:
    """The protocols called `word`; None if there is no word."""
    for known in get_args(plans.SiteProtocols):
        if word == known:
            return known  # type: ignore[no-any-return]
    if word:
        raise UsageError(f"unknown site protocol {word!r}; known: {', '.join(get_args(plans.SiteProtocols))}")
    return None


def _run_seeds(seeds: range, scenario: str, again: _Again, jobs: int | None, trace: Path | None) -> Summary:
    with progress(f"simulating {scenario}", len(seeds)) as advance:
        return run_seeds(
            seeds,
            scenario,
            jobs=jobs or os.cpu_count() or 1,
            trace_dir=trace,
            order=again.order,
            causal=again.causal,
            resilience=again.resilience,
            site_protocol=again.site_protocol,
            sealed=again.sealed,
            progress=lambda outcome: advance(1),
        )


def _run_file(file: Path, again: _Again, trace: Path | None) -> Summary:
    outcome = run_plan(again.vary(plans.read(file)), trace)
    summary = Summary(outcome.scenario)
    summary.add(outcome)
    summary.wall_s = outcome.wall_s
    return summary


# Reports --------------------------------------------------------------------------------------------------


def _report(summary: Summary, seeds: range, coverage: bool, again: _Again) -> dict[str, Any]:
    report = {
        **told_of(summary),
        "first_seed": seeds[0] if seeds else None,
        "last_seed": seeds[-1] if seeds else None,
        "wall_s": round(summary.wall_s, 3),
        "slowest_s": round(summary.slowest_s, 3),
        "packets_per_s": round(summary.packets_per_s),
        "failures": [_failure(outcome, again) for outcome in summary.failures],
    }
    if coverage:
        report["coverage"] = coverage_of(summary)
    return report


def _failure(outcome: Outcome, again: _Again) -> dict[str, Any]:
    return {
        "seed": outcome.seed,
        "repeat": _repeat(outcome, again),
        "violations": [msgspec.to_builtins(violation) for violation in outcome.violations],
        "error": outcome.error,
    }


def _repeat(outcome: Outcome, again: _Again) -> str:
    varied = "" if again.order is None else f" --order {again.order}"
    varied += " --causal" if again.causal else ""
    varied += " --resilience" if again.resilience else ""
    varied += " --sealed" if again.sealed else ""
    varied += "" if again.site_protocol is None else f" --site-protocol {again.site_protocol}"
    if again.file is not None:
        return f"antiphon simulate --file {again.file}{varied}"
    return f"antiphon simulate --seeds {outcome.seed}-{outcome.seed} --scenario {outcome.scenario}{varied}"


def _print(report: dict[str, Any], summary: Summary, again: _Again) -> None:
    lines = [
        "{scenario}: {seeds:,} seeds of {sites_min} to {sites_max} sites, {daemons_min} to {daemons_max} "
        "daemons",
        *SUMMARY_LINES,
        "{packets:,} packets, {lost:,} lost, {duplicated:,} duplicated",
        "{virtual_s:,.1f} s of virtual time in {wall_s:,.1f} s, {packets_per_s:,} packets/s on one core",
    ]
    for line in lines:
        print(line.format(**report))
    if report["rounds"]:
        print("rounds: " + ", ".join(f"{reason} {times:,}" for reason, times in report["rounds"].items()))
    for what, table in report.get("coverage", {}).items():
        for state, cells in table.items():
            print(f"{what} in {state}: " + ", ".join(f"{cell} {times:,}" for cell, times in cells.items()))
    for outcome in summary.failures[:_DETAILED_SEEDS]:
        print(_explained(outcome, again))
    failed = [str(outcome.seed) for outcome in summary.failures]
    print(f"FAILED in {len(failed)} seeds: {', '.join(failed)}" if failed else "every property was kept")


def _explained(outcome: Outcome, again: _Again) -> str:
    """The first violation of each property that this seed breaks, or the exception that ended it."""
    repeat = f"  repeat: {_repeat(outcome, again)}"
    if outcome.error:
        return f"seed {outcome.seed} ended in an exception:\n{outcome.error}{repeat}"
    first = {violation.name: violation for violation in reversed(outcome.violations)}
    return "\n".join([*(with_short_views(str(one)) for one in reversed(first.values())), repeat])


def _shrink(outcome: Outcome, again: _Again) -> None:
    """Print the smallest plan that fails in the same way."""
    file = again.file
    plan = again.vary(plan_of(outcome.scenario, outcome.seed) if file is None else plans.read(file))
    with progress(f"shrinking seed {outcome.seed}", float("inf")) as advance:
        found = shrink(plan, seconds=_SHRINKING_S, heard=lambda smaller: advance(1))
    if found is None:
        raise UsageError("the run is clean when it is repeated: it cannot be shrunk")
    small = found.plan
    print(
        f"{found.fault}: still broken by {len(small.daemons())} daemons, {len(small.clients)} clients, "
        f"{len(small.incidents) + len(small.triggers)} incidents ({found.tried} runs)",
        file=sys.stderr,
    )
    print(small.text())
