"""How much a daemon may have under way: paths of a given rate and time, and what is measured of them."""

from collections import deque

import pytest

from antiphon import limits
from antiphon.core.allowance import Allowance

CEILING_BYTES = 16 * 1024 * 1024
BUNDLE_BYTES = 10_000
STEP_US = 1_000


class Paths:
    """What is ordered leaves at a rate, and is stable so long after it has left."""

    def __init__(
        self, rate: int, time_us: int, *, ceiling_bytes: int = CEILING_BYTES, slack_us: int = 0
    ) -> None:
        self.now_us = 5_000_000
        self.allowance = Allowance(ceiling_bytes, slack_us, is_alone=False, now_us=self.now_us)
        self.rate, self.time_us = rate, time_us
        self.ordered_bytes = self.stable_bytes = 0
        self.most_bytes = 0
        self._free_us = 0.0
        self._flying: deque[tuple[float, float, int]] = deque()  # stable when, ordered when, bytes
        self.times_us: list[float] = []

    @property
    def under_way_bytes(self) -> int:
        return self.ordered_bytes - self.stable_bytes

    @property
    def held_bytes(self) -> int:
        """What the paths hold without a queue."""
        return self.rate * self.time_us // 1_000_000

    def order(self, size_bytes: int) -> None:
        self._free_us = max(self._free_us, self.now_us) + size_bytes * 1e6 / self.rate
        self._flying.append((self._free_us + self.time_us, self.now_us, size_bytes))
        self.ordered_bytes += size_bytes

    def run(self, for_us: int, *, floods: bool = True, bytes_per_s: int = 0, is_paused: bool = False) -> None:
        """Time passes; a session floods, or sends at a rate, or nothing at all."""
        end_us = self.now_us + for_us
        while self.now_us < end_us:
            self.now_us += STEP_US
            while not is_paused and self._flying and self._flying[0][0] <= self.now_us:
                _, ordered_us, size_bytes = self._flying.popleft()
                self.stable_bytes += size_bytes
                self.times_us.append(self.now_us - ordered_us)
            self._look()
            if bytes_per_s:
                self.order(bytes_per_s * STEP_US // 1_000_000)
            while floods and not bytes_per_s and self.under_way_bytes < self.allowance.bytes:
                self.order(BUNDLE_BYTES)
            self.most_bytes = max(self.most_bytes, self.under_way_bytes)
            self._look()

    def _look(self) -> None:
        is_used = self.under_way_bytes >= self.allowance.used_from_bytes
        self.allowance.sample(
            self.ordered_bytes,
            self.stable_bytes,
            self.now_us,
            is_dry=is_used and self._free_us <= self.now_us,
        )


def flooded(rate: int = 20_000_000, time_us: int = 80_000, **options: int) -> Paths:
    """Paths after four seconds of a flood."""
    paths = Paths(rate, time_us, **options)
    paths.run(4_000_000)
    return paths


@pytest.mark.parametrize("rate", [3_000_000, 20_000_000, 60_000_000])
@pytest.mark.parametrize("time_us", [30_000, 80_000, 130_000])
def test_a_flood_has_half_as_much_again_as_the_paths_hold_under_way(rate: int, time_us: int) -> None:
    paths = flooded(rate, time_us)
    expected_bytes = max(3 * paths.held_bytes // 2, limits.ALLOWANCE_MIN_BYTES)
    assert paths.allowance.bytes == pytest.approx(expected_bytes, rel=0.2, abs=2 * BUNDLE_BYTES)
    before = paths.stable_bytes
    paths.run(1_000_000)
    assert paths.stable_bytes - before >= 0.95 * rate, "and loses no throughput"


def test_it_doubles_with_each_round_at_the_start_of_a_view() -> None:
    """From 256 KiB to 8 MiB it takes five rounds, in which the first bundle and the last count, too."""
    paths = Paths(100_000_000, 100_000)
    paths.run(700_000)
    assert paths.allowance.bytes >= 8 * 1024 * 1024


def test_it_is_never_more_than_the_ceiling() -> None:
    paths = flooded(100_000_000, 500_000, ceiling_bytes=1_000_000)
    paths.run(5_000_000)
    assert paths.allowance.bytes == 1_000_000
    assert paths.most_bytes < 1_000_000 + BUNDLE_BYTES


def test_it_is_never_less_than_the_floor_or_the_ceiling() -> None:
    assert flooded(8_000, 10_000).allowance.bytes >= limits.ALLOWANCE_MIN_BYTES
    assert flooded(8_000, 10_000, ceiling_bytes=20_000).allowance.bytes == 20_000


def test_a_daemon_that_is_alone_has_the_ceiling() -> None:
    assert Allowance(CEILING_BYTES, 0, is_alone=True, now_us=0).bytes == CEILING_BYTES


def test_what_was_ordered_before_the_view_began_says_nothing() -> None:
    """Bundles that helped to form the view are stable when it has begun, or soon after."""
    paths = Paths(20_000_000, 80_000)
    paths.ordered_bytes, paths.stable_bytes = 5_000, 3_000
    paths._look()
    paths.stable_bytes = 4_000
    paths._look()
    assert paths.allowance.least_us is None
    paths.stable_bytes = 5_000
    paths.run(1_000_000)
    assert paths.allowance.least_us is not None and paths.allowance.least_us >= paths.time_us


def test_announcements_that_come_later_under_a_flood_are_allowed_for() -> None:
    """A bundle alone is stable after 1 ms, under a flood only after 11."""
    paths = Paths(100_000_000, 1_000, slack_us=10_000)
    paths.run(1_000_000, bytes_per_s=100_000)
    paths.time_us = 11_000
    paths.run(2_000_000)
    before = paths.stable_bytes
    paths.run(1_000_000)
    assert paths.stable_bytes - before >= 95_000_000


def test_neither_idle_times_nor_light_load_change_it() -> None:
    paths = flooded()
    allowed = paths.allowance.bytes
    paths.run(5_000_000, floods=False)
    assert paths.allowance.bytes == allowed
    paths.run(30_000_000, bytes_per_s=1_000_000)
    assert paths.allowance.bytes == pytest.approx(allowed, rel=0.2)


def test_a_pause_of_a_member_changes_it_little() -> None:
    paths = flooded()
    allowed = paths.allowance.bytes
    paths.run(300_000, is_paused=True)
    assert paths.allowance.bytes == allowed, "no round has ended"
    paths.run(300_000)
    assert paths.allowance.bytes >= 0.9 * allowed
    before = paths.stable_bytes
    paths.run(1_000_000)
    assert paths.stable_bytes - before >= 0.95 * paths.rate
    paths.run(5_000_000)
    assert paths.allowance.bytes == pytest.approx(allowed, rel=0.2)


def test_it_follows_a_path_that_becomes_slower_and_faster_again() -> None:
    paths = flooded()
    paths.rate = 2_000_000
    paths.run(8_000_000)
    assert paths.allowance.bytes <= max(3 * paths.held_bytes, limits.ALLOWANCE_MIN_BYTES)
    paths.rate = 20_000_000
    paths.run(2_000_000)
    before = paths.stable_bytes
    paths.run(1_000_000)
    assert paths.stable_bytes - before >= 0.9 * paths.rate


def test_it_follows_a_path_that_becomes_longer() -> None:
    """The least time of the shorter one counts for 20 s at most."""
    paths = flooded(20_000_000, 20_000)
    paths.time_us = 200_000
    paths.run(25_000_000)
    before = paths.stable_bytes
    paths.run(3_000_000)
    assert paths.stable_bytes - before >= 0.9 * 3 * paths.rate


def test_its_own_queue_is_not_taken_for_a_longer_path() -> None:
    """Whatever it measures under a flood has its queue in it. Now and then it looks without one."""
    paths = flooded()
    allowed = paths.allowance.bytes
    paths.run(10_000_000)
    before = paths.stable_bytes
    paths.run(60_000_000)
    assert paths.allowance.bytes == pytest.approx(allowed, rel=0.2)
    assert sorted(paths.times_us)[-len(paths.times_us) // 20] <= 3 * paths.time_us
    assert paths.stable_bytes - before >= 0.97 * 60 * paths.rate


def test_it_does_not_shrink_where_it_is_itself_the_limit() -> None:
    """Losses keep the stable line back for long, and the links have nothing to send meanwhile."""
    paths = flooded()
    allowed = paths.allowance.bytes
    paths.time_us = 300_000
    paths.run(9_000_000)
    assert paths.allowance.bytes >= 0.9 * allowed
