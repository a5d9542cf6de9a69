"""What the verbs that run many seeds share: which seeds are meant, and what is told of all runs together."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.errors import UsageError
from antiphon.simulator.outcome import Summary

SUMMARY_LINES = (
    "{messages:,} messages, {deliveries:,} deliveries, {views:,} views, {signals:,} transitional signals",
    "{installations:,} daemon views installed, {deliveries_after_change:,} deliveries after the first",
    "{crashes:,} crashes, {restarts:,} restarts, {partitions:,} partitions and cuts",
)
"""The lines of a summary, made of the fields of `told_of`."""


def seed_range(text: str, *, part: str | None = None, example: str = "0-199") -> range:
    """`A-B`, or a single seed, as a range; `part` of the text, if there is more in it.

    >>> seed_range("3-5")
    range(3, 6)
    """
    match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text if part is None else part)
    if not match:
        raise UsageError(f"--seeds {text!r} is not A-B, for example {example}")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"--seeds {text!r}: the last seed is smaller than the first")
    return range(first, last + 1)


def told_of(summary: Summary) -> dict[str, Any]:
    """What is the same in every report on runs, ready for JSON."""
    counts = msgspec.to_builtins(summary.counts)
    virtual_us = counts.pop("virtual_us")
    return {
        "scenario": summary.scenario,
        "seeds": summary.seeds,
        "sites_min": summary.sites[0],
        "sites_max": summary.sites[1],
        "daemons_min": summary.daemons[0],
        "daemons_max": summary.daemons[1],
        **counts,
        "rounds": dict(summary.rounds.most_common()),
        "virtual_s": round(virtual_us / 1e6, 3),
        "run_s": round(summary.run_s, 3),
    }


def coverage_of(summary: Summary) -> dict[str, dict[str, dict[str, int]]]:
    """What was met in which state of the membership, and how often."""
    return {"reasons": _nested(summary.reasons), "events": _nested(summary.events)}


def _nested(cells: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """State: what was met there: how often."""
    table: dict[str, dict[str, int]] = {}
    for (state, what), times in sorted(cells.items()):
        table.setdefault(state, {})[what] = times
    return table
