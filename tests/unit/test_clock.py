"""What a daemon knows of the time, by spans. (NAVTECH 3)"""

from hypothesis import given
from hypothesis import strategies as st

from antiphon import limits
from antiphon.core.clock.keeper import CONFLICTS_MAX, Keeper
from antiphon.core.clock.reading import Reading, external, internal
from antiphon.core.clock.system import DISTRUST_US, SystemClock

SECOND_US = 1_000_000
EPOCH_US = 1_700_000_000_000_000


def reading(at_us: int, error_us: int, wrong_us: int = 0, root: int = 1) -> Reading:
    time_us = EPOCH_US + at_us + wrong_us
    return Reading(at_us, time_us - error_us, time_us + error_us, time_us, external(root))


def test_nothing_is_known_at_first() -> None:
    assert Keeper().say(5) is None


def test_a_bound_grows_by_what_a_clock_may_drift() -> None:
    keeper = Keeper()
    keeper.take(reading(0, 50), 0)
    said = keeper.say(10 * SECOND_US)
    assert said is not None
    assert said.error_us == 50 + 10 * limits.CLOCK_DRIFT_MAX_PPM + 1


def test_the_bound_of_internal_time_grows_twice_as_fast() -> None:
    """Two clocks drift: ours, and that which makes the time."""
    keeper = Keeper()
    keeper.take(Reading(0, 0, 0, 0, internal(0, 7)), 0)
    said = keeper.say(SECOND_US)
    assert said is not None and said.error_us == 2 * limits.CLOCK_DRIFT_MAX_PPM + 1


def test_readings_are_intersected() -> None:
    keeper = Keeper()
    keeper.take(Reading(0, 100, 200, 150, external(1)), 0)
    keeper.take(Reading(0, 180, 400, 290, external(2)), 0)
    known = keeper.at(0)
    assert known is not None and (known.low_us, known.high_us) == (180, 200)


def test_what_contradicts_is_believed_after_a_while() -> None:
    keeper = Keeper()
    keeper.take(reading(0, 50), 0)
    for _ in range(CONFLICTS_MAX):
        assert not keeper.take(reading(0, 50, wrong_us=SECOND_US), 0)
        known = keeper.at(0)
        assert known is not None and known.estimate_us == EPOCH_US
    keeper.take(reading(0, 50, wrong_us=SECOND_US), 0)
    known = keeper.at(0)
    assert known is not None and known.estimate_us == EPOCH_US + SECOND_US


def test_time_of_a_lost_reference_is_given_up() -> None:
    keeper = Keeper()
    keeper.take(reading(0, 0), 0)
    lasts_us = limits.CLOCK_ERROR_MAX_US * 1_000_000 // limits.CLOCK_DRIFT_MAX_PPM
    assert keeper.say(lasts_us - 10_000) is not None
    assert keeper.say(lasts_us + 10_000) is None


def test_time_that_is_ahead_runs_slowly_and_says_so() -> None:
    keeper = Keeper()
    keeper.take(Reading(0, 5_000, 5_000, 5_000, internal(2, 1)), 0)
    first = keeper.say(0)
    keeper.take(Reading(0, 1_000, 1_000, 1_000, internal(0, 1)), 0)
    second = keeper.say(1_000)
    assert first is not None and second is not None
    assert first.time_us == 5_000
    assert second.time_us == 5_500, "half of what has passed"
    assert second.error_us >= 5_500 - 2_000
    third = keeper.say(10_000)
    assert third is not None and third.time_us == 11_000, "it has been caught up with"


def test_a_rate_is_estimated() -> None:
    """The clock here is 100 ppm fast, so time runs by that much slower than it."""
    keeper = Keeper()
    for second in range(20):
        at_us = second * SECOND_US
        keeper.take(reading(at_us, 100, wrong_us=-100 * second), at_us)
    assert -110_000 < keeper.rate_ppb < -90_000
    known = keeper.at(25 * SECOND_US)
    assert known is not None
    assert abs(known.estimate_us - (EPOCH_US + 25 * SECOND_US - 2_500)) < 150


STEPS = st.lists(st.tuples(st.integers(0, 3 * SECOND_US), st.integers(0, 5_000), st.integers(-100, 100)))


@given(STEPS, st.integers(-100, 100))
def test_bounds_hold_and_time_never_goes_back(steps: list[tuple[int, int, int]], drift_ppm: int) -> None:
    """Whatever honest readings come, with whatever error, at whatever time."""
    keeper = Keeper()
    clock_us = true_us = 0
    before_us = -(10**9)
    for passed_us, error_us, share in steps:
        true_us += passed_us
        clock_us = true_us + true_us * drift_ppm // 1_000_000
        middle_us = true_us + error_us * share // 100
        keeper.take(
            Reading(clock_us, middle_us - error_us - 1, middle_us + error_us + 1, middle_us, external(1)),
            clock_us,
        )
        said = keeper.say(clock_us)
        assert said is not None
        assert abs(said.time_us - true_us) <= said.error_us
        assert said.time_us >= before_us
        before_us = said.time_us


def test_a_system_clock_that_steps_is_not_believed() -> None:
    system = SystemClock(1, 1_000)
    assert system.read(EPOCH_US, 0, 0) is not None
    assert system.read(EPOCH_US + SECOND_US + 1_500, 0, SECOND_US) is not None, "within its error"
    assert system.read(EPOCH_US + 9 * SECOND_US, 0, 2 * SECOND_US) is None
    assert not system.is_trusted(3 * SECOND_US)
    assert system.read(EPOCH_US + 10 * SECOND_US, 0, 3 * SECOND_US) is None
    late_us = 2 * SECOND_US + DISTRUST_US
    assert system.read(EPOCH_US + late_us + 7 * SECOND_US, 0, late_us) is not None
    assert system.steps == 1


def test_how_long_it_took_to_read_a_clock_counts() -> None:
    found = SystemClock(1, 100).read(EPOCH_US, 30, 0)
    assert found is not None and found.error_us == 131
