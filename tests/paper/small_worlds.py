"""Small worlds for tests that read as stories: two ends of a link or a few nodes, time and losses in hand."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise

from passing_time import WITHIN_US, PassingTime

from antiphon import config
from antiphon.config import Config, DaemonConfig, LinkConfig, Protocol, Settings, SiteConfig, SiteProtocol
from antiphon.core.effects import Datagram, Outbox
from antiphon.core.links.hop import HopLink
from antiphon.core.links.link import Ends, Signs
from antiphon.core.membership.rounds import Reason
from antiphon.core.node import Node
from antiphon.core.observer import Observer
from antiphon.core.view import DaemonView
from antiphon.service import Service
from antiphon.simulator.hostile import usurping
from antiphon.types import Left, Message, TransitionalSignal, View
from antiphon.wire import bundle, frames, packet
from antiphon.wire.bundle import Header
from antiphon.wire.packet import Fragment, Packet

Event = Message | View | TransitionalSignal | frames.FromDaemon

DELAY_US = 10_000
VIEW = 77
HELLO_US = 1_000_000
SIGNS = Signs(HELLO_US, HELLO_US // 8)
START_US = 1_000_000


def packets_of(datagram: Datagram) -> list[bytes]:
    """The packets of one send, as the network sees them."""
    data = b"".join(datagram.buffers)
    return [data[at : at + datagram.stride_bytes] for at in range(0, len(data), datagram.stride_bytes)]


def ends_of(me: int) -> Ends:
    """Whom one end, 0 or 1, of a link joins."""
    return Ends(me, 1 - me, digest=7, view=VIEW, incarnation=100 + me, peer_incarnation=101 - me)


class LinkPair:
    """Two ends of a Hop link and the path between them. `lose` decides which packets do not arrive."""

    def __init__(
        self,
        packet_bytes: int = 1_400,
        rate_bytes_per_s: int = 0,
        window_bytes: int = 1_000_000,
        width_bytes: int = 65_507,
    ) -> None:
        """The path carries packets of up to `width_bytes`."""
        self.now_us = 0
        self.width_bytes = width_bytes
        self.lose: Callable[[int, Packet], bool] = lambda receiver, incoming: False
        self.seen: list[tuple[int, Packet]] = []
        self.received: list[list[bytes]] = [[], []]
        self._out = [Outbox(), Outbox()]
        path = LinkConfig(
            ("s0", "s1"),
            packet_bytes=packet_bytes,
            window_bytes=window_bytes,
            rate_bytes_per_s=rate_bytes_per_s,
        )
        self.ends = [
            HopLink(ends_of(me), path, signs=SIGNS, datagrams=self._out[me], now_us=0) for me in (0, 1)
        ]
        self._flying: list[tuple[int, int, bytes]] = []
        for end in self.ends:
            end.path.begin(0)  # as after the first full packets
        self.run(until_us=200_000)

    def send(self, *bodies: bytes, end: int = 0) -> None:
        for number, body in enumerate(bodies, start=1):
            self.ends[end].send(Fragment(end, number, 3, len(body), 0, body))
        self.ends[end].pump(self.now_us)
        self._fly()

    def widen(self, packets: int) -> None:
        """Let end 0 have a window of so many packets, as if it had just used it."""
        self.ends[0].regulator.controller.window_bytes = float(packets * self.ends[0].packet_bytes)
        self.ends[0]._sent_us = self.now_us

    def _fly(self) -> None:
        for end in (0, 1):
            for datagram in self._out[end]:
                for data in packets_of(datagram):
                    self._flying.append((self.now_us + DELAY_US, datagram.receiver, data))
            self._out[end].clear()

    def step(self) -> None:
        """The next arrival or deadline."""
        self._fly()
        deadlines = [(end.next_deadline_us(), index) for index, end in enumerate(self.ends)]
        due_us, index = min(deadlines)
        if self._flying and self._flying[0][0] <= due_us:
            self.now_us, receiver, data = self._flying.pop(0)
            if len(data) > self.width_bytes:
                return
            incoming = packet.parse(memoryview(data))
            if self.lose(receiver, incoming):
                return
            self.seen.append((receiver, incoming))
            for news in self.ends[receiver].receive(incoming, self.now_us):
                self.received[receiver] += [
                    bytes(item.body) for item in news.items if isinstance(item, Fragment)
                ]
        else:
            self.now_us = max(self.now_us, due_us)
            self.ends[index].timeout(self.now_us)
        self._fly()

    def run(self, until_us: int) -> None:
        while min(self._next_us(), until_us) < until_us:
            self.step()
        self.now_us = until_us

    def _next_us(self) -> int:
        due_us = min(end.next_deadline_us() for end in self.ends)
        return min(due_us, self._flying[0][0]) if self._flying else due_us

    def kinds(self, receiver: int, kind: type) -> list[Packet]:
        """What arrived at one end, of one kind."""
        return [incoming for end, incoming in self.seen if end == receiver and isinstance(incoming, kind)]


def world_config(
    sites: int,
    *,
    daemons: int = 1,
    mesh: bool = False,
    protocol: Protocol = "hop",
    site_protocol: SiteProtocol = "ring",
    rate_bytes_per_s: int = 0,
    packet_bytes: int | None = None,
    **settings: float | str,
) -> Config:
    """Sites s0, s1, ... in a chain, or every two of them joined; daemons d0, d1, ... count through them."""
    names = [f"s{site}" for site in range(sites)]
    pairs = combinations(names, 2) if mesh else pairwise(names)
    numbers = iter(range(sites * daemons))
    return config.build(
        tuple(
            SiteConfig(
                name,
                tuple(
                    DaemonConfig(f"d{number}", f"127.0.0.1:{4000 + number}")
                    for _, number in zip(range(daemons), numbers, strict=False)
                ),
                protocol=site_protocol,
            )
            for name in names
        ),
        tuple(
            LinkConfig(pair, packet_bytes=packet_bytes, protocol=protocol, rate_bytes_per_s=rate_bytes_per_s)
            for pair in pairs
        ),
        Settings(**settings),  # type: ignore[arg-type]
    )


class Diary(Observer):
    """What a node told about itself, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[object, ...]] = []

    def sent(self, view_id: int, header: Header) -> None:
        self.entries.append(("sent", view_id, header))

    def delivered(self, view_id: int, header: Header, place: int) -> None:
        self.entries.append(("delivered", view_id, header))

    def signalled(
        self,
        view_id: int,
        transitional: tuple[int, ...],
        committed: tuple[int, ...],
        groups: tuple[str, ...],
    ) -> None:
        self.entries.append(("signalled", view_id, transitional, groups))

    def installed(self, view: DaemonView, transitional: tuple[int, ...]) -> None:
        self.entries.append(("installed", view, transitional))

    def regrouped(self, view: View, sessions: Iterable[tuple[int, int]]) -> None:
        self.entries.append(("regrouped", view, tuple(sessions)))

    def entered(self, state: str, reason: str, now_us: int) -> None:
        self.entries.append(("entered", state, reason, now_us))

    def of(self, kind: str) -> list[tuple[object, ...]]:
        """The entries of one kind, without its name."""
        return [rest for name, *rest in self.entries if name == kind]  # type: ignore[misc]

    @property
    def views(self) -> list[DaemonView]:
        return [view for view, _ in self.of("installed")]  # type: ignore[misc]

    @property
    def states(self) -> list[str]:
        """Every state that was entered, in order."""
        return [state for state, *_ in self.of("entered")]  # type: ignore[misc]


