"""One daemon's machines wired together: events in, effects out.

The driver (the real daemon in `runtime/`, or the simulator) calls the methods under "events" with the time
and afterwards takes what the node left behind:

- `datagrams`: packets to send to other daemons, in order; the driver sends and clears them
- `frames`: (session numbers, frame) pairs to write to clients, in order; the driver writes and clears them
- `endings`: (session number, Goodbye) pairs: sessions that the node has ended; the driver writes the
  Goodbye, closes the connection and clears them; no further event may name these sessions
- `next_deadline_us()`: when to call `timeout` at the latest
- `reads(session)`: whether the driver should read this client's connection now (back-pressure)

The node never sleeps, never reads a clock and never draws a random number: the same events give the same
effects, byte for byte.
"""

from collections import Counter
from collections.abc import Callable

from antiphon import limits
from antiphon.config import Config, LinkConfig
from antiphon.core.effects import Datagram
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.events import GroupEvent, event_bundle, late_bundle, parse_event
from antiphon.core.groups.sessions import PRIORITIES, Pending, Session, Sessions
from antiphon.core.links.hop import HopLink
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.symmetric import SymmetricOrder, Unreliable
from antiphon.core.ordering.updates import Announcer
from antiphon.core.overlay import routing
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.fragments import Reassembly
from antiphon.core.status import describe
from antiphon.errors import BadFrame, BadPacket, UsageError
from antiphon.service import Service
from antiphon.types import check_destination, check_group, check_name
from antiphon.wire import bundle as bundles
from antiphon.wire import frames, packet
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.packet import Data, Fragment, PacketKind, Skip, Update

__all__ = ["Datagram", "Node"]

_CHECKED_MAX = 4_096


