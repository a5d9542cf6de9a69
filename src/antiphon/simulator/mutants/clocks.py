"""Mutants of the time: what a programmer may believe about clocks, and is wrong about."""

from msgspec import structs

from antiphon.core.clock import reading
from antiphon.core.clock.keeper import Keeper
from antiphon.core.clock.reading import Basis, Reading
from antiphon.core.clock.service import Clock
from antiphon.core.clock.system import SystemClock
from antiphon.simulator.mutants.mutant import Mutant, Original


def _clocks_do_not_drift(original: Original) -> Original:
    def drift_us(elapsed_us: int) -> int:
        return 0

    return drift_us


def _both_ways_are_alike(original: Original) -> Original:
    def exchanged(clock: Clock, *arguments: object) -> Reading | None:
        found: Reading | None = original(clock, *arguments)
        if found is None:
            return None
        # Half a round trip is believed to be the way back, give or take a tenth of it.
        told, now_us = arguments[1], arguments[3]
        assert isinstance(now_us, int)
        low_us, high_us = told.low_us, told.high_us  # type: ignore[attr-defined]
        half_us = (found.high_us - high_us) // 2
        return Reading(
            now_us, low_us + half_us - half_us // 10, high_us + half_us + half_us // 10,
            found.estimate_us, found.basis,
        )  # fmt: skip

    return exchanged


def _the_whole_trip_counts(original: Original) -> Original:
    def exchanged(clock: Clock, *arguments: object) -> Reading | None:
        found: Reading | None = original(clock, *arguments)
        if found is None:
            return None
        trip_us = found.high_us - arguments[1].high_us  # type: ignore[attr-defined]
        return Reading(found.at_us, found.low_us + trip_us, found.high_us, found.high_us, found.basis)

    return exchanged


def _steps_are_followed(original: Original) -> Original:
    def steady(keeper: Keeper, time_us: int, now_us: int) -> int:
        return time_us

    return steady


def _reference_for_ever(original: Original) -> Original:
    def at(keeper: Keeper, now_us: int) -> Reading | None:
        known: Reading | None = original(keeper, now_us)
        held = keeper._held
        if known is None or held is None or not held.basis.is_external:
            return known
        elapsed_us = now_us - held.at_us
        return Reading(
            now_us, held.low_us + elapsed_us, held.high_us + elapsed_us, held.estimate_us + elapsed_us,
            held.basis,
        )  # fmt: skip

    return at


def _a_step_is_believed(original: Original) -> Original:
    def is_trusted(system: SystemClock, now_us: int) -> bool:
        return True

    return is_trusted


def _any_packet_will_do(original: Original) -> Original:
    def arrived_together(clock: Clock, *arguments: object) -> Reading | None:
        found: Reading | None = original(clock, *arguments)
        if found is None:
            return None
        newest_us = max(came.at_us for came in clock._came.values())
        return Reading(newest_us, found.low_us, found.high_us, found.estimate_us, found.basis)

    return arrived_together


def _everybody_is_first(original: Original) -> Original:
    def found_internal(clock: Clock, now_us: int) -> None:
        place = clock._place
        clock._place = structs.replace(place, root=clock._me)
        original(clock, now_us)
        clock._place = place

    return found_internal


def _only_representatives_ask(original: Original) -> Original:
    def follow(clock: Clock, now_us: int) -> bool:
        is_working: bool = original(clock, now_us)
        if any(mate < clock._me for mate in clock._place.mates):
            clock._place = structs.replace(clock._place, peers=())
        return is_working

    return follow


def _time_of_a_process_that_ended(original: Original) -> Original:
    def is_followed(clock: Clock, basis: Basis, now_us: int) -> bool:
        is_external = clock.keeper.is_external(now_us)
        return basis.root == clock._place.root != clock._me and not is_external

    return is_followed


CLOCKS: tuple[Mutant, ...] = (
    Mutant(
        "clocks do not drift", "a bound does not grow with the age of what it rests on",
        frozenset(("time",)), reading, "drift_us", _clocks_do_not_drift, "clocks",
    ),
    Mutant(
        "both ways are alike", "half of a round trip is taken for the way back",
        frozenset(("time",)), Clock, "_exchanged", _both_ways_are_alike, "clocks",
    ),
    Mutant(
        "the whole trip counts", "the whole round trip is taken for the way back",
        frozenset(("time",)), Clock, "_exchanged", _the_whole_trip_counts, "clocks",
    ),
    Mutant(
        "steps are followed", "time goes back when a better reading says so",
        frozenset(("time",)), Keeper, "_steady", _steps_are_followed, "clocks", seeds=26,
        shown_by=25,
    ),
    Mutant(
        "a reference for ever", "what a reference told is as good when it is lost as when it was heard",
        frozenset(("time",)), Keeper, "at", _reference_for_ever, "clocks",
    ),
    Mutant(
        "a step is believed", "a reference whose clock was set goes on to tell the time",
        frozenset(("time",)), SystemClock, "is_trusted", _a_step_is_believed, "clocks",
    ),
    Mutant(
        "any packet will do", "the arrival of the round there is compared with that of the spray here",
        frozenset(("time",)), Clock, "_arrived_together", _any_packet_will_do, "clocks",
    ),
    Mutant(
        "everybody is first", "each daemon's own clock is the internal time, not that of the view's first",
        frozenset(("time",)), Clock, "_found_internal", _everybody_is_first, "clocks", seeds=38,
        shown_by=37,
    ),
    Mutant(
        "only representatives ask", "a site does not hear the time over a link that another daemon of it has",
        frozenset(("time",)), Clock, "_follow", _only_representatives_ask, "clocks", seeds=38,
        shown_by=37,
    ),
    Mutant(
        "time of a process that ended", "the internal time of a daemon's former process is told on for ever",
        frozenset(("time",)), Clock, "_is_followed", _time_of_a_process_that_ended, "clocks", seeds=25,
        shown_by=24,
    ),
)  # fmt: skip
