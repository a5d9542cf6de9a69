"""Losing a view: nothing that was agreed holds any more, and the daemon looks around anew.

Follows: thesis 6.1.3 ("locally detect a link failed") and DeclareMembLoss (figure 6.5).
Deviations:
- a member that gives up a view tells so in its beats, and the news spreads along the links at once; the
  thesis leaves it to each daemon's own detection
- a view that stands still, a state that cannot be true, and a proposal that never comes are losses, too, and
  are held against the daemons that were waited for (`exclusions`)
- a daemon that leaves the view does not mind that its neighbours go on without it (`leaving`)
Checked by: tests/paper/test_daemon_membership.py, tests/paper/test_standstill.py.
"""

from collections.abc import Collection

from antiphon.core.membership.peers import Peer
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.probing import Probing
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.search import Search
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.wire.membership import Beat


class Loss:
    """The ways in which one daemon loses its view."""

    def __init__(
        self, me: int, standing: Standing, presence: Presence, probing: Probing, search: Search
    ) -> None:
        self._me = me
        self._standing = standing
        self._presence = presence
        self._probing = probing
        self._search = search

    def lose(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        """Give up the view, installed or being formed, and begin a round because of this peer."""
        standing, presence = self._standing, self._presence
        working, timing = standing.working_view, presence.timing
        presence.flapping.lost(timing, now_us, is_forming=standing.forming is not None)
        standing.rounds.left(standing.state.label, now_us)
        standing.rounds.begin(reason, peer, detail, now_us)
        standing.give_up()
        standing.stop(now_us)
        standing.representative = self._me
        presence.missed = frozenset()
        self._search.restart(now_us)
        standing.enter(State.SEG, reason, now_us)
        for other in presence.peers.values():
            other.ask_soon(timing.join_us, now_us)
        if working is not None:  # neighbours first: with them the news spreads
            for number in working.neighbours(self._me):
                self._probing.ask(presence.peers[number], now_us)
        self._probing.probe(now_us)

    # What a beat shows ----------------------------------------------------------------------------------

    def lose_if_shown(self, peer: Peer, incarnation: int, beat: Beat, now_us: int) -> bool:
        """Lose the view if a beat shows that a member works in it no longer; whether it does."""
        working = self._standing.working_view
        if working is None or peer.number not in working.members:
            return False
        if incarnation != working.incarnation(peer.number):
            if not now_us - self._presence.timing.suspect_us <= beat.echo_us <= now_us:
                return False  # it may be an echo of the past; the answer to our own beat will tell
            name = self._presence.name(peer.number)
            self.lose(Reason.RESTARTED, peer.number, f"{name} was restarted", now_us)
            return True
        if beat.promised >= working.id and beat.engaged != working.id:
            self._lose_member(peer, incarnation, now_us)
            return True
        return False

    def _lose_member(self, peer: Peer, incarnation: int, now_us: int) -> None:
        """A member works in our view no longer. If we are about to leave that view, it may."""
        presence = self._presence
        name = presence.name(peer.number)
        if presence.is_on_leave:
            presence.leaving.went_on(peer.number)
        elif presence.leaving.is_leaving(peer.number, incarnation, now_us):
            self.lose(Reason.LEAVING, peer.number, f"{name} announced its stop", now_us)
        else:
            self.lose(Reason.ABANDONED, peer.number, f"{name} has given up the view", now_us)

    # What others find out -------------------------------------------------------------------------------

    def lost_link(self, number: int, reason: Reason, detail: str, now_us: int) -> None:
        """A link of the view, installed or being formed, has failed."""
        presence = self._presence
        if presence.is_on_leave:
            presence.leaving.went_on(number)
            return
        presence.flapping.fading |= {number}
        if reason is Reason.LINK_FAILED:  # it was heard all the same
            presence.peers[number].doubt(now_us)
        self.lose(reason, number, detail, now_us)

    def stalled(self, waited_for: Collection[int], detail: str, now_us: int) -> None:
        """In the installed view something waits for these members, and waits in vain."""
        blamed = self._presence.exclusions.blame(waited_for, self._standing.view, detail, now_us)
        self.lose(Reason.STALLED, blamed, detail, now_us)

    def stuck(self, waited_for: Collection[int], now_us: int) -> None:
        """The view that is being formed makes no progress, and waits for these members."""
        presence, forming = self._presence, self._standing.forming
        assert forming is not None
        names = ", ".join(map(presence.name, waited_for)) or "no daemon"
        detail = f"no progress in state {self._standing.state.label}, waiting for {names}"
        blamed = presence.exclusions.blame(waited_for, forming, detail, now_us)
        self.lose(Reason.STUCK, blamed, detail, now_us)

    def refuse_state(self, number: int, reason: str, now_us: int) -> None:
        """No view can begin with the state that a member of the view that is being formed has sent."""
        presence, forming = self._presence, self._standing.forming
        assert forming is not None
        detail = f"{presence.name(number)} announces an impossible state ({reason})"
        presence.exclusions.exclude(number, forming.incarnation(number) or 0, detail, now_us)
        self.lose(Reason.IMPOSSIBLE, number, detail, now_us)

    def unanswered(self, proposer: int, now_us: int) -> None:
        """No proposal came from the daemon whose turn it is. After a long time without any view it is held
        against that daemon, although it is heard."""
        standing, presence = self._standing, self._presence
        detail = f"{presence.name(proposer)} proposed no view"
        if standing.stopped_us is not None and now_us - standing.stopped_us > presence.timing.stall_us:
            station = presence.gathering.stations.get(proposer)
            if station is not None:
                presence.exclusions.strike(proposer, station.incarnation, detail, now_us)
        self.lose(Reason.UNANSWERED, proposer, detail, now_us)
