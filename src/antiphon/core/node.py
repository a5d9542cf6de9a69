"""One daemon's machines wired together: events in, effects out.

The driver (the real daemon in `runtime/`, or the simulator) calls the methods under "events" with the time,
one or many, then `settle`, and afterwards takes what the node left behind:

- `datagrams`: packets to send to other daemons, in order; the driver sends and clears them. Those for daemons
  that are reached over TCP go through `core.streams`, one packet each
- `frames`: (session numbers, frame, header of a bundle) to write to clients, in order; the driver writes and
  clears them
- `endings`: (session number, Goodbye) pairs: sessions that the node has ended; the driver writes the
  Goodbye, closes the connection and clears them; no further event may name these sessions
- `next_deadline_us()`: when to call `timeout` at the latest
- `departure.is_over`: after `departure.begin`, a planned stop: whether the daemon may end
- `reads(session)`: whether the driver should read this client's connection now (back-pressure), and
  `sessions.input_room` how many bytes of bundles at most; of a single one that is larger, all

The node never sleeps, reads no clock and draws no random number: the same events give the same effects.

What exists once per daemon view (links, trees, order, flow control) is an `Engine`. There is always that of
the installed view; it may be frozen, when its view is lost or about to be left. While the next view is being
formed there is a `Changeover` with a second engine, over whose links the recovery runs.

Follows: Spread paper 2 (figure 2.2, the modules of a daemon) and thesis 3.2 (figure 3.2: a session layer, a
server protocol layer and a network layer).
Deviations: no module does input or output, so that the daemon and the simulator run the same objects. All
that depends on a daemon view is built anew for each view, where the paper instantiates and destroys single
Hop and Ring modules as the membership changes.
Checked by: every test in tests/paper, the oracle's rules in the simulator.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.config import Config
from antiphon.core.access.rights import Rights
from antiphon.core.admission import Admission
from antiphon.core.clock.service import Clock
from antiphon.core.departure import Departure
from antiphon.core.effects import Outbox
from antiphon.core.feeds.attachments import Attachments
from antiphon.core.gate import Gate
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.delivery import Delivery, Frames
from antiphon.core.groups.dispatch import Dispatcher, Work
from antiphon.core.groups.regrouping import Regrouping
from antiphon.core.groups.requests import Requests
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.core.groups.slow import SlowSessions
from antiphon.core.groups.states import GOP, GroupReason, GroupState
from antiphon.core.groups.transition import Transition
from antiphon.core.intake import Intake
from antiphon.core.links.link import Link
from antiphon.core.links.site import SiteLink
from antiphon.core.membership.changeover import Changeover, Commitment
from antiphon.core.membership.credence import Credence
from antiphon.core.membership.daemons import DaemonMembership
from antiphon.core.membership.door import Door
from antiphon.core.membership.engine import Engine, earliest_us
from antiphon.core.membership.states import State
from antiphon.core.membership.suspicion import Suspicion
from antiphon.core.observer import Observer
from antiphon.core.ordering.early import Offer
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Order
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.origin import Origin
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.settling import send_on, settle_changeover, settle_order
from antiphon.core.stalls import Stalls
from antiphon.core.status import describe
from antiphon.core.streams.streams import Streams
from antiphon.core.view import DaemonView
from antiphon.core.working import WorkingPassage
from antiphon.errors import BadPacket
from antiphon.wire import frames, trains
from antiphon.wire.bundle import Draft, Header
from antiphon.wire.edges import Attach, Attached, FromEdge, Probe, Probed
from antiphon.wire.events import GroupEvent
from antiphon.wire.packet import KIND_CLOCK, KINDS_OF_MEMBERSHIP, Loose, Packet

if TYPE_CHECKING:  # what seals takes time to load, and many programs with nodes do not seal
    from antiphon.core.sealing import seal


class Node:
    """A daemon without its sockets."""

    delivery: Delivery
    membership: DaemonMembership

    def __init__(
        self,
        config: Config,
        name: str,
        *,
        incarnation: int,
        now_us: int,
        wall_us: int = 0,
        observer: Observer | None = None,
        sealing: "seal.Sealing | None" = None,
    ) -> None:
        """`wall_us` is Unix time: it gives the Lamport clock its start, so that the identifiers of a daemon
        that was restarted are new. `now_us` and the time of all events is a monotonic clock. With `sealing`,
        packets between daemons are sealed; without it they are not, and sealed ones are refused."""
        self.config = config
        self.name = name
        self.me = config.daemon_number(name)
        self.site = config.site_of(self.me)
        self.frames: Frames = []
        self.endings: list[tuple[int, frames.Goodbye]] = []
        self.counters: Counter[str] = Counter()
        self.incarnation = incarnation
        self.gate = Gate(config, self.me, self.counters)
        self.seal: seal.Door | None = None if sealing is None else sealing.door(self)
        """Where packets are sealed and opened, if they are."""
        self.datagrams = Outbox() if self.seal is None else self.seal.outbox
        self.sessions = Sessions(name)
        self.admission = Admission(self)
        self.delivery = Delivery(self.me, config.site_of, self.sessions, self.frames, self.endings, observer)
        self.backpressure = Backpressure(
            self.me, config.daemon_names, config.settings, self.delivery.membership
        )
        self._dispatcher = Dispatcher(self.delivery, observer, self.counters)
        self.regrouping: Regrouping = Regrouping(self)
        """The states of the groups."""
        self.departure = Departure(self)
        self.observer = observer
        self._slow = SlowSessions(config.settings, self.sessions, self.backpressure)
        self.requests = Requests(name, self.me, self.sessions, self.frames, config.settings.slow_policy)
        self._changeover: Changeover | None = None
        self._commitment = Commitment(self.me)
        self._early_joins: list[tuple[Header, GroupEvent]] = []  # seen before groups can count them
        self._accepted: dict[int, int] = {}  # of the last view: told when that is done
        start = stamp_after(wall_us % limits.LTS_START_MAX_US * limits.LTS_PER_US, self.me)
        alone = DaemonView(start, (self.me,), (incarnation,), ())
        self._credence = Credence(start, now_us)
        self.streams = Streams(
            config, self.me, self._working, self._receive, self.gate, self.counters, self.datagrams, self.seal
        )
        self.engine = self._engine_of(alone, alone.id, now_us)
        self.order: Order = self.engine.order
        """The order of the installed view."""
        self.delivery.begin_view(self.engine.histories, self.order)
        self._origin = self._origin_in(self.engine)
        self._new_origin = self._origin  # of the view that is being formed, if one is
        self._passage = WorkingPassage(self, alone.id, self._origin)
        if observer is not None:
            observer.installed(alone, ())
        self.membership = DaemonMembership(config, self.me, incarnation, self, self.datagrams, alone, now_us)
        self._standing = self.membership.standing
        self.time = Clock(config, self.me, incarnation, self, self._working, wall_us=wall_us, now_us=now_us)
        self._door = Door(self.membership, self._credence, config, self.gate)
        self.gate.judge = None if self.seal is None else self.membership.misconduct
        self.edges = Attachments(self, alone.id)
        """The edges that are attached here."""
        self.suspicion = Suspicion(self.membership, self._working, config.daemon_names, now_us)
        self.stalls = Stalls(self, now_us)
        self._intake = Intake(self.me, self.site, self, self.delivery, self.counters)
        self.streams.suspicion = self.suspicion
        self.membership.start(now_us)
        self.settled_us = now_us
        """When `settle` was called last."""
        self.is_settled = False
        """Whether `settle` was called after the last event and has left no work for its next call."""

    def _engine_of(self, view: DaemonView, clock: int, now_us: int) -> Engine:
        return Engine(
            self.config, view, me=self.me, clock=clock,
            streams=self.streams.states, datagrams=self.datagrams, now_us=now_us,
        )  # fmt: skip

    def _origin_in(self, engine: Engine) -> Origin:
        return Origin(
            self.config, me=self.me, incarnation=self.incarnation, engine=engine, delivery=self.delivery,
            observer=self.observer, counters=self.counters,
        )  # fmt: skip

    # Questions --------------------------------------------------------------------------------------------

    @property
    def view(self) -> DaemonView:
        """The installed daemon view."""
        return self.engine.view

    @property
    def state(self) -> str:
        """The state of the daemon membership: "op", "seg", "rep", "gather", "statetrans" or "evs"."""
        return self.membership.state.label

    @property
    def group_state(self) -> str:
        """The state of the group membership: "gop", "gtrans", "ggather" or "ggt", see `groups.states`."""
        return self.regrouping.state.value

    @property
    def is_operational(self) -> bool:
        """Whether messages flow."""
        return self.membership.state is State.OP and self.regrouping.state is GOP

    @property
    def working_links(self) -> dict[int, Link]:
        """The links in use: those of the view that is being formed, or else of the installed one; none while
        the installed view is lost and no other is being formed."""
        engine = self._working()
        return {} if engine is None else engine.links

    @property
    def working_site_link(self) -> SiteLink | None:
        """The site link of the same view as `working_links`; None if this daemon is alone in its segment."""
        engine = self._working()
        return None if engine is None else engine.site_link

    @property
    def forwarder(self) -> Forwarder:
        """The forwarder of the installed view."""
        return self.engine.forwarder

    def _working(self) -> Engine | None:
        """The engine over whose links this daemon works."""
        if self._changeover is not None:
            return self._changeover.new
        return self.engine if self._standing.is_active else None

    # Events: the network ----------------------------------------------------------------------------------

    def receive(self, data: memoryview, stride_bytes: int, now_us: int, origin: int | None = None) -> None:
        """A datagram came in, or (`stride_bytes` < its size) a train of them read in one call. `origin` is
        the daemon from whose address it came, or no daemon's number; None if the driver does not know.

        The buffer may be used again after the call. Bad bytes are counted, never raised.
        """
        self.suspicion.notice_pause(now_us)
        over_streams = self.streams.states
        if self.seal is None:
            packets = trains.parse_train(data, stride_bytes)
        else:
            self.is_settled = False  # an introduction may be answered
            packets = self.seal.read(data, stride_bytes, now_us, origin)
        for incoming in packets:
            if isinstance(incoming, BadPacket):
                self.gate.refuse(incoming, origin)
            elif incoming.head.sender in over_streams:
                self.counters["packet: not over its connection"] += 1
            else:
                self._receive(incoming, now_us, origin)

    def _receive(self, incoming: Packet, now_us: int, origin: int | None = None) -> None:
        self.is_settled = False
        head = incoming.head
        if not self.gate.admits(head, origin):
            return
        if head.kind in KINDS_OF_MEMBERSHIP:
            assert isinstance(incoming, Loose)
            self._door.receive(incoming, self.order.clock, now_us)
        elif head.kind == KIND_CLOCK:
            assert isinstance(incoming, Loose)
            self.time.receive(incoming, now_us)
        else:
            self._receive_in_view(incoming, now_us)

    def _receive_in_view(self, incoming: Packet, now_us: int) -> None:
        head = incoming.head
        engine = self._working()
        if engine is None or engine.view.id != head.view:
            self.counters["packet: of another view"] += 1
            return
        from_site = engine.is_mate(head.sender)
        try:
            found = engine.receive(incoming, from_site, now_us)
        except BadPacket as error:
            self.gate.refuse_contents(error, head, now_us)
            return
        for news in found:
            engine.received_bytes += news.size_bytes
            self._intake.take(engine, news, from_site, now_us)
            if self._changeover is not None:
                self.membership.formation.progress(now_us)

    def timeout(self, now_us: int) -> None:
        """The deadline has passed."""
        self.suspicion.notice_pause(now_us)
        self.membership.timeout(now_us)
        engine = self._working()
        if engine is not None:
            engine.timeout(now_us)
            if self.suspicion.due_us <= now_us:
                self.suspicion.look(self._changeover is not None, now_us)
                self.stalls.look(now_us)
        self.time.timeout(now_us)
        self.edges.timeout(now_us)
        if self.seal is not None:
            self.seal.timeout(now_us)
        self.is_settled = False

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called, or None if only other events matter."""
        suspicion = self.suspicion
        deadline_us = self.membership.next_deadline_us()
        pressure_us = self.backpressure.due_us(self._standing.is_active)
        if pressure_us is not None:
            deadline_us = earliest_us(deadline_us, pressure_us)
        if self.sessions.is_closed:
            deadline_us = earliest_us(deadline_us, self.departure.next_deadline_us())
        engine = self._working()
        if engine is not None:
            deadline_us = earliest_us(deadline_us, engine.next_deadline_us())
            if engine.links or engine.site_link is not None:
                deadline_us = earliest_us(deadline_us, suspicion.due_us)
        deadline_us = earliest_us(deadline_us, self.time.next_deadline_us())
        deadline_us = earliest_us(deadline_us, self.edges.next_deadline_us())
        if self.seal is not None:
            deadline_us = earliest_us(deadline_us, self.seal.next_deadline_us())
        suspicion.awaited_us = deadline_us
        return deadline_us

    # Events: the clients ----------------------------------------------------------------------------------

    def connect(
        self, request: frames.Connect, now_us: int, rights: Rights | None = None
    ) -> frames.Welcome | frames.Refuse:
        """A client asks for a session with these `rights`, or all of them; a Welcome carries its number."""
        self.delivery.changed()
        return self.requests.connect(request, rights)

    def attach(self, request: Attach, now_us: int) -> tuple[int, Attached] | frames.Refuse:
        """An edge wants to be attached: its number, which is used like that of a session, and the answer."""
        self.is_settled = False
        return self.edges.attach(request, now_us)

    def probe(self, request: Probe) -> Probed:
        """Somebody asks who is there."""
        return self.edges.probe(request)

    def control(self, session: int, request: frames.FromClient | FromEdge, now_us: int) -> None:
        """A control frame other than Connect and Attach came from this session. After Disconnect the node
        ends the session by itself, through `endings`."""
        self.is_settled = False
        if session in self.edges:
            self.edges.control(session, request, now_us)
            return
        client = self._session(session)
        if isinstance(request, frames.AskTime):
            self.frames.append(((session,), self.time.answer(request, now_us), None))
            return
        self.requests.control(client, request)
        if isinstance(request, frames.Join) and request.delivery:
            self.delivery.choices.wishes_changed()
        if client.is_leaving:
            self.stop_listening(client)

    def submit(self, session: int, bundles: Sequence[bytearray | memoryview], now_us: int) -> None:
        """Bundle frames came from this session. The node keeps a bytearray, and copies a view.

        Raises BadFrame at the first bundle that is not what a client may send, and has taken those before it:
        the driver writes a Goodbye with the reason and calls `lost`.
        """
        self.is_settled = False
        if session in self.edges:
            self.edges.submit(session, bundles, now_us)
            return
        client = self._session(session)
        self.requests.submit(client, bundles)
        if client.priority:
            self.sessions.sent(client, now_us)

    def lost(self, session: int, now_us: int) -> None:
        """The client's connection broke, or the driver closed it: the session leaves its groups."""
        self.is_settled = False
        if session in self.edges:
            self.edges.lost(session, now_us)
            return
        client = self._session(session)
        client.is_connected = False
        self.requests.end(client)
        self.stop_listening(client)

    def backlog(self, session: int, waiting_bytes: int, read_bytes: int, now_us: int) -> Band:
        """How much output waits for this session in the driver, and how much it has read in all.

        The driver tells it whenever the first leaves the band that was answered the last time, or at first
        `settings.output_soft_bytes`, and again and again while the session is behind. At the hard limit the
        driver gives up by itself: it writes a Goodbye with code "slow-receiver" and calls `lost`.
        """
        self.is_settled = False
        if session in self.edges:
            return self.edges.backlog(session, waiting_bytes)
        client = self._session(session)
        return self._slow.told(client, waiting_bytes, read_bytes, now_us)

    def stop_listening(self, session: Session) -> None:
        """Nothing more is sent to this session, and no sender waits for it."""
        self.backpressure.caught_up(session.number)
        self.sessions.dropping.discard(session.number)
        self.delivery.changed()
        if session.wished:
            self.delivery.choices.wishes_changed()

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        assert session is not None and not session.is_leaving, f"no session {number}"
        return session

    def reads(self, session: int) -> bool:
        """Whether the driver should read this client's connection now. Ask again after each event."""
        client = self.sessions.get(session)
        if client is None:
            return session in self.edges and self.edges.reads(session)
        return self.sessions.wants_input(client)

    # The membership's requests ----------------------------------------------------------------------------

    @property
    def _newest_engine(self) -> Engine:
        return self.engine if self._changeover is None else self._changeover.new

    @property
    def clock(self) -> int:
        """The Lamport clock."""
        return max(self._newest_engine.order.clock, self._credence.ahead)

    def tick(self) -> int:
        """A stamp of the Lamport clock."""
        return self._credence.tick(self._newest_engine.order, self.me)

    def witness(self, lts: int) -> None:
        """Another daemon's Lamport clock shows `lts`, and is believed."""
        self._credence.witness(lts, self._newest_engine.order, self._newest_engine.view.id)

    def freeze(self) -> None:
        """The installed view stops working. What its lines have already allowed is delivered."""
        self.regrouping.deliver_rest(self.order.ready, self.deliver)
        self.order.stop()

    def form(self, view: DaemonView, now_us: int) -> None:
        """Build the links of `view` and begin to exchange state over them."""
        self._early_joins.clear()  # those of the view that ends take effect with it
        new = self._engine_of(view, self.engine.order.clock, now_us)
        self.suspicion.due_us = now_us + self.membership.timing.join_us
        self._new_origin = self._origin_in(new)
        self._changeover = Changeover(
            self.config, self.me, self.engine, new, self._new_origin.send_control, self._commitment
        )
        self._changeover.begin(now_us)

    def give_up(self) -> None:
        """Drop the view that is being formed."""
        assert self._changeover is not None
        self.engine.order.witness(self._changeover.new.order.clock)
        self._changeover = None
        self._new_origin = self._origin
        self._early_joins.clear()

    def waits_for(self) -> tuple[int, ...]:
        """The members of the view that is being formed without which its next step cannot be done."""
        return () if self._changeover is None else self._changeover.waits_for

    def tell_progress(self, now_us: int) -> None:
        """Tell the members of the view that is being formed that something comes in here, if it does."""
        if self._changeover is not None:
            self._changeover.tell_progress(now_us)

    def entered(self, state: str, reason: str, now_us: int) -> None:
        """The membership of daemons, or of groups, has entered a state."""
        if self.observer is not None:
            self.observer.entered(state, reason, now_us)

    def _install(self, changeover: Changeover, now_us: int) -> None:
        """Every member is known to have everything: go from the old view to the new one, at once."""
        recovery = changeover.recovery
        assert recovery is not None
        transition = Transition(
            self.me, self.view.id, changeover.new.view.id, self.order, recovery, delivery=self.delivery,
            dispatcher=self._dispatcher, merging=self.regrouping.merging, observer=self.observer,
        )  # fmt: skip
        self._changeover = None
        self.delivery.begin_view(None, None)
        self.regrouping.leave(transition)
        self._commitment = Commitment(self.me)
        self.engine, self.order = changeover.new, changeover.new.order
        self._origin = self._new_origin
        self._passage = WorkingPassage(self, self.view.id, self._origin)
        for session in self.sessions:
            session.last_number = 0
        self._accepted = {
            session.number: session.sequence - 1 for session in self.sessions if session.sequence > 1
        }
        self.membership.formation.installed(recovery.together, now_us)
        self.backpressure.begin_view(recovery.together, now_us)
        self.regrouping.enter(transition)

    # The regrouping's requests ----------------------------------------------------------------------------

    def ended(self, transition: Transition) -> None:
        """Everything of the old view is done."""
        self.edges.end_view(transition.recovery.certain_line, self.view.id, self.settled_us)
        # All who come along have everything of the old view. Told before it was delivered, this would be
        # untrue of a daemon that is left alone and crashes.
        self.delivery.tell_accepted(self._accepted)
        self.delivery.begin_view(self.engine.histories, self.order)
        if transition.dropped_bundles:
            self.counters["bundle: after a hole"] += transition.dropped_bundles
        if self.observer is not None:
            self.observer.installed(self.view, tuple(sorted(transition.recovery.together)))

    def groups_entered(self, state: GroupState, reason: GroupReason) -> None:
        """The groups have entered a state that observers are told of."""
        self.entered(state.value, reason.value, self.settled_us)

    def listen(self, event: GroupEvent, is_first: bool) -> None:
        """Listen to a group for edges, or no longer."""
        self._origin.listen(event, is_first, self.settled_us)

    def send_groups(self, draft: Draft) -> None:
        """Send a GROUPS message."""
        self._origin.send_control(draft, self.settled_us)

    def groups_are_whole(self) -> None:
        """The members of all groups are known: joins that came in before count from now on."""
        early, self._early_joins = self._early_joins, []
        for header, event in early:
            self.saw_event(header, event, self.settled_us)
        self._origin.decide_quorums(self.settled_us)
        self.edges.groups_are_whole()

    # The intake's questions -------------------------------------------------------------------------------

    @property
    def is_between_views(self) -> bool:
        """Whether there is something to do before the newest view is ready for clients."""
        return self._changeover is not None or self.regrouping.state is not GOP

    @property
    def is_joining(self) -> bool:
        """Whether a join of a session here is under way."""
        return self._origin.is_joining

    def keeps_order(self, header: Header) -> bool:
        """Whether a bundle must wait for its place in the agreed order whatever its service."""
        return self._origin.keeps_order(header)

    def saw_event(self, header: Header, event: GroupEvent, now_us: int) -> None:
        """A join, leave or disconnect has come in; it takes effect later."""
        if self.is_between_views:
            self._early_joins.append((header, event))
            return
        self.delivery.membership.saw((header.daemon, header.session), event)
        if event.brings_messages:
            self._origin.send_missed(event.groups, header.daemon, header.lts, now_us)

    # Whatever follows from an event -----------------------------------------------------------------------

    def settle(self, now_us: int) -> None:
        """Do what follows from all events since the last call: order, deliver, announce, send.

        The cost of this is per call, so that a driver with many events at hand calls it once. Its work is
        bounded: if some is left, `is_settled` is False, and the driver calls again after it has carried out
        what it finds here and has looked for other events.
        """
        self.is_settled = True
        self.settled_us = now_us
        self.regrouping.begin_slice()
        backpressure = self.backpressure
        if backpressure:
            backpressure.timeout(self._standing.is_active, now_us)
        if backpressure.is_eased or self.delivery.membership.is_eased:
            backpressure.is_eased = self.delivery.membership.is_eased = False
            self.sessions.unpark()
        changeover = self._changeover
        if changeover is not None and settle_changeover(self, changeover, self._new_origin, now_us):
            self._install(changeover, now_us)
        if self._standing.is_active:
            self.regrouping.go_on()
            self.is_settled &= settle_order(self, self._origin, now_us)
            self.edges.feed(now_us)
            self.is_settled &= not (backpressure.is_eased or self.delivery.membership.is_eased)
            pressure = backpressure.announcement(self.engine.order.source, now_us)
            if pressure is not None:
                self.forwarder.pressure(pressure)
        engine = self._working()
        if engine is not None:
            origin = self._origin if self._changeover is None else self._new_origin
            self.is_settled &= send_on(self, engine, origin, now_us)
        if self.sessions.is_closed:
            self.departure.go_on(now_us)

    def deliver(self, entry: Entry | Offer) -> Work | None:
        """A bundle of the installed view has its turn, or is offered before it."""
        return self._dispatcher.deliver(entry, self._passage)

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way: every bundle is delivered and known to be everywhere, every link is idle."""
        return self.is_operational and not self.sessions.waiting and self.engine.is_quiet

    def status(self, now_us: int) -> dict[str, object]:
        """What `antiphon status` shows, ready for JSON."""
        return describe(self, now_us)
