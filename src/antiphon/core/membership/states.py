"""The states of the daemon membership, and the table of the ways between them.

Follows: thesis 6.1.1 (the six states) and figure 6.1 (the state machine). The start state (6.1.4) is OP, with
a view of one daemon that does not work yet.
Deviations:
- a proposal is accepted in SEG, too, where figure 6.7 ignores it: its stamp tells whether it is the newest,
  and a daemon that is late would cost the others a round
- a gathering without a proposal leads to SEG when there is no view that works; figure 6.9 begins a new
  gathering, with a representative that may be gone
- a view that works while its members gather can be lost in GATHER, which figure 6.9 calls impossible
- a daemon that gathers and is told to stop begins a new gathering (`leaving`)
Checked by: tests/paper/test_daemon_transitions.py, on every transition of every run by `Standing.enter`.
"""

from collections.abc import Mapping
from enum import IntEnum

from antiphon.core.membership.rounds import Reason


class State(IntEnum):
    """Where the membership of a daemon stands (thesis 6.1.1)."""

    OP = 1
    """A view is installed and works."""
    SEG = 2
    """The view is lost: who is there in this site?"""
    REP = 3
    """Another daemon of this site represents this one."""
    GATHER = 4
    """Who else is there, in other sites and in other views?"""
    STATETRANS = 5
    """A view is being formed: every member sends its state."""
    EVS = 6
    """Every member gets what it lacks of its old view."""

    @property
    def label(self) -> str:
        """The state's name in traces, status and rounds."""
        return self.name.lower()


FORMING = (State.STATETRANS, State.EVS)
"""A view was proposed and accepted, and is not complete."""

_LOST = frozenset(
    (
        Reason.SILENCE,
        Reason.LINK_FAILED,
        Reason.RESTARTED,
        Reason.ABANDONED,
        Reason.LEAVING,
        Reason.NONSENSE,
        Reason.TWINS,
    )
)
"""Why a view over whose links a daemon works, installed or being formed, may be lost at any time."""

TRANSITIONS: Mapping[State, Mapping[State, frozenset[Reason]]] = {
    State.OP: {
        State.SEG: _LOST | {Reason.STARTED, Reason.STALLED},
        State.GATHER: frozenset((Reason.FOUND, Reason.BETTER_LINK, Reason.LEAVING, Reason.ASKED)),
        State.STATETRANS: frozenset((Reason.PROPOSED,)),
    },
    State.SEG: {
        State.REP: frozenset((Reason.REPRESENTED,)),
        State.GATHER: frozenset((Reason.ALONE,)),
        State.STATETRANS: frozenset((Reason.PROPOSED,)),
    },
    State.REP: {
        State.SEG: frozenset((Reason.SILENCE, Reason.UNANSWERED)),
        State.STATETRANS: frozenset((Reason.PROPOSED,)),
    },
    State.GATHER: {
        State.OP: frozenset((Reason.NOTHING_NEW,)),
        State.SEG: _LOST | {Reason.STALLED, Reason.UNANSWERED},
        State.GATHER: frozenset((Reason.LEAVING,)),
        State.STATETRANS: frozenset((Reason.PROPOSED,)),
    },
    State.STATETRANS: {
        State.SEG: _LOST | {Reason.STUCK, Reason.IMPOSSIBLE},
        State.EVS: frozenset((Reason.STATE_KNOWN,)),
    },
    State.EVS: {
        State.SEG: _LOST | {Reason.STUCK, Reason.IMPOSSIBLE},
        State.OP: frozenset((Reason.INSTALLED,)),
    },
}
"""From each state, the states that may follow, and for which reasons."""


def is_allowed(before: State, after: State, reason: Reason) -> bool:
    """Whether the table has this transition.

    >>> is_allowed(State.EVS, State.OP, Reason.INSTALLED), is_allowed(State.SEG, State.OP, Reason.INSTALLED)
    (True, False)
    """
    return reason in TRANSITIONS[before].get(after, ())
