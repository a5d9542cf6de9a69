"""The membership of daemons: events of one daemon in, views out.

Follows: thesis 6.1 (figures 6.1 to 6.11): OP, SEG, REP and GATHER, and the proposal that leads to STATETRANS
and EVS, whose work `recovery` and the node do. Here are the events and the timeouts of each state; each step
is a part of its own, which names its section, its figures and its deviations:

- `states`, `standing`: the states and the ways between them; the views of this daemon
- `presence`, `probing`: which daemons are there (6.1.5); asking them
- `search`, `representation`, `decision`: finding out who is there (6.1.6 to 6.1.8)
- `proposals`, `formation`: agreeing on a view (figures 6.4 and 6.11), and forming it
- `loss`: giving up a view (figure 6.5); `suspicion`: noticing that a neighbour is lost
- `exclusions`: whom this daemon leaves out for a while; `misconduct`: because of what came under its seal

Deviations that are here:
- in OP a daemon that is not in the view leads to a gathering when both hear each other, at any member, while
  the view works (figure 6.3 has the smallest member do it, and refers others to it)
- a daemon that was itself paused adds the pause to its patience with all others
- a daemon that is told to stop announces that, and the others go on without it (`leaving`)
Checked by: tests/paper/test_daemon_*.py, the oracle's properties 2.1 to 2.4, 2.16 and 2.20.
"""

from antiphon.config import Config
from antiphon.core.effects import Outbox
from antiphon.core.membership.decision import Decision
from antiphon.core.membership.exclusions import TWINS
from antiphon.core.membership.formation import Formation
from antiphon.core.membership.host import MembershipHost
from antiphon.core.membership.loss import Loss
from antiphon.core.membership.misconduct import Misconduct
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.presence import Presence
from antiphon.core.membership.probing import Probing
from antiphon.core.membership.proposals import Proposals
from antiphon.core.membership.representation import Representation
from antiphon.core.membership.rounds import Reason
from antiphon.core.membership.search import Search
from antiphon.core.membership.standing import Standing
from antiphon.core.membership.states import FORMING, State
from antiphon.core.membership.voice import Voice
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Beat, Proposal


