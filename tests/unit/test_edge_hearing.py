"""An edge that hears the cast of its coordinator: the order of two roads, and what is missing."""

from collections.abc import Sequence
from random import Random

import pytest
from edge_world import EdgeWorld, messages, view_of

from antiphon import limits
from antiphon.core.sealing.casts import CastSealing
from antiphon.core.sealing.keys import SECRET_BYTES
from antiphon.service import Service
from antiphon.wire import casts, edges, frames
from antiphon.wire.casts import News, Piece, Request
from antiphon.wire.edges import Position

STREAM = 99
CAST = edges.Cast("lan", STREAM, bytes(SECRET_BYTES))
FAR_US = 10_000


class Child(EdgeWorld):
    """An edge with a member of the group `chat`, whose coordinator multicasts."""

    def __init__(self) -> None:
        super().__init__(1, casts_at="here")
        self._seal = CastSealing(Random(2).randbytes).seal(CAST)
        self.main = self.attach()
        self.bob = self.connect()
        self.ask(self.bob, frames.Join("chat"))
        self.base(self.main, "chat", 5)
        self.hear(self.main, CAST)

    def sent(self) -> list[casts.Packet]:
        """What it has multicast since the last time."""
        found = [self.node.open_cast(data) for place, data in self.node.casts if place == "lan"]
        self.node.casts.clear()
        return found

    def cast(self, *packets: casts.Packet) -> None:
        for packet in packets:
            self.node.cast(self._seal.encode(packet), self.now_us)
        self.settle()

    def pieces(self, numbers: Sequence[int], is_repair: bool = False) -> None:
        """These pieces come: each has one message, whose text is the number."""
        for number in numbers:
            self.cast(Piece(STREAM, number, self.data(number), is_repair))

    @staticmethod
    def data(number: int) -> bytes:
        return messages(("chat",), 100 + number, b"%d" % number)

    def texts(self) -> list[str]:
        return [payload.decode() for payload in self.payloads(self.bob)]

    def after(self, us: int) -> list[casts.Packet]:
        """What it multicasts in some time."""
        self.wait(us, self.main)
        return self.sent()


@pytest.fixture
def child() -> Child:
    return Child()


def line(place: int, text: bytes) -> bytes:
    """A message that comes over the connection."""
    return messages(("chat",), place, text)


def test_a_probe_is_answered_over_the_connection(child: Child) -> None:
    child.cast(News(STREAM, 4, 1, 2, asks=True), News(STREAM, 5, 1, 2))
    assert child.spoken(child.main, edges.Heard) == [edges.Heard(STREAM, 4)]


def test_what_is_cast_is_read_once_the_connection_says_so(child: Child) -> None:
    child.pieces([1, 2])
    assert child.texts() == []
    child.hear(child.main, edges.OnCast(2, FAR_US))
    child.pieces([3])
    assert child.texts() == ["2", "3"]


def test_the_roads_are_read_in_their_order(child: Child) -> None:
    child.hear(child.main, line(90, b"first"), edges.OnCast(1, FAR_US), edges.OffCast(3), line(110, b"last"))
    assert child.texts() == ["first"]
    child.pieces([2])
    assert child.texts() == ["first"]
    child.pieces([1])
    assert child.texts() == ["first", "1", "2", "last"]


