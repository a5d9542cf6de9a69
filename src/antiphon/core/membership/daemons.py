"""Daemon membership: finding out who is there, and agreeing on a view to form.

Follows: thesis 6.1 (figures 6.1 to 6.11): the states OP, SEG, REP and GATHER, and the proposal (NEWMEMB) that
leads to STATETRANS and EVS, whose work `recovery` and the node do.
Deviations, each because the text leaves a hole or a WAN asks for more:
- evidence works in both directions: a pair of daemons counts only if each hears that the other hears it
- what daemons gather is who works with whom (`gathering`); the smallest daemon of a connected component
  proposes its view together with the links to use, so that a pair that does not work is routed around
- while daemons gather in order to merge, their views go on working; only the proposal stops them
- view identifiers are Lamport stamps; a proposal is accepted only if its stamp is greater than that of any
  proposal accepted before, so identifiers grow at every daemon
- a member that gives up a view says so in its beats, and the news spreads along the links at once; the thesis
  leaves it to each daemon's own detection
- a daemon that was itself paused adds the pause to its patience with everybody
- daemons because of which views stand still again and again are left out for a while (`exclusions`), and
  what is lost again and again is kept out until it holds (`flapping`, `damping`)
- a daemon that is told to stop says so, and the others go on without it (`leaving`)
Checked by: tests/paper/test_daemon_*.py, the oracle's properties 2.1 to 2.4, 2.16 and 2.20.
"""

from collections.abc import Collection

from antiphon.config import Config
from antiphon.core.effects import Outbox
from antiphon.core.membership.exclusions import TWINS, Exclusions
from antiphon.core.membership.flapping import Flapping
from antiphon.core.membership.friends import is_friend
from antiphon.core.membership.gathering import Gathering, Pair
from antiphon.core.membership.leavetaking import Leavetaking
from antiphon.core.membership.pace import Pace
from antiphon.core.membership.patience import (
    GATHERS_MAX,
    PATIENCE_GATHERS,
    STUCK_RECOVERIES,
)
from antiphon.core.membership.peers import Peer
from antiphon.core.membership.proposals import is_better, view_of
from antiphon.core.membership.rounds import Reason, Rounds
from antiphon.core.membership.states import FORMING, Host, State
from antiphon.core.membership.view import DaemonView
from antiphon.core.membership.voice import Voice
from antiphon.core.overlay.topology import site_representative
from antiphon.wire import membership as words
from antiphon.wire.membership import Beat, Proposal, Station
from antiphon.wire.packet import PacketKind


