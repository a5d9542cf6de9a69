"""Daemons of the core as attachments: they listen, feed in one order and sponsor, while views change."""

from collections.abc import Sequence

import pytest

from antiphon import limits
from antiphon.config import LinkConfig
from antiphon.core.node import Node
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.simulator.client import Client
from antiphon.simulator.host import Host
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.play import form
from antiphon.simulator.stage import Stage
from antiphon.types import Cause
from antiphon.wire import bundle, edges, frames
from antiphon.wire.edges import Held, Position

SEVERAL = (Service.RELIABLE, Service.AGREED, Service.SAFE, Service.FIFO, Service.CAUSAL)


class FakeEdge:
    """What an edge says, and what it has got, at one daemon."""

    def __init__(self, town: "Town", place: int, name: str, incarnation: int = 1) -> None:
        self.got: list[frames.ToEdge | tuple[bytes, int]] = []
        self.position: Position | None = None
        self._town = town
        self.host = town.hosts[place]
        answer = self.node.attach(
            edges.Attach(frames.PROTOCOL_VERSION, name, incarnation), self.host.clock_us
        )
        assert isinstance(answer, tuple)
        self.number = answer[0]
        town.edges.append(self)
        original = self.host._write

        def write(node: Node, sessions: tuple[int, ...], frame: bytes | bytearray | memoryview) -> None:
            if self.number in sessions:
                self._take(bytes(frame))
            original(node, tuple(one for one in sessions if one != self.number), frame)

        self.host._write = write  # type: ignore[method-assign]

    @property
    def node(self) -> Node:
        assert self.host.node is not None
        return self.host.node

    def _take(self, frame: bytes) -> None:
        if frame[4] == frames.FrameKind.BUNDLE:
            for message in bundle.decode(frame):
                self.got.append((message.payload, message.envelope.lts))
                if message.service is not Service.UNRELIABLE and self.position is not None:
                    self.position = Position(self.position.view, self.position.branch, message.envelope.lts)
            return
        value = frames.decode_to_edge(frame)
        if isinstance(value, edges.Base | edges.Reached):
            self.position = value.position
        elif isinstance(value, edges.Part):
            self.position = Position(value.view, value.branch, 0)
        if not isinstance(value, edges.Reached | edges.Beat | edges.Part):
            self.got.append(value)

    def say(self, value: edges.FromEdge) -> None:
        self.node.control(self.number, value, self.host.clock_us)
        self.host.settle()

    def fed(self, *groups: str) -> "FakeEdge":
        for group in groups:
            self.say(edges.Listen(group))
        self.say(edges.Go())
        return self

    @property
    def payloads(self) -> list[bytes]:
        return [one[0] for one in self.got if isinstance(one, tuple)]

    def values(self, kind: type) -> list[object]:
        return [one for one in self.got if isinstance(one, kind)]

    def sponsor(self, name: str, edge: str = "e1") -> edges.Sponsored:
        self.say(edges.Sponsor(len(self.got) + 1, name, edge, accepts=True))
        self._town.run(50)
        sponsored = self.values(edges.Sponsored)[-1]
        assert isinstance(sponsored, edges.Sponsored)
        return sponsored

    def send(self, session: int, name: str, group: str, *payloads: bytes) -> None:
        names = bundle.names_area(name, (group,))
        data = bytearray().join(bundle.encode(names, 1, Service.AGREED, payloads))
        bundle.name_session(data, session)
        self.node.submit(self.number, [data], self.host.clock_us)
        self.host.settle()


