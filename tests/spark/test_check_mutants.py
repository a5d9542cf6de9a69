"""Every planted bug that the simulator's oracle catches is caught by the Spark check, too."""

from collections.abc import Iterable

import pytest
from checked_runs import (
    CHECKED,
    SEEDS,
    is_of_edges,
    run_of_mutant,
    trace_of_mutant,
    violations_of_mutants,
)

from antiphon.simulator.mutants import Mutant
from antiphon.simulator.oracle import judge
from antiphon.spark.conformance import LEFT_OUT, PROPERTIES, Violation

pytestmark = pytest.mark.timeout(1_800)


def numbers(names: Iterable[str]) -> set[str]:
    return {name.split()[0] for name in names}


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    return violations_of_mutants(spark, tmp_path_factory.getbasetemp())


def test_every_mutant_has_a_seed() -> None:
    assert SEEDS.keys() == {mutant.name for mutant in CHECKED if not is_of_edges(mutant)}


def test_the_properties_are_those_of_the_oracle() -> None:
    from antiphon.simulator.oracle import PROPERTIES as ORACLES

    checked = [prop.promise for prop in ORACLES if prop.promise not in LEFT_OUT]
    assert [prop.promise for prop in PROPERTIES] == checked


@pytest.mark.long
@pytest.mark.parametrize("mutant", CHECKED, ids=run_of_mutant)
def test_a_broken_protocol_is_caught(mutant: Mutant, found: dict[str, list[Violation]]) -> None:
    """By a property that the mutant is meant to break."""
    by_spark = {violation.name for violation in found.get(run_of_mutant(mutant), [])}
    if not numbers(by_spark) & mutant.breaks:
        by_oracle = {violation.name for violation in judge(trace_of_mutant(mutant))}
        if not numbers(by_oracle) & mutant.breaks:
            pytest.fail("its seed no longer shows this mutant: choose another one")
        pytest.fail(f"the oracle finds {sorted(by_oracle)} broken, Spark finds {sorted(by_spark)}")
