"""Who announced its stop, and for whom a daemon that leaves stays."""

import pytest
from msgspec import structs

from antiphon import limits
from antiphon.config import DaemonConfig, SiteConfig, build
from antiphon.core.membership.gathering import Gathering
from antiphon.core.membership.leaving import Leaving
from antiphon.core.membership.proposals import is_better
from antiphon.core.membership.rounds import Reason, Rounds
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Station, mask_bytes

ME, OTHER, THIRD, FOURTH = range(4)
NOW_US = 1_000_000
VIEW = DaemonView(7, (0, 1, 2, 3), (100, 101, 102, 103), ((0, 1), (0, 2), (1, 2), (2, 3)))


def word(daemon: int, *, leaving: bool = True, incarnation: int | None = None, serial: int = 1) -> Station:
    return Station(daemon, incarnation or 100 + daemon, serial, 7, 4, b"", leaving=leaving)


def knowing(*leavers: int) -> Leaving:
    leaving = Leaving(ME)
    for leaver in leavers:
        assert leaving.adopt(word(leaver), NOW_US)
    return leaving


def test_a_word_is_news_once() -> None:
    leaving = knowing(OTHER)
    assert not leaving.adopt(word(OTHER), NOW_US)
    assert leaving.of(VIEW, NOW_US) == {OTHER}
    assert leaving.among({ME: word(ME), OTHER: word(OTHER), THIRD: word(THIRD)}, NOW_US) == {OTHER}


def test_it_counts_for_one_process() -> None:
    leaving = knowing(OTHER)
    assert leaving.is_leaving(OTHER, 101, NOW_US)
    assert not leaving.is_leaving(OTHER, 555, NOW_US)
    assert leaving.of(structs.replace(VIEW, incarnations=(100, 555, 102, 103)), NOW_US) == set()


def test_it_is_taken_back_by_a_newer_one() -> None:
    leaving = knowing(OTHER)
    assert not leaving.adopt(word(OTHER, leaving=False), NOW_US)
    assert not leaving.is_leaving(OTHER, 101, NOW_US)


def test_it_lapses() -> None:
    leaving = knowing(OTHER)
    late_us = NOW_US + limits.LEAVING_LASTS_US
    assert leaving.is_leaving(OTHER, 101, late_us - 1)
    assert not leaving.is_leaving(OTHER, 101, late_us)
    assert leaving.has_left(OTHER, 101), "the status tells of it until there is another process"
    assert not leaving.has_left(OTHER, 555)


def test_it_stays_for_neighbours_that_work_in_the_view() -> None:
    leaving = knowing()
    leaving.announce()
    assert leaving.waits_for(VIEW, NOW_US) == {OTHER, THIRD}
    leaving.went_on(OTHER)
    assert leaving.waits_for(VIEW, NOW_US) == {THIRD}
    leaving.went_on(THIRD)
    assert leaving.waits_for(VIEW, NOW_US) == set()
    leaving.announce()
    assert leaving.waits_for(VIEW, NOW_US) == {OTHER, THIRD}, "of another view"


@pytest.mark.parametrize(
    ("leavers", "waited_for"),
    [((OTHER,), {THIRD}), ((OTHER, THIRD), {OTHER, THIRD}), ((OTHER, THIRD, FOURTH), set())],
    ids=["one that stays", "leavers between it and the rest", "all leave"],
)
def test_it_does_not_stay_for_those_who_leave_too(leavers: tuple[int, ...], waited_for: set[int]) -> None:
    assert knowing(*leavers).waits_for(VIEW, NOW_US) == waited_for


def test_a_view_is_whole_without_those_who_leave() -> None:
    gathering = Gathering()
    for daemon in VIEW.members:
        live = mask_bytes(set(VIEW.members) - {daemon})
        gathering.learn(Station(daemon, 100 + daemon, 1, 7, 4, live, (), daemon == OTHER), 0)
    members, pairs = gathering.component(ME, frozenset({OTHER}))
    assert members == {ME, THIRD, FOURTH} and not any(OTHER in pair for pair in pairs)
    assert not gathering.is_whole(members)
    assert gathering.is_whole(members, frozenset({OTHER}))
    assert not gathering.is_whole(members - {FOURTH}, frozenset({OTHER})), "one that stays is missing"


def test_that_a_daemon_leaves_is_news() -> None:
    gathering = Gathering()
    gathering.learn(word(OTHER, leaving=False), 0)
    assert not gathering.learn(word(OTHER, leaving=False, serial=2), 0)
    assert gathering.learn(word(OTHER, serial=3), 0)


def test_a_view_without_a_member_that_leaves_is_better() -> None:
    daemons = tuple(DaemonConfig(f"d{number}", f"127.0.0.1:{4000 + number}") for number in range(4))
    config = build((SiteConfig("here", daemons),), ())
    rest = frozenset({ME, THIRD, FOURTH})
    pairs = {(0, 2), (2, 3)}
    assert not is_better(config, VIEW, rest, pairs)
    assert is_better(config, VIEW, rest, pairs, frozenset({OTHER}))
    without = DaemonView(8, (0, 2, 3), (100, 102, 103), ((0, 2), (2, 3)))
    assert not is_better(config, without, rest, pairs, frozenset({OTHER})), "it is no member any more"


def test_whoever_was_only_asked_to_gather_learns_why() -> None:
    rounds = Rounds()
    rounds.begin(Reason.ASKED, 2, "d2 gathers", 0)
    rounds.add(Reason.LEAVING, 1, "d1 announced its stop")
    record = rounds.current
    assert record is not None
    assert (record.reason, record.peer, record.detail) == (Reason.LEAVING, 1, "d1 announced its stop")
    rounds.add(Reason.LEAVING, 1, "d1 announced its stop")
    rounds.add(Reason.LEAVING, 3, "d3 announced its stop")
    assert record.detail == "d1 announced its stop; d3 announced its stop"


def test_without_a_round_there_is_nothing_to_add_to() -> None:
    rounds = Rounds()
    rounds.add(Reason.LEAVING, 1, "d1 announced its stop")
    assert rounds.current is None and not rounds.past
