"""Forming a view: from the proposal that a daemon accepts to the view that it installs.

Follows: ProcessNewMemb (thesis, figure 6.4) and the Statetrans Timeout of 6.1.9 (figure 6.14). What is
exchanged meanwhile, and what must have come before the view is installed, is in `recovery` and the node.
Deviations:
- the proposal is sent to each neighbour again until its end of the link answers; the thesis puts it first on
  every link, and a lost one costs a round
- the timeout counts from the last packet of the view that is being formed, so that slow links have time;
  members that receive tell those that wait for them (`changeover`)
- members that wait in the old view for leave to end are told that this daemon has gone on (`leaving`)
Checked by: tests/unit/test_daemon_rounds.py, tests/paper/test_daemon_views.py.
"""

from antiphon.config import Config
from antiphon.core.membership.host import MembershipHost
from antiphon.core.membership.loss import Loss
from antiphon.core.membership.patience import STUCK_RECOVERIES, TELLS_PER_STUCK
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.probing import Probing
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import State
from antiphon.core.membership.voice import Voice
from antiphon.core.overlay.topology import site_representative
from antiphon.core.view import DaemonView
from antiphon.wire import membership as wire
from antiphon.wire.membership import Proposal
from antiphon.wire.packet import PacketKind


class Formation:
    """The view that one daemon forms, when there is one."""

    def __init__(
        self,
        config: Config,
        me: int,
        host: MembershipHost,
        standing: Standing,
        presence: Presence,
        probing: Probing,
        loss: Loss,
        voice: Voice,
        now_us: int,
    ) -> None:
        self._config = config
        self._me = me
        self._host = host
        self._standing = standing
        self._presence = presence
        self._probing = probing
        self._loss = loss
        self._voice = voice
        self._proposal = b""  # as it is sent
        self._progress_us = now_us
        self._stuck_after_us = presence.timing.recovery_us
        self._tell_us = now_us  # when to tell others of our progress

    def accept(self, view: DaemonView, now_us: int) -> None:
        """A proposal, another daemon's or our own, is the newest: its view is formed."""
        standing, timing = self._standing, self._presence.timing
        standing.promised = view.id
        if standing.rounds.current is None:  # the proposal came before any beat with stations
            standing.rounds.begin(Reason.PROPOSED, view.members[0], "a view was proposed", now_us)
        standing.stop(now_us)
        standing.forming = view
        self._proposal = wire.encode(Proposal.of(view.id, view.members, view.incarnations, view.links))
        self._presence.missed = frozenset()
        self._probing.plan()
        self._progress_us = now_us
        self._stuck_after_us = STUCK_RECOVERIES * timing.recovery_us + 4 * timing.slowest_us
        self._tell_us = now_us + self._stuck_after_us // TELLS_PER_STUCK
        standing.change(State.STATETRANS, Reason.PROPOSED, now_us)
        self._host.form(view, now_us)
        for number in view.neighbours(self._me):
            self.pass_on(number)
        self._release(now_us)

    def pass_on(self, number: int) -> None:
        """Send the proposal to a neighbour in the view that is being formed."""
        assert self._standing.forming is not None
        self._voice.send(number, PacketKind.PROPOSAL, self._proposal)

    def _release(self, now_us: int) -> None:
        """Show the members that leave the old view that this daemon works in it no longer."""
        presence = self._presence
        for number in sorted(presence.leaving.of(self._standing.view, now_us) & presence.peers.keys()):
            self._probing.inform(number, now_us)

    def progress(self, now_us: int) -> None:
        """A packet of the view that is being formed came in."""
        self._progress_us = now_us

    def state_is_known(self, now_us: int) -> None:
        """Every member's state has come."""
        self._standing.change(State.EVS, Reason.STATE_KNOWN, now_us)
        self._progress_us = now_us

    def installed(self, transitional: frozenset[int], now_us: int) -> None:
        """The view that was being formed is complete."""
        standing, presence = self._standing, self._presence
        timing = presence.timing
        before, stopped_us = standing.view, standing.stopped_us or 0
        standing.install(now_us)
        view = standing.view
        standing.representative = site_representative(self._config, view.members, self._me)
        presence.find_missed(now_us)
        presence.flapping.installed(before, view, presence.missed, stopped_us, timing, now_us)
        timing.installed(view)
        standing.change(State.OP, Reason.INSTALLED, now_us)
        standing.rounds.installed(before, view, transitional, now_us)
        neighbours = view.neighbours(self._me)
        for number, peer in presence.peers.items():
            if number not in view.members or number in presence.missed:
                peer.ask_soon(timing.probe_us, now_us)
            elif number in neighbours:
                peer.must_prove = False
        self._probing.plan()

    # Time -----------------------------------------------------------------------------------------------

    @property
    def due_us(self) -> int:
        """When to watch next."""
        return min(self._tell_us, self._give_up_us)

    @property
    def _give_up_us(self) -> int:
        """When the view is given up unless there is progress."""
        return self._progress_us + self._stuck_after_us

    def watch(self, now_us: int) -> None:
        """Give up the view if there was no progress for too long; tell others of progress now and then."""
        if now_us >= self._give_up_us:
            self._loss.stuck(self._host.waits_for(), now_us)
        elif now_us >= self._tell_us:
            self._tell_us = now_us + self._stuck_after_us // TELLS_PER_STUCK
            self._host.tell_progress(now_us)

    def excuse(self, pause_us: int) -> None:
        """This daemon was itself not running for so long."""
        self._progress_us += pause_us
