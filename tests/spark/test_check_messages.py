"""The properties of messages, on traces into which a lie was put.

Each lie is told twice: in a simulated run, in which positions are places in one order, and in the same run
written as if it had been real, in which they order the events of one process or daemon only.
"""

import pytest
from checked_runs import KINDS, outcomes, run_of_lie, truth, violations
from doctoring import LIES

from antiphon.spark.conformance import Outcome, Violation

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    return outcomes(spark, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    return violations(spark, tmp_path_factory.getbasetemp())


def test_every_property_had_something_to_check(told: list[Outcome]) -> None:
    assert [outcome.title for outcome in told if not outcome.checked] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_a_clean_run(found: dict[str, list[Violation]], kind: str) -> None:
    assert found.get(run_of_lie("truth", kind), []) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_named(found: dict[str, list[Violation]], lie: str, kind: str) -> None:
    _, named = LIES[lie](truth())
    told = found.get(run_of_lie(lie, kind), [])
    assert any(named in str(violation) for violation in told if violation.name == lie), (named, told)


def test_a_violation_is_told_in_words(found: dict[str, list[Violation]]) -> None:
    lie = "2.13 agreed messages"
    violation = next(one for one in found[run_of_lie(lie, "live")] if one.name == lie)
    assert violation.group and violation.view and violation.processes and violation.messages
    for part in (lie, violation.promise, violation.group, *violation.processes):
        assert part in str(violation)
