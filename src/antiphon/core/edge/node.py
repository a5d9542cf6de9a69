"""An edge's machines wired together: events in, effects out.

The driver's contract is that of `core.node.Node` for the clients of this edge and for edges behind it; but
instead of datagrams there are connections to attachments. Beside `frames` and `endings` the driver takes and
clears, after each call of `settle` and in this order:

- `dials`: connect to one of the addresses; then `dialled`, or `broken`
- `upstream`: whole frames to write to these connections, in order
- `hang_ups`: connections to close, after what was written to them has had its chance to go out
- `casts`: datagrams to multicast, each with the place to which; what comes at `cast_places` goes to `cast`,
  without the node's own

What of the output to a connection has to wait, the driver tells with `waiting` each time that it has taken
`upstream`, and again when less waits. A connection that the node has closed, or that was `broken`, is heard
of no more.

Nobody waits for an edge. It gets the groups that its clients have joined from its attachment, in the one
order and with the core's views (`feed`, `members`), keeps a second attachment ready (`upstream`), has its
attachment send in the name of its clients (`sending`), and does all that for edges behind it (`behind`).
Clients of an edge are in no view; locks, and joins with a minimum, are for members of the core.

Follows: InterGroup 6: receivers that no sender waits for, with repair of their own (RMRA).
Deviations: an edge is a daemon with many receivers behind it; it gets its feed from its attachment, which is
one hop away, over a reliable connection or by multicast (`hearing`), and asks nobody beyond its local group.
Checked by: tests/unit/test_edge_*.py, the scenario `edges` and the oracle's *edges*.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from antiphon import limits
from antiphon.config.values import Settings
from antiphon.core.access.rights import Rights
from antiphon.core.edge.behind import Behind
from antiphon.core.edge.connection import Connection
from antiphon.core.edge.feed import Feed
from antiphon.core.edge.hearing import Hearing
from antiphon.core.edge.hierarchy import Hierarchy
from antiphon.core.edge.members import Members
from antiphon.core.edge.receivers import ReceiverCounts
from antiphon.core.edge.sending import Sending
from antiphon.core.edge.status import describe
from antiphon.core.edge.upstream import Buffer, Dial, Upstream
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.delivery import Frames
from antiphon.core.groups.requests import Requests
from antiphon.core.groups.sessions import NOTHING, Pending, Session, Sessions
from antiphon.core.groups.slow import SlowSessions
from antiphon.core.observer import Observer
from antiphon.core.sealing.casts import CastSealing
from antiphon.errors import BadFrame, BadPacket
from antiphon.types import TransitionalSignal, View
from antiphon.wire import casts, edges, frames
from antiphon.wire.bundle import Header
from antiphon.wire.events import event_bundle

AT_AN_EDGE = "at-an-edge"
_NOT_HERE = "is for clients of the core: {} is an edge, and a session here is in no view"


class NoBackpressure:
    """Nobody waits for receivers at an edge."""

    def bounds(self, session: int) -> bool:
        """See `Backpressure`."""
        return False

    def behind(self, session: Session, read_bytes: int, now_us: int) -> None:
        """See `Senders`."""

    def has_read(self, session: int, read_bytes: int, now_us: int) -> None:
        """See `Senders`."""

    def caught_up(self, session: int) -> None:
        """See `Senders`."""


class EdgeNode:
    """An edge without its sockets."""

    def __init__(
        self,
        name: str,
        attachments: Sequence[str],
        *,
        incarnation: int,
        now_us: int,
        settings: Settings,
        places: tuple[str, ...] = (),
        chance: Callable[[int], bytes],
        organises: bool = False,
        casts_at: str = "",
        observer: Observer | None = None,
    ) -> None:
        """`attachments` are addresses in the order of preference. An edge that `organises` itself takes them
        for daemons of the core, and finds its place among the other edges (`hierarchy`); these reach it at
        `places`. It multicasts to those behind it at `casts_at`, and can hear others then; without that,
        neither. `chance` gives so many random bytes that nobody can guess."""
        self.places = places
        self.casts_at = casts_at
        self.name = name
        self.incarnation = incarnation
        self.settings = settings
        self.now_us = now_us
        """The time of the last event."""
        self.frames: Frames = []
        self.endings: list[tuple[int, frames.Goodbye]] = []
        self.dials: list[Dial] = []
        self.upstream: list[tuple[int, Buffer]] = []
        self.hang_ups: list[int] = []
        self.casts: list[tuple[str, bytes]] = []
        self.cast_sealing = CastSealing(chance)
        self.witness: Callable[[frames.ToEdge | edges.Go], None] | None = None
        """Hears of each control frame of the feed at the moment at which it is read; for traces."""
        self.counters: Counter[str] = Counter()
        self.complaint = ""
        """What an attachment has complained of last."""
        self.is_settled = False
        """Whether `settle` was called after the last event and has left no work for its next call."""
        self.sessions = Sessions(name)
        self.requests = Requests(name, frames.AT_AN_EDGE, self.sessions, self.frames, settings.slow_policy)
        self.backpressure = NoBackpressure()
        self._slow = SlowSessions(settings, self.sessions, self.backpressure)
        self._observer = observer
        hierarchy = Hierarchy(name, attachments, now_us) if organises else None
        self.links = Upstream(self, attachments, now_us, hierarchy)
        self.feed = Feed(self)
        self.members = Members(self, self.sessions, self.frames)
        self.sending = Sending(self)
        self.behind = Behind(self)
        self.hearing = Hearing(self)
        self._receivers = ReceiverCounts(self, now_us)
        self._answers: dict[type, Callable[[Any], None]] = {
            edges.Sponsored: self.sending.sponsored,
            frames.Accepted: self.sending.accepted,
            frames.NotSent: self.sending.not_sent,
            frames.Unsure: self.sending.doubted,
            frames.Problem: self.sending.problem,
        }

    @property
    def is_operational(self) -> bool:
        """Whether messages flow."""
        return self.links.main is not None

    # Events: attachments ----------------------------------------------------------------------------------

    def _event(self, now_us: int) -> None:
        self.now_us = now_us
        self.is_settled = False

    def dialled(self, link: int, now_us: int) -> None:
        """The connection that was asked for is there."""
        self._event(now_us)
        self.links.dialled(link, now_us)

    def heard(self, link: int, kind: int, frame: memoryview, now_us: int) -> None:
        """A whole frame came; the buffer may be used again after the call. Bad frames end their connection,
        and are counted, never raised."""
        self._event(now_us)
        self.links.heard(link, kind, frame, now_us)

    def broken(self, link: int, reason: str, now_us: int) -> None:
        """There is no such connection: it could not be made, or is lost."""
        self._event(now_us)
        self.links.broken(link, reason, now_us)

    def waiting(self, link: int, waiting_bytes: int, now_us: int) -> None:
        """So much of the output to a connection waits in the driver."""
        self._event(now_us)
        self.links.waiting(link, waiting_bytes)
        main = self.links.main
        if main is not None and main.link == link and main.room_bytes > 0:
            self.sessions.unpark()

    def cast(self, data: bytes | memoryview, now_us: int) -> None:
        """Somebody else has multicast a datagram at one of the `cast_places`. Whatever is of no use is
        counted, never raised."""
        self._event(now_us)
        try:
            packet = self.open_cast(data)
        except BadPacket as error:
            self.counters[error.reason] += 1
            return
        own, main = self.behind.server.cast, self.links.main
        if own is not None and packet.stream == own.stream:
            own.receive(packet)
        elif main is not None:
            try:
                self.hearing.receive(packet)
            except BadFrame as error:
                self.counters["attachment: bad frame"] += 1
                self.links.hang_up(main, f"bad frame: {error.reason}", now_us)

    def open_cast(self, data: bytes | memoryview) -> casts.Packet:
        """The packet of a cast of which this edge has the key; BadPacket otherwise."""
        own, stream = self.behind.server.cast, casts.stream_of(data)
        if own is not None and stream == own.stream:
            return own.seal.decode(data)
        if self.hearing.seal is not None and stream == self.hearing.stream:
            return self.hearing.seal.decode(data)
        raise BadPacket("cast: of another stream")

    @property
    def cast_places(self) -> frozenset[str]:
        """Where multicasts may come that matter here."""
        own = self.behind.server.cast
        found = {self.casts_at} if own is not None and own.listeners else set()
        return frozenset(found | {self.hearing.place} if self.hearing.place else found)

    def timeout(self, now_us: int) -> None:
        """The deadline has passed."""
        self._event(now_us)
        self.hearing.timeout(now_us)
        self.sending.timeout(now_us)
        self.behind.timeout(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called, or None if only other events matter."""
        parts = (self.links, self.sending, self.behind, self._receivers, self.hearing)
        return min((due for part in parts if (due := part.next_deadline_us()) is not None), default=None)

    # Events: the clients ----------------------------------------------------------------------------------

    def connect(
        self, request: frames.Connect, now_us: int, rights: Rights | None = None
    ) -> frames.Welcome | frames.Refuse:
        """A client asks for a session, which may do what its `rights` say, or everything; a Welcome carries
        its number. The driver writes the answer."""
        self._event(now_us)
        answer = self.requests.connect(request, rights)
        if isinstance(answer, frames.Welcome):
            self.members.open_mailbox()
        return answer

    def attach(self, request: edges.Attach, now_us: int) -> tuple[int, edges.Attached] | frames.Refuse:
        """An edge wants to be attached: its number, which is used like that of a session, and the answer."""
        self._event(now_us)
        return self.behind.attach(request, now_us)

    def probe(self, request: edges.Probe) -> edges.Probed:
        """Somebody asks who is there."""
        return self.behind.probe(request)

    def control(self, session: int, request: frames.FromClient | edges.FromEdge, now_us: int) -> None:
        """A control frame other than Connect and Attach came from this session. After Disconnect the session
        ends at once, through `endings`; what it has sent goes on."""
        self._event(now_us)
        if session in self.behind:
            self.behind.control(session, request, now_us)
            return
        client = self._session(session)
        if isinstance(request, frames.AskTime):
            self.tell(session, frames.Time(number=request.number))
        elif isinstance(request, frames.AskLock | frames.Unlock):
            self._refuse(client, AT_AN_EDGE, "a lock " + _NOT_HERE.format(self.name))
        elif isinstance(request, frames.Join):
            self._join(client, request)
        elif isinstance(request, frames.Leave):
            was_member = request.group in client.groups
            self.requests.control(client, request)
            if was_member:
                self.members.leave(client, request.group)
        elif isinstance(request, frames.Disconnect):
            self._end(client)
            self.endings.append((session, frames.Goodbye("bye", "disconnected as asked")))
        else:
            self.requests.control(client, request)

    def submit(self, session: int, bundles: Sequence[bytearray | memoryview], now_us: int) -> None:
        """Bundle frames came from this session. The node keeps a bytearray, and copies a view.

        Raises BadFrame at the first bundle that is not what a client may send, and has taken those before it:
        the driver writes a Goodbye with the reason and calls `lost`.
        """
        self._event(now_us)
        if session in self.behind:
            self.behind.submit(session, bundles, now_us)
        else:
            self.requests.submit(self._session(session), bundles)

    def lost(self, session: int, now_us: int) -> None:
        """The client's connection broke, or the driver closed it."""
        self._event(now_us)
        if session in self.behind:
            self.behind.lost(session, now_us)
            return
        client = self._session(session)
        client.is_connected = False
        self._end(client)

    def backlog(self, session: int, waiting_bytes: int, read_bytes: int, now_us: int) -> Band:
        """How much output waits for this session in the driver, and how much it has read in all: as for
        `Node`, but senders do not wait for sessions here."""
        self._event(now_us)
        if session in self.behind:
            return self.behind.backlog(session, waiting_bytes)
        return self._slow.told(self._session(session), waiting_bytes, read_bytes, now_us)

    def reads(self, session: int) -> bool:
        """Whether the driver should read this connection now. Ask again after each event."""
        if not self.sending.reads:
            return False
        client = self.sessions.get(session)
        if client is None:
            return session in self.behind and self.behind.reads(session)
        return self.sessions.wants_input(client)

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        assert session is not None and not session.is_leaving, f"no session {number}"
        return session

    def _join(self, client: Session, request: frames.Join) -> None:
        group = request.group
        if request.minimum:
            self._refuse(client, AT_AN_EDGE, "a join with a minimum " + _NOT_HERE.format(self.name))
            return
        if group not in self.members.groups and len(self.members.groups) >= limits.EDGE_GROUPS_MAX:
            most = f"an edge listens to {limits.EDGE_GROUPS_MAX:,} groups at most"
            self._refuse(client, "too-many-groups", most)
            return
        was_member = group in client.groups
        self.requests.control(client, request)
        if not was_member and group in client.groups:
            self.members.join(client, group)

    def _refuse(self, client: Session, code: str, reason: str) -> None:
        """A request that the client has given a number, and that cannot be carried out here."""
        self.tell(client.number, frames.Problem(code, reason))
        draft = event_bundle(client.private_name, NOTHING)
        self.sessions.put(client, Pending(draft.data, draft.header, NOTHING))

    def _end(self, client: Session) -> None:
        """A session is over, and its name is free; what it has sent goes on."""
        groups = list(client.groups)
        self.requests.end(client)
        self.sessions.dropping.discard(client.number)
        self.sessions.remove(client)
        self.members.gone(client, groups)

    # What attachments say ---------------------------------------------------------------------------------

    def take(self, connection: Connection, value: frames.ToEdge, frame: memoryview) -> None:
        """The feeding attachment has said something."""
        answer = self._answers.get(type(value))
        if answer is not None:
            answer(value)
        elif isinstance(value, edges.OfCast):
            self.hearing.told(connection, value)
        else:
            self.hearing.take(connection, value, frame)

    def attached(self) -> None:
        """An attachment feeds this edge from now on."""
        self._receivers.attached(self.now_us)
        self.sending.attached()
        self.moved()
        self._entered("attached", "attached")

    def moved(self) -> None:
        """The way to the core is another one."""
        self.behind.moved()

    def detached(self, reason: str) -> None:
        """The feeding attachment is lost."""
        self.sending.detached(self.now_us)
        self.members.detached()
        self.behind.stopped()
        self._entered("unattached", reason)

    def _entered(self, state: str, reason: str) -> None:
        if self._observer is not None:
            self._observer.entered(state, reason, self.now_us)

    # The feed: every item comes by here, for members and for edges behind ----------------------------------

    def pass_part(self, view: int, branch: int) -> None:
        """What follows belongs to this daemon view."""
        self.behind.part(view, branch)

    def pass_base(self, view: View, is_here: bool) -> None:
        """A group begins, for members here and behind from the edge's own place on."""
        self.members.base(view, is_here)

    def pass_gap(self, gap: edges.Gap) -> None:
        """Something of a group is missing, and its base follows."""
        self.members.gap(gap)
        self.behind.gap(gap)

    def pass_view(self, view: View, place: int) -> None:
        """A view that is new here."""
        if self.members.view(view):
            self.behind.view(view, place)

    def pass_signal(self, signal: TransitionalSignal) -> None:
        """A transitional signal, which may have been given before."""
        if self.members.signal(signal):
            self.behind.signal(signal)

    def pass_bundle(self, header: Header, data: bytes) -> None:
        """Messages that are new here."""
        self.members.bundle(header, data, self.sending.saw(header))
        self.behind.bundle(header, data)

    def pass_unreliable(self, header: Header, data: bytes) -> None:
        """Unreliable messages, in no order."""
        self.members.bundle(header, data, self.sending.sender_of(header))
        self.behind.unreliable(header, data)

    def pass_reached(self) -> None:
        """There is nothing more up to the edge's place."""
        self.behind.reached()

    # Whatever follows from an event -----------------------------------------------------------------------

    def tell(self, number: int, value: frames.ToEdge) -> None:
        """Say something to one session, or to an edge behind."""
        self.frames.append(((number,), frames.encode_control(value), None))

    def settle(self, now_us: int) -> None:
        """Do what follows from all events since the last call. If some work is left, `is_settled` is False,
        and the driver calls again after it has carried out what it finds here."""
        self.now_us = now_us
        self.is_settled = True
        if not self.upstream:
            for connection in self.links.connections:
                connection.written_bytes = 0
        self.links.go_on(now_us)
        self.sending.flow()
        self._receivers.go_on(now_us)
        self.behind.pump(now_us)
        self.is_settled = self.sending.is_settled

    def status(self, now_us: int) -> dict[str, object]:
        """What `antiphon status` shows, ready for JSON."""
        return describe(self, now_us)
