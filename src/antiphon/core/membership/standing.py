"""Where a daemon's membership stands: its state, its installed view and the view that is being formed.

Follows: thesis 6.1.3, the server's variables State, Memb, FMemb, Active and Cur_seg_rep; every beat tells
them (`wire.membership.Beat`).
Deviations:
- a view goes on working while its members gather in order to merge: only a proposal or a loss stops it, so
  GATHER is entered with a view that works and without one
- view identifiers are Lamport stamps, and `promised` is the greatest that was accepted, so identifiers grow
  at every daemon
Checked by: tests/unit/test_standing.py, tests/paper/test_daemon_transitions.py.
"""

from antiphon.core.membership.host import MembershipHost
from antiphon.core.membership.rounds import Reason, Rounds
from antiphon.core.membership.states import State, is_allowed
from antiphon.core.view import DaemonView


class Standing:
    """The state and the views of one daemon."""

    def __init__(self, me: int, host: MembershipHost, view: DaemonView, now_us: int) -> None:
        self.state = State.OP
        self.entered_us = now_us
        """When the state was entered."""
        self.view = view
        """The installed view."""
        self.is_active = False
        """Whether the installed view works."""
        self.since_us = now_us
        """When the installed view was installed."""
        self.stopped_us: int | None = now_us
        """Since when there is no view that works; None while there is one."""
        self.forming: DaemonView | None = None
        """The view that is being formed."""
        self.promised = view.id
        """The newest proposal that this daemon has accepted or made."""
        self.representative = me
        """The daemon that represents this one's site."""
        self.search_stamp = 0
        """Stamp of the search that this daemon takes part in while its view works."""
        self.rounds = Rounds()
        self._host = host

    @property
    def working_view(self) -> DaemonView | None:
        """The view over whose links this daemon works: the one being formed, or the installed one."""
        if self.forming is not None:
            return self.forming
        return self.view if self.is_active else None

    def enter(self, state: State, reason: Reason, now_us: int) -> None:
        """Enter a state with the first step of a round."""
        assert is_allowed(self.state, state, reason), f"{self.state.label} to {state.label}: {reason.value}"
        self.state = state
        self.entered_us = now_us
        self._host.entered(state.label, reason.value, now_us)

    def change(self, state: State, reason: Reason, now_us: int) -> None:
        """Go on to a state within the round."""
        self.rounds.left(self.state.label, now_us)
        self.enter(state, reason, now_us)

    def stop(self, now_us: int) -> None:
        """The installed view stops working, if it still does."""
        if self.is_active:
            self.is_active = False
            self.stopped_us = now_us
            self._host.freeze()

    def give_up(self) -> None:
        """The view that is being formed is dropped, if there is one."""
        if self.forming is not None:
            self.forming = None
            self._host.give_up()

    def install(self, now_us: int) -> None:
        """The view that was being formed is the installed one, and works."""
        assert self.forming is not None
        self.view, self.forming = self.forming, None
        self.is_active = True
        self.since_us = now_us
        self.stopped_us = None
