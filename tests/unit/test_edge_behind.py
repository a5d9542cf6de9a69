"""Edges behind edges: the second is fed by the first, and sends through it."""

from collections.abc import Sequence

from edge_world import EdgeWorld, messages, view_of

from antiphon import limits
from antiphon.service import Service
from antiphon.types import TransitionalSignal
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.edges import Listen, Position, Sponsor, Sponsored, Unsponsor
from antiphon.wire.frames import Accepted, GapFrame, Join, NotSent, Problem, SignalFrame, Unsure, ViewFrame


class Chain:
    """Edges `near`, each attached to by hand, and `far`, whose attachments they are."""

    def __init__(self, *near: EdgeWorld) -> None:
        self.near = near
        self.far = EdgeWorld(len(near), name="far")
        self.numbers: dict[int, tuple[EdgeWorld, int]] = {}
        """By link of `far`: at which edge, and as which session there."""
        self.refused: list[frames.Refuse] = []
        self._known = 0  # links that were looked at
        self._read: dict[tuple[int, int], int] = {}  # how much of what was written has come

    def run(self) -> None:
        """Carry over what they say to one another, until nobody says anything."""
        for _ in range(100):
            if not (self._dial() | self._go_up() | self._go_down()):
                return
        raise AssertionError("they do not come to rest")

    def _dial(self) -> bool:
        for link, place in self.far.dialled[self._known :]:
            self._known += 1
            self.far.node.dialled(link, self.far.now_us)
            self.far.settle()
            near = self.near[place]
            attach = self.far.said[link][0]
            assert isinstance(attach, edges.Attach)
            answer = near.node.attach(attach, near.now_us)
            near.settle()
            if isinstance(answer, frames.Refuse):
                self.refused.append(answer)
                self.far.hear(link, answer)
                self.far.breaks(link)
            else:
                self.numbers[link] = (near, answer[0])
                self._read[link, 0] = 1
                self.far.hear(link, answer[1])
            return True
        return False

    def _go_up(self) -> bool:
        moved = False
        for link, (near, number) in list(self.numbers.items()):
            if link in self.far.hung_up:
                self.lose(link)
                continue
            if number in near.ended:
                continue
            said = self.far.written.get(link, [])
            for frame in said[self._read[link, 0] :]:
                self._read[link, 0] += 1
                moved = True
                if frame[4] == frames.FrameKind.BUNDLE:
                    near.node.submit(number, [bytearray(frame)], near.now_us)
                else:
                    near.node.control(number, frames.decode_from_client(frame), near.now_us)
            near.settle()
        return moved

    def _go_down(self) -> bool:
        moved = False
        for link, (near, number) in list(self.numbers.items()):
            told = near.raw.get(number, [])
            start = self._read.get((link, 1), 0)
            self._read[link, 1] = len(told)
            for frame in told[start:]:
                moved = True
                self.far.node.heard(link, frame[4], memoryview(bytes(frame)), self.far.now_us)
            self.far.settle()
            if number in near.ended:
                del self.numbers[link]
                self.far.breaks(link, near.ended[number].code)
        return moved

    def lose(self, link: int) -> None:
        """The connection between them breaks."""
        near, number = self.numbers.pop(link)
        near.node.lost(number, near.now_us)
        near.settle()
        self.far.breaks(link)

    def wait(self, us: int, *beating: Sequence[int]) -> None:
        """Time passes for all; by edge, the links whose attachments say something."""
        for _ in range(us // 100_000):
            for world, links in zip(self.near, beating, strict=True):
                world.wait(100_000, *links)
            self.far.wait(100_000)
            self.run()


def attached(world: EdgeWorld) -> int:
    """An edge that is fed: it has come to place 10."""
    link = world.attach()
    world.hear(link, edges.Reached(Position(10, 0, 10)))
    return link


def chain() -> tuple[Chain, int]:
    """An edge behind another, and the link of that one."""
    near = EdgeWorld(1, name="near")
    link = attached(near)
    town = Chain(near)
    town.run()
    assert town.far.node.is_operational
    return town, link


def member(town: Chain, link: int, *groups: str, **options: bool) -> int:
    """A member at the far edge."""
    session = town.far.connect(**options)
    town.far.ask(session, *(Join(group) for group in groups if group[0] != "#"))
    town.run()
    for group in groups:
        town.near[0].base(link, group, 20, "#core#d1")
    town.run()
    return session


def test_an_edge_that_has_no_attachment_takes_no_edges() -> None:
    town = Chain(EdgeWorld(1, name="near"))
    town.run()
    assert [one.code for one in town.refused] == ["unattached"]


def test_the_way_to_the_core_is_told_and_told_again_when_it_changes() -> None:
    near = EdgeWorld(2, name="near")
    link = attached(near)
    town = Chain(near)
    town.run()
    assert town.far.node.links.main.attached.path == ("near",)
    second = near.greet(1, path=("middle",), daemon="d9")
    near.breaks(link)
    town.run()
    way = town.far.node.links.main.attached
    assert (way.daemon, way.path) == ("d9", ("near", "middle"))
    near.hear(second, edges.Attached(frames.PROTOCOL_VERSION, "middle", "d9", ("middle", "far"), 1, 500_000))
    town.run()
    assert not town.far.node.is_operational
    assert town.far.node.counters["attachment: loop"] == 1


def test_what_the_far_edge_wants_the_near_one_listens_to() -> None:
    town, link = chain()
    session = member(town, link, "#far", "chat")
    near, far = town.near[0], town.far
    assert near.spoken(link, Listen) == [Listen("#far"), Listen("chat")]
    near.hear(
        link,
        messages(("chat",), 21, b"one"),
        ViewFrame(view_of("chat", 22, "#x#d1")),
        messages(("#bob#far",), 23, b"private"),
        messages(("chat",), 5, b"loose", service=Service.UNRELIABLE),
        SignalFrame(TransitionalSignal("chat", view_of("chat", 22).id)),
        edges.Part(11),
        messages(("chat",), 5, b"two"),
    )
    town.run()
    assert far.payloads(session) == [b"one", b"private", b"two", b"loose"]
    assert [type(one).__name__ for one in far.told[session] if not hasattr(one, "payload")] == [
        "ViewFrame", "ViewFrame", "SignalFrame"
    ]  # fmt: skip
    assert far.node.feed.position == near.node.feed.position == Position(11, 0, 5)


def test_a_group_that_flows_already_begins_at_once_for_the_far_edge() -> None:
    town, link = chain()
    near, far = town.near[0], town.far
    here = near.connect("here")
    near.ask(here, Join("chat"))
    near.base(link, "chat", 20, "#core#d1")
    near.hear(link, ViewFrame(view_of("chat", 30, "#x#d1")), ViewFrame(view_of("else", 30, "#x#d1")))
    session = far.connect()
    far.ask(session, Join("chat"), Join("news"))
    town.run()
    assert [view.id.lts for view in far.views(session)] == [30]
    near.hear(link, ViewFrame(view_of("zoo", 30)), messages(("chat",), 31, b"one"))
    town.run()
    assert far.payloads(session) == near.payloads(here) == [b"one"]


def test_views_of_one_event_come_in_order_although_a_group_begins_between_them() -> None:
    town, link = chain()
    session = member(town, link, "a", "ab", "b")
    near, far = town.near[0], town.far
    near.ask(near.connect("here"), Join("zoo"))
    near.base(link, "zoo", 21)
    near.hear(link, ViewFrame(view_of("a", 30, "#x#d1")))
    far.ask(session, Join("zoo"))
    town.run()
    near.hear(link, ViewFrame(view_of("ab", 30, "#x#d1")), ViewFrame(view_of("b", 30, "#x#d1")))
    town.run()
    assert [view.group for view in far.views(session)] == ["a", "ab", "b", "a", "zoo", "ab", "b"]


def test_receivers_behind_are_counted_too() -> None:
    town, link = chain()
    member(town, link, "chat")
    near = town.near[0]
    near.ask(near.connect("here"), Join("chat"))
    town.wait(2 * limits.EDGE_RECEIVERS_US, [link])
    assert near.spoken(link, edges.Receivers)[-1] == edges.Receivers({"chat": 2})


def test_a_gap_of_the_near_edge_is_one_of_the_far_edge() -> None:
    town, link = chain()
    session = member(town, link, "chat")
    near, far = town.near[0], town.far
    near.hear(
        link,
        messages(("chat",), 25, b"one"),
        edges.Gap("chat", Position(10, 0, 25), Position(10, 0, 40), "forgotten"),
    )
    town.run()
    assert far.told[session][-1] == far.of(session, GapFrame)[0]
    near.hear(
        link,
        edges.Base(view_of("chat", 39, "#y#d1"), Position(10, 0, 40)),
        messages(("chat",), 41, b"two"),
    )
    town.run()
    (gap,) = far.of(session, GapFrame)
    assert (gap.gap.after_lts, gap.gap.until_lts, gap.gap.reason) == (25, 25, "forgotten")
    assert [view.id.lts for view in far.views(session)] == [19, 39]
    assert far.payloads(session) == [b"one", b"two"]


def test_the_far_edge_leaves_a_branch_with_the_near_one() -> None:
    """The near edge's next attachment is in the same daemon view, whose end is open there still."""
    town, link = chain()
    near, far = town.near[0], town.far
    member(town, link, "chat")
    near.hear(link, edges.Part(10, 2_048), messages(("chat",), 25, b"one"))
    town.run()
    assert far.node.feed.position == Position(10, 2_048, 25)
    near.breaks(link)
    near.wait(limits.EDGE_DIAL_FIRST_US)
    link = near.greet()
    near.hear(link, edges.Gap("chat", Position(10, 2_048, 25), Position(10, 0, 30), "another way"))
    near.hear(link, edges.Part(10), edges.Base(view_of("chat", 29), Position(10, 0, 30)))
    near.hear(link, messages(("chat",), 31, b"two"))
    town.run()
    assert far.node.feed.position == Position(10, 0, 31)


def test_the_far_edge_goes_on_at_another_near_one() -> None:
    ones = EdgeWorld(1, name="one"), EdgeWorld(1, name="two")
    links = [attached(one) for one in ones]
    town = Chain(*ones)
    town.run()
    far = town.far
    session = far.connect()
    far.ask(session, Join("chat"))
    town.run()
    for one, link in zip(ones, links, strict=True):
        assert one.spoken(link, Listen) == [Listen("#far"), Listen("chat")]
        one.base(link, "chat", 20, "#core#d1")
        one.base(link, "#far", 20)
    town.run()
    ones[0].hear(links[0], messages(("chat",), 21, b"one"), messages(("chat",), 22, b"two"))
    ones[1].hear(links[1], messages(("chat",), 21, b"one"))
    town.run()
    town.lose(far.node.links.main.link)
    town.run()
    for lts, payload in ((22, b"two"), (23, b"three")):
        ones[1].hear(links[1], messages(("chat",), lts, payload))
    ones[1].hear(links[1], messages(("#bob#far",), 24, b"private"))
    town.run()
    assert far.payloads(session) == [b"one", b"two", b"three", b"private"]
    assert not far.of(session, GapFrame)


def test_edges_behind_are_sent_away_when_there_is_no_attachment_for_a_while() -> None:
    town, link = chain()
    near, far = town.near[0], town.far
    near.breaks(link)
    town.wait(1_000_000, [])
    assert far.node.is_operational
    town.wait(1_000_000, [])
    assert not far.node.is_operational
    assert [row["reason"] for row in far.node.status(far.now_us)["attachments"]] == [
        "refused: near has no attachment itself (unattached)"
    ]


# Sending --------------------------------------------------------------------------------------------------


def sponsor(town: Chain, link: int, number: int, daemon: int = 3) -> int:
    """The attachment sponsors the newest session; what the near edge calls it."""
    asked = town.near[0].spoken(link, Sponsor)[-1]
    assert isinstance(asked, Sponsor)
    town.near[0].sponsor(link, asked.client, number, daemon)
    town.run()
    return asked.client


def test_what_the_far_edge_sends_goes_through_both() -> None:
    town, link = chain()
    near, far = town.near[0], town.far
    session = member(town, link, "chat", accepts=True)
    far.send(session, b"2", b"3", flags=Flag.SELF_DISCARD)
    town.run()
    (asked,) = near.spoken(link, Sponsor)
    assert (asked.name, asked.edge, asked.accepts) == ("bob", "far", True)
    number = sponsor(town, link, 41)
    (header,) = near.spoken(link, Header)
    assert (header.session, header.message_count) == (41, 2)
    assert number != session or number == asked.client
    near.hear(
        link,
        Accepted(1, 41),
        NotSent("chat", 2, 1, 41),
        Problem("odd", "because", 41),
        messages(("chat",), 21, b"2", flags=Flag.SELF_DISCARD, origin=(3, 9, 41, 1)),
    )
    town.run()
    assert far.of(session, Accepted) == [Accepted(2)]
    assert far.of(session, NotSent) == [NotSent("chat", 3, 1)]
    assert far.of(session, Problem) == [Problem("odd", "because")]
    assert not far.payloads(session)
    far.ask(session, frames.Disconnect())
    town.run()
    assert near.spoken(link, Unsponsor) == [Unsponsor(41)]


def test_when_the_near_edge_loses_its_attachment_the_far_one_sends_on() -> None:
    near = EdgeWorld(2, name="near")
    link = attached(near)
    town = Chain(near)
    town.run()
    far = town.far
    session = member(town, link, "chat", accepts=True)
    far.send(session, b"2", b"3", flags=Flag.SELF_DISCARD)
    town.run()
    sponsor(town, link, 41)
    second = near.greet(1)
    near.breaks(link)
    far.send(session, b"4", flags=Flag.SELF_DISCARD)
    town.run()
    sponsor(town, second, 7, daemon=4)
    assert [(header.session, header.message_count) for header in near.spoken(second, Header)] == [(7, 1)]
    flags = Flag.SELF_DISCARD
    near.hear(
        second,
        edges.Part(10),
        messages(("chat",), 21, b"2", flags=flags, origin=(3, 9, 41, 1)),
        messages(("chat",), 22, b"4", flags=flags, origin=(4, 9, 7, 1)),
        Accepted(1, 7),
    )
    town.run()
    assert not far.payloads(session)
    town.wait(limits.EDGE_UNSURE_US, [second])
    told = [one for one in far.told[session] if isinstance(one, Unsure | Accepted)]
    assert told == [Accepted(2), Unsure(3, 1), Accepted(4)]


def test_what_an_edge_that_is_lost_had_sent_goes_on_and_its_sessions_end() -> None:
    town, link = chain()
    near, far = town.near[0], town.far
    session = member(town, link, "chat")
    far.send(session, b"2")
    town.run()
    sponsor(town, link, 41)
    near.node.waiting(link, limits.EDGE_OUTPUT_BYTES, near.now_us)
    far.send(session, b"3")
    town.run()
    town.lose(far.node.links.main.link)
    assert not near.spoken(link, Unsponsor)
    near.node.waiting(link, 0, near.now_us)
    near.settle()
    assert [type(one) for one in near.said[link][-2:]] == [Header, Unsponsor]


def test_a_sponsor_request_that_cannot_be_is_refused() -> None:
    town, _ = chain()
    near = town.near[0]
    number = next(iter(near.node.behind.server.edges))
    for asked in (Sponsor(1, "no name", "far"), Sponsor(1, "bob", "far", 77), Sponsor(1, "bob", "no edge")):
        near.ask(number, asked)
    assert [told.code for told in near.of(number, Problem)] == ["not-sponsored"] * 3
    near.ask(number, Unsponsor(99), frames.Join("chat"))
    assert near.of(number, Problem)[-1].code == "unexpected"


def test_names_are_taken_once_at_an_edge_behind_too() -> None:
    town, link = chain()
    near = town.near[0]
    number = next(iter(near.node.behind.server.edges))
    near.ask(number, Sponsor(1, "bob", "far"), Sponsor(2, "bob", "far"))
    assert len(near.spoken(link, Sponsor)) == 1
    for named in (41, 42):
        asked = near.spoken(link, Sponsor)[-1]
        assert isinstance(asked, Sponsor)
        near.sponsor(link, asked.client, named)
        near.ask(number, Unsponsor(asked.client))
        assert near.spoken(link, Unsponsor)[-1] == Unsponsor(named)
    told = [one for one in near.of(number, Sponsored) if isinstance(one, Sponsored)]
    assert [(one.client, one.known_as) for one in told] == [(1, 41), (2, 42)]
