"""The fuzzer as an experiment of the lab: its rows, and when it has failed."""

from collections.abc import Iterator, Sequence

import msgspec

from antiphon.lab.experiment import Choices, Experiment, Row
from antiphon.lab.fuzz.conduct import fuzz
from antiphon.lab.fuzz.ending import FuzzEnding
from antiphon.lab.fuzz.files import read_files
from antiphon.lab.fuzz.page import sections
from antiphon.lab.fuzz.plan import OF_FILES, FuzzPlan, plans

REFUSED_SHOWN = 20


def rows_of(runs: Sequence[FuzzPlan]) -> Iterator[Row]:
    """For each door: every spell, then the whole, what was refused, each process and each rule."""
    for plan in runs:
        for seen in read_files(plan) if plan.door in OF_FILES else fuzz(plan):
            if isinstance(seen, FuzzEnding):
                yield from _ending(plan, seen)
            else:
                yield {"part": "spells", "door": plan.door, **msgspec.structs.asdict(seen)}


def _ending(plan: FuzzPlan, ending: FuzzEnding) -> Iterator[Row]:
    door = {"door": ending.door}
    yield {
        "part": "doors", **door, "seed": plan.seed, "mutants": ending.mutants, "seconds": ending.seconds,
        "restarts": ending.restarts,
    }  # fmt: skip
    for reason, times in list(ending.refused.items())[:REFUSED_SHOWN]:
        yield {"part": "refused", **door, "reason": reason, "times": times}
    for name, most in ending.peak_bytes.items():
        resident = ending.memory_bytes.get(name, 0)
        yield {"part": "processes", **door, "process": name, "memory_bytes": resident, "peak_bytes": most}
    for verdict in ending.verdicts:
        yield {
            "part": "rules",
            **door,
            "rule": verdict.rule,
            "promise": verdict.promise,
            "verdict": "broken" if verdict.faults else "kept",
            "faults": "; ".join(verdict.faults) or "none",
        }


def faults(rows: Sequence[Row]) -> list[str]:
    """The broken rules in words, with what repeats them."""
    seeds = {row["door"]: row["seed"] for row in rows if row["part"] == "doors"}
    return [
        f"{row['rule']} at the door {row['door']}, seed {seeds[row['door']]}: {row['faults']}"
        for row in rows
        if row["part"] == "rules" and row["verdict"] != "kept"
    ]


def choose(choices: Choices) -> Experiment:
    """The fuzzer as it was asked for."""
    plans(choices, quick=False)  # what cannot be is told before anything starts

    return Experiment(
        name="fuzz",
        about="mutants of genuine packets and frames against a live cluster: messages flow, nothing breaks",
        steps=lambda quick: sum(plan.spells for plan in plans(choices, quick)),
        measure=lambda quick: rows_of(plans(choices, quick)),
        title="Fuzz",
        intro=(
            "Five real daemons at three sites (a ring of three, a Hop link, a TCP link), a journal and "
            "honest clients, in processes of their own on one machine. Mutants of what genuine daemons and "
            "clients send come in spells, each of one kind. After every spell messages must flow again. At "
            "the doors of files a process reads mutants of files, and must say in words what is wrong."
        ),
        sections=sections,
        choose=choose,
        faults=faults,
        unlisted=frozenset({"spells", "refused"}),
    )


EXPERIMENT = choose(Choices())
