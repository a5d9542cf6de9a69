"""The memory of a feed: what is kept, and where somebody who comes back goes on."""

import pytest

from antiphon import limits
from antiphon.core.feeds.log import FeedLog, Kind, Lost
from antiphon.service import Service
from antiphon.types import Cause, TransitionalSignal, View, ViewId
from antiphon.wire import bundle
from antiphon.wire.edges import Position

VIEW = 1_024


def view(group: str, lts: int, epoch: int = VIEW) -> View:
    return View(group, ViewId(epoch, 0, lts, 0), ("#ann#d1",), (), Cause.JOIN, ("#ann#d1",))


def put(log: FeedLog, place: int, *groups: str, size: int = 10, now_us: int = 0) -> None:
    """A bundle for these groups."""
    draft = bundle.draft(
        bundle.names_area("#ann#d1", groups), len(groups), Service.AGREED, bytes(size), flags=0
    )
    data = bundle.at_place(draft.data, place)
    log.bundle(groups, data, bundle.parse(data), now_us)


def places(log: FeedLog, serial: int) -> list[int]:
    return [item.point[1][0] for item in log.after(serial)]


@pytest.fixture
def log() -> FeedLog:
    """A log with a group that is carried from place 5 on."""
    made = FeedLog(VIEW, retain_bytes=10_000, retain_us=1_000)
    made.base(view("g", 5), 5, 0)
    return made


def test_who_comes_back_gets_what_follows(log: FeedLog) -> None:
    for place in (10, 20, 30):
        put(log, place, "g")
    found = log.find(Position(VIEW, 0, 20))
    assert isinstance(found, tuple)
    assert places(log, log.serial_after(found)) == [30]
    assert log.lost_since("g", found) is None


def test_a_position_between_two_items_counts(log: FeedLog) -> None:
    put(log, 10, "g")
    put(log, 20, "g")
    found = log.find(Position(VIEW, 0, 15, "other"))
    assert isinstance(found, tuple)
    assert places(log, log.serial_after(found)) == [20]


def test_views_of_several_groups_at_one_place_stand_in_the_order_of_their_names(log: FeedLog) -> None:
    log.base(view("h", 6), 6, 0)
    log.view(view("g", 20), 0, 20)
    log.view(view("h", 20), 0, 20)
    found = log.find(Position(VIEW, 0, 20, "g"))
    assert isinstance(found, tuple)
    assert [item.groups for item in log.after(log.serial_after(found))] == [("h",)]


def test_before_the_base_of_a_group_nothing_of_it_was_kept(log: FeedLog) -> None:
    found = log.find(Position(VIEW, 0, 4))
    assert isinstance(found, tuple)
    assert log.lost_since("g", found) is Lost.NEW


def test_what_is_too_old_is_forgotten_and_missed_only_by_its_groups(log: FeedLog) -> None:
    log.base(view("h", 6), 6, 0)
    put(log, 10, "g")
    put(log, 20, "h", now_us=900)
    log.drop_old(1_500)
    found = log.find(Position(VIEW, 0, 6, "h"))
    assert isinstance(found, tuple)
    assert log.lost_since("g", found) is Lost.OLD
    assert log.lost_since("h", found) is None
    assert places(log, log.first) == [20]


def test_who_has_what_was_forgotten_misses_nothing(log: FeedLog) -> None:
    put(log, 10, "g")
    log.drop_old(2_000)
    found = log.find(Position(VIEW, 0, 10))
    assert isinstance(found, tuple)
    assert log.lost_since("g", found) is None


def test_the_log_keeps_no_more_bytes_than_it_may(log: FeedLog) -> None:
    for place in range(10, 200):
        put(log, place, "g", size=1_000)
        assert log.size_bytes <= 10_000
    assert log.end - log.first < 10


def test_a_feed_goes_on_through_daemon_views(log: FeedLog) -> None:
    put(log, 10, "g")
    log.begin_branch(2_048)
    put(log, 20, "g")
    log.begin_part(2_048)
    put(log, 3_000, "g")
    for position in (Position(VIEW, 0, 10), Position(VIEW, 0, 12)):
        found = log.find(position)
        assert isinstance(found, tuple)
        assert places(log, log.serial_after(found)) == [20, 3_000]
    found = log.find(Position(VIEW, 2_048, 20))
    assert isinstance(found, tuple)
    assert places(log, log.serial_after(found)) == [3_000]


def test_who_went_on_with_other_daemons_cannot_go_on_here(log: FeedLog) -> None:
    log.begin_part(2_048)
    assert log.find(Position(VIEW, 4_096, 20)) is Lost.BRANCH
    assert log.find(Position(77, 0, 20)) is Lost.VIEW


def test_who_is_ahead_may_have_to_wait(log: FeedLog) -> None:
    """The view that follows may not have been installed here yet."""
    assert log.find(Position(2_048, 0, 20)) is None
    assert log.find(Position(VIEW, 2_048, 20)) is None


def test_a_signal_stands_behind_what_came_before_it(log: FeedLog) -> None:
    put(log, 10, "g")
    log.signal(TransitionalSignal("g", view("g", 5).id), 10, 0)
    log.view(view("g", 20), 0, 20)
    kinds = [item.kind for item in log.after(log.first)]
    assert kinds == [Kind.BASE, Kind.BUNDLE, Kind.SIGNAL, Kind.VIEW]
    points = [item.point for item in log.after(log.first)]
    assert points == sorted(set(points))


def test_items_keep_their_positions_when_the_feed_comes_back_to_a_view(log: FeedLog) -> None:
    """After a gap an edge may be fed by a daemon that is in an earlier view still."""
    put(log, 10, "g")
    log.begin_part(2_048)
    put(log, 3_000, "g")
    log.begin_part(VIEW)
    put(log, 20, "g")
    positions = [log.position(item) for item in log.after(log.first + 1)]
    assert positions == [Position(VIEW, 0, 10), Position(2_048, 0, 3_000), Position(VIEW, 0, 20)]


def test_the_parts_that_are_remembered_are_bounded(log: FeedLog) -> None:
    for number in range(2, 2 * limits.FEED_PARTS_MAX):
        log.begin_part(number * 1_024)
    assert log.find(Position(VIEW, 0, 5)) is Lost.VIEW
    assert isinstance(log.find(log.reached), tuple)
