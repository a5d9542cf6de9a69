"""Who is left out of views, for how long, and who learns of it."""

import pytest

from antiphon import limits
from antiphon.core.membership.exclusions import Exclusions
from antiphon.core.membership.gathering import Gathering
from antiphon.wire.membership import Station, mask_bytes

ME, OTHER, THIRD = 0, 1, 2
LIFE, NEXT_LIFE = 101, 201
NOW_US = 5_000_000


def exclusions() -> Exclusions:
    return Exclusions(ME, 100)


def test_one_strike_leaves_nobody_out_and_the_second_does() -> None:
    found = exclusions()
    assert not found.strike(OTHER, LIFE, "first", NOW_US)
    assert not found.is_out(OTHER, LIFE, NOW_US)
    assert found.strike(OTHER, LIFE, "second", NOW_US + 1)
    assert found.is_out(OTHER, LIFE, NOW_US + 1)
    assert found.current(NOW_US + 1) == {OTHER: ("second", limits.EXCLUDED_US)}
    assert not found.is_out(OTHER, LIFE, NOW_US + 1 + limits.EXCLUDED_US)


def test_strikes_far_apart_are_unrelated() -> None:
    found = exclusions()
    found.strike(OTHER, LIFE, "first", NOW_US)
    assert not found.strike(OTHER, LIFE, "second", NOW_US + limits.STRIKES_WITHIN_US + 1)


def test_a_new_process_starts_with_a_clean_record() -> None:
    found = exclusions()
    found.exclude(OTHER, LIFE, "its state", NOW_US)
    assert found.is_out(OTHER, LIFE, NOW_US)
    assert not found.is_out(OTHER, NEXT_LIFE, NOW_US)
    assert not found.strike(OTHER, NEXT_LIFE, "first", NOW_US)


def test_the_time_doubles_up_to_a_limit_and_is_forgotten() -> None:
    found = exclusions()
    now_us = NOW_US
    times = []
    for _ in range(8):
        found.exclude(OTHER, LIFE, "again", now_us)
        times.append(found.current(now_us)[OTHER][1])
        now_us += times[-1]
    assert times[:3] == [limits.EXCLUDED_US, 2 * limits.EXCLUDED_US, 4 * limits.EXCLUDED_US]
    assert times[-2:] == [limits.EXCLUDED_MAX_US] * 2
    found.exclude(OTHER, LIFE, "after a long time", now_us + limits.STRIKES_WITHIN_US + 1)
    assert found.current(now_us + limits.STRIKES_WITHIN_US + 1)[OTHER][1] == limits.EXCLUDED_US


def test_others_adopt_it_and_do_not_pass_it_on_as_their_own() -> None:
    ours, theirs = exclusions(), Exclusions(THIRD, 102)
    ours.exclude(OTHER, LIFE, "its state", NOW_US)
    told = ours.told(NOW_US + 1_000)
    assert told == ((OTHER, LIFE, limits.EXCLUDED_US - 1_000),)
    assert theirs.adopt(told, NOW_US)
    assert theirs.is_out(OTHER, LIFE, NOW_US)
    assert theirs.told(NOW_US) == ()
    assert not theirs.adopt(told, NOW_US), "nothing new"
    accused = Exclusions(OTHER, LIFE)
    assert not accused.adopt(told, NOW_US), "the accused itself goes on working with whoever works with it"
    assert not accused.is_apart(THIRD, 102, NOW_US)


def test_a_strike_of_one_daemon_counts_as_the_first_for_all() -> None:
    ours, theirs = exclusions(), Exclusions(THIRD, 102)
    ours.strike(OTHER, LIFE, "first", NOW_US)
    told = ours.told(NOW_US)
    assert told == ((OTHER, LIFE, 0),)
    for _ in range(3):  # however often it is told
        assert not theirs.adopt(told, NOW_US + 1)
    assert not theirs.is_out(OTHER, LIFE, NOW_US + 1)
    assert theirs.told(NOW_US + 1) == ()
    assert theirs.strike(OTHER, LIFE, "second", NOW_US + 2)
    assert ours.told(NOW_US + limits.STRIKE_TOLD_US) == ()


def test_whoever_leaves_itself_out_works_with_nobody() -> None:
    found = exclusions()
    found.exclude(ME, 100, "all others were waited for", NOW_US)
    assert found.is_apart(OTHER, LIFE, NOW_US)
    assert not found.is_apart(OTHER, LIFE, NOW_US + limits.EXCLUDED_US)


@pytest.mark.parametrize("without", [frozenset[int](), frozenset({OTHER})])
def test_a_view_is_proposed_without_them(without: frozenset[int]) -> None:
    gathering = Gathering()
    for daemon in (ME, OTHER, THIRD):
        live = mask_bytes({ME, OTHER, THIRD} - {daemon})
        gathering.learn(Station(daemon, 100 + daemon, 1, 0, 0, live), 0)
    members, pairs = gathering.component(ME, without)
    assert members == {ME, OTHER, THIRD} - without
    assert not any(OTHER in pair for pair in pairs) or not without


def test_an_exclusion_is_news_and_the_time_that_it_still_lasts_is_none() -> None:
    gathering = Gathering()
    assert gathering.learn(Station(1, 101, 1, 0, 0, b""), 0)
    assert gathering.learn(Station(1, 101, 2, 0, 0, b"", ((2, 102, 9_000),)), 0)
    assert not gathering.learn(Station(1, 101, 3, 0, 0, b"", ((2, 102, 8_000),)), 0)
    assert gathering.learn(Station(1, 101, 4, 0, 0, b"", ((2, 103, 8_000),)), 0)
