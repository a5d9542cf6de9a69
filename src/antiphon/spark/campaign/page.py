"""The page of a campaign: what was run, what failed, and which cases were met."""

from collections import Counter
from collections.abc import Mapping, Sequence

from antiphon.plots.charts import HeatMap, Line, LineChart, bar_chart
from antiphon.plots.page import Block, Facts, Figure, Page, Paragraph, Section, Table, render
from antiphon.plots.words import count, duration, short_count
from antiphon.simulator.outcome import Summary
from antiphon.spark.campaign.job import Result, Verdict
from antiphon.words import counted

_FAILURES_MAX = 100
_POINTS_MAX = 400
STATES = ("seg", "rep", "gather", "statetrans", "evs", "op", "ggather", "gop")
"""The states of the membership, and of the groups, in the order in which a round goes through them."""


def page_of(result: Result) -> str:
    """The whole page."""
    summary = result.summary
    sections = [
        Section("failures", "Failing seeds", _failures(result)),
        Section("coverage", "Coverage", _coverage(result)),
        Section("reasons", "Why states were entered", _cells(summary.reasons, "reason")),
        Section("events", "What was met in each state", _cells(summary.events, "event")),
        Section("rounds", "Why rounds began", _rounds(summary)),
    ]
    title = f"Campaign of {counted(summary.seeds, 'seed')} of {summary.scenario}"
    return render(Page(title, _intro(result), sections, "Made by antiphon campaign."))


def _intro(result: Result) -> list[Block]:
    summary, counts = result.summary, result.summary.counts
    if result.is_clean:
        verdict = Paragraph("Every property was kept; both judges agree on every run.", "note good")
    else:
        words = f"{counted(len(result.failures), 'seed')} failed"
        if result.disputes:
            words += f"; the two judges disagree on {len(result.disputes):,} of them"
        verdict = Paragraph(f"{words}.", "note bad")
    numbers = Facts(
        (
            ("seeds", count(summary.seeds)),
            ("checked on Spark", count(result.checked)),
            ("daemons", f"{summary.daemons[0]} to {summary.daemons[1]}"),
            ("messages", count(counts.messages)),
            ("deliveries", count(counts.deliveries)),
            ("views", count(counts.views)),
            ("daemon views", count(counts.installations)),
            ("crashes", count(counts.crashes)),
            ("partitions and cuts", count(counts.partitions)),
            ("packets", count(counts.packets)),
            ("packets lost", count(counts.lost)),
            ("virtual time", duration(counts.virtual_us)),
        )
    )
    return [verdict, numbers]


def _failures(result: Result) -> list[Block]:
    if result.is_clean:
        return [Paragraph("None.")]
    shown = result.failures[:_FAILURES_MAX]
    more = f" ({len(shown)} of {len(result.failures):,})" if len(shown) < len(result.failures) else ""
    caption = "What the simulator's oracle and the conformance job found, and the command that repeats it"
    return [
        Table(
            caption + more,
            ("seed", "oracle", "Spark", "what", "repeat"),
            [_failure_row(one) for one in shown],
            numbers_from=5,
        )
    ]


def _failure_row(one: Verdict) -> Sequence[str]:
    return (
        str(one.seed),
        ", ".join(one.oracle) or "clean",
        ", ".join(one.spark) or "clean",
        one.what.strip().rpartition("\n")[2],
        one.repeat,
    )


def _coverage(result: Result) -> list[Block]:
    growth = result.growth
    step = max(1, len(growth) // _POINTS_MAX)
    points = tuple((float(seeds), float(cells)) for seeds, cells in (*growth[::step], growth[-1]))
    axes = ("seeds", "cells of state and cause, or state and event")
    chart = LineChart("Growth of coverage", (Line("cells met", points),), axes, (count, count))
    last = growth[-1][1]
    half = next(seeds for seeds, cells in growth if cells * 2 >= last)
    late = next(seeds for seeds, cells in growth if cells == last)
    words = (
        f"{last:,} cells were met: pairs of a state of the membership and a reason for entering it, or an "
        f"event that came in it. Half were there after {_seeds(half)}; the last new one came with "
        f"seed number {late:,}. As long as the curve rises, more seeds show more."
    )
    return [Paragraph(words), Figure("Cells met by the first seeds", chart)]


def _seeds(number: int) -> str:
    return f"{number:,} seeds" if number > 1 else "the first seed"


def _cells(cells: Mapping[tuple[str, str], int], noun: str) -> list[Block]:
    if not cells:
        return [Paragraph("Nothing was met.")]
    states = sorted({state for state, _ in cells}, key=_place)
    rows = sorted({what for _, what in cells})
    values = {(what, state): float(times) for (state, what), times in cells.items()}
    table = Table(
        "In numbers",
        (noun, *states),
        [(row, *(f"{cells.get((state, row), 0):,}" for state in states)) for row in rows],
    )
    text = (
        f"How often each {noun} (row) was met for each state (column). An empty cell was not met: it cannot "
        "happen, or no run has tried it."
    )
    chart = HeatMap(f"{noun} by state", rows, states, values, short_count)
    return [Figure(text, chart), table]


def _place(state: str) -> tuple[int, str]:
    return (STATES.index(state) if state in STATES else len(STATES), state)


def _rounds(summary: Summary) -> list[Block]:
    rounds: Counter[str] = summary.rounds
    if not rounds:
        return [Paragraph("No round began.")]
    rows = [(reason, float(times)) for reason, times in rounds.most_common()]
    chart = bar_chart("Rounds by reason", rows, "rounds", count)
    return [Figure("Rounds of the membership, by the reason for which they began", chart)]
