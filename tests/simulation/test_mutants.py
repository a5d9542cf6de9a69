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
    "a choice for every group", "a hole in the places", "a majority of whatever is left",
    "a piece left out", "a reference for ever", "a step is believed", "accepts before merged",
    "alone everywhere", "an item too late", "announced by no token site", "answers forgotten early",
    "answers of others ignored", "any packet will do", "anybody raises the aru", "arrived is all",
    "aru not held back", "aru too early", "back to its sender", "back-pressure forgotten",
    "beats prove all", "both ways are alike", "clocks do not drift", "connection's room ignored",
    "counts itself twice", "damped for ever", "decided after the signal", "delivers between slices",
    "done at once", "doubts kept", "dropped all the same", "duplicates not noticed",
    "early joins forgotten", "first part taken for all", "forgiven at once", "forgotten and unsaid",
    "former lives are believed", "forming-unwatched", "gaps ignored", "gaps kept",
    "gaps on the way ignored", "half is a majority", "handed and delivered", "holes hold nothing back",
    "identifiers without daemon", "joining daemon vouches", "joins do not bind",
    "joins wait for active sources alone", "late bundles not kept", "late copies twice", "left undone",
    "left-out-for-ever", "link never fails", "links as configured", "links not tried",
    "listeners not served", "loss before the rest", "lost token not sent again",
    "missed bundles not sent again", "missing number counts", "neighbour sent again", "never ahead",
    "never asked for", "newcomers vote", "no ceiling", "no view before a merge", "nobody welcome",
    "nonsense of somebody else", "nonsense without end", "not confirmed", "not escalated",
    "not passed on from the ring", "not reassigned", "nothing asked for", "nothing damped",
    "numbers not raised by a merge", "numbers not reset", "numbers without the token",
    "one of the departed stays", "only our own come along", "only undelivered told", "own ones unknown",
    "own site has it", "packets of any view", "pairs alone", "passed is held", "pieces as they came",
    "pieces not freed", "places are not reserved", "pressure for ever", "pressure on all",
    "private ones too", "progress not told", "ready not delivered", "repaired twice", "repairs thrown away",
    "repeated calls are new", "repeated token counts", "requests by everybody",
    "resilience ends with the view", "safe like agreed", "second answers taken", "sent twice",
    "sides taken for one", "skips ignored", "skips overreach", "skips too early", "stall-forgiven",
    "stall-unwatched", "steps are followed", "strangers ignored", "taken as handed", "taken in at once",
    "the newest lineage alone", "the weakest way", "the whole trip counts", "time is proof",
    "time of a process that ended", "token accepted with holes", "torn groups go on", "twins unnoticed",
    "unreliable hands nothing on", "updates too early", "views hand calls out again",
    "waits for other sites", "we come first", "window ignored", "word for every process",
    "word without the token", "work without quorum",
}  # fmt: skip
"""Those whose run takes most of a second or more; `make test-long` has them."""


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