class Node:
    """A daemon without its sockets. With one daemon a site, the site's number is the daemon's."""

    def __init__(self, config: Config, name: str, *, incarnation: int, now_us: int) -> None:
        self.config = config
        self.name = name
        self.me = config.daemon_number(name)
        self.datagrams: list[Datagram] = []
        self.frames: list[tuple[tuple[int, ...], bytes | bytearray | memoryview]] = []
        self.endings: list[tuple[int, frames.Goodbye]] = []
        self.observer: Callable[[Header], None] | None = None
        """Told of each ordered bundle of messages as soon as all of it is here; for traces."""
        self.counters: Counter[str] = Counter()
        self.incarnation = incarnation
        sites = len(config.sites)
        graph = routing.adjacency(config)
        delta_us = int(config.settings.delta_ms * 1000)
        self.links = {
            neighbour: self._link_to(neighbour, self._link_config(neighbour), now_us)
            for neighbour in sorted(graph[self.me])
        }
        self.order = SymmetricOrder(sites, self.me)
        self.forwarder = Forwarder(routing.branches(graph, self.me), self.links, delta_us)
        self.sessions = Sessions(name)
        self.delivery = Delivery(self.me, self.sessions, self.frames)
        self.reassembly = [Reassembly(limits.REASSEMBLY_MAX_BYTES) for _ in range(sites)]
        self.unreliable_reassembly = [
            Reassembly(limits.UNRELIABLE_REASSEMBLY_MAX_BYTES) for _ in range(sites)
        ]
        self._announcer = Announcer(delta_us, now_us)
        self._everybody = (1 << sites) - 1
        self._daemons = {daemon.name: number for number, (_, daemon) in enumerate(config.daemons())}
        self._unreliable = [Unreliable() for _ in range(sites)]
        self._unreliable_number = 0
        self._joining: Counter[str] = Counter()  # groups with a join of ours that has not taken effect
        self._slow: dict[int, int] = {}  # session with too much output -> until when senders wait for it
        self.holding: set[int] = set()
        """Other sites whose clients cannot keep up: nobody orders new messages until they can."""
        self._serials = [0] * sites  # of each site's newest update
        self._checked: dict[bytes, tuple[str, ...]] = {}

    def _link_config(self, neighbour: int) -> LinkConfig:
        pair = {self.config.sites[self.me].name, self.config.sites[neighbour].name}
        return next(link for link in self.config.links if set(link.sites) == pair)

    def _link_to(self, neighbour: int, link: LinkConfig, now_us: int) -> HopLink:
        return HopLink(
            me=self.me,
            peer=neighbour,
            digest=self.config.digest,
            incarnation=self.incarnation,
            packet_bytes=link.packet_bytes,
            window_bytes=link.window_bytes,
            rate_bytes_per_s=link.rate_bytes_per_s,
            datagrams=self.datagrams,
            now_us=now_us,
        )

    # Events: the network ----------------------------------------------------------------------------------

    def receive(self, data: memoryview, segment_bytes: int, now_us: int) -> None:
        """A datagram came in, or (`segment_bytes` < its size) a train of them read in one call.

        The buffer may be used again after the call. Bad bytes are counted, never raised.
        """
        for incoming in packet.parse_train(data, segment_bytes):
            if isinstance(incoming, BadPacket):
                self.counters[incoming.reason] += 1
                continue
            head = incoming.head
            link = self.links.get(head.sender)
            if head.digest != self.config.digest:
                self.counters["packet: other configuration"] += 1
            elif link is None or head.receiver != self.me:
                self.counters["packet: not from a neighbour"] += 1
            else:
                for news in link.receive(incoming, now_us):
                    self._take(news, now_us)
        self._settle(now_us)

    def timeout(self, now_us: int) -> None:
        """The deadline has passed."""
        for link in self.links.values():
            if link.next_deadline_us() <= now_us:
                link.timeout(now_us)
        for reassembly in self.unreliable_reassembly:
            if reassembly:  # needs no deadline of its own: a link with traffic has one soon enough
                reassembly.expire(now_us)
        self._settle(now_us)

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called, or None if only other events matter."""
        deadline_us = self.forwarder.due_us
        if self._has_news():
            due_us = self._announcer.due_us()
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        for link in self.links.values():
            due_us = link.next_deadline_us()
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        for due_us in self._slow.values():
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        return deadline_us

    def _take(self, data: Data, now_us: int) -> None:
        reliable = data.head.kind == PacketKind.DATA
        for item in data.items:
            if item.source >= len(self.reassembly) or item.source == self.me:
                self.counters["item: impossible source"] += 1
            elif isinstance(item, Fragment):
                if reliable:
                    self._take_fragment(item, now_us)
                else:
                    self._take_unreliable(item, now_us)
            elif isinstance(item, Update):
                self._take_update(item)
            else:
                self.order.skip(item)
                self.forwarder.skip(item, now_us)

    def _take_fragment(self, fragment: Fragment, now_us: int) -> None:
        self.forwarder.fragment(fragment)
        mine = fragment.destinations >> self.me & 1
        try:
            if fragment.offset == 0:
                lts, aru = bundles.peek_lines(fragment.body)
                self.forwarder.complete(
                    fragment.source, fragment.number, fragment.destinations, lts, aru, now_us
                )
                if not mine:
                    self.order.skip(Skip(fragment.source, fragment.number, fragment.number, lts, aru))
            if mine:
                data = self.reassembly[fragment.source].add(fragment, now_us)
                if data is not None:
                    self._take_bundle(fragment.source, data, now_us)
        except BadFrame as error:
            self.counters[error.reason] += 1

    def _take_bundle(self, source: int, data: bytes, now_us: int) -> None:
        header = bundles.parse(data)
        entry = Entry(source, header, data)
        if not self.order.receive(entry, in_order=self._keeps_order(header)):
            self.counters["bundle: duplicate"] += 1
            return
        self._observe(header)
        if header.flags & Flag.LATE:
            original = bundles.payloads(data, header)[0]
            late = Entry(source, bundles.parse(original), original)
            self.order.receive_late(late)
            self._observe(late.header)
        elif header.flags & Flag.EVENT:
            event = parse_event(data, header)
            self.delivery.membership.saw((source, header.session), event)
            if event.kind == "join":
                self._send_missed(event.group, source, header.lts, now_us)

    def _observe(self, header: Header) -> None:
        if self.observer is not None and not header.flags & (Flag.EVENT | Flag.LATE):
            self.observer(header)

    def _keeps_order(self, header: Header) -> bool:
        """Whether a bundle must not overtake a join of ours that is under way: it is for the same group, or
        it may have to come after a bundle of the same session that is sent again because of the join."""
        if not self._joining:
            return False
        return header.service is Service.FIFO or any(
            name in self._joining for name in bundles.parse_names(header.names)[1:]
        )

    def _send_missed(self, group: str, site: int, lts: int, now_us: int) -> None:
        """`site` joins `group` with `lts`: send it our later bundles that were pruned from it."""
        for missed in sorted(self.order.held_of(self.me)):
            header = missed.header
            if (
                header.lts > lts
                and not header.flags & (Flag.EVENT | Flag.LATE)
                and not (header.destinations | missed.resent) >> site & 1
                and group in bundles.parse_names(header.names)[1:]
            ):
                missed.resent |= 1 << site
                wrapper = late_bundle(header, missed.bundle)
                self._order_own(wrapper, bundles.parse(wrapper), 0, 0, 0, 1 << site, now_us)

    def _take_update(self, update: Update) -> None:
        self.order.update(update)
        self.forwarder.update(update)
        if update.serial > self._serials[update.source]:
            self._serials[update.source] = update.serial
            if update.hold:
                self.holding.add(update.source)
            else:
                self.holding.discard(update.source)

    def _take_unreliable(self, fragment: Fragment, now_us: int) -> None:
        self.forwarder.unreliable(fragment)
        if not fragment.destinations >> self.me & 1:
            return
        data = self.unreliable_reassembly[fragment.source].add(fragment, now_us)
        if data is None or not self._unreliable[fragment.source].is_new(fragment.number):
            return
        try:
            header = bundles.parse(data)
            self.order.saw_unreliable(header.lts)
            self.delivery.message(fragment.source, header, data)
        except BadFrame as error:
            self.counters[error.reason] += 1

    # Events: the clients ----------------------------------------------------------------------------------

    def connect(self, request: frames.Connect, now_us: int) -> frames.Welcome | frames.Refuse:
        """A client asks for a session; a Welcome carries its number. The driver writes the answer."""
        if request.version != frames.PROTOCOL_VERSION:
            return frames.Refuse(
                "version", f"this daemon speaks version {frames.PROTOCOL_VERSION}, not {request.version}"
            )
        if len(self.sessions) >= limits.SESSIONS_MAX:
            return frames.Refuse("full", f"this daemon has its {limits.SESSIONS_MAX} sessions")
        if not 0 <= request.priority < PRIORITIES:
            return frames.Refuse("priority", f"priority {request.priority} is not from 0 to {PRIORITIES - 1}")
        name = request.name or self.sessions.free_name()
        try:
            check_name(name, "session", limits.SESSION_NAME_MAX_BYTES)
        except UsageError as error:
            return frames.Refuse("name", str(error))
        if self.sessions.is_taken(name):
            return frames.Refuse(
                "name-taken", f"a session called {name!r} is connected to daemon {self.name!r}"
            )
        session = self.sessions.add(name, priority=request.priority, views=request.views)
        return frames.Welcome(
            version=frames.PROTOCOL_VERSION,
            session=session.number,
            name=session.private_name,
            daemon=self.name,
            daemon_number=self.me,
            message_max_bytes=limits.MESSAGE_MAX_BYTES,
        )

    def control(self, session: int, request: frames.FromClient, now_us: int) -> None:
        """A control frame other than Connect came from this session.

        After Disconnect the node ends the session by itself, through `endings`.
        """
        client = self._session(session)
        if isinstance(request, frames.Join):
            self._ask_join(client, request.group)
        elif isinstance(request, frames.Leave):
            self._ask_leave(client, request.group)
        elif isinstance(request, frames.Disconnect):
            self._end(client)
        else:
            self._problem(client, "unexpected", f"{type(request).__name__} is not possible now")
        self._settle(now_us)

    def submit(self, session: int, bundle: bytearray, now_us: int) -> None:
        """A bundle frame came from this session. The node keeps the buffer: hand over a fresh copy.

        Raises BadFrame, and nothing happened, if the bundle is not what a client may send: the driver
        says Goodbye with the reason and calls `lost`.
        """
        client = self._session(session)
        header = bundles.parse_from_client(bundle)
        self._check_names(header.names, client)
        self.sessions.put(client, Pending(bundle, header))
        self._settle(now_us)

    def lost(self, session: int, now_us: int) -> None:
        """The client's connection broke, or the driver closed it: the session leaves its groups."""
        client = self._session(session)
        client.is_connected = False
        self._end(client)
        self._settle(now_us)

    def backlog(self, session: int, waiting_bytes: int, now_us: int) -> None:
        """How much output waits for this session in the driver, told whenever it crosses
        `settings.output_soft_bytes` in either direction. At the hard limit the driver gives up by itself:
        it says Goodbye with code "slow-receiver" and calls `lost`."""
        if waiting_bytes > self.config.settings.output_soft_bytes:
            self._slow.setdefault(session, now_us + limits.SLOW_RECEIVER_PATIENCE_US)
        else:
            self._slow.pop(session, None)
        self._settle(now_us)

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        assert session is not None and not session.is_leaving, f"no session {number}"
        return session

    def _check_names(self, area: bytes, client: Session) -> None:
        """Clients may send as themselves only, and to names that can exist."""
        if not area.startswith(client.sender_area):
            raise BadFrame("bundle: sent under another name")
        if area in self._checked:
            return
        groups = bundles.parse_names(area)[1:]
        try:
            for name in groups:
                check_destination(name)
        except UsageError as error:
            raise BadFrame(str(error)) from None
        if len(self._checked) >= _CHECKED_MAX:
            self._checked.clear()
        self._checked[area] = groups

    def _ask_join(self, client: Session, group: str) -> None:
        try:
            check_group(group)
        except UsageError as error:
            self._problem(client, "group-name", str(error))
            return
        if group in client.groups:
            self._problem(client, "already-joined", f"this session has joined {group!r} already")
        elif len(client.groups) >= limits.GROUPS_PER_SESSION_MAX:
            self._problem(
                client, "too-many-groups", f"a session joins {limits.GROUPS_PER_SESSION_MAX} groups at most"
            )
        else:
            client.groups[group] = False
            self._put_event(client, GroupEvent("join", group))

    def _ask_leave(self, client: Session, group: str) -> None:
        if group not in client.groups:
            self._problem(client, "not-joined", f"this session has not joined {group!r}")
            return
        del client.groups[group]
        self._put_event(client, GroupEvent("leave", group))

    def _end(self, client: Session) -> None:
        """Everything that the session sent is ordered before its end."""
        self._slow.pop(client.number, None)
        client.is_leaving = True
        client.groups.clear()
        self.delivery.changed()
        self._put_event(client, GroupEvent("disconnect"))

    def _put_event(self, client: Session, event: GroupEvent) -> None:
        data = event_bundle(client.private_name, event)
        self.sessions.put(client, Pending(data, bundles.parse(data), event))

    def _problem(self, client: Session, code: str, reason: str) -> None:
        self.frames.append(((client.number,), frames.encode_control(frames.Problem(code, reason))))

    # Ordering what clients send ---------------------------------------------------------------------------

    def reads(self, session: int) -> bool:
        """Whether the driver should read this client's connection now. Ask again after each event."""
        client = self.sessions.get(session)
        return client is not None and self.sessions.wants_input(client)

    @property
    def is_accepting(self) -> bool:
        """Whether new bundles may be ordered: nobody holds, and not too much of ours is unstable."""
        return (
            not self.holding
            and not self._slow
            and self.order.own_unstable_bytes < self.config.settings.unstable_bytes
        )

    def _admit(self, now_us: int) -> None:
        while self.is_accepting and (turn := self.sessions.take()) is not None:
            session, pending = turn
            if pending.header.service is Service.UNRELIABLE:
                self._send_unreliable(session, pending)
            else:
                self._order_session(session, pending, now_us)

    def _order_session(self, session: Session, pending: Pending, now_us: int) -> None:
        event = pending.event
        header = pending.header
        if event is None:
            destinations = self._destinations(self._checked_names(header.names))
        else:
            destinations = self._everybody
        entry = self._order_own(
            pending.bundle,
            header,
            session.number,
            session.sequence,
            session.last_number,
            destinations,
            now_us,
        )
        session.sequence += header.message_count
        session.last_number = entry.header.number
        if event is not None:
            self._note_own_event(session, event, entry)

    def _note_own_event(self, session: Session, event: GroupEvent, entry: Entry) -> None:
        self.delivery.membership.saw((self.me, session.number), event)
        if event.kind == "join":
            self._joining[event.group] += 1
            if not self.delivery.has_settled_member(event.group):
                self.order.wait_for_others(entry)
        elif event.kind == "disconnect" and session.is_connected:
            self.endings.append((session.number, frames.Goodbye("bye", "disconnected as asked")))

    def _order_own(
        self,
        data: bytearray,
        header: Header,
        session: int,
        sequence: int,
        previous: int,
        destinations: int,
        now_us: int,
    ) -> Entry:
        """Stamp a bundle, and send it on its way."""
        order = self.order
        number = order.number + 1
        lts = order.lines.tick()
        aru = order.lines.aru
        stamped = Header(
            header.length, header.service, header.flags, header.names, header.message_count, header.tag,
            self.me, session, self.incarnation, sequence, number, previous, lts, aru, destinations,
            header.sent_us,
        )  # fmt: skip
        bundles.stamp(
            data,
            daemon=self.me,
            session=session,
            incarnation=self.incarnation,
            sequence=sequence,
            number=number,
            previous=previous,
            lts=lts,
            aru=aru,
            destinations=destinations,
        )
        entry = Entry(self.me, stamped, data)
        order.receive(entry, in_order=self._keeps_order(stamped))
        self._observe(stamped)
        fragment = Fragment(self.me, number, destinations, header.length, 0, data)
        self.forwarder.bundle(fragment, lts=lts, aru=aru, now_us=now_us)
        self._announcer.announced(now_us, lts, aru)
        return entry

    def _send_unreliable(self, session: Session, pending: Pending) -> None:
        header, data = pending.header, pending.bundle
        self._unreliable_number += 1
        destinations = self._destinations(self._checked_names(header.names))
        bundles.stamp(
            data,
            daemon=self.me,
            session=session.number,
            incarnation=self.incarnation,
            sequence=session.sequence,
            number=self._unreliable_number,
            previous=0,
            lts=self.order.lines.clock,
            aru=self.order.lines.aru,
            destinations=destinations,
        )
        session.sequence += header.message_count
        self.delivery.message(self.me, bundles.parse(data), data)
        self.forwarder.unreliable(
            Fragment(self.me, self._unreliable_number, destinations, header.length, 0, data)
        )

    def _checked_names(self, area: bytes) -> tuple[str, ...]:
        names = self._checked.get(area)
        return bundles.parse_names(area)[1:] if names is None else names

    def _destinations(self, names: tuple[str, ...]) -> int:
        """The sites that a message to these names must reach."""
        mask = self.delivery.membership.destinations(names)
        for name in names:
            if name[0] == "#":
                number = self._daemons.get(name.rpartition("#")[2])
                if number is not None:
                    mask |= 1 << number
        return mask | 1 << self.me

    # Whatever follows from an event -----------------------------------------------------------------------

    def _settle(self, now_us: int) -> None:
        order = self.order
        if self._slow:
            self._lose_patience(now_us)
        while True:
            if self.sessions.has_input:
                self._admit(now_us)
            order.settle()
            if not order.ready:
                break
            while order.ready:
                self._deliver(order.ready.popleft())
        self.forwarder.timeout(now_us)
        self._announce(now_us)
        touched = self.forwarder.touched
        if touched:
            for link in touched.values():
                link.pump(now_us)
            touched.clear()
        if self.sessions.has_input and self.is_accepting:
            self._settle(now_us)  # a hold of our own has just ended: nothing else would wake the senders

    def _deliver(self, entry: Entry) -> None:
        header = entry.header
        if header.flags & Flag.LATE:
            return
        if not header.flags & Flag.EVENT:
            self.delivery.message(entry.source, header, entry.bundle)
            return
        event = parse_event(entry.bundle, header)
        self.delivery.event(entry.source, header, event)
        if event.kind == "join" and entry.source == self.me:
            self._joining[event.group] -= 1
            self._joining = +self._joining
        elif event.kind == "disconnect":
            self.order.forget_session(entry.source, header.session)

    def _lose_patience(self, now_us: int) -> None:
        """Senders have waited long enough for a session: from here on only its own queue grows."""
        for session in [session for session, until_us in self._slow.items() if until_us <= now_us]:
            del self._slow[session]

    def _has_news(self) -> bool:
        return self._announcer.is_due(self.order.highest_lts, self.order.lines.aru, bool(self._slow))

    def _announce(self, now_us: int) -> None:
        if not self._has_news() or self._announcer.due_us() > now_us:
            return
        hold = bool(self._slow)
        lines = self.order.lines
        self._announcer.announced(now_us, lines.clock, lines.aru, hold)
        self._serials[self.me] += 1
        serial = self._serials[self.me]
        self.forwarder.update(Update(self.me, hold, serial, self.order.number, lines.clock, lines.aru))

    # Questions --------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way: every bundle is delivered and known to be everywhere, every link is idle."""
        return (
            not self.sessions.has_input
            and not self.order.held_count
            and not self.order.ahead_count
            and self.forwarder.is_quiet
            and all(link.is_quiet for link in self.links.values())
            and not self._has_news()
        )

    def status(self, now_us: int) -> dict[str, object]:
        """What `antiphon status` shows, ready for JSON: daemon, sites, links, groups, sessions, ordering,
        counters, buffers."""
        return describe(self, now_us)
