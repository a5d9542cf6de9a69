"""The Spark check and the simulator's oracle agree on clean runs: both find nothing."""

import pytest
from checked_runs import oracle_faults, outcomes, violations
from clean_runs import clean_run_names

from antiphon.spark.conformance import Outcome, Violation

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

EVENTS_MIN = 50_000
"""Clean runs and others have many more deliveries than this; with fewer, somebody does not look."""


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    return outcomes(spark, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    return violations(spark, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("run", clean_run_names())
def test_both_find_nothing(found: dict[str, list[Violation]], run: str) -> None:
    assert oracle_faults()[run] == []
    assert found.get(run, []) == []


def test_every_property_was_held_against_events(told: list[Outcome]) -> None:
    assert [outcome.title for outcome in told if not outcome.checked] == []
    by_name = {f"{outcome.number} {outcome.title}": outcome.checked for outcome in told}
    assert by_name["2.7 virtual synchrony"] > EVENTS_MIN
    assert by_name["2.13 one order (daemons)"] > EVENTS_MIN
