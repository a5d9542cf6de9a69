"""The state machine of the daemon membership: thesis figure 6.1, as the table in
`antiphon.core.membership.states`, which also lists the deviations.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from host_notes import Notes

from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import FORMING, TRANSITIONS, State, is_allowed
from antiphon.core.view import DaemonView
from antiphon.simulator.play import play
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import Event

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "membership.md"
STATES = {state.label: state for state in State}
RUNS = [("swarm", 8), ("sites", 12), ("stops", 9), ("cascade", 13), ("cascade", 14)]
"""Short runs that have much of the table between them."""

Transition = tuple[State, State, Reason]


def transitions_of(scenario: str, seed: int) -> Counter[Transition]:
    """What the daemons of a simulated run went through, by its trace."""
    found: Counter[Transition] = Counter()
    states: dict[str, State] = {}
    for record in play(plan_of(scenario, seed)).world.records:
        if record.event is Event.RECOVER:
            states[record.daemon] = State.OP
        elif record.event is Event.STATE and record.state in STATES:
            after = STATES[record.state]
            found[states[record.daemon], after, Reason(record.reason)] += 1
            states[record.daemon] = after
    return found


def test_every_transition_that_occurs_is_in_the_table() -> None:
    """The membership algorithm can be expressed as a state-machine with 6 states. (thesis 6.1)"""
    found = sum((transitions_of(scenario, seed) for scenario, seed in RUNS), Counter())
    assert [one for one in found if not is_allowed(*one)] == []
    assert {after for _, after, _ in found} == set(State)
    assert len(found) > 20, "the runs show too little of the table"


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_a_transition_that_is_not_in_the_table_is_refused(before: State, after: State) -> None:
    """No sentence of the thesis: its figures call such events impossible. Here they are a mistake of ours."""
    for reason in Reason:
        notes = Notes()
        standing = Standing(0, notes, DaemonView(1_024, (0,), (100,), ()), 0)
        standing.state = before
        if is_allowed(before, after, reason):
            standing.enter(after, reason, 7)
            assert (standing.state, standing.entered_us) == (after, 7)
            assert notes.told == [f"{after.label}: {reason.value}"]
        else:
            with pytest.raises(AssertionError, match=f"{before.label} to {after.label}: {reason.value}"):
                standing.enter(after, reason, 7)
            assert (standing.state, notes.told) == (before, [])


def test_a_view_is_installed_after_state_transfer_and_recovery_only() -> None:
    """After doing this, each daemon shifts back to OP state. (thesis 6.1.1, EVS; the other way into OP is a
    gathering that found no new servers, 6.1.8)"""
    ways = {before: after[State.OP] for before, after in TRANSITIONS.items() if State.OP in after}
    assert ways == {State.EVS: {Reason.INSTALLED}, State.GATHER: {Reason.NOTHING_NEW}}
    assert [before for before, after in TRANSITIONS.items() if State.EVS in after] == [State.STATETRANS]


def test_while_a_view_is_formed_no_proposal_counts() -> None:
    """receive(s, NEWMEMB): ignore. (thesis figures 6.14 and 6.15)"""
    assert all(
        (State.STATETRANS in after) is (before not in FORMING) for before, after in TRANSITIONS.items()
    )


def test_a_view_can_be_lost_wherever_there_is_one() -> None:
    """DeclareMembLoss (thesis figure 6.5) leads to SEG. In REP there is no view to lose, and the
    representative alone can fail; SEG is where a loss has led."""
    ways = {before: after.get(State.SEG, frozenset()) for before, after in TRANSITIONS.items()}
    assert not ways.pop(State.SEG)
    assert ways.pop(State.REP) == {Reason.SILENCE, Reason.UNANSWERED}
    assert all({Reason.SILENCE, Reason.LINK_FAILED, Reason.ABANDONED} <= reasons for reasons in ways.values())


def test_every_reason_leads_somewhere() -> None:
    """Every round and every state has a reason: one that leads nowhere would be dead."""
    used = {reason for after in TRANSITIONS.values() for reasons in after.values() for reason in reasons}
    assert used == set(Reason)


def test_the_documents_have_the_same_table() -> None:
    """A reader of the page finds every way that a daemon may take, and no other."""
    rows = re.findall(r"^\| (\w+) \| (\w+) \| ([a-z, `-]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    told = {
        (State[before], State[after], Reason(word))
        for before, after, reasons in rows
        if before in State.__members__
        for word in re.findall(r"`([a-z-]+)`", reasons)
    }
    assert told == {
        (before, after, reason)
        for before, ways in TRANSITIONS.items()
        for after, reasons in ways.items()
        for reason in reasons
    }