class Cluster(PassingTime):
    """Nodes, a fixed delay per hop, clients in hand, no losses unless `lose`, `block` or `crash` says so.

    With one daemon a site, a daemon's number is its site's, too.
    """

    def __init__(
        self,
        sites: int,
        delay_us: int = DELAY_US,
        *,
        daemons: int = 1,
        mesh: bool = False,
        protocol: Protocol = "hop",
        site_protocol: SiteProtocol = "ring",
        formed: bool = True,
        rate_bytes_per_s: int = 0,
        packet_bytes: int | None = None,
        **settings: float | str,
    ) -> None:
        """`formed`: wait until all daemons are in one view."""
        self.now_us = START_US
        self.delay_us = delay_us
        self.config = world_config(
            sites,
            daemons=daemons,
            mesh=mesh,
            protocol=protocol,
            site_protocol=site_protocol,
            rate_bytes_per_s=rate_bytes_per_s,
            packet_bytes=packet_bytes,
            **settings,
        )
        self.lose: Callable[[int, bytes], bool] = lambda receiver, data: False
        """Decides when a packet is sent whether it is lost on its way to the receiver."""
        self.blocked: set[tuple[int, int]] = set()
        """(sender, receiver) pairs between which nothing arrives, not even what is on its way."""
        self.crossed: list[tuple[int, int, bytes]] = []
        """(sender, receiver, packet) of everything that was sent."""
        self.drains = True
        """Whether what nodes leave behind is carried out."""
        self.events: dict[str, list[Event]] = {}
        self.times: dict[str, list[int]] = {}
        self.ended: list[tuple[int, int, str]] = []
        """Sessions that were told that they are over: daemon, number, code."""
        self._clients: dict[str, tuple[int, int]] = {}
        self._flying: list[tuple[int, int, int, int, bytes]] = []
        self._serial = 0
        self._paused_until_us: dict[int, int] = {}
        self.slice_us = 0
        """How long a slice of a daemon's work takes; what comes in meanwhile is read before the next one."""
        self._slices_us: dict[int, int] = {}
        self._lives: Counter[int] = Counter()
        self.diaries = [Diary() for _ in self.config.daemon_names]
        self.nodes = [self._node(number) for number in range(self.config.daemon_count)]
        self.alive = set(range(self.config.daemon_count))
        for number in self.alive:
            self._dial(number)
        for number in self.alive:
            self._drain(number)
        if formed:
            self.settle()

    def _node(self, number: int) -> Node:
        self._lives[number] += 1
        return Node(
            self.config,
            self.config.daemon_names[number],
            incarnation=100 * self._lives[number] + number,
            now_us=self.now_us,
            wall_us=self.now_us - START_US,
            observer=self.diaries[number],
        )

    # Clients ----------------------------------------------------------------------------------------------

    def client(self, daemon: int, name: str, **options: bool | int) -> str:
        """A client called `name` of a daemon; its private name."""
        answer = self.nodes[daemon].connect(
            frames.Connect(frames.PROTOCOL_VERSION, name, **options),  # type: ignore[arg-type]
            self.now_us,
        )
        assert isinstance(answer, frames.Welcome), answer
        self._clients[answer.name] = (daemon, answer.session)
        self.events.setdefault(answer.name, [])
        self.times.setdefault(answer.name, [])
        return answer.name

    def members(self, group: str = "g", *, of: list[int] | None = None) -> list[str]:
        """A client c0, c1, ... of each daemon (or of some), all of them members of one group."""
        daemons = list(range(self.config.daemon_count)) if of is None else of
        clients = [self.client(daemon, f"c{daemon}") for daemon in daemons]
        for client in clients:
            self.join(client, group)
            self.settle()
        return clients

    def join(self, client: str, group: str, minimum: int = 0, delivery: int = 0) -> None:
        self.ask(client, frames.Join(group, minimum, delivery))

    def ask(self, client: str, request: frames.FromClient) -> None:
        """A client sends a control frame."""
        daemon, session = self._clients[client]
        self.nodes[daemon].control(session, request, self.now_us)
        self._drain(daemon)

    def leave(self, client: str, group: str) -> None:
        daemon, session = self._clients[client]
        self.nodes[daemon].control(session, frames.Leave(group), self.now_us)
        self._drain(daemon)

    def disconnect(self, client: str) -> None:
        daemon, session = self._clients[client]
        self.nodes[daemon].control(session, frames.Disconnect(), self.now_us)
        self._drain(daemon)

    def send(
        self,
        client: str,
        groups: str | list[str],
        *payloads: bytes,
        service: Service = Service.AGREED,
        flags: int = 0,
    ) -> None:
        groups = [groups] if isinstance(groups, str) else groups
        names = bundle.names_area(client, groups)
        self.submit(client, b"".join(bundle.encode(names, len(groups), service, payloads, flags=flags)))

    def submit(self, client: str, data: bytes) -> None:
        """A client hands over a bundle that is written already."""
        daemon, session = self._clients[client]
        self.nodes[daemon].submit(session, (bytearray(data),), self.now_us)
        self._drain(daemon)

    def payloads(self, client: str) -> list[bytes]:
        """What a client got, in order."""
        return [event.payload for event in self.events[client] if isinstance(event, Message)]

    def views(self, client: str) -> list[View]:
        return [event for event in self.events[client] if isinstance(event, View)]

    def story(self, client: str, since: int = 0) -> list[str]:
        """What a client got, in a word or two each: a payload, `signal`, or a view's cause and members."""
        return [told(event) for event in self.events[client][since:]]

    def delay_of(self, client: str, payload: bytes, since_us: int) -> int:
        """How long after `since_us` a payload was delivered."""
        for event, when_us in zip(self.events[client], self.times[client], strict=True):
            if isinstance(event, Message) and event.payload == payload:
                return when_us - since_us
        raise AssertionError(f"{payload!r} was not delivered to {client}")

    # Faults -----------------------------------------------------------------------------------------------

    def crash(self, daemon: int) -> None:
        """The daemon is gone, with everything it knew and all of its clients."""
        if daemon in self.alive:
            self.alive.discard(daemon)
            self._slices_us.pop(daemon, None)
            for peer in self.config.stream_peers_of(daemon):
                if peer in self.alive:
                    self.nodes[peer].streams.stream_lost(daemon, "reset", self.now_us)
                    self._drain(peer)
        self._clients = {
            name: (where, session) for name, (where, session) in self._clients.items() if where != daemon
        }

    def restart(self, daemon: int) -> None:
        """A new process of the daemon starts with an empty memory."""
        self.crash(daemon)
        self.nodes[daemon] = self._node(daemon)
        self.alive.add(daemon)
        self._dial(daemon, *self.config.stream_peers_of(daemon))
        self._drain(daemon)

    def _dial(self, *daemons: int) -> None:
        """Connect the first of these with all that it reaches over TCP; the others, if any, with it."""
        for at, daemon in enumerate(daemons):
            for peer in self.config.stream_peers_of(daemon):
                if daemon in self.alive and peer in self.alive and (not at or peer == daemons[0]):
                    self.nodes[daemon].streams.stream_opened(peer, self.now_us)

    def hang_up(self, one: int, other: int) -> None:
        """The connection between two daemons breaks, with all that is on its way; then there is a new one."""
        self._flying = [flight for flight in self._flying if {flight[2], flight[3]} != {one, other}]
        heapq.heapify(self._flying)
        for daemon, peer in ((one, other), (other, one)):
            if daemon in self.alive:
                self.nodes[daemon].streams.stream_lost(peer, "reset", self.now_us)
                self._drain(daemon)
        for daemon, peer in ((one, other), (other, one)):
            if daemon in self.alive and peer in self.alive:
                self.nodes[daemon].streams.stream_opened(peer, self.now_us)
                self._drain(daemon)

    def pause(self, daemon: int, for_us: int) -> None:
        """The daemon does nothing for a while; what comes in waits for it."""
        self._paused_until_us[daemon] = self.now_us + for_us

    def block(self, *pairs: tuple[int, int]) -> None:
        """Nothing gets from the first to the second of each pair any more."""
        self.blocked.update(pairs)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Nothing gets from one to the other of each pair, in either direction."""
        for one, other in pairs:
            self.blocked |= {(one, other), (other, one)}

    def partition(self, *parts: set[int]) -> None:
        """Only daemons of the same part reach each other; those in no part are alone."""
        everybody = range(self.config.daemon_count)
        self.blocked = {
            (one, other)
            for one in everybody
            for other in everybody
            if one != other and not any(one in part and other in part for part in parts)
        }

    def heal(self) -> None:
        """All paths work again; connections that have hung are replaced."""
        blocked, self.blocked = self.blocked, set()
        for one, other in sorted({(min(pair), max(pair)) for pair in blocked}):
            if other in self.config.stream_peers_of(one):
                self.hang_up(one, other)

    def lose_view(self) -> None:
        """The network fails: what is on its way is lost, and every daemon notices at once."""
        self._flying.clear()
        for daemon in sorted(self.alive):
            node = self.nodes[daemon]
            for neighbour in sorted(node.working_links, key=self.alive.__contains__)[:1]:
                node.membership.loss.lost_link(
                    neighbour, Reason.LINK_FAILED, "the network fails", self.now_us
                )
                self._drain(daemon)

    def usurp(self, sender: int, receiver: int) -> None:
        """A packet that nobody sent takes the place of the next one on a link: it says nothing new, and the
        genuine one will count as a duplicate. Every number in it is plausible."""
        node = self.nodes[receiver]
        data = usurping(node, sender)
        assert data is not None
        node.receive(memoryview(data), len(data), self.now_us)
        self._drain(receiver)

    # Time -------------------------------------------------------------------------------------------------

    def delay_between(self, sender: int, receiver: int) -> int:
        """How long a packet takes."""
        return self.delay_us

    def _drain(self, daemon: int) -> None:
        node = self.nodes[daemon]
        node.settle(self.now_us)
        self._slices_us.pop(daemon, None)
        if not node.is_settled:
            self._slices_us[daemon] = self.now_us + self.slice_us
        if not self.drains:
            return
        peers = self.config.stream_peers_of(daemon)
        for datagram in node.datagrams:  # it may grow: a connection that takes all has room for more
            if datagram.receiver in peers:
                node.streams.stream_moved(datagram.receiver, 0, self.now_us)
            for receiver in datagram.receivers or (datagram.receiver,):
                for data in packets_of(datagram):
                    self.crossed.append((daemon, receiver, data))
                    if not self.lose(receiver, data):
                        self._serial += 1
                        arrives_us = self.now_us + self.delay_between(daemon, receiver)
                        flight = (arrives_us, self._serial, daemon, receiver, data)
                        heapq.heappush(self._flying, flight)
        node.datagrams.clear()
        names = {session: name for name, (where, session) in self._clients.items() if where == daemon}
        for sessions, frame, _ in node.frames:
            for session in sessions:
                news = read(frame)
                self.events[names[session]] += news
                self.times[names[session]] += [self.now_us] * len(news)
        node.frames.clear()
        self.ended += ((daemon, session, goodbye.code) for session, goodbye in node.endings)
        node.endings.clear()

    def _next(self, daemon: int) -> int | None:
        """When the daemon wants to be called."""
        due_us = self._slices_us.get(daemon, self.nodes[daemon].next_deadline_us())
        return None if due_us is None else max(due_us, self._paused_until_us.get(daemon, 0))

    def step(self, end_us: int) -> bool:
        """The next arrival or deadline; False if there is none before `end_us`."""
        wanted = [(due_us, daemon) for daemon in self.alive if (due_us := self._next(daemon)) is not None]
        due_us, daemon = min(wanted, default=(end_us, -1))
        arrival_us = self._flying[0][0] if self._flying else end_us
        if min(due_us, arrival_us) >= end_us:
            return False
        if arrival_us > due_us:
            self.now_us = max(self.now_us, due_us)
            self.nodes[daemon].timeout(self.now_us)
            self._drain(daemon)
            return True
        self.now_us, serial, sender, receiver, data = heapq.heappop(self._flying)
        if receiver not in self.alive or (sender, receiver) in self.blocked:
            return True
        wakes_us = max(self._paused_until_us.get(receiver, 0), self._slices_us.get(receiver, 0))
        if wakes_us > self.now_us:
            heapq.heappush(self._flying, (wakes_us, serial, sender, receiver, data))
            return True
        node = self.nodes[receiver]
        if sender in self.config.stream_peers_of(receiver):
            assert not node.streams.receive_stream(sender, memoryview(data), self.now_us)
        else:
            node.receive(memoryview(data), len(data), self.now_us)
        if receiver not in self._slices_us:
            self._drain(receiver)
        return True

    def settle(self, *parts: set[int], within_us: int = WITHIN_US) -> int:
        """Let time pass until the daemons of each part (of one with all that are alive) are in one view and
        nothing is under way; how long that took."""
        wanted = parts or (self.alive,)
        return self.until(lambda: all(self.is_whole(part) for part in wanted), within_us)

    def is_whole(self, part: set[int]) -> bool:
        """Whether these daemons, and no others, are in one view and have nothing left to do."""
        nodes = [self.nodes[daemon] for daemon in part]
        members = tuple(sorted(part))
        return (
            all(node.is_quiet and node.view.members == members for node in nodes)
            and len({node.view.id for node in nodes}) == 1
        )

    def describe(self) -> str:
        """Where everybody stands, for a failing test."""
        return "; ".join(
            f"{node.name} {node.state} {node.group_state} view {node.view.id} of {node.view.members}"
            for number, node in enumerate(self.nodes)
            if number in self.alive
        )


def read(frame: bytes | bytearray | memoryview) -> list[Event]:
    """What a frame to a client says."""
    if frame[4] == frames.FrameKind.BUNDLE:
        return list(bundle.decode(bytes(frame)))
    control = frames.decode_from_daemon(frame)
    match control:
        case frames.ViewFrame(view=view):
            return [view]
        case frames.SignalFrame(signal=signal):
            return [signal]
        case _:
            return [control]


def told(event: Event) -> str:
    """An event of a client in a word or two.

    Members are told by the first part of their names: `network c0 c1` is a view with #c0#d0 and #c1#d1.
    """
    match event:
        case Message():
            return event.payload.decode()
        case View():
            members = " ".join(member.split("#")[1] for member in event.members)
            return f"{event.cause.value} {members}"
        case TransitionalSignal():
            return "signal"
        case frames.LeftFrame(left=Left(group=group)):
            return f"left {group}"
        case _:
            return repr(event)
