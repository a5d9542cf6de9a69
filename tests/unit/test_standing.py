"""The views of one daemon: which of them it works in, and what the host is told when that changes."""

from host_notes import Notes

from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.core.view import DaemonView

ALONE = DaemonView(1_024, (0,), (100,), ())
PAIR = DaemonView(2_049, (0, 1), (100, 101), ((0, 1),))


def standing_of(notes: Notes) -> Standing:
    return Standing(0, notes, ALONE, 5)


def test_a_daemon_starts_with_a_view_of_its_own_that_does_not_work() -> None:
    standing = standing_of(Notes())
    assert (standing.view, standing.is_active, standing.stopped_us) == (ALONE, False, 5)
    assert standing.working_view is None
    assert standing.promised == ALONE.id


def test_it_works_over_the_links_of_the_view_that_is_being_formed_first() -> None:
    standing = standing_of(Notes())
    standing.is_active = True
    assert standing.working_view is ALONE
    standing.forming = PAIR
    assert standing.working_view is PAIR


def test_a_view_that_is_installed_works() -> None:
    standing = standing_of(Notes())
    standing.forming = PAIR
    standing.install(9)
    assert (standing.view, standing.forming, standing.working_view) == (PAIR, None, PAIR)
    assert (standing.since_us, standing.stopped_us) == (9, None)


def test_a_view_stops_once() -> None:
    notes = Notes()
    standing = standing_of(notes)
    standing.forming = PAIR
    standing.install(9)
    standing.stop(12)
    standing.stop(15)
    assert (standing.is_active, standing.stopped_us, notes.told) == (False, 12, ["freeze"])


def test_a_view_that_is_being_formed_is_given_up_once() -> None:
    notes = Notes()
    standing = standing_of(notes)
    standing.forming = PAIR
    standing.give_up()
    standing.give_up()
    assert (standing.forming, notes.told) == (None, ["give up"])


def test_a_round_has_the_time_spent_in_each_state() -> None:
    standing = standing_of(Notes())
    standing.rounds.begin(Reason.STARTED, None, "", 10)
    standing.enter(State.SEG, Reason.STARTED, 10)
    standing.change(State.GATHER, Reason.ALONE, 30)
    standing.change(State.STATETRANS, Reason.PROPOSED, 70)
    assert standing.rounds.current is not None
    assert standing.rounds.current.states == [("seg", 20), ("gather", 40)]
