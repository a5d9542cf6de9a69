"""Stations of one gathering, and the view that follows from them."""

import pytest

from antiphon.core.membership.gathering import Gathering
from antiphon.wire.membership import Station, mask_bytes


def gathered(live: dict[int, set[int]], views: dict[int, tuple[int, int]] | None = None) -> Gathering:
    """What daemons say: whom each works with, and (view, how many members) of those that have one."""
    gathering = Gathering()
    for daemon, others in live.items():
        view, company = (views or {}).get(daemon, (0, 0))
        assert gathering.learn(Station(daemon, 100 + daemon, 1, view, company, mask_bytes(others)), 0)
    return gathering


@pytest.mark.parametrize(
    ("live", "members", "pairs"),
    [
        pytest.param({0: set()}, {0}, set(), id="alone"),
        pytest.param({0: {1}, 1: {0}}, {0, 1}, {(0, 1)}, id="two"),
        pytest.param({0: {1}, 1: set()}, {0}, set(), id="one does not vouch"),
        pytest.param({0: {1}}, {0}, set(), id="one was not heard of"),
        pytest.param({0: {1}, 1: {0, 2}, 2: {1}}, {0, 1, 2}, {(0, 1), (1, 2)}, id="through a third"),
        pytest.param(
            {0: {1, 2}, 1: {0, 2}, 2: {1}}, {0, 1, 2}, {(0, 1), (1, 2)}, id="one pair works in one direction"
        ),
        pytest.param({0: {1}, 1: {0}, 2: {3}, 3: {2}}, {0, 1}, {(0, 1)}, id="two parts"),
        pytest.param({0: {0, 1}, 1: {0, 1}}, {0, 1}, {(0, 1)}, id="nobody is its own neighbour"),
        pytest.param({0: {1, 900}, 1: {0, 900}}, {0, 1}, {(0, 1)}, id="bits of nobody"),
    ],
)
def test_the_component(live: dict[int, set[int]], members: set[int], pairs: set[tuple[int, int]]) -> None:
    assert gathered(live).component(0) == (frozenset(members), pairs)


def test_everybody_in_a_component_finds_the_same() -> None:
    gathering = gathered({0: {4}, 4: {0, 9}, 9: {4, 2}, 2: {9}})
    assert len({gathering.component(me)[0] for me in (0, 2, 4, 9)}) == 1


def test_the_newest_word_of_a_daemon_counts() -> None:
    gathering = gathered({1: {0}})
    assert not gathering.learn(Station(1, 101, 1, 0, 0, mask_bytes({5})), 10), "the same serial"
    assert not gathering.learn(Station(1, 101, 0, 0, 0, mask_bytes({5})), 10), "an older one"
    assert gathering.learn(Station(1, 101, 2, 0, 0, mask_bytes({5})), 10)
    assert gathering.stations[1].live == mask_bytes({5})


@pytest.mark.parametrize(
    ("later", "is_news"),
    [
        (Station(1, 101, 2, 0, 0, b"\1"), False),
        (Station(1, 101, 2, 0, 0, b"\3"), True),
        (Station(1, 101, 2, 7, 0, b"\1"), True),
        (Station(1, 101, 2, 0, 3, b"\1"), True),
        (Station(1, 102, 2, 0, 0, b"\1"), True),
    ],
)
def test_only_what_is_new_is_news(later: Station, is_news: bool) -> None:
    gathering = Gathering()
    assert gathering.learn(Station(1, 101, 1, 0, 0, b"\1"), 0)
    assert gathering.learn(later, 0) is is_news


def test_stations_that_are_not_heard_of_any_more_are_forgotten() -> None:
    gathering = Gathering()
    gathering.learn(Station(1, 101, 1, 0, 0, b""), 1_000)
    gathering.learn(Station(2, 102, 1, 0, 0, b""), 2_000)
    assert not gathering.expire(1_000)
    assert gathering.expire(1_001)
    assert set(gathering.stations) == {2}
    gathering.learn(Station(2, 102, 2, 0, 0, b""), 3_000)
    assert not gathering.expire(2_500), "the same word, said again"
    gathering.clear()
    assert gathering.stations == {}
    assert not gathering.expire(9_000)


@pytest.mark.parametrize(
    ("views", "is_whole"),
    [
        pytest.param({}, True, id="nobody has a view"),
        pytest.param({0: (7, 2), 1: (7, 2)}, True, id="all who have it"),
        pytest.param({0: (7, 3), 1: (7, 3)}, False, id="a third one has it, too"),
        pytest.param({0: (7, 2), 1: (7, 2), 2: (8, 1)}, True, id="two views"),
        pytest.param({0: (7, 1), 1: (8, 2), 2: (8, 3)}, False, id="one of two is not complete"),
        pytest.param({0: (7, 2)}, False, id="the other one has not said so yet"),
    ],
)
def test_working_views_come_as_a_whole(views: dict[int, tuple[int, int]], is_whole: bool) -> None:
    gathering = gathered({0: {1, 2}, 1: {0, 2}, 2: {0, 1}}, views)
    assert gathering.is_whole(frozenset((0, 1, 2))) is is_whole


@pytest.mark.parametrize(
    ("daemons", "expected"), [(set(), ""), ({0}, "01"), ({7, 8}, "8001"), ({511}, "00" * 63 + "80")]
)
def test_masks(daemons: set[int], expected: str) -> None:
    assert mask_bytes(daemons).hex() == expected


def test_two_daemons_that_may_not_talk_are_no_pair_whatever_they_say() -> None:
    gathering = Gathering(lambda one, other: {one, other} != {0, 2})
    for daemon in range(3):
        gathering.learn(Station(daemon, 100 + daemon, 1, 0, 0, b"\7"), 0)
    assert gathering.component(0) == (frozenset((0, 1, 2)), {(0, 1), (1, 2)})