class DaemonMembership:
    """The membership of one daemon: beats, proposals and time in, decisions to the host."""

    def __init__(
        self,
        config: Config,
        me: int,
        incarnation: int,
        host: MembershipHost,
        datagrams: Outbox,
        view: DaemonView,
        now_us: int,
    ) -> None:
        self.standing = standing = Standing(me, host, view, now_us)
        self.presence = presence = Presence(config, me, incarnation, standing, now_us)
        self.rounds = standing.rounds
        self.peers = presence.peers
        self.timing = presence.timing
        self.exclusions = presence.exclusions
        self.leaving = presence.leaving
        voice = Voice(config, me, incarnation, datagrams)
        self._probing = probing = Probing(standing, presence, host, voice, now_us)
        self._search = search = Search(me, incarnation, standing, presence, probing, now_us)
        self.loss = Loss(me, standing, presence, probing, search)
        self.misconduct = Misconduct(me, incarnation, standing, presence, self.loss)
        self._representation = Representation(me, standing, presence, search, self.loss, now_us)
        self.formation = Formation(config, me, host, standing, presence, probing, self.loss, voice, now_us)
        self._proposals = Proposals(
            config, me, incarnation, host, standing, presence.gathering, self.formation
        )
        self._decision = Decision(config, me, standing, presence, search, self._proposals, self.loss)
        self._me = me
        self._host = host

    def start(self, now_us: int) -> None:
        """The daemon is up: Start State (figure 6.2)."""
        self.loss.lose(Reason.STARTED, None, "this daemon was started", now_us)

    @property
    def state(self) -> State:
        """Where the membership stands."""
        return self.standing.state

    @property
    def is_active(self) -> bool:
        """Whether the installed view works."""
        return self.standing.is_active

    # Packets --------------------------------------------------------------------------------------------

    def hear(self, sender: int, incarnation: int, beat: Beat, now_us: int) -> None:
        """A beat of a neighbour came in."""
        standing, peer = self.standing, self.peers[sender]
        view = standing.working_view
        is_linked = view is not None and sender in view.neighbours(self._me)
        peer.hear(incarnation, beat, now_us, self.timing, is_linked=is_linked)
        self._probing.heard(peer)
        self._host.witness(beat.lts)
        if self.exclusions.hear(sender, incarnation, beat, view, now_us):
            self._lose_twin(sender, now_us)
        if beat.question:
            self._probing.beat(peer, now_us, question=False)
        if self.loss.lose_if_shown(peer, incarnation, beat, now_us) or standing.state in FORMING:
            return
        if beat.stations and self._takes_part(peer, beat, now_us):
            self._search.learn(peer, beat, now_us)
        if standing.state is State.OP:
            self._meet(peer, now_us, is_asking=bool(beat.stations))

    def receive_proposal(self, sender: int, proposal: Proposal, now_us: int) -> None:
        """A proposal of a neighbour came in."""
        self._host.witness(proposal.id)
        twin = self.exclusions.contradicted(self.standing.working_view, proposal, now_us)
        if twin is not None:
            self._lose_twin(twin, now_us)
        self._proposals.receive(sender, proposal, now_us)
        if self.standing.forming is not None:
            self.misconduct.look_at(self.standing.forming, now_us)

    def ask(self, number: int, echo_us: int, now_us: int) -> None:
        """Have a neighbour, whose beat with this clock value was refused, send another one at once."""
        self._probing.beat(self.peers[number], now_us, question=True, echo_us=echo_us)

    def _lose_twin(self, number: int, now_us: int) -> None:
        self.loss.lose(Reason.TWINS, number, f"{self.presence.name(number)}: {TWINS}", now_us)

    # Meeting other daemons ------------------------------------------------------------------------------

    def _meet(self, peer: Peer, now_us: int, *, is_asking: bool) -> None:
        """While the view works: should it merge with a peer? A peer that searches is joined at once, so that
        both search at the same time; others after a while, if the last attempt was vain."""
        standing, presence = self.standing, self.presence
        is_member = peer.number in standing.view.members
        if (
            (is_member and not (peer.number in presence.missed and peer.is_steady(standing.since_us, now_us)))
            or peer.state not in (State.OP, State.SEG, State.REP, State.GATHER)
            or (now_us < peer.refused_until_us and not is_asking)
            or not presence.is_live(peer.number, now_us)
        ):
            return
        if not peer.welcome:  # it may not know yet that we hear it
            if peer.may_follow_up(self.timing, now_us):
                self._probing.beat(peer, now_us, question=True)
            return
        name, stamp = presence.name(peer.number), self._host.tick()
        if is_member:
            detail = f"{name}, which has no link yet, is reachable in both directions"
            self._search.begin(stamp, Reason.BETTER_LINK, peer.number, detail, now_us)
        else:
            detail = f"{name}, which is not in the view, is reachable in both directions"
            self._search.begin(stamp, Reason.FOUND, peer.number, detail, now_us)

    def _takes_part(self, peer: Peer, beat: Beat, now_us: int) -> bool:
        """Whether this daemon takes part in a peer's search. In OP it joins a member's, unless that is over;
        of a search outside of the view it takes part when `_meet` has begun one here."""
        standing = self.standing
        if standing.state is not State.OP:
            return True
        is_member = standing.is_active and peer.number in standing.view.members
        if not is_member or beat.round <= self._search.finished:
            return False
        self._join_search(peer, beat, now_us)
        return True

    def _join_search(self, peer: Peer, beat: Beat, now_us: int) -> None:
        """A member of the view that works searches: so does this daemon."""
        presence = self.presence
        leaver = self.leaving.newest(beat.stations, self.standing.view)
        if leaver is None:
            detail = f"{presence.name(peer.number)} looks for other daemons"
            self._search.begin(beat.round, Reason.ASKED, peer.number, detail, now_us)
        else:
            detail = f"{presence.name(leaver)} announced its stop"
            self._search.begin(beat.round, Reason.LEAVING, leaver, detail, now_us)

    # A cluster without a file ---------------------------------------------------------------------------

    def reconfigure(self, config: Config, vacant: frozenset[int], now_us: int) -> None:
        """Other daemons bear the numbers of the configuration."""
        self.presence.reconfigure(config, vacant, now_us)
        self._probing.plan()

    # A planned stop -------------------------------------------------------------------------------------

    def leave(self, now_us: int) -> None:
        """Announce that this daemon leaves, and let the others go on without it. If it has no view that
        works, it has nothing to leave; daemons that search are told to form their view without it."""
        self.leaving.announce()
        if self.standing.is_active:
            detail = "this daemon is stopping"
            self._search.begin(self._host.tick(), Reason.LEAVING, self._me, detail, now_us)
        elif self.standing.forming is None:
            self._search.tell(now_us)

    def part(self, now_us: int) -> None:
        """End the membership of a daemon that leaves, and tell neighbours that still work with it."""
        working = self.standing.working_view
        if working is None:
            return
        self.standing.give_up()
        self.standing.stop(now_us)
        for number in working.neighbours(self._me):
            self._probing.inform(number, now_us)

    # Time -----------------------------------------------------------------------------------------------

    def excuse(self, pause_us: int) -> None:
        """This daemon was itself not running for so long: no other one is late because of that."""
        for peer in self.peers.values():
            peer.heard_us += pause_us
            peer.proven_us += pause_us
            peer.damping.excuse(pause_us)
        self.standing.entered_us += pause_us
        self._search.changed_us += pause_us
        self.formation.excuse(pause_us)

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        standing = self.standing
        if self._probing.due_us is not None and self._probing.due_us <= now_us:
            self._probing.probe(now_us)
        if standing.state is State.SEG:
            if now_us >= self._representation.due_us:
                self._representation.end_segment(now_us)
        elif standing.state in FORMING:
            self.formation.watch(now_us)
        elif standing.state is not State.OP and now_us >= self._search.due_us:
            self._search.tell(now_us)
            if standing.state is State.REP:
                self._representation.watch(now_us)
            else:
                self._decision.decide(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        probe_us, state = self._probing.due_us, self.standing.state
        if state is State.OP:
            return probe_us
        if state is State.SEG:
            due_us = self._representation.due_us
        elif state in FORMING:
            due_us = self.formation.due_us
        else:
            due_us = self._search.due_us
        return due_us if probe_us is None else min(due_us, probe_us)
