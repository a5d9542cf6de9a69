"""Broken protocols are caught, each by a property that it breaks."""

import pytest

from antiphon.simulator.mutants import MUTANTS, Mutant
from antiphon.simulator.run import run_seed

pytestmark = pytest.mark.timeout(600)
"""Seeds that show a standstill take ten seconds, and ten times as long where other work has the cores."""

SHOWN = sorted({(mutant.scenario, mutant.shown_by) for mutant in MUTANTS})


def broken_by(mutant: Mutant, seed: int) -> set[str]:
    """The numbers of the properties that the oracle finds broken; none if the run itself breaks down, which
    is not the oracle's merit."""
    with mutant.active():
        outcome = run_seed(seed, mutant.scenario)
    return {violation.name.split()[0] for violation in outcome.violations}


SLOW = {
    "beats prove all", "connection's room ignored", "early joins forgotten", "gaps ignored",
    "lost token not sent again", "nothing asked for", "pieces not freed", "skips ignored", "time is proof",
    "twins unnoticed", "word for every process", "repairs thrown away", "arrived is all",
    "holes hold nothing back", "not confirmed", "token accepted with holes", "repeated token counts",
    "announced by no token site", "answers of others ignored", "places are not reserved",
    "back-pressure forgotten", "a hole in the places",
}  # fmt: skip
"""Those whose run takes more than two seconds; `make test-long` has them."""


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant,
            marks=[pytest.mark.long] if mutant.name in SLOW else [],
            id=mutant.name.replace(" ", "-"),
        )
        for mutant in MUTANTS
    ],
)
def test_a_broken_protocol_is_caught(mutant: Mutant) -> None:
    assert mutant.shown_by < mutant.seeds
    seeds = dict.fromkeys((mutant.shown_by, *range(mutant.seeds)))
    assert any(broken_by(mutant, seed) & mutant.breaks for seed in seeds), mutant.wrong


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "seed"), SHOWN)
def test_the_whole_protocol_is_not(scenario: str, seed: int) -> None:
    """What the oracle says of a mutant is said because of the mutant."""
    outcome = run_seed(seed, scenario)
    assert outcome.is_clean, outcome.faults


def test_the_core_is_whole_again_afterwards() -> None:
    for mutant in MUTANTS:
        before = getattr(mutant.owner, mutant.method)
        with mutant.active():
            assert getattr(mutant.owner, mutant.method) is not before
        assert getattr(mutant.owner, mutant.method) is before


def test_every_mutant_has_its_own_name() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert names >= SLOW
