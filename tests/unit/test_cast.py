"""What a coordinator multicasts, and by which road each edge gets its feed."""

from random import Random

import pytest
from tests.unit.test_feed_log import VIEW, view
from tests.unit.test_feed_server import Town

from antiphon import limits
from antiphon.core.feeds.cast import Cast
from antiphon.core.feeds.repairs import Draws
from antiphon.core.sealing.casts import CastSealing
from antiphon.wire import bundle, casts, edges, frames
from antiphon.wire.casts import News, Piece, Request

MS = 1_000


class Group(Town):
    """A server with a cast."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []
        sealing = CastSealing(Random(1).randbytes)
        told = sealing.announce("lan")
        self.cast = Cast(told, sealing.seal(told), Draws("cast"), self.sent, lambda: self.now_us)
        self.server.cast = self.cast
        self.log.base(view("g", 5), 5, 0)

    def child(self, number: int, *groups: str, hears: bool = True) -> None:
        """An edge that is fed from now on, and has got what it listens to."""
        assert isinstance(self.attach(number, f"e{number}", hears=hears), edges.Attached)
        for group in groups:
            self.say(number, edges.Listen(group))
        self.say(number, edges.Go())
        self.told()

    def packets(self) -> list[casts.Packet]:
        """What was multicast since the last time."""
        self.server.pump(self.now_us)
        found = [self.cast.seal.decode(data) for _, data in self.sent]
        self.sent.clear()
        return found

    def stream(self) -> list[object]:
        """The frames of the pieces that were multicast since the last time."""
        data = b"".join(packet.data for packet in self.packets() if isinstance(packet, Piece))
        found, taken, _ = frames.split(memoryview(data))
        assert taken == len(data)
        return [
            bundle.parse(frame).lts if kind == frames.FrameKind.BUNDLE else frames.decode_to_edge(frame)
            for kind, frame in found
        ]

    def probe(self) -> News:
        """Time passes up to the next probe."""
        while True:
            due_us = self.cast.next_deadline_us()
            assert due_us is not None
            self.now_us = max(self.now_us, due_us)
            self.cast.timeout()
            for packet in self.packets():
                if isinstance(packet, News) and packet.asks:
                    return packet

    def prove(self, *numbers: int) -> None:
        """These edges hear the next probe."""
        probe = self.probe()
        self.now_us += 2 * MS
        for number in numbers:
            self.say(number, edges.Heard(self.cast.stream, probe.serial))


@pytest.fixture
def group() -> Group:
    made = Group()
    for number in (1, 2, 3):
        made.child(number, "g")
    return made


def of(told: dict[int, list[object]], number: int) -> list[object]:
    return [one for one in told[number] if not isinstance(one, edges.Part | edges.Reached | edges.Beat)]


def test_edges_are_told_of_the_cast_if_they_can_hear() -> None:
    group = Group()
    group.attach(1, "e1", hears=True)
    group.attach(2, "e2")
    for number in (1, 2):
        group.say(number, edges.Go())
    told = group.told()
    assert of(told, 1) == [group.cast.own]
    assert of(told, 2) == []


def test_nothing_is_multicast_for_one_edge_alone() -> None:
    group = Group()
    group.child(1, "g")
    assert group.cast.next_deadline_us() is None
    group.child(2, "g", hears=False)
    assert group.cast.next_deadline_us() is None
    group.child(3, "g")
    assert group.cast.next_deadline_us() is not None


def test_what_several_want_that_hear_goes_out_once(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    told = group.told()
    assert [of(told, number) for number in (1, 2, 3)] == [
        [edges.OnCast(1, 1 * MS)], [edges.OnCast(1, 1 * MS)], [20],
    ]  # fmt: skip
    assert group.stream() == [edges.Part(VIEW), 20]
    group.put(30, "g")
    told = group.told()
    assert (of(told, 1), of(told, 3)) == ([], [30])
    assert group.stream() == [30]


def test_one_that_alone_hears_gets_its_own_copy(group: Group) -> None:
    group.prove(1)
    group.put(20, "g")
    assert of(group.told(), 1) == [20]
    assert group.stream() == []


def test_what_one_alone_wants_is_not_multicast(group: Group) -> None:
    group.log.base(view("h", 6), 6, 0)
    group.say(1, edges.Listen("h"))
    group.prove(1, 2)
    group.put(20, "g")
    group.told()
    group.stream()
    group.put(30, "h")
    assert of(group.told(), 1) == [edges.OffCast(3), 30]
    assert group.stream() == [edges.Parting("e1")]
    group.put(40, "g")
    assert of(group.told(), 1) == [edges.OnCast(3, 1 * MS)]
    assert group.stream() == [edges.Part(VIEW), 40]  # one of them may not know where the cast is


def test_what_is_for_one_edge_comes_between_two_pieces(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    group.told()
    group.log.base(view("h", 21), 21, 0)
    group.put(30, "g")
    group.say(2, edges.Listen("h"))
    told = of(group.told(), 2)
    assert [type(one) for one in told] == [edges.OffCast, edges.Base, edges.OnCast]
    assert group.stream() == [edges.Part(VIEW), 20, edges.Parting("e2"), edges.Part(VIEW), 30]


def test_a_blocked_edge_is_fed_over_its_connection(group: Group) -> None:
    group.prove(1, 2, 3)
    group.put(20, "g")
    group.told()
    group.server.backlog(1, limits.EDGE_OUTPUT_BYTES + 1)
    assert of(group.told(), 1) == [edges.OffCast(3)]
    group.put(30, "g")
    assert of(group.told(), 1) == []
    group.server.backlog(1, 0)
    assert of(group.told(), 1) == [30]
    group.put(40, "g")
    assert of(group.told(), 1) == [edges.OnCast(4, 1 * MS)]


def test_whoever_answers_no_probe_any_more_is_fed_over_its_connection(group: Group) -> None:
    group.prove(1, 2, 3)
    group.put(20, "g")
    group.told()
    for _ in range(8):
        group.prove(2, 3)
    group.server.heard(1, group.now_us)  # something else
    group.server.timeout(group.now_us)
    assert any(isinstance(one, edges.OffCast) for one in group.told()[1])
    group.put(30, "g")
    assert of(group.told(), 1) == [30]
    group.prove(1)
    group.put(40, "g")
    assert [type(one) for one in of(group.told(), 1)] == [edges.OnCast]


def test_answers_to_other_streams_or_old_probes_prove_nothing(group: Group) -> None:
    probe = group.probe()
    group.say(1, edges.Heard(group.cast.stream + 1, probe.serial))
    group.say(1, edges.Heard(group.cast.stream, probe.serial + 1))
    assert group.cast.able == frozenset()
    assert group.cast.counters["cast: stray answer"] == 2


def test_large_items_are_cut_into_pieces(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g", size=5_000)
    pieces = [packet for packet in group.packets() if isinstance(packet, Piece)]
    assert [piece.number for piece in pieces] == [1, 2, 3, 4]
    assert all(len(piece.data) <= limits.CAST_PACKET_BYTES for piece in pieces)


def test_news_tell_how_far_a_quiet_cast_has_come(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    group.packets()
    begun_us = group.now_us
    found: list[int] = []
    while group.now_us < begun_us + 20_000 * MS:
        due_us = group.cast.next_deadline_us()
        assert due_us is not None
        group.now_us = due_us
        group.cast.timeout()
        for packet in group.packets():
            assert isinstance(packet, News) and packet.next == 2
            found.append(group.now_us - begun_us)
    assert found[0] <= limits.CAST_NEWS_FIRST_US
    assert len(found) < 30


def test_the_coordinator_repairs_what_is_asked_for(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    (piece,) = group.packets()
    assert isinstance(piece, Piece)
    group.cast.receive(Request(group.cast.stream, 1 * MS, ((1, 1), (9, 3))))
    due_us = group.cast.next_deadline_us()
    assert due_us is not None
    group.now_us = due_us
    group.cast.timeout()
    assert Piece(piece.stream, 1, piece.data, is_repair=True) in group.packets()


def test_pieces_are_told_over_the_connection_as_long_as_they_are_kept(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    (piece,) = [packet for packet in group.packets() if isinstance(packet, Piece)]
    group.told()
    group.say(1, edges.Lack(((1, 1),)))
    assert of(group.told(), 1) == [edges.CastPiece(1, piece.data)]


@pytest.mark.parametrize("ranges", [((2, 1),), (), ((1, 1), (5, 1_000))])
def test_whoever_lacks_what_is_forgotten_begins_anew(
    group: Group, ranges: tuple[tuple[int, int], ...]
) -> None:
    group.prove(1, 2, 3)
    group.put(20, "g")
    group.told()
    group.say(1, edges.Lack(ranges))
    group.put(30, "g")
    assert of(group.told(), 1) == [edges.Anew()]
    held = edges.Held((VIEW, 0, 5, 0))
    group.say(1, edges.Listen("g", held))
    group.say(1, edges.Go(edges.Position(VIEW, 0, 10)))
    assert of(group.told(), 1) == [20, 30]
    group.prove(1)
    group.put(40, "g")
    assert of(group.told(), 1) == [40], "it is barred for a while"


def test_whoever_lacks_too_much_is_fed_over_its_connection(group: Group) -> None:
    group.prove(1, 2, 3)
    group.put(20, "g")
    group.told()
    for _ in range(limits.CAST_LACKS_MAX):
        group.say(1, edges.Lack(((1, 1),)))
        assert of(group.told(), 1) != [edges.Anew()]
    group.say(1, edges.Lack(((1, 1),)))
    assert of(group.told(), 1) == [edges.Anew()]


def test_where_the_feed_has_come_is_multicast_too(group: Group) -> None:
    group.prove(1, 2)
    group.put(20, "g")
    group.told()
    group.stream()
    group.log.reach(50)
    group.now_us += limits.EDGE_BEAT_US
    group.server.timeout(group.now_us)
    told = group.told()
    assert told[1] == told[2] == [edges.Beat()]
    assert told[3] == [edges.Reached(edges.Position(VIEW, 0, 50))]
    assert group.stream() == [edges.Reached(edges.Position(VIEW, 0, 50))]
