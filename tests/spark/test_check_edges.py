"""What happens at edges, on traces into which a lie was put (see `edge_lies`): the oracle finds it, and so
does the Spark check, in a simulated run and in the same run written as if it had been real.

A lie is told of the smallest of a few runs of which it can be told. No seed is known to have what it needs.
"""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from checked_runs import KINDS, run_of_lie, simulated
from doctoring import as_live
from edge_lies import EDGE_LIES, SIMULATED_EDGE_LIES

from antiphon.simulator.oracle import judge
from antiphon.spark.conformance import PROPERTIES, Violation, check
from antiphon.trace import Record, Trace, promises

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

RUNS = [(scenario, seed) for scenario in ("edges", "rim") for seed in range(6)]
ALL_LIES = {**EDGE_LIES, **SIMULATED_EDGE_LIES}
CASES = [(lie, kind) for lie in EDGE_LIES for kind in KINDS] + [
    (lie, "simulated") for lie in SIMULATED_EDGE_LIES
]


@cache
def truths() -> list[Trace]:
    """Runs in which the oracle finds nothing, the smallest first."""
    runs = [simulated(scenario, seed) for scenario, seed in RUNS]
    return sorted((run for run in runs if not judge(run)), key=lambda run: len(run.records))


@cache
def told(lie: str) -> tuple[Trace, list[Record], str]:
    """The truth, the lie that is told of it, and what a finding must name."""
    for truth in truths():
        try:
            return (truth, *ALL_LIES[lie](truth))
        except LookupError:
            continue
    raise AssertionError(f"none of the runs has what it takes to tell the lie {lie!r}")


def as_told(truth: Trace, records: list[Record], run: str) -> Trace:
    return Trace(truth.scenario, truth.seed, truth.daemons, records, run=run, edges=truth.edges)


@pytest.fixture(scope="module")
def found(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    folder = Path(mkdtemp(dir=tmp_path_factory.getbasetemp()))
    for kind in KINDS:
        write = as_live if kind == "live" else Trace.write
        for lie in EDGE_LIES if kind == "live" else ALL_LIES:
            truth, records, _ = told(lie)
            write(as_told(truth, records, run_of_lie(lie, kind)), folder)
        for number, truth in enumerate(truths()[:3]):
            write(as_told(truth, truth.records, run_of_lie(f"truth {number}", kind)), folder)
    (prop,) = (prop for prop in PROPERTIES if prop.promise is promises.EDGES)
    (outcome,) = check(spark, str(folder), mkdtemp(dir=tmp_path_factory.getbasetemp()), [prop])
    by_run: dict[str, list[Violation]] = {}
    for violation in outcome.told:
        by_run.setdefault(violation.run, []).append(violation)
    return by_run


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_clean_runs(found: dict[str, list[Violation]], kind: str) -> None:
    assert [found.get(run_of_lie(f"truth {number}", kind), []) for number in range(3)] == [[], [], []]


@pytest.mark.parametrize(("lie", "kind"), CASES)
def test_a_lie_is_found_and_named(found: dict[str, list[Violation]], lie: str, kind: str) -> None:
    _, _, named = told(lie)
    findings = found.get(run_of_lie(lie, kind), [])
    assert any(named in str(violation) for violation in findings), (named, findings)


@pytest.mark.parametrize("lie", ALL_LIES)
def test_the_oracle_finds_it_too(lie: str) -> None:
    truth, records, named = told(lie)
    violations = judge(as_told(truth, records, ""))
    assert any(named in str(violation) for violation in violations if violation.name == promises.EDGES.name)
