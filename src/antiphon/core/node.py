"""One daemon's machines wired together: events in, effects out.

The driver (the real daemon in `runtime/`, or the simulator) calls the methods under "events" with the time,
one or many, then `settle`, and afterwards takes what the node left behind:

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
from antiphon.config import Config
from antiphon.core.effects import Datagram
from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.events import parse_event
from antiphon.core.groups.requests import Requests
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.core.links.hop import HopLink
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.hold import Hold
from antiphon.core.ordering.symmetric import SymmetricOrder, Unreliable
from antiphon.core.ordering.updates import Announcer
from antiphon.core.origin import Origin
from antiphon.core.overlay import routing
from antiphon.core.overlay.forwarding import Forwarder
from antiphon.core.overlay.fragments import Reassembly
from antiphon.core.status import describe
from antiphon.errors import BadFrame, BadPacket
from antiphon.wire import bundle as bundles
from antiphon.wire import frames, packet
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.packet import Data, Fragment, PacketKind, Skip, Update

__all__ = ["Datagram", "Node"]


class Node:
    """A daemon without its sockets. With one daemon a site, the site's number is the daemon's."""

    def __init__(self, config: Config, name: str, *, incarnation: int, now_us: int) -> None:
        self.config = config
        self.name = name
        self.me = config.daemon_number(name)
        self.datagrams: list[Datagram] = []
        self.frames: list[tuple[tuple[int, ...], bytes | bytearray | memoryview]] = []
        self.endings: list[tuple[int, frames.Goodbye]] = []
        self.counters: Counter[str] = Counter()
        self.incarnation = incarnation
        sites = len(config.sites)
        graph = routing.adjacency(config)
        delta_us = int(config.settings.delta_ms * 1000)
        self.links = {neighbour: self._link_to(neighbour, now_us) for neighbour in sorted(graph[self.me])}
        self.order = SymmetricOrder(sites, self.me)
        self.hold = Hold(sites, self.me)
        self.forwarder = Forwarder(routing.branches(graph, self.me), self.links, delta_us)
        self.sessions = Sessions(name)
        self.delivery = Delivery(self.me, self.sessions, self.frames)
        under_way_bytes = 4 * (config.settings.unstable_bytes + limits.FRAME_MAX_BYTES)
        self.reassembly = [
            Reassembly(max(limits.REASSEMBLY_MAX_BYTES, under_way_bytes)) for _ in range(sites)
        ]
        self.unreliable_reassembly = [
            Reassembly(limits.UNRELIABLE_REASSEMBLY_MAX_BYTES) for _ in range(sites)
        ]
        self._requests = Requests(name, self.me, self.sessions, self.frames)
        self._announcer = Announcer(delta_us, now_us)
        self._origin = Origin(
            config,
            me=self.me,
            incarnation=incarnation,
            order=self.order,
            forwarder=self.forwarder,
            delivery=self.delivery,
            announcer=self._announcer,
        )
        self._unreliable = [Unreliable() for _ in range(sites)]
        self._incomplete: set[int] = set()  # sources with unreliable bundles of which parts are missing
        self.is_settled = False
        """Whether `settle` was called after the last event."""

    @property
    def observer(self) -> Callable[[Header], None] | None:
        """Told of each bundle that takes part in the order as soon as all of it is here; for traces."""
        return self.order.observer

    @observer.setter
    def observer(self, observer: Callable[[Header], None]) -> None:
        self.order.observer = observer

    def _link_to(self, neighbour: int, now_us: int) -> HopLink:
        pair = {self.config.sites[self.me].name, self.config.sites[neighbour].name}
        link = next(link for link in self.config.links if set(link.sites) == pair)
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
        self.is_settled = False

    def timeout(self, now_us: int) -> None:
        """The deadline has passed."""
        for link in self.links.values():
            if link.next_deadline_us() <= now_us:
                link.timeout(now_us)
        for source in list(self._incomplete):  # needs no deadline of its own: some link has one soon enough
            self.unreliable_reassembly[source].expire(now_us)
            if not self.unreliable_reassembly[source]:
                self._incomplete.discard(source)
        self.is_settled = False

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called, or None if only other events matter."""
        deadline_us = self.forwarder.due_us
        if self._has_news():
            due_us = self._announcer.due_us(self.hold.is_wanted_here)
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        for link in self.links.values():
            due_us = link.next_deadline_us()
            if deadline_us is None or due_us < deadline_us:
                deadline_us = due_us
        hold_us = self.hold.due_us()
        if hold_us is not None and (deadline_us is None or hold_us < deadline_us):
            deadline_us = hold_us
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
                self.forwarder.head(fragment.source, fragment.number, fragment.destinations, lts, aru, now_us)
                if not mine:
                    self.order.skip(Skip(fragment.source, fragment.number, fragment.number, lts, aru))
            if mine:
                data = self.reassembly[fragment.source].add(fragment, now_us)
                if data is not None:
                    self._take_bundle(fragment, data, now_us)
        except BadFrame as error:
            self.counters[error.reason] += 1

    def _take_bundle(self, fragment: Fragment, data: bytes, now_us: int) -> None:
        source = fragment.source
        header = bundles.parse(data)
        if (header.daemon, header.number) != (source, fragment.number):
            raise BadFrame("bundle: not what its fragments said")
        entry = Entry(source, header, data)
        if not self.order.receive(entry, in_order=self._origin.keeps_order(header)):
            self.counters["bundle: duplicate"] += 1
            return
        if header.flags & Flag.LATE:
            original = bundles.payloads(data, header)[0]
            self.order.receive_late(Entry(source, bundles.parse(original), original))
        elif header.flags & Flag.EVENT:
            event = parse_event(data, header)
            self.delivery.membership.saw((source, header.session), event)
            if event.kind == "join":
                self._origin.send_missed(event.group, source, header.lts, now_us)

    def _take_update(self, update: Update) -> None:
        self.order.update(update)
        self.forwarder.update(update)
        self.hold.heard(update)

    def _take_unreliable(self, fragment: Fragment, now_us: int) -> None:
        self.forwarder.unreliable(fragment)
        if not fragment.destinations >> self.me & 1:
            return
        data = self.unreliable_reassembly[fragment.source].add(fragment, now_us)
        if data is None:
            self._incomplete.add(fragment.source)
            return
        if not self._unreliable[fragment.source].is_new(fragment.number):
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
        self.delivery.changed()
        return self._requests.connect(request)

    def control(self, session: int, request: frames.FromClient, now_us: int) -> None:
        """A control frame other than Connect came from this session.

        After Disconnect the node ends the session by itself, through `endings`.
        """
        client = self._session(session)
        self._requests.control(client, request)
        if client.is_leaving:
            self._stop_listening(client)
        self.is_settled = False

    def submit(self, session: int, bundle: bytearray, now_us: int) -> None:
        """A bundle frame came from this session. The node keeps the buffer: hand over a fresh copy.

        Raises BadFrame, and nothing happened, if the bundle is not what a client may send: the driver
        says Goodbye with the reason and calls `lost`.
        """
        self._requests.submit(self._session(session), bundle)
        self.is_settled = False

    def lost(self, session: int, now_us: int) -> None:
        """The client's connection broke, or the driver closed it: the session leaves its groups."""
        client = self._session(session)
        client.is_connected = False
        self._requests.end(client)
        self._stop_listening(client)
        self.is_settled = False

    def backlog(self, session: int, waiting_bytes: int, now_us: int) -> None:
        """How much output waits for this session in the driver, told whenever it crosses
        `settings.output_soft_bytes` in either direction. At the hard limit the driver gives up by itself:
        it says Goodbye with code "slow-receiver" and calls `lost`."""
        if waiting_bytes > self.config.settings.output_soft_bytes:
            self.hold.behind(session, now_us)
        else:
            self.hold.caught_up(session)
        self.is_settled = False

    def _stop_listening(self, session: Session) -> None:
        """Nothing more goes to this session, and nobody waits for it."""
        self.hold.caught_up(session.number)
        self.delivery.changed()

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        assert session is not None and not session.is_leaving, f"no session {number}"
        return session

    def reads(self, session: int) -> bool:
        """Whether the driver should read this client's connection now. Ask again after each event."""
        client = self.sessions.get(session)
        return client is not None and self.sessions.wants_input(client)

    # Whatever follows from an event -----------------------------------------------------------------------

    def settle(self, now_us: int) -> None:
        """Draw the conclusions from all events since the last time: order, deliver, announce, send.

        The cost of this is per call, so that a driver with many events at hand calls it once.
        """
        self.is_settled = True
        order = self.order
        if self.hold.is_wanted_here:
            self.hold.timeout(now_us)
        while True:
            if self.sessions.waiting:
                self._admit(now_us)
            order.settle()
            while order.ready:
                self._deliver(order.ready.popleft())
            if not order.moved and not (self.sessions.waiting and self.is_accepting):
                break
        self.forwarder.timeout(now_us)
        self._announce(now_us)
        touched = self.forwarder.touched
        if touched:
            for link in touched.values():
                link.pump(now_us)
            touched.clear()

    @property
    def is_accepting(self) -> bool:
        """Whether new bundles may be ordered: nobody holds, and not too much of ours is unstable."""
        return not self.hold and self.order.own_unstable_bytes < self.config.settings.unstable_bytes

    def _admit(self, now_us: int) -> None:
        """Order what sessions have sent, as long as there is room."""
        while self.is_accepting and (turn := self.sessions.take()) is not None:
            session, pending = turn
            self._origin.send(session, pending, now_us)
            if session.is_leaving and session.is_connected and not session.input:
                self.endings.append((session.number, frames.Goodbye("bye", "disconnected as asked")))

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
            self._origin.joined(event.group)
        elif event.kind == "disconnect":
            self.order.forget_session(entry.source, header.session)

    def _has_news(self) -> bool:
        return self._announcer.is_due(self.order.highest_lts, self.order.lines.aru, self.hold.is_wanted_here)

    def _announce(self, now_us: int) -> None:
        hold = self.hold.is_wanted_here
        lines = self.order.lines
        announcer = self._announcer
        if not announcer.is_due(self.order.highest_lts, lines.aru, hold) or announcer.due_us(hold) > now_us:
            return
        announcer.announced(now_us, lines.clock, lines.aru, hold)
        serial = self.hold.next_serial()
        self.forwarder.update(Update(self.me, hold, serial, self.order.number, lines.clock, lines.aru))

    # Questions --------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way: every bundle is delivered and known to be everywhere, every link is idle."""
        return (
            not self.sessions.waiting
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
