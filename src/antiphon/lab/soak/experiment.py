"""The soak as an experiment of the lab: its rows, and when it has failed."""

from collections.abc import Iterator, Sequence

import msgspec

from antiphon.errors import UsageError
from antiphon.lab.experiment import Experiment, Row
from antiphon.lab.soak.cluster import SITES
from antiphon.lab.soak.conduct import SoakEnding, soak
from antiphon.lab.soak.page import sections
from antiphon.lab.soak.plan import (
    ACTS,
    LONGEST_SECONDS,
    QUICK_SECONDS,
    SECONDS,
    SHORTEST_SECONDS,
    SoakPlan,
)

LASTING_CLIENTS = len(SITES) + 1


def rows_of(plan: SoakPlan) -> Iterator[Row]:
    """Every look, then what each process did, what all clients did, and each rule."""
    for seen in soak(plan):
        if isinstance(seen, SoakEnding):
            yield from _ending(seen)
        else:
            yield {"part": "looks", **msgspec.structs.asdict(seen)}


def _ending(ending: SoakEnding) -> Iterator[Row]:
    for growth in ending.growths:
        yield {
            "part": "processes",
            "process": growth.process,
            "second_act_bytes": growth.middle_bytes,
            "last_act_bytes": growth.last_bytes,
            "limit_bytes": growth.most_bytes,
            "rest_bytes": growth.rest_bytes[-1],
            "warm_descriptors": growth.rest_descriptors[0],
            "end_descriptors": growth.rest_descriptors[-1],
        }
    yield {
        "part": "traffic",
        **msgspec.structs.asdict(ending.tally),
        "cut_off": ending.cut_off,
        "records": ending.records,
    }
    for verdict in ending.verdicts:
        yield {
            "part": "rules",
            "rule": verdict.rule,
            "promise": verdict.promise,
            "verdict": "broken" if verdict.faults else "kept",
            "faults": "; ".join(verdict.faults) or "none",
        }


def faults(rows: Sequence[Row]) -> list[str]:
    """The broken rules in words."""
    return [
        f"{row['rule']}: {row['faults']}"
        for row in rows
        if row["part"] == "rules" and row["verdict"] != "kept"
    ]


def lasting(seconds: float) -> Experiment:
    """A soak of this length."""
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise UsageError(f"a soak takes from {SHORTEST_SECONDS:g} s to a week, not {seconds:g} s")
    return _experiment(SoakPlan(seconds), SoakPlan(seconds))


def _steps(plan: SoakPlan) -> int:
    processes = sum(SITES.values()) + LASTING_CLIENTS
    return ACTS * (plan.looks + 1) + processes + 1 + len(_rules(plan))


def _rules(plan: SoakPlan) -> tuple[str, ...]:
    always = ("descriptors", "at rest", "bounds", "daemons", "oracle")
    return (*always, "memory", "trials") if plan.is_long else always


def _experiment(usual: SoakPlan, quick: SoakPlan) -> Experiment:
    def choose(is_quick: bool) -> SoakPlan:
        return quick if is_quick else usual

    return Experiment(
        name="soak",
        about="a cluster under floods, churn, pauses, crashes and slow receivers: nothing leaks or breaks",
        steps=lambda is_quick: _steps(choose(is_quick)),
        measure=lambda is_quick: rows_of(choose(is_quick)),
        title="Soak",
        intro=(
            "Six real daemons at three sites (a ring of three, a Hop link with losses, a TCP link) and their "
            "clients, in processes of their own on one machine, in three acts. In each, all clients flood at "
            "the same time in bursts, sessions come, go and die, two receivers read far too slowly, and "
            "daemons are paused, killed and started again. After each, all clients go away. The first act is "
            "the warm-up. Everything that happened was traced and judged by the oracle."
        ),
        sections=sections,
        lasting=lasting,
        faults=faults,
        unlisted=frozenset({"looks"}),
    )


EXPERIMENT = _experiment(SoakPlan(SECONDS), SoakPlan(QUICK_SECONDS))