class Town:
    """Three sites, each with one daemon, in one view."""

    def __init__(self) -> None:
        sites = tuple(Site(f"s{number}", (Daemon(f"d{number}"),)) for number in range(3))
        pairs = (("s0", "s1"), ("s0", "s2"), ("s1", "s2"))
        routes = tuple(Route(LinkConfig(pair), 1_000) for pair in pairs)
        self.world = Stage(Plan("edges by hand", 0, sites, routes, (), 1)).world
        self.edges: list[FakeEdge] = []
        form(self.world)

    @property
    def hosts(self) -> Sequence[Host]:
        return self.world.hosts

    def run(self, for_ms: int) -> None:
        """Time passes; edges give signs of life."""
        end_us = self.world.now_us + for_ms * 1_000
        while self.world.now_us < end_us:
            self.world.run(min(end_us, self.world.now_us + 200_000))
            for edge in self.edges:
                if edge.host.node is not None and edge.number in edge.node.edges:
                    edge.say(edges.Beat())

    def connect(self, place: int, name: str, *groups: str) -> Client:
        client = self.hosts[place].connect(name, 0, 0, True, "")
        assert client is not None
        for group in groups:
            client.join(group)
        self.hosts[place].settle()
        self.run(100)
        return client

    def send(self, client: Client, group: str, service: Service, payload: bytes) -> None:
        client.send((group,), service, [payload])
        self.hosts[int(client.daemon[1:])].settle()

    def mask(self, place: int, group: str) -> int:
        node = self.hosts[place].node
        assert node is not None
        return node.delivery.membership.destinations((group,))


@pytest.fixture
def town() -> Town:
    return Town()


