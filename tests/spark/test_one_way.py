"""One-way latency between machines whose system clocks differ, by the time on which their daemons agree."""

from pathlib import Path
from typing import Any

import pytest
from stories import MS, Story

from antiphon.spark.report.figures import OneWay, OneWays
from antiphon.spark.report.one_way import one_ways_of
from antiphon.spark.traces import read_traces
from antiphon.trace import Event

REFERENCE = {"state": "reference", "peer": "d0"}


def story_of(run: str) -> Story:
    """A live run of two daemons that have just started."""
    story = Story(run, live=True)
    for daemon in ("d0", "d1"):
        story.note(0, Event.RECOVER, daemon, incarnation=9)
    return story


def say(story: Story, daemon: str, shown_ms: float, time_ms: float, error_ms: float, **basis: Any) -> None:
    """A sample: what the common time is when a daemon's system clock shows something."""
    said = {"time_us": int(time_ms * MS), "error_us": int(error_ms * MS), "since_us": 7}
    story.note(shown_ms, Event.CLOCK, daemon, clock=said, **(REFERENCE | basis))


def trip(story: Story, left_ms: float, came_ms: float, number: int) -> None:
    """A bundle, as both system clocks show it."""
    times_ms = (left_ms - 1, left_ms, came_ms, came_ms + 1, came_ms + 2)
    story.bundle(times_ms, first=number, messages=1, service="agreed")


def behind() -> Story:
    """The clock of d0 is right, that of d1 is 50 ms behind; one bundle comes before d1 knows the time, one
    is sent after d0 has said it for the last time."""
    story = story_of("behind")
    say(story, "d0", 80, 80, 0.1)
    trip(story, 91, 45, 1)
    say(story, "d1", 50, 100, 1)
    trip(story, 201, 161, 2)
    say(story, "d1", 1_050, 1_100, 2, peer="d1")
    say(story, "d0", 1_080, 1_080, 0.3)
    trip(story, 1_201, 1_161, 3)
    return story


def stepped() -> Story:
    """The clock of d1 is 50 ms behind, and is set forward by 20 ms while a bundle is on its way."""
    story = story_of("stepped")
    say(story, "d0", 80, 80, 0)
    say(story, "d1", 50, 100, 0)
    trip(story, 201, 161, 1)
    say(story, "d1", 270, 300, 0)
    say(story, "d0", 300, 300, 0)
    return story


def strangers() -> Story:
    """Each daemon has an internal time of its own."""
    story = story_of("strangers")
    for shown_ms in (5, 100):
        say(story, "d0", shown_ms, shown_ms, 1, state="internal", peer="d0")
        say(story, "d1", shown_ms, shown_ms, 1, state="internal", peer="d1")
        if shown_ms < 100:
            trip(story, 11, 12, 1)
    return story


def changed() -> Story:
    """The time of d1 changes from an internal to that of a reference, and d1 is started again."""
    story = story_of("changed")
    say(story, "d0", 1, 1, 0)
    say(story, "d1", 1, 1, 0, state="internal", peer="d1")
    trip(story, 11, 12, 1)
    say(story, "d1", 20, 20, 0)
    story.note(30, Event.RECOVER, "d1", incarnation=10)
    trip(story, 41, 42, 2)
    say(story, "d1", 50, 50, 0)
    say(story, "d0", 60, 60, 0)
    return story


def internal() -> Story:
    """Both daemons follow the internal time of one, which is far from what either system clock shows."""
    story = story_of("internal")
    for shown_ms in (5, 100):
        say(story, "d0", shown_ms, shown_ms + 5_000, 0, state="internal", peer="d0")
        say(story, "d1", shown_ms, shown_ms + 4_997, 2, state="internal", peer="d0")
        if shown_ms < 100:
            trip(story, 11, 24, 1)
    return story


def wrong() -> Story:
    """The clock of d1 is 50 ms behind, and says that it is right."""
    story = story_of("wrong")
    say(story, "d0", 1, 1, 1)
    say(story, "d1", 1, 1, 1)
    trip(story, 91, 51, 1)
    say(story, "d0", 100, 100, 1)
    say(story, "d1", 100, 100, 1)
    return story


@pytest.fixture(scope="module")
def found(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> OneWays:
    folder = tmp_path_factory.mktemp("one-way")
    for story in (behind(), stepped(), strangers(), changed(), internal(), wrong()):
        story.trace.write(Path(folder))
    events = read_traces(spark, folder)
    places = events.where("event = 'recover'").selectExpr(
        "run", "daemon", "concat(run, ' ', daemon) as place"
    )
    return one_ways_of(events, places.distinct())


def pair(found: OneWays, run: str) -> OneWay:
    (one,) = (one for one in found.pairs if one.origin == f"{run} d0")
    assert one.target == f"{run} d1"
    return one


@pytest.mark.timeout(300)
def test_latency_is_by_the_common_time_and_has_both_errors(found: OneWays) -> None:
    """10 ms, with 0.3 ms at d0 and 2 ms at d1, and the drift of 121 and 111 ms up to the nearer samples."""
    one = pair(found, "behind")
    assert (one.bundles, one.bases, one.p50_us) == (1, ("reference",), 10 * MS)
    assert one.p50_error_us == one.p99_error_us == one.error_max_us == 2_300 + 25 + 23


def test_a_clock_that_was_set_on_the_way_makes_the_error_greater(found: OneWays) -> None:
    """It came at 211 ms if the clock was set later, at 191 ms if it was set before."""
    one = pair(found, "stepped")
    assert one.p50_us - one.p50_error_us <= 0
    assert one.p50_us + one.p50_error_us >= 10 * MS
    assert 20 * MS < one.error_max_us < 21 * MS


def test_internal_time_will_do_if_it_is_the_same(found: OneWays) -> None:
    one = pair(found, "internal")
    assert (one.bases, one.p50_us) == (("internal",), 10 * MS)
    assert 2 * MS < one.error_max_us < 2.1 * MS


def test_what_has_no_common_time_has_no_latency(found: OneWays) -> None:
    assert {one.origin for one in found.pairs} == {"behind d0", "stepped d0", "internal d0", "wrong d0"}
    assert (found.known, found.unknown) == (4, 5)


def test_what_comes_too_early_is_counted(found: OneWays) -> None:
    assert found.impossible == 1
    assert pair(found, "wrong").p50_us == 0