class DaemonMembership(Leavetaking):
    """The membership of one daemon: beats and proposals in and out, decisions to the host."""

    def __init__(
        self,
        config: Config,
        me: int,
        incarnation: int,
        host: Host,
        datagrams: Outbox,
        view: DaemonView,
        now_us: int,
    ) -> None:
        super().__init__(me)
        self.state = State.OP
        self.view = view
        """The installed view."""
        self.is_active = False
        """Whether the installed view works."""
        self.forming: DaemonView | None = None
        self._proposal = b""  # what others are told of it
        self.promised = view.id
        """The newest proposal that this daemon has accepted or made."""
        self.rounds = Rounds()
        self.representative = me
        self.since_us = now_us
        """When the installed view was installed."""
        self.exclusions = Exclusions(me, incarnation)
        """Whom this daemon leaves out of views for a while."""
        self.stopped_us: int | None = now_us
        """Since when there is no view that works; None while there is one."""
        self._me = me
        self._incarnation = incarnation
        self._config = config
        self._host = host
        self._voice = Voice(config, me, incarnation, datagrams)
        self.peers = {number: Peer(number, now_us) for number in config.neighbours_of(me)}
        self.flapping = Flapping(config, me, self.peers)
        """What is lost again and again, and kept out for a while."""
        self._site_mates = frozenset(config.daemons_of(config.site_of(me))) - {me}
        self.timing = Pace(config.settings.timing(), self.peers, self._site_mates, now_us)
        self._everybody = frozenset(range(config.daemon_count))
        self._gathering = Gathering(config.are_neighbours)
        self._missed: frozenset[int] = frozenset()  # members to which a link should be and is not
        self._round = 0  # stamp of the search that we take part in while the view works
        self._finished_round = 0
        self._serial = view.id
        self._entered_us = now_us
        self._changed_us = now_us  # when the gathering last brought something new
        self._beat_us = now_us  # when to repeat what is known
        self._progress_us = now_us
        self._stuck_after_us = self.timing.recovery_us
        self._forsaken_us = now_us  # when our representative last was without a view, as we are
        self._probe_us: int | None = now_us  # when the next absent daemon is to be asked

    def start(self, now_us: int) -> None:
        """The daemon is up."""
        self._lose(Reason.STARTED, None, "this daemon was started", now_us)

    # Questions ------------------------------------------------------------------------------------------

    @property
    def company(self) -> DaemonView | None:
        """The view over whose links this daemon works: the one being formed, or the installed one."""
        if self.forming is not None:
            return self.forming
        return self.view if self.is_active else None

    def is_live(self, number: int, now_us: int) -> bool:
        """Whether this daemon and another one hear each other, by what was learnt in this round."""
        company = self.company
        if company is not None and number in company.members and number not in self._missed:
            return number in company.neighbours(self._me)
        peer = self.peers[number]
        if self.exclusions.is_apart(number, peer.incarnation, now_us):
            return False
        if self.leaving.is_leaving(number, peer.incarnation, now_us):
            return False
        fresh_us = self.timing.fresh_us(peer, is_gathering=company is None)
        since_us = self.timing.began_us if company is None else max(self.since_us, now_us - fresh_us)
        is_merging = self.is_active and self.state is State.GATHER
        if not peer.is_live(since_us, now_us, nearly=is_merging):
            return False
        return not self._is_friend(peer) or peer.heard_us >= now_us - fresh_us

    # Beats ----------------------------------------------------------------------------------------------

    def hear(self, sender: int, incarnation: int, beat: Beat, now_us: int) -> None:
        """A beat of a neighbour came in."""
        peer = self.peers[sender]
        peer.hear(incarnation, beat, now_us, self.timing)
        if self._probe_us is not None:
            self._probe_us = min(self._probe_us, peer.probe_us)
        self._host.witness(beat.lts)
        if self.exclusions.hear(sender, incarnation, beat, self.company, now_us):
            self._lose(Reason.TWINS, sender, f"{self._name(sender)}: {TWINS}", now_us)
        if beat.question:
            self._beat(peer, now_us, question=False)
        if self._is_company_lost(peer, incarnation, beat, now_us):
            return
        if self.state in FORMING:
            return
        if beat.stations:
            self._learn(peer, beat, now_us)
        if self.state is State.OP:
            self._meet(peer, now_us, is_asking=bool(beat.stations))

    def _is_company_lost(self, peer: Peer, incarnation: int, beat: Beat, now_us: int) -> bool:
        """Whether a beat shows that a member is no longer with us."""
        company = self.company
        if company is None or peer.number not in company.members:
            return False
        if incarnation != company.incarnation(peer.number):
            if not now_us - self.timing.suspect_us <= beat.echo_us <= now_us:
                return False  # it may be an echo of the past; the answer to our own beat will tell
            self._lose(Reason.RESTARTED, peer.number, f"{self._name(peer.number)} was restarted", now_us)
            return True
        if beat.promised >= company.id and beat.engaged != company.id:
            self._lose_member(peer, incarnation, now_us)
            return True
        return False

    def _meet(self, peer: Peer, now_us: int, *, is_asking: bool) -> None:
        """While the view works: is there somebody to merge with? One who is gathering is joined at once, so
        that both gather at the same time; others after a while, if the last attempt was vain."""
        is_member = peer.number in self.view.members
        if (
            (is_member and (peer.number not in self._missed or not peer.is_steady(self.since_us, now_us)))
            or peer.state not in (State.OP, State.SEG, State.REP, State.GATHER)
            or (now_us < peer.refused_until_us and not is_asking)
            or not self.is_live(peer.number, now_us)
        ):
            return
        if not peer.welcome:  # it may not know yet that we hear it
            if peer.may_follow_up(self.timing, now_us):
                self._beat(peer, now_us, question=True)
        else:
            name = self._name(peer.number)
            self._round = self._host.tick()
            if is_member:
                detail = f"{name}, to which there is no link, hears us and we hear it"
                self._gather(Reason.BETTER_LINK, peer.number, detail, now_us)
            else:
                detail = f"{name}, which is not in the view, hears us and we hear it"
                self._gather(Reason.FOUND, peer.number, detail, now_us)

    def _learn(self, peer: Peer, beat: Beat, now_us: int) -> None:
        """A daemon that gathers tells what it knows."""
        is_member = self.is_active and peer.number in self.view.members
        if self.state is State.OP:
            if not is_member or beat.round <= self._finished_round:
                return  # `_meet` decides about others; and a search that is over is not begun again
            self._round = beat.round
            self._join_search(peer, beat, now_us)
        elif is_member:
            self._round = max(self._round, beat.round)
        for station in beat.stations:
            if station.daemon == self._me:
                is_ours = (station.incarnation, station.serial) == (self._incarnation, self._serial)
                if station.serial >= self._serial and not is_ours:
                    self._serial = station.serial + 1  # of our former life, or in our name
                continue
            if self._gathering.learn(station, now_us):
                self.exclusions.adopt(station.left_out, now_us)
                self._changed_us = now_us
                self._beat_us = min(self._beat_us, now_us + self.timing.join_us // 8)
                if self.leaving.adopt(station, now_us):
                    self._part_with(station.daemon, now_us)

    def _refresh(self, now_us: int) -> None:
        """Bring our own station and the list of others up to date."""
        self.flapping.follow(self._gathering.stations.values(), self.view, self.stopped_us, now_us)
        live = {number for number in self.peers if self.is_live(number, now_us)}
        self._serial += 1
        view = self.view if self.is_active else None
        station = Station(
            self._me,
            self._incarnation,
            self._serial,
            0 if view is None else view.id,
            0 if view is None else len(view.members),
            words.mask_bytes(live),
            self.exclusions.told(now_us),
            self.flapping.told(now_us),
            self.leaving.is_told,
        )
        if self._gathering.learn(station, now_us):
            self._changed_us = now_us
        if self._gathering.expire(now_us - self.timing.station_lasts_us):
            self._changed_us = now_us

    def _is_friend(self, peer: Peer) -> bool:
        """Whether what is gathered is exchanged with a peer."""
        return is_friend(peer, self._me, self.company, self.representative, self._gathering, self._hears)

    def _hears(self, number: int) -> bool:
        """Whether the peer who speaks for another one works with us itself."""
        peer = self.peers.get(number)
        return peer is not None and peer.echoed_us >= self.timing.began_us

    def _tell(self, now_us: int) -> None:
        """Repeat what is known to those who should know it, and ask those who may be there."""
        self._refresh(now_us)
        self._beat_us = now_us + self.timing.join_us
        parts = self._gathering.parts()
        for peer in self.peers.values():
            if self._is_friend(peer) and self.is_live(peer.number, now_us):
                for number, stations in enumerate(parts):
                    self._beat(peer, now_us, question=number == 0, stations=stations)

    def _probe(self, now_us: int) -> None:
        """Ask the absent whether they are there; never stops, but slows down."""
        for peer in self._absent():
            if peer.probe_us <= now_us:
                peer.asked(self.timing, now_us)
                self._beat(peer, now_us, question=True)
        self._plan_probe()

    def _absent(self) -> list[Peer]:
        company = self.company
        return [
            peer
            for peer in self.peers.values()
            if company is None or peer.number not in company.members or peer.number in self._missed
        ]

    def _plan_probe(self) -> None:
        self._probe_us = min((peer.probe_us for peer in self._absent()), default=None)

    def _inform(self, number: int, now_us: int) -> None:
        self._beat(self.peers[number], now_us, question=True)  # an answer would count as a round trip

    def ask(self, number: int, echo_us: int, now_us: int) -> None:
        """Have a neighbour, whose beat with this clock value was refused, send another one at once."""
        self._beat(self.peers[number], now_us, question=True, echo_us=echo_us)

    def _beat(
        self,
        peer: Peer,
        now_us: int,
        *,
        question: bool,
        stations: tuple[Station, ...] = (),
        echo_us: int = 0,
    ) -> None:
        company = self.company
        beat = Beat(
            clock_us=now_us,
            echo_us=echo_us or peer.clock_us,
            question=question,
            state=int(self.state),
            engaged=0 if company is None else company.id,
            promised=self.promised,
            lts=self._host.clock,
            representative=self.representative,
            welcome=self.is_live(peer.number, now_us) and not self.leaving.is_told,
            round=self._round if self.is_active else 0,
            stations=stations,
        )
        self._voice.beat(peer.number, beat, is_full=peer.must_prove)

    # Losing a view --------------------------------------------------------------------------------------

    def lost_link(self, number: int, reason: Reason, detail: str, now_us: int) -> None:
        """A link of the view, installed or being formed, has failed."""
        if self._is_on_leave:
            self.leaving.went_on(number)
            return
        self.flapping.fading |= {number}
        self.peers[number].must_prove |= reason is Reason.LINK_FAILED  # it was heard all the same
        self._lose(reason, number, detail, now_us)

    def progress(self, now_us: int) -> None:
        """The view that is being formed comes along."""
        self._progress_us = now_us

    def _lose(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        """DeclareMembLoss (figure 6.5): nothing that was agreed holds any more; look around anew."""
        company = self.company
        self.flapping.lost(self.timing, now_us, is_forming=self.forming is not None)
        self.rounds.left(self.state.word, now_us)
        self.rounds.begin(reason, peer, detail, now_us)
        if self.forming is not None:
            self.forming = None
            self._host.give_up()
        self._stop(now_us)
        self._missed = frozenset()
        self.timing.began_us = now_us
        self._changed_us = now_us
        self._beat_us = now_us + self.timing.join_us
        self.representative = self._me
        self._gathering.clear()
        self._enter(State.SEG, reason, now_us)
        for other in self.peers.values():
            other.ask_soon(self.timing.join_us, now_us)
        if company is not None:  # neighbours first: with them the news spreads
            for number in company.neighbours(self._me):
                self._beat(self.peers[number], now_us, question=True)
                self.peers[number].asked(self.timing, now_us)
        self._probe(now_us)

    def _stop(self, now_us: int) -> None:
        """The installed view stops working, if it still does."""
        if self.is_active:
            self.is_active = False
            self.stopped_us = now_us
            self._host.freeze()

    def stalled(self, waited_for: Collection[int], detail: str, now_us: int) -> None:
        """In the installed view something waits for these members, and waits in vain."""
        blamed = self.exclusions.blame(waited_for, self.view, detail, now_us)
        self._lose(Reason.STALLED, blamed, detail, now_us)

    def refuse_state(self, number: int, reason: str, now_us: int) -> None:
        """No view can begin with the state that a member of the view that is being formed has told."""
        assert self.forming is not None
        detail = f"{self._name(number)} tells an impossible state ({reason})"
        self.exclusions.exclude(number, self.forming.incarnation(number) or 0, detail, now_us)
        self._lose(Reason.IMPOSSIBLE, number, detail, now_us)

    def _lose_unanswered(self, proposer: int, now_us: int) -> None:
        """No proposal came from the daemon whose turn it is. After a long time without any view it is held
        against that daemon, although it is heard."""
        detail = f"{self._name(proposer)} proposed no view"
        if self.stopped_us is not None and now_us - self.stopped_us > self.timing.stall_us:
            station = self._gathering.stations.get(proposer)
            if station is not None:
                self.exclusions.strike(proposer, station.incarnation, detail, now_us)
        self._lose(Reason.UNANSWERED, proposer, detail, now_us)

    def _enter(self, state: State, reason: Reason, now_us: int) -> None:
        self.state = state
        self._entered_us = now_us
        self._host.entered(state.word, reason.value, now_us)

    def _change(self, state: State, reason: Reason, now_us: int) -> None:
        """Go on to a state within the round."""
        self.rounds.left(self.state.word, now_us)
        self._enter(state, reason, now_us)

    # Gathering ------------------------------------------------------------------------------------------

    def _gather(self, reason: Reason, peer: int | None, detail: str, now_us: int) -> None:
        """Look for a larger view, while the one we have works."""
        self.rounds.begin(reason, peer, detail, now_us)
        self._gathering.clear()
        self.timing.began_us = now_us
        self._changed_us = now_us
        self._enter(State.GATHER, reason, now_us)
        for other in self._absent():
            other.ask_soon(self.timing.join_us, now_us)
        self._probe(now_us)
        self._tell(now_us)

    def _end_segment(self, now_us: int) -> None:
        """Segment timeout (figure 6.7): the smallest daemon that is there speaks for the site."""
        present = [
            number
            for number in self._site_mates
            if self.is_live(number, now_us) and self.peers[number].engaged == 0
        ]
        self.representative = min([self._me, *present])
        self._changed_us = now_us
        if self.representative == self._me:
            self._change(State.GATHER, Reason.ALONE, now_us)
        else:
            self._forsaken_us = now_us
            self._change(State.REP, Reason.REPRESENTED, now_us)
        self._tell(now_us)

    def _is_representative_gone(self, now_us: int) -> bool:
        """Whether it is silent, or has been forming a view for so long that we cannot be in it."""
        peer = self.peers[self.representative]
        if peer.engaged == 0:
            self._forsaken_us = now_us
        return (
            now_us - self._forsaken_us > 5 * self.timing.join_us
            or peer.heard_us < now_us - self.timing.fresh_us(peer, is_gathering=True)
        )

    def _decide(self, now_us: int) -> None:
        """Is it time to propose a view, and is it ours to propose?"""
        self._refresh(now_us)
        if self._is_on_leave:
            return  # it is for the others to decide
        leavers = self.leaving.among(self._gathering.stations, now_us)
        out = leavers | self.exclusions.among(self._gathering.stations, now_us)
        members, pairs = self._gathering.component(self._me, out)
        waited_us = now_us - self._entered_us
        is_quiet = now_us - self._changed_us >= self.timing.gather_us
        is_worth_it = not self.is_active or is_better(self._config, self.view, members, pairs, leavers)
        if is_quiet and not is_worth_it:
            self._back_to_work(now_us)
            return
        if min(members) != self._me:
            if waited_us > PATIENCE_GATHERS * self.timing.gather_us:
                if self.is_active:
                    self._back_to_work(now_us)
                else:
                    self._lose_unanswered(min(members), now_us)
            return
        is_late = waited_us > GATHERS_MAX * self.timing.gather_us
        if not is_late:
            # With everybody there, only links could still be found.
            enough_us = self.timing.gather_us // 4 if members == self._everybody else self.timing.gather_us
            if now_us - self._changed_us < enough_us:
                return
            if not self._gathering.is_whole(members, leavers):
                return
        if is_worth_it:
            self._propose(members, pairs, now_us)

    def _back_to_work(self, now_us: int) -> None:
        """Nobody came of it: the view goes on, and the next attempt waits a little."""
        peer = self.rounds.current.peer if self.rounds.current is not None else None
        if peer is not None and peer not in self.view.members:
            self.peers[peer].refused_until_us = now_us + self.timing.probe_max_us
        self._finished_round = self._round
        self._find_missed(now_us)
        self._change(State.OP, Reason.NOTHING_NEW, now_us)
        self.rounds.end("nothing new", now_us)

    def _propose(self, members: frozenset[int], pairs: set[Pair], now_us: int) -> None:
        """Create_Send_NewMemb (figure 6.11)."""
        stations = self._gathering.stations
        self._accept(view_of(self._config, self._host.tick(), members, pairs, stations), now_us)

    def propose(self, sender: int, proposal: Proposal, now_us: int) -> None:
        """A proposal came in (figure 6.4)."""
        self._host.witness(proposal.id)
        twin = self.exclusions.contradicted(self.company, proposal, now_us)
        if twin is not None:
            self._lose(Reason.TWINS, twin, f"{self._name(twin)}: {TWINS}", now_us)
        if proposal.id <= self.promised:
            return  # others have agreed on something newer, or it is a copy
        view = DaemonView(proposal.id, proposal.members, proposal.incarnations, proposal.pairs)
        if view.incarnation(self._me) != self._incarnation or self.state in FORMING:
            return
        if sender not in view.neighbours(self._me):
            return
        self._accept(view, now_us)

    def _accept(self, view: DaemonView, now_us: int) -> None:
        self.promised = view.id
        if self.rounds.current is None:  # we were not asked before
            self.rounds.begin(Reason.PROPOSED, view.members[0], "a view was proposed", now_us)
        self._stop(now_us)
        self.forming = view
        self._proposal = words.encode(Proposal.of(view.id, view.members, view.incarnations, view.links))
        self._missed = frozenset()
        self._plan_probe()
        self._progress_us = now_us
        self._stuck_after_us = STUCK_RECOVERIES * self.timing.recovery_us + 4 * self.timing.slowest_us
        self._change(State.STATETRANS, Reason.PROPOSED, now_us)
        self._host.form(view, now_us)
        for number in view.neighbours(self._me):
            self.pass_on(number)
        self._release(now_us)

    def pass_on(self, number: int) -> None:
        """Tell a neighbour in the view that is being formed about it."""
        assert self.forming is not None
        self._voice.send(number, PacketKind.PROPOSAL, self._proposal)

    # Forming --------------------------------------------------------------------------------------------

    def state_is_known(self, now_us: int) -> None:
        """Every member's state has come."""
        self._change(State.EVS, Reason.STATE_KNOWN, now_us)
        self._progress_us = now_us

    def installed(self, transitional: frozenset[int], now_us: int) -> None:
        """The view that was being formed is installed."""
        before, view = self.view, self.forming
        assert view is not None
        self.view = view
        self.forming = None
        self.is_active = True
        self.since_us = now_us
        self.representative = site_representative(self._config, view.members, self._me)
        self._find_missed(now_us)
        self.flapping.installed(before, view, self._missed, self.stopped_us or 0, self.timing, now_us)
        self.stopped_us = None
        self.timing.installed(view)
        self._change(State.OP, Reason.INSTALLED, now_us)
        self.rounds.installed(before, view, transitional, now_us)
        neighbours = view.neighbours(self._me)
        for number, peer in self.peers.items():
            if number not in view.members or number in self._missed:
                peer.ask_soon(self.timing.probe_us, now_us)
            elif number in neighbours:
                peer.must_prove = False
        self._plan_probe()

    # Time -----------------------------------------------------------------------------------------------

    def excuse(self, pause_us: int) -> None:
        """This daemon was itself not running for so long: nobody is late because of that."""
        for peer in self.peers.values():
            peer.heard_us += pause_us
            peer.damping.excuse(pause_us)
        self._entered_us += pause_us
        self._changed_us += pause_us
        self._progress_us += pause_us

    def timeout(self, now_us: int) -> None:
        """Do whatever is due."""
        if self._probe_us is not None and self._probe_us <= now_us:
            self._probe(now_us)
        if self.state is State.SEG:
            if now_us >= self._entered_us + self.timing.segment_us:
                self._end_segment(now_us)
        elif self.state in FORMING:
            self._watch_forming(now_us)
        elif self.state is not State.OP and now_us >= self._beat_us:
            self._tell(now_us)
            if self.state is State.REP:
                self._watch_representative(now_us)
            else:
                self._decide(now_us)

    def _watch_forming(self, now_us: int) -> None:
        if now_us >= self._progress_us + self._stuck_after_us:
            assert self.forming is not None
            missing = self._host.waits_for()
            whom = ", ".join(map(self._name, missing)) or "no daemon"
            detail = f"no progress in state {self.state.word}, waiting for {whom}"
            blamed = self.exclusions.blame(missing, self.forming, detail, now_us)
            self._lose(Reason.STUCK, blamed, detail, now_us)

    def _watch_representative(self, now_us: int) -> None:
        if self._is_representative_gone(now_us):
            name = self._name(self.representative)
            self._lose(Reason.SILENCE, self.representative, f"{name} no longer speaks for us", now_us)
        elif now_us - self._entered_us > PATIENCE_GATHERS * self.timing.gather_us:
            self._lose_unanswered(self.representative, now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` has something to do."""
        deadline_us = self._probe_us
        if self.state is State.OP:
            return deadline_us
        if self.state is State.SEG:
            due_us = self._entered_us + self.timing.segment_us
        elif self.state in FORMING:
            due_us = self._progress_us + self._stuck_after_us
        else:
            due_us = self._beat_us
        return due_us if deadline_us is None else min(due_us, deadline_us)

    def _name(self, number: int) -> str:
        return self._config.daemon_names[number]