def test_a_parting_ends_the_cast_before_the_connection_says_so(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    parting = frames.encode_control(edges.Parting("e1"))
    other = frames.encode_control(edges.Parting("e2"))
    child.cast(Piece(STREAM, 1, other), Piece(STREAM, 2, parting))
    child.pieces([3])
    assert child.texts() == []
    child.hear(child.main, edges.OffCast(3), line(102, b"over the connection"))
    child.hear(child.main, edges.OnCast(3, FAR_US))
    assert child.texts() == ["over the connection", "3"]


def test_frames_may_be_longer_than_pieces(child: Child) -> None:
    data = messages(("chat",), 101, bytes(3_000)) + messages(("chat",), 102, b"end")
    child.hear(child.main, edges.OnCast(1, FAR_US))
    for number, at in enumerate(range(0, len(data), 700), 1):
        child.cast(Piece(STREAM, number, data[at : at + 700]))
    assert child.payloads(child.bob) == [bytes(3_000), b"end"]


def test_items_of_other_groups_are_passed_over(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    base = frames.encode_control(edges.Base(view_of("other", 90), Position(10, 0, 101, "other")))
    child.cast(Piece(STREAM, 1, base + messages(("other", "#bob#e1"), 103, b"not for bob")))
    child.cast(Piece(STREAM, 2, child.data(4)))
    assert child.texts() == ["4"]
    assert "other" not in child.node.members.groups
    position = child.node.feed.position
    assert position is not None and position.place == 104


def test_what_is_missing_is_asked_for_after_a_while(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([1, 4])
    assert child.sent() == []
    asked = child.after(4 * FAR_US)
    assert asked == [Request(STREAM, FAR_US, ((2, 2),))]
    child.pieces([2, 3], is_repair=True)
    assert child.texts() == ["1", "2", "3", "4"]
    assert child.after(1_000_000) == []


def test_a_late_piece_is_not_asked_for(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([2])
    child.wait(FAR_US, child.main)
    child.pieces([1])
    assert child.texts() == ["1", "2"]
    assert child.after(1_000_000) == []


@pytest.mark.parametrize("how", ["news", "the connection", "another request"])
def test_the_loss_of_the_last_pieces_is_noticed(child: Child, how: str) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    if how == "news":
        child.cast(News(STREAM, 4, 3, 2))
    elif how == "the connection":
        child.hear(child.main, edges.OffCast(3))
    else:
        child.cast(Request(STREAM, FAR_US, ((1, 2),)))
    assert Request(STREAM, FAR_US, ((1, 2),)) in child.after(8 * FAR_US)


def test_who_hears_a_request_waits_for_longer(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([2])
    child.cast(Request(STREAM, FAR_US, ((1, 1),)), Request(STREAM, FAR_US, ((1, 1),)))
    assert child.after(4 * FAR_US - 1_000) == []
    assert child.after(4 * FAR_US + 1_000) == [Request(STREAM, FAR_US, ((1, 1),))]


def test_the_coordinator_is_asked_when_nobody_repairs(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([1, 3])
    asked = child.after(2_000_000)
    assert asked == [Request(STREAM, FAR_US, ((2, 1),))] * limits.CAST_ROUNDS
    assert child.spoken(child.main, edges.Lack) == [edges.Lack(((2, 1),))]
    child.hear(child.main, edges.CastPiece(2, child.data(2)))
    assert child.texts() == ["1", "2", "3"]


def test_an_edge_that_begins_anew_says_where(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([1, 3])
    child.said[child.main].clear()
    child.hear(child.main, edges.OffCast(4), line(104, b"lost"), edges.Anew())
    listen, go = child.said[child.main]
    assert isinstance(listen, edges.Listen) and listen.group == "chat" and listen.held is not None
    assert go == edges.Go(Position(10, 0, 101))
    child.hear(child.main, edges.Part(10), line(102, b"2"), line(103, b"3"))
    assert child.texts() == ["1", "2", "3"]


def test_nonsense_in_the_cast_leads_back_to_the_connection(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.cast(Piece(STREAM, 1, b"\xff" * 50))
    assert child.spoken(child.main, edges.Lack) == [edges.Lack()]
    child.pieces([2])
    child.hear(child.main, edges.OffCast(3), line(103, b"before anew"))
    assert child.texts() == []
    child.hear(child.main, edges.Anew(), edges.Part(10), line(101, b"1"))
    assert child.texts() == ["1"]
    assert child.hung_up == []


def test_a_parting_that_nobody_meant_leads_back_to_the_connection(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.cast(Piece(STREAM, 1, frames.encode_control(edges.Parting("e1"))))
    child.wait(limits.CAST_ESCALATED_US - 1_000, child.main)
    assert child.spoken(child.main, edges.Lack) == []
    child.wait(2_000, child.main)
    assert child.spoken(child.main, edges.Lack) == [edges.Lack()]


@pytest.mark.parametrize("until", [1, 2, 4])
def test_a_cast_that_ends_elsewhere_than_was_read_leads_back_to_the_connection(
    child: Child, until: int
) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([1])
    child.cast(Piece(STREAM, 2, frames.encode_control(edges.Parting("e1"))))
    child.hear(child.main, edges.OffCast(until))
    assert child.spoken(child.main, edges.Lack) == [edges.Lack()]
    assert child.hung_up == []


def test_pieces_are_repaired_for_others(child: Child) -> None:
    child.pieces([1, 2])
    child.cast(Request(STREAM, FAR_US, ((1, 1), (7, 1))))
    assert child.after(10 * FAR_US) == [Piece(STREAM, 1, child.data(1), is_repair=True)]


def test_packets_of_other_streams_are_left_alone(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.cast(Piece(STREAM + 1, 1, child.data(1)), News(STREAM + 1, 1, 9, 2, asks=True))
    assert child.texts() == []
    assert child.node.counters["cast: of another stream"] == 2
    assert child.spoken(child.main, edges.Heard) == []
    child.node.cast(b"nonsense", child.now_us)
    assert child.node.counters["cast: impossible length"] == 1


def test_pieces_from_far_ahead_are_not_kept(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US))
    child.pieces([1 + limits.CAST_AHEAD_PACKETS])
    assert child.node.hearing.counters["too far ahead"] == 1
    child.cast(News(STREAM, 1, limits.COUNTER_MAX, 2))
    assert len(child.node.hearing._missing) == limits.CAST_AHEAD_PACKETS


@pytest.mark.parametrize(
    "values",
    [
        (edges.OnCast(1, FAR_US), line(102, b"over the connection")),
        (edges.OffCast(2),),
        (edges.OnCast(3, FAR_US), edges.OffCast(0)),
        (edges.OnCast(0, FAR_US),),
        (edges.Cast("", 5, CAST.key),),
        (edges.Cast("lan", 0, CAST.key),),
        (edges.Cast("lan", 5, b"short"),),
        (edges.OnCast(1, FAR_US), edges.Cast("elsewhere", 5, CAST.key)),
        (edges.CastPiece(0, b"1"),),
        (edges.CastPiece(1, bytes(limits.CAST_PACKET_BYTES + 1)),),
        (edges.Parting("e1"),),
    ],
    ids=str,
)
def test_an_attachment_that_cannot_mean_it_is_given_up(
    child: Child, values: Sequence[edges.OnlyToEdge | bytes]
) -> None:
    child.hear(child.main, *values)
    assert child.hung_up == [child.main]


def test_an_edge_that_does_not_use_multicast_is_told_of_none() -> None:
    world = EdgeWorld(1)
    link = world.attach()
    (attach,) = world.spoken(link, edges.Attach)
    assert isinstance(attach, edges.Attach) and not attach.hears
    world.hear(link, CAST)
    assert world.hung_up == [link]


def test_too_much_that_waits_is_asked_for_anew(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CAST_QUEUE_BYTES", 1_000)
    child.hear(child.main, edges.OnCast(1, FAR_US), edges.OffCast(2))
    for place in range(102, 110):
        child.hear(child.main, line(place, bytes(200)))
    assert child.spoken(child.main, edges.Lack) == [edges.Lack()]
    assert child.hung_up == []


def test_unreliable_messages_wait_for_nothing(child: Child) -> None:
    child.hear(child.main, edges.OnCast(1, FAR_US), edges.OffCast(2))
    child.hear(child.main, messages(("chat",), 0, b"quick", service=Service.UNRELIABLE))
    assert child.texts() == ["quick"]
