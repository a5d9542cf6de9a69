"""The search for the largest packet that gets through a path."""

import pytest

from antiphon import limits
from antiphon.core.links.path_size import CONFIRM_US, RAISE_US, WAIT_MAX_US, PathSize, PathState

BASE, MOST = limits.PACKET_BASE_BYTES, limits.PACKET_MAX_BYTES
PATIENCE_US = 10_000


class Explorer:
    """A path of some width and the machine that finds it out."""

    def __init__(self, width: int, *, base: int = BASE, most: int = MOST) -> None:
        self.now_us = 1_000
        self.width = width
        self.is_cut = False
        self.allowed = MOST
        self.heard_us = 0
        self.probes: list[int] = []
        self.path = PathSize(base, most, self.now_us)
        self.path.begin(self.now_us)

    def search(self, for_us: int = CONFIRM_US // 2) -> int:
        """Let time pass; the size that is in use then."""
        until_us = self.now_us + for_us
        while self.path.due_us is not None and self.path.due_us <= until_us:
            self.now_us = max(self.now_us, self.path.due_us)
            size = self.path.probe(self.now_us, PATIENCE_US, self.allowed, self.heard_us)
            if not size:
                continue
            self.probes.append(size)
            if not self.is_cut:
                self.heard_us = self.now_us + 1
                if size <= self.width:
                    self.path.answered(size, self.now_us + 1)
        self.now_us = until_us
        return self.path.size_bytes


@pytest.mark.parametrize(
    "width", [1_200, 1_232, 1_372, 1_400, 1_472, 1_500, 4_000, 8_972, 20_000, 60_000, 65_507]
)
def test_the_size_found_gets_through_and_is_near_the_largest(width: int) -> None:
    explorer = Explorer(width)
    found = explorer.search()
    assert found <= width
    assert found in (MOST, BASE) or found >= width - max(64, width // 8)
    assert len(explorer.probes) <= 30
    assert explorer.path.state is PathState.SETTLED


@pytest.mark.parametrize(("width", "found"), [(1_452, 1_452), (1_472, 1_472), (8_972, 8_952), (65_507, MOST)])
def test_the_usual_networks_are_used_fully(width: int, found: int) -> None:
    assert Explorer(width).search() == found


@pytest.mark.parametrize("most", [512, 1_200, 1_400, 9_000])
def test_nothing_larger_than_the_ceiling_is_tried(most: int) -> None:
    explorer = Explorer(65_507, base=min(BASE, most), most=most)
    assert explorer.search() == most
    assert max(explorer.probes, default=0) <= most


def test_nothing_is_asked_before_it_matters() -> None:
    path = PathSize(BASE, MOST, 0)
    assert (path.is_unasked, path.due_us, path.size_bytes) == (True, None, BASE)
    path.begin(5)
    assert (path.is_unasked, path.due_us) == (False, 5)


def test_a_size_fails_after_three_probes() -> None:
    explorer = Explorer(1_472)
    explorer.search()
    assert explorer.probes.count(1_400) == explorer.probes.count(1_472) == 1
    assert explorer.probes.count(2_900) == limits.PACKET_PROBES_MAX


def test_one_lost_probe_costs_nothing() -> None:
    explorer = Explorer(65_507)
    answered = explorer.path.answered
    lost: list[int] = []

    def lose_first(size: int, now_us: int) -> None:
        if size in lost:
            answered(size, now_us)
        lost.append(size)

    explorer.path.answered = lose_first  # type: ignore[method-assign]
    assert explorer.search() == MOST


def test_an_answer_to_what_was_not_asked_counts_for_nothing() -> None:
    path = PathSize(BASE, MOST, 0)
    path.begin(0)
    for size in (0, BASE, 1_400, 60_000, 1 << 40):
        path.answered(size, 0)
    assert path.size_bytes == BASE
    assert path.probe(0, PATIENCE_US, MOST, 0) == 1_400
    path.answered(60_000, 1)
    assert path.size_bytes == BASE


def test_a_path_that_is_cut_says_nothing_about_sizes() -> None:
    explorer = Explorer(65_507)
    explorer.is_cut = True
    assert explorer.search() == BASE
    assert set(explorer.probes) == {1_400}
    assert len(explorer.probes) <= 2 + 30_000_000 // WAIT_MAX_US + 6
    explorer.is_cut = False
    assert explorer.search() == MOST


def test_no_probe_is_larger_than_the_window_allows() -> None:
    explorer = Explorer(65_507)
    explorer.allowed = 9_600
    assert explorer.search() == 8_952
    assert explorer.path.waits_for_window
    explorer.allowed = 40_000
    explorer.path.window_is(explorer.allowed, explorer.now_us)
    assert explorer.search() == 32_000
    assert max(explorer.probes) == 32_000


@pytest.mark.parametrize("narrower", [1_200, 1_300, 2_000, 9_000])
def test_a_black_hole_is_noticed_and_what_still_gets_through_is_found(narrower: int) -> None:
    explorer = Explorer(65_507)
    explorer.search()
    explorer.width = narrower
    explorer.path.suspect(explorer.now_us)
    explorer.probes.clear()
    explorer.search(for_us=3 * 50_000)
    assert explorer.probes[:3] == [MOST] * 3
    assert explorer.path.falls == 1
    found = explorer.search()
    assert narrower >= found >= max(BASE, narrower - max(64, narrower // 8))


def test_a_suspicion_that_is_wrong_changes_nothing() -> None:
    explorer = Explorer(65_507)
    explorer.search()
    explorer.probes.clear()
    for _ in range(5):
        explorer.path.suspect(explorer.now_us)
    assert explorer.search() == MOST
    assert explorer.probes == [MOST]
    assert explorer.path.falls == 0


def test_at_the_base_there_is_nothing_to_suspect() -> None:
    path = PathSize(BASE, BASE, 0)
    path.begin(0)
    path.suspect(0)
    assert (path.state, path.due_us) == (PathState.SETTLED, None)


def test_the_size_in_use_is_confirmed_now_and_then() -> None:
    explorer = Explorer(1_472)
    explorer.search()
    explorer.probes.clear()
    explorer.search(for_us=3 * CONFIRM_US)
    assert set(explorer.probes) == {1_472}
    assert 2 <= len(explorer.probes) <= 3
    explorer.width = 1_200
    assert explorer.search(for_us=2 * CONFIRM_US) == BASE


def test_also_while_the_search_waits_for_the_window() -> None:
    explorer = Explorer(65_507)
    explorer.allowed = 9_600
    explorer.search()
    explorer.width = 1_472
    assert explorer.search(for_us=2 * CONFIRM_US) == 1_472


def test_a_path_that_became_wider_is_found_after_a_long_time() -> None:
    explorer = Explorer(1_472)
    explorer.search()
    explorer.width = 65_507
    assert explorer.search(for_us=RAISE_US // 2) == 1_472
    assert explorer.search(for_us=RAISE_US) == MOST
