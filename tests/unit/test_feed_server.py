"""The attachment's side of the conversation with edges: who gets what, and what is told to be missing."""

from collections import defaultdict

import pytest
from tests.unit.test_feed_log import VIEW, put, view

from antiphon import limits
from antiphon.core.feeds.log import FeedLog
from antiphon.core.feeds.server import FeedServer
from antiphon.core.groups.delivery import Endings, Frames
from antiphon.types import Cause, TransitionalSignal, View, ViewId
from antiphon.wire import bundle, edges, frames
from antiphon.wire.edges import Held, Position


class Owner:
    """Whoever has the feed: here, what is wanted is carried at once."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.unwanted: list[str] = []
        self.counts: dict[str, int] = {}

    def want(self, group: str) -> None:
        self.wanted.append(group)

    def unwant(self, group: str) -> None:
        self.unwanted.append(group)

    def count(self, group: str, receivers: int) -> None:
        self.counts[group] = receivers


class Town:
    """A server with its edges."""

    def __init__(self) -> None:
        self.log = FeedLog(VIEW, retain_bytes=100_000, retain_us=30_000_000)
        self.owner = Owner()
        self.frames: Frames = []
        self.endings: Endings = []
        self.now_us = 0
        self.server = FeedServer("d0", self.log, self.owner, self.frames, self.endings, edges_max=3)

    def attach(
        self, number: int, name: str, incarnation: int = 1, is_standby: bool = False, hears: bool = False
    ) -> object:
        request = edges.Attach(frames.PROTOCOL_VERSION, name, incarnation, is_standby, hears=hears)
        return self.server.attach(number, request, "d0", (), self.now_us)

    def fed(self, number: int, *groups: str) -> None:
        """An edge that is attached and listens, from now on."""
        assert isinstance(self.attach(number, f"e{number}"), edges.Attached)
        for group in groups:
            self.say(number, edges.Listen(group))
        self.say(number, edges.Go())

    def say(self, number: int, value: edges.FromEdge) -> None:
        self.server.control(number, value, self.now_us)

    def put(self, place: int, *groups: str, size: int = 10) -> None:
        put(self.log, place, *groups, size=size, now_us=self.now_us)

    def told(self) -> dict[int, list[object]]:
        """What was written since the last time, by edge: places of bundles, and values."""
        self.server.pump(self.now_us)
        found: dict[int, list[object]] = defaultdict(list)
        for numbers, frame, _ in self.frames:
            what: object
            if frame[4] == frames.FrameKind.BUNDLE:
                what = bundle.parse(frame).lts
            else:
                what = frames.decode_to_edge(frame)
            for number in numbers:
                found[number].append(what)
        self.frames.clear()
        return found

    def got(self, number: int) -> list[object]:
        """What one edge got, but for signs of where it is."""
        return [one for one in self.told()[number] if not isinstance(one, edges.Part | edges.Reached)]


@pytest.fixture
def town() -> Town:
    made = Town()
    made.log.base(view("g", 5), 5, 0)
    return made


def test_a_new_edge_gets_the_view_and_then_what_comes(town: Town) -> None:
    town.put(10, "g")
    town.fed(1, "g")
    town.put(20, "g")
    base, *rest = town.got(1)
    assert base == edges.Base(view("g", 5), Position(VIEW, 0, 10))
    assert rest == [20]


def test_edges_that_keep_up_share_frames(town: Town) -> None:
    town.fed(1, "g")
    town.fed(2, "g")
    town.told()
    town.put(20, "g")
    town.server.pump(0)
    assert [numbers for numbers, _, header in town.frames if header is not None] == [(1, 2)]


def test_an_edge_gets_only_what_it_listens_to(town: Town) -> None:
    town.log.base(view("h", 6), 6, 0)
    town.fed(1, "g")
    town.fed(2, "h")
    town.told()
    town.put(20, "g")
    town.put(30, "h")
    town.put(40, "g", "h")
    told = town.told()
    assert [one for one in told[1] if isinstance(one, int)] == [20, 40]
    assert [one for one in told[2] if isinstance(one, int)] == [30, 40]


def test_a_group_that_is_not_there_yet_begins_with_its_base(town: Town) -> None:
    town.fed(1, "new")
    assert town.owner.wanted == ["new"]
    assert not town.got(1)
    town.log.base(view("new", 30), 30, 0)
    town.put(40, "new")
    (base, place) = town.got(1)
    assert isinstance(base, edges.Base)
    assert place == 40


def test_an_edge_goes_on_where_it_was(town: Town) -> None:
    for place in (10, 20, 30):
        town.put(place, "g")
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((VIEW, 0, 5, 0))))
    town.say(1, edges.Go(Position(VIEW, 0, 10)))
    assert town.got(1) == [20, 30]


def test_an_edge_that_was_ahead_gets_nothing_twice(town: Town) -> None:
    town.put(10, "g")
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((VIEW, 0, 5, 0))))
    town.say(1, edges.Go(Position(VIEW, 0, 25)))
    assert town.got(1) == []
    for place in (20, 25, 30):
        town.put(place, "g")
    assert town.got(1) == [30]
    town.put(40, "g")
    assert town.got(1) == [40]


def test_a_signal_that_was_missed_comes_first(town: Town) -> None:
    town.put(10, "g")
    town.log.signal(TransitionalSignal("g", view("g", 5).id), 10, 0)
    town.log.begin_branch(2_048)
    town.put(20, "g")
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((VIEW, 0, 5, 0))))
    town.say(1, edges.Go(Position(VIEW, 0, 15)))
    signal, place = town.got(1)
    assert isinstance(signal, frames.SignalFrame)
    assert place == 20


def test_what_is_missing_is_told_before_what_follows(town: Town) -> None:
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((77, 0, 5, 0))))
    town.say(1, edges.Go(Position(77, 0, 10)))
    gap, base = town.got(1)
    assert isinstance(gap, edges.Gap)
    assert (gap.group, gap.after) == ("g", Position(77, 0, 10))
    assert isinstance(base, edges.Base)
    town.put(20, "g")
    assert town.got(1) == [20]
    assert town.server.gaps == 1


def test_an_attachment_waits_for_the_view_that_an_edge_comes_from(town: Town) -> None:
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((2_048, 0, 2_500, 0))))
    town.say(1, edges.Go(Position(2_048, 0, 3_000)))
    town.now_us = limits.EDGE_RESUME_US // 2
    assert town.got(1) == []
    town.log.begin_part(2_048)
    town.put(3_500, "g")
    assert town.got(1) == [3_500]


def test_it_does_not_wait_for_ever(town: Town) -> None:
    town.attach(1, "e1")
    town.say(1, edges.Listen("g", Held((2_048, 0, 2_500, 0))))
    town.say(1, edges.Go(Position(2_048, 0, 3_000)))
    town.now_us = limits.EDGE_RESUME_US
    gap, base = town.got(1)
    assert isinstance(gap, edges.Gap)
    assert isinstance(base, edges.Base)


def test_an_edge_that_does_not_read_waits_in_the_log_and_keeps_nobody_waiting(town: Town) -> None:
    town.fed(1, "g")
    town.fed(2, "g")
    town.told()
    band = town.server.backlog(1, limits.EDGE_OUTPUT_BYTES + 1)
    assert band.low_bytes == limits.EDGE_OUTPUT_BYTES // 4
    for place in (20, 30):
        town.put(place, "g")
    told = town.told()
    assert [one for one in told[2] if isinstance(one, int)] == [20, 30]
    assert not told[1]
    town.server.backlog(1, 0)
    town.put(40, "g")
    assert town.got(1) == [20, 30, 40]
    assert town.server.gaps == 0


def test_an_edge_that_falls_too_far_behind_is_told(town: Town) -> None:
    town.fed(1, "g")
    town.told()
    town.server.backlog(1, limits.EDGE_OUTPUT_BYTES + 1)
    for place in range(20, 400):
        town.put(place, "g", size=1_000)
    town.told()
    town.server.backlog(1, 0)
    got = town.got(1)
    gap = next(one for one in got if isinstance(one, edges.Gap))
    assert gap.after == Position(VIEW, 0, 5, "g") or gap.after.place < 20
    assert isinstance(got[-1], edges.Base)
    assert not any(isinstance(one, int) for one in got), "nothing comes before the gap is told"
    town.put(500, "g")
    assert town.got(1) == [500]


def test_an_edge_that_is_slow_is_fed_on_when_the_feed_has_come_back_to_a_view(town: Town) -> None:
    town.fed(1, "g")
    town.told()
    town.server.backlog(1, limits.EDGE_OUTPUT_BYTES + 1)
    town.put(20, "g")
    town.log.begin_part(2_048)
    town.put(3_000, "g")
    town.log.gap("g", 3_000, 0, "forgotten")
    town.log.begin_part(VIEW)
    town.log.base(view("g", 30), 30, 0)
    town.put(40, "g")
    town.told()
    town.server.backlog(1, 0)
    *before, gap, base, last = town.got(1)
    assert (before, last) == ([20, 3_000], 40)
    assert isinstance(gap, edges.Gap)
    assert isinstance(base, edges.Base)


def test_a_group_stays_for_a_while_after_the_last_edge(town: Town) -> None:
    town.fed(1, "g")
    town.server.lost(1, town.now_us)
    town.server.timeout(town.now_us)
    assert not town.owner.unwanted
    town.now_us = limits.FEED_RETAIN_US
    town.server.timeout(town.now_us)
    assert town.owner.unwanted == ["g"]


def test_an_edge_that_comes_back_in_time_keeps_the_group(town: Town) -> None:
    town.fed(1, "g")
    town.server.lost(1, town.now_us)
    town.fed(2, "g")
    town.now_us = limits.FEED_RETAIN_US
    town.server.heard(2, town.now_us)
    town.server.timeout(town.now_us)
    assert not town.owner.unwanted
    assert town.owner.wanted == ["g"]


def test_receivers_are_added_up(town: Town) -> None:
    town.fed(1, "g")
    town.fed(2, "g")
    town.say(1, edges.Receivers({"g": 3}))
    town.say(2, edges.Receivers({"g": 4}))
    assert town.owner.counts["g"] == 7
    town.server.lost(1, 0)
    assert town.owner.counts["g"] == 4


def test_a_newer_connection_of_an_edge_takes_over(town: Town) -> None:
    town.fed(1, "g")
    assert isinstance(town.attach(2, "e1"), edges.Attached)
    assert [number for number, _ in town.endings] == [1]
    assert list(town.server.edges) == [2]


def test_two_edges_of_one_name_are_told_apart(town: Town) -> None:
    town.fed(1, "g")
    refused = town.attach(2, "e1", incarnation=9)
    assert isinstance(refused, frames.Refuse)
    assert refused.code == "name-taken"


def test_there_are_no_more_edges_than_may_be(town: Town) -> None:
    for number in (1, 2, 3):
        town.fed(number, "g")
    refused = town.attach(4, "e4")
    assert isinstance(refused, frames.Refuse)
    assert refused.code == "full"


def test_who_says_nothing_is_given_up(town: Town) -> None:
    town.fed(1, "g")
    town.now_us = 3 * limits.EDGE_BEAT_US
    town.server.timeout(town.now_us)
    assert [number for number, _ in town.endings] == [1]
    assert not town.server.edges


def test_a_daemon_that_stood_still_itself_takes_no_edge_for_silent(town: Town) -> None:
    town.fed(1, "g")
    town.server.excuse_pause(town.now_us)
    town.now_us += 10 * limits.EDGE_BEAT_US
    town.server.excuse_pause(town.now_us)
    assert not town.server.is_silent(1, town.now_us)
    for _ in range(3):
        town.now_us += limits.EDGE_BEAT_US
        town.server.excuse_pause(town.now_us)
    assert town.server.is_silent(1, town.now_us)


def test_a_beat_tells_how_far_the_feed_has_come(town: Town) -> None:
    town.fed(1, "g")
    town.told()
    town.log.reach(400)
    town.now_us = limits.EDGE_BEAT_US
    town.server.timeout(town.now_us)
    assert edges.Reached(Position(VIEW, 0, 400)) in town.told()[1]


def test_a_name_that_no_group_has_is_refused(town: Town) -> None:
    town.fed(1, "g")
    town.told()
    town.say(1, edges.Listen("no such name"))
    (problem,) = town.told()[1]
    assert isinstance(problem, frames.Problem)


def test_a_view_made_elsewhere_is_told_with_its_place(town: Town) -> None:
    town.fed(1, "g")
    town.told()
    other = View("g", ViewId(7, 0, 3, 1), (), (), Cause.MERGE, ())
    town.log.view(other, 0, 50)
    (base,) = town.got(1)
    assert base == edges.Base(other, Position(VIEW, 0, 50, "g"))


def test_a_group_that_is_asked_for_while_something_is_under_way_begins_behind_that(town: Town) -> None:
    town.log.base(view("h", 6), 6, 0)
    town.fed(1, "g")
    town.told()
    town.put(20, "g")
    town.say(1, edges.Listen("h"))
    place, base = town.got(1)
    assert place == 20
    assert isinstance(base, edges.Base)
    assert base.view.group == "h"