def test_a_daemon_without_members_gets_what_its_edges_listen_to(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    ann = town.connect(1, "ann")
    town.send(ann, "g", Service.AGREED, b"one")
    town.run(100)
    assert edge.payloads == [b"one"]
    assert town.mask(1, "g") == 0b001


def test_all_services_come_in_the_one_order(town: Town) -> None:
    """Also at two daemons that deliver what is not ordered at other times."""
    first, second = FakeEdge(town, 0, "e1").fed("g"), FakeEdge(town, 2, "e2").fed("g")
    town.run(100)
    senders = [town.connect(place, f"a{place}") for place in range(3)]
    for number in range(30):
        town.send(senders[number % 3], "g", SEVERAL[number % 5], b"%d" % number)
        town.run(1)
    town.run(500)
    assert len(first.payloads) == 30
    assert first.payloads == second.payloads
    places = [one[1] for one in first.got if isinstance(one, tuple)]
    assert places == sorted(places)


def test_views_come_at_their_places(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    ann = town.connect(1, "ann", "g")
    town.send(ann, "g", Service.AGREED, b"one")
    town.run(100)
    town.hosts[1].disconnect(ann, graceful=True)
    town.run(100)
    kinds = [type(one).__name__ for one in edge.got]
    assert kinds == ["Base", "ViewFrame", "tuple", "ViewFrame"]
    last = edge.got[-1]
    assert isinstance(last, frames.ViewFrame)
    assert (last.view.members, last.view.cause) == ((), Cause.DISCONNECT)


def test_listeners_are_no_members(town: Town) -> None:
    FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    ann = town.connect(1, "ann", "g")
    assert len(ann.views) == 1
    node = town.hosts[2].node
    assert node is not None
    assert list(node.delivery.membership.groups["g"].members.values()) == ["#ann#d1"]


def test_what_nobody_listens_to_any_more_is_pruned_again(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    edge.say(edges.Unlisten("g"))
    town.run(limits.FEED_RETAIN_US // 1_000 - 1_000)
    assert town.mask(1, "g")
    town.run(3_000)
    assert not town.mask(1, "g")
    node = town.hosts[1].node
    assert node is not None
    assert not node.delivery.membership.groups


def test_an_edge_goes_on_at_another_daemon_without_a_gap(town: Town) -> None:
    first, standby = FakeEdge(town, 0, "e1").fed("g"), FakeEdge(town, 2, "e1")
    standby.say(edges.Listen("g"))
    ann = town.connect(1, "ann", "g")
    sent = [b"%d" % number for number in range(200)]
    for number, payload in enumerate(sent):
        if number == 100:
            town.hosts[0].crash()
        town.send(ann, "g", SEVERAL[number % 5], payload)
        town.run(10 if number != 100 else 1_000)
    last = next(one for one in reversed(first.got) if isinstance(one, frames.ViewFrame | edges.Base))
    view = last.view.id
    standby.say(edges.Listen("g", Held((view.epoch, view.branch, view.lts, view.daemon))))
    standby.say(edges.Go(first.position))
    town.run(3_000)
    assert first.payloads + standby.payloads == sent
    assert not standby.values(edges.Gap)


def test_listeners_survive_partitions_and_merges(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    ann = town.connect(1, "ann", "g")
    town.world.network.split(({0}, {1, 2}))
    town.run(3_000)
    town.send(ann, "g", Service.AGREED, b"far")
    town.run(200)
    town.world.network.heal()
    town.run(4_000)
    town.send(ann, "g", Service.AGREED, b"near")
    town.run(300)
    assert edge.payloads == [b"near"]
    views = [one.view for one in edge.got if isinstance(one, frames.ViewFrame | edges.Base)]
    assert views[-1].members == ("#ann#d1",)
    assert town.mask(1, "g") == 0b011


def test_members_are_lost_after_a_signal(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.connect(1, "ann", "g")
    town.connect(2, "bob", "g")
    town.hosts[1].crash()
    town.run(3_000)
    kinds = [type(one).__name__ for one in edge.got]
    assert kinds[-2:] == ["SignalFrame", "ViewFrame"]
    last = edge.got[-1]
    assert isinstance(last, frames.ViewFrame)
    assert (last.view.members, last.view.cause) == (("#bob#d2",), Cause.NETWORK)


def test_the_last_member_is_lost(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.connect(1, "ann", "g")
    town.hosts[1].crash()
    town.run(3_000)
    last = edge.got[-1]
    assert isinstance(last, frames.ViewFrame)
    assert (last.view.members, last.view.cause) == ((), Cause.NETWORK)


def test_a_session_at_an_edge_sends_under_its_own_name(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    ann = town.connect(1, "ann", "g")
    sponsored = edge.sponsor("bob")
    edge.send(sponsored.session, "#bob#e1", "g", b"one", b"two")
    town.run(300)
    assert edge.payloads == [b"one", b"two"]
    assert edge.values(frames.Accepted)[-1] == frames.Accepted(2, sponsored.session)
    delivered = [record for record in town.world.records if record.process == ann.process and record.message]
    assert [record.message[2] for record in delivered] == [sponsored.session] * 2  # type: ignore[index]


def test_nobody_sends_under_another_name(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    sponsored = edge.sponsor("bob")
    with pytest.raises(BadFrame):
        edge.send(sponsored.session, "#eve#e1", "g", b"one")
    with pytest.raises(BadFrame):
        edge.send(sponsored.session + 1, "#bob#e1", "g", b"one")


def test_what_was_sent_before_the_end_is_ordered(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    sponsored = edge.sponsor("bob")
    edge.send(sponsored.session, "#bob#e1", "g", b"last")
    edge.say(edges.Unsponsor(sponsored.session))
    town.run(300)
    assert edge.payloads == [b"last"]
    assert not edge.node.sessions.sponsored(edge.number)


def test_sponsored_sessions_end_with_their_edge(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    edge.sponsor("bob")
    edge.node.lost(edge.number, edge.host.clock_us)
    edge.host.settle()
    town.run(300)
    assert not list(edge.node.sessions)


def test_private_messages_reach_the_edge(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("#e1")
    town.run(100)
    ann = town.connect(1, "ann")
    town.send(ann, "#bob#e1", Service.AGREED, b"psst")
    town.send(ann, "#bob#e2", Service.AGREED, b"not for us")
    town.run(300)
    assert edge.payloads == [b"psst"]


def test_members_learn_about_how_many_receivers_there_are(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    edge.say(edges.Receivers({"g": 40}))
    town.run(limits.EDGE_RECEIVERS_US // 1_000 + 500)
    town.connect(1, "ann", "g")
    views = [one.view for one in edge.got if isinstance(one, frames.ViewFrame)]
    assert views[-1].receivers == 40


def test_unreliable_messages_come_when_they_come(town: Town) -> None:
    edge = FakeEdge(town, 0, "e1").fed("g")
    town.run(100)
    ann = town.connect(1, "ann")
    town.send(ann, "g", Service.UNRELIABLE, b"quick")
    town.run(100)
    assert edge.payloads == [b"quick"]
