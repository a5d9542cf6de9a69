"""The properties of views and members, of quorum and of locks, on traces into which a lie was put (see
`membership_lies` and `lock_lies`)."""

import pytest
from checked_runs import KINDS, TRUTH_ABOUT_LOCKS, run_of_lie, truth, truth_about_locks, violations
from lock_lies import LOCK_LIES
from membership_lies import MEMBERSHIP_LIES, SIMULATED_ONLY

from antiphon.spark.conformance import Violation
from antiphon.spark.conformance.membership_properties import MEMBERSHIP

pytestmark = pytest.mark.timeout(1_800)

CASES = [(lie, kind) for lie in (*MEMBERSHIP_LIES, *LOCK_LIES) for kind in KINDS] + [
    (lie, "simulated") for lie in SIMULATED_ONLY
]


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    return violations(spark, tmp_path_factory.getbasetemp())


@pytest.mark.long
@pytest.mark.parametrize(("lie", "kind"), CASES)
def test_a_lie_is_found_and_named(found: dict[str, list[Violation]], lie: str, kind: str) -> None:
    if lie in LOCK_LIES:
        _, named = LOCK_LIES[lie](truth_about_locks())
    else:
        _, named = {**MEMBERSHIP_LIES, **SIMULATED_ONLY}[lie](truth())
    told = found.get(run_of_lie(lie, kind), [])
    assert any(named in violation.processes for violation in told if violation.name == lie), (named, told)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_a_clean_run_with_locks(found: dict[str, list[Violation]], kind: str) -> None:
    assert found.get(run_of_lie(TRUTH_ABOUT_LOCKS, kind), []) == []


def test_there_is_a_lie_for_every_property() -> None:
    assert {prop.promise.name for prop in MEMBERSHIP} == {*MEMBERSHIP_LIES, *LOCK_LIES, *SIMULATED_ONLY}
