"""Broken protocols are caught, each by a property that it breaks."""

import pytest

from antiphon.simulator.mutants import MUTANTS, Mutant
from antiphon.simulator.run import run_seed


def broken_by(mutant: Mutant, seed: int) -> set[str]:
    with mutant.active():
        outcome = run_seed(seed, mutant.scenario)
    assert not outcome.error, outcome.error
    return {violation.name.split()[0] for violation in outcome.violations}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_protocol_is_caught(mutant: Mutant) -> None:
    assert any(broken_by(mutant, seed) & mutant.breaks for seed in range(mutant.seeds)), mutant.wrong


def test_the_core_is_whole_again_afterwards() -> None:
    for mutant in MUTANTS:
        before = getattr(mutant.owner, mutant.method)
        with mutant.active():
            assert getattr(mutant.owner, mutant.method) is not before
        assert getattr(mutant.owner, mutant.method) is before
