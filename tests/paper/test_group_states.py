"""The state machine of the membership of groups: thesis figure 6.17, as the table in
`antiphon.core.groups.states`, which also lists the deviations.
"""

import re
from pathlib import Path

import pytest

from antiphon.core.groups.regrouping import Regrouping
from antiphon.core.groups.states import TRANSITIONS, GroupReason, GroupState
from antiphon.simulator.play import play
from antiphon.simulator.scenarios import plan_of

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "membership.md"
RUNS = [("apart", 0), ("cascade", 1)]
"""Short runs that have the whole table between them."""


def test_every_way_occurs_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Process Group membership algorithm uses the following states: GOP, GTRANS, GGATHER, GGT.
    (thesis 6.4.1)"""
    found: set[tuple[GroupState, GroupReason]] = set()
    enter = Regrouping._enter

    def noted(regrouping: Regrouping, reason: GroupReason) -> None:
        found.add((regrouping.state, reason))
        enter(regrouping, reason)

    monkeypatch.setattr(Regrouping, "_enter", noted)
    for scenario, seed in RUNS:
        play(plan_of(scenario, seed))
    assert found == {(state, reason) for state, ways in TRANSITIONS.items() for reason in ways}


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("reason", GroupReason)
def test_what_is_not_in_the_table_is_refused(state: GroupState, reason: GroupReason) -> None:
    """(ours: an event that a state cannot have is a mistake, and ends the daemon rather than the order)"""
    regrouping = Regrouping(None)  # type: ignore[arg-type]
    regrouping.state = state
    if reason not in TRANSITIONS[state]:
        with pytest.raises(KeyError):
            regrouping._enter(reason)
        assert regrouping.state is state


def test_the_page_has_the_same_table() -> None:
    named = "|".join(state.name for state in GroupState)
    row = re.compile(rf"^\| ({named}) \| ({named}) \| `([a-z-]+)` \|", re.MULTILINE)
    rows = row.findall(PAGE.read_text())
    assert sorted(rows) == sorted(
        (state.name, after.name, reason.value)
        for state, ways in TRANSITIONS.items()
        for reason, after in ways.items()
    )
