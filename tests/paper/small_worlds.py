"""Small worlds for tests that read as stories: two ends of a link or a few nodes, time and losses in hand."""

from collections.abc import Callable

from antiphon import config
from antiphon.config import Config, DaemonConfig, LinkConfig, Settings, SiteConfig
from antiphon.core.effects import Datagram
from antiphon.core.links.hop import HopLink
from antiphon.core.node import Node
from antiphon.service import Service
from antiphon.types import Message, View
from antiphon.wire import bundle, frames, packet
from antiphon.wire.packet import Fragment, Packet

DELAY_US = 10_000


def packets_of(datagram: Datagram) -> list[bytes]:
    """The packets of one send, as the network sees them."""
    data = b"".join(datagram.buffers)
    return [data[at : at + datagram.segment_bytes] for at in range(0, len(data), datagram.segment_bytes)]


class LinkPair:
    """Two ends of a Hop link and the path between them. `lose` decides which packets do not arrive."""

    def __init__(
        self, packet_bytes: int = 1_400, rate_bytes_per_s: int = 0, window_bytes: int = 1_000_000
    ) -> None:
        self.now_us = 0
        self.lose: Callable[[int, Packet], bool] = lambda receiver, incoming: False
        self.seen: list[tuple[int, Packet]] = []
        self.received: list[list[bytes]] = [[], []]
        self._out: list[list[Datagram]] = [[], []]
        self.ends = [
            HopLink(
                me=me,
                peer=1 - me,
                digest=7,
                incarnation=100 + me,
                packet_bytes=packet_bytes,
                window_bytes=window_bytes,
                rate_bytes_per_s=rate_bytes_per_s,
                datagrams=self._out[me],
                now_us=0,
            )
            for me in (0, 1)
        ]
        self._flying: list[tuple[int, int, bytes]] = []
        self.run(until_us=200_000)

    def send(self, *bodies: bytes, end: int = 0) -> None:
        for number, body in enumerate(bodies, start=1):
            self.ends[end].send(Fragment(end, number, 3, len(body), 0, body))
        self.ends[end].pump(self.now_us)
        self._fly()

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


def chain_config(sites: int, **settings: float) -> Config:
    """Sites s0, s1, ... in a chain, one daemon d0, d1, ... each."""
    return config.build(
        tuple(SiteConfig(f"s{i}", (DaemonConfig(f"d{i}", f"127.0.0.1:{4000 + i}"),)) for i in range(sites)),
        tuple(LinkConfig((f"s{i}", f"s{i + 1}")) for i in range(sites - 1)),
        Settings(**settings),  # type: ignore[arg-type]
    )


class Cluster:
    """Nodes in a chain, a fixed delay per hop, clients in hand, no losses unless `lose` says so."""

    def __init__(self, sites: int, delay_us: int = DELAY_US, **settings: float) -> None:
        self.now_us = 0
        self.delay_us = delay_us
        self.config = chain_config(sites, **settings)
        self.nodes = [Node(self.config, f"d{i}", incarnation=1 + i, now_us=0) for i in range(sites)]
        self.lose: Callable[[int, bytes], bool] = lambda receiver, data: False
        self.crossed: list[tuple[int, int, bytes]] = []
        """(sender, receiver, packet) of everything that was sent."""
        self.events: dict[str, list[Message | View | frames.FromDaemon]] = {}
        self.times: dict[str, list[int]] = {}
        self._clients: dict[str, tuple[int, int]] = {}
        self._flying: list[tuple[int, int, bytes]] = []
        self.run(500_000)

    def client(self, site: int, name: str, **options: bool | int) -> str:
        """A client called `name` at a site; its private name."""
        answer = self.nodes[site].connect(
            frames.Connect(frames.PROTOCOL_VERSION, name, **options), self.now_us
        )
        assert isinstance(answer, frames.Welcome), answer
        self._clients[answer.name] = (site, answer.session)
        self.events[answer.name] = []
        self.times[answer.name] = []
        return answer.name

    def join(self, client: str, group: str) -> None:
        site, session = self._clients[client]
        self.nodes[site].control(session, frames.Join(group), self.now_us)
        self._drain(site)

    def leave(self, client: str, group: str) -> None:
        site, session = self._clients[client]
        self.nodes[site].control(session, frames.Leave(group), self.now_us)
        self._drain(site)

    def disconnect(self, client: str) -> None:
        site, session = self._clients[client]
        self.nodes[site].control(session, frames.Disconnect(), self.now_us)
        self._drain(site)

    def send(
        self,
        client: str,
        groups: str | list[str],
        *payloads: bytes,
        service: Service = Service.AGREED,
        flags: int = 0,
    ) -> None:
        site, session = self._clients[client]
        groups = [groups] if isinstance(groups, str) else groups
        names = bundle.names_area(client, groups)
        data = bytearray(b"".join(bundle.encode(names, len(groups), service, payloads, flags=flags)))
        self.nodes[site].submit(session, data, self.now_us)
        self._drain(site)

    def _drain(self, site: int) -> None:
        node = self.nodes[site]
        node.settle(self.now_us)
        for datagram in node.datagrams:
            for data in packets_of(datagram):
                self.crossed.append((site, datagram.receiver, data))
                if not self.lose(datagram.receiver, data):
                    self._flying.append((self.now_us + self.delay_us, datagram.receiver, data))
        node.datagrams.clear()
        names = {session: name for name, (where, session) in self._clients.items() if where == site}
        for sessions, frame in node.frames:
            for session in sessions:
                if bytes(frame[4:5]) == b"\x01":
                    news: list[Message | View | frames.FromDaemon] = list(bundle.decode(bytes(frame)))
                else:
                    control = frames.decode_from_daemon(frame)
                    news = [control.view if isinstance(control, frames.ViewFrame) else control]
                self.events[names[session]] += news
                self.times[names[session]] += [self.now_us] * len(news)
        node.frames.clear()
        node.endings.clear()

    def run(self, for_us: int) -> None:
        """Let time pass."""
        end_us = self.now_us + for_us
        while True:
            due_us, site = min(
                (end_us if (deadline_us := node.next_deadline_us()) is None else deadline_us, index)
                for index, node in enumerate(self.nodes)
            )
            arrival_us = self._flying[0][0] if self._flying else end_us
            if min(due_us, arrival_us) >= end_us:
                break
            if arrival_us <= due_us:
                self.now_us, site, data = self._flying.pop(0)
                self.nodes[site].receive(memoryview(data), len(data), self.now_us)
            else:
                self.now_us = max(self.now_us, due_us)
                self.nodes[site].timeout(self.now_us)
            self._drain(site)
        self.now_us = end_us

    def payloads(self, client: str) -> list[bytes]:
        """What a client got, in order."""
        return [event.payload for event in self.events[client] if isinstance(event, Message)]

    def views(self, client: str) -> list[View]:
        return [event for event in self.events[client] if isinstance(event, View)]

    def delay_of(self, client: str, payload: bytes, since_us: int) -> int:
        """How long after `since_us` a payload was delivered."""
        for event, when_us in zip(self.events[client], self.times[client], strict=True):
            if isinstance(event, Message) and event.payload == payload:
                return when_us - since_us
        raise AssertionError(f"{payload!r} was not delivered to {client}")
