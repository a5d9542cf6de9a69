"""What daemons say the time is, as the oracle judges it."""

import pytest
from msgspec import structs
from oracle_stories import DAEMONS

from antiphon.simulator.oracle import judge
from antiphon.simulator.oracle.time import SHARED_WITHIN_US
from antiphon.trace import Event, Record, Trace

TRUE_US = 1_700_000_000_000_000


def said(daemon: str, at_us: int, wrong_us: int, error_us: int) -> Record:
    """By a reference."""
    clock = {"time_us": TRUE_US + at_us + wrong_us, "error_us": error_us, "since_us": 0}
    return Record(
        0, at_us, Event.CLOCK, daemon, state="reference", peer="d0", clock=clock, true_us=TRUE_US + at_us
    )


def inside(daemon: str, at_us: int, time_us: int, error_us: int, since_us: int = 3) -> Record:
    """Internal time, which no judge knows."""
    clock = {"time_us": time_us, "error_us": error_us, "since_us": since_us}
    return Record(0, at_us, Event.CLOCK, daemon, state="internal", peer="d0", clock=clock, true_us=TRUE_US)


def trace(*records: Record) -> Trace:
    for position, record in enumerate(records):
        record.position = position
    return Trace("story", 7, DAEMONS, list(records))


def broken(told: Trace) -> set[str]:
    return {violation.name.split()[0] for violation in judge(told)}


def test_a_bound_that_just_holds() -> None:
    assert broken(trace(said("d1", 10, 5, 5), said("d1", 20, -5, 5))) == set()


def test_a_bound_that_does_not_hold() -> None:
    assert broken(trace(said("d1", 10, 6, 5))) == {"time"}
    assert broken(trace(said("d1", 10, -6, 5))) == {"time"}


def test_time_that_runs_backwards() -> None:
    assert broken(trace(said("d1", 10, 50, 90), said("d1", 20, 39, 90))) == {"time"}
    assert broken(trace(said("d1", 10, 50, 90), said("d2", 20, 39, 90))) == set(), "another daemon"
    restart = Record(0, 15, Event.RECOVER, "d1", incarnation=5)
    lives = trace(said("d1", 10, 50, 90), restart, said("d1", 20, 39, 90))
    assert "time" not in broken(lives), "another life"


def test_internal_times_that_are_too_far_apart() -> None:
    assert broken(trace(inside("d0", 10, 500, 0), inside("d1", 10, 520, 20))) == set()
    assert broken(trace(inside("d0", 10, 500, 0), inside("d1", 10, 520, 19))) == {"time"}
    assert broken(trace(inside("d0", 10, 500, 0), inside("d1", 11, 520, 9))) == set(), "not at one moment"
    assert broken(trace(inside("d0", 10, 500, 0), inside("d1", 10, 520, 9, since_us=4))) == set()


def installed(daemon: str, at_us: int, view: int = 9) -> list[Record]:
    """A daemon works in a view from now on."""
    state = Record(0, at_us, Event.STATE, daemon, state="op", reason="installed")
    return [state, Record(0, at_us, Event.SVIEW, daemon, members=("d0", "d1"), daemon_view=view)]


def shared(*records: Record) -> bool:
    """Whether nothing is said against the internal time of views."""
    told = trace(*records)
    return not any(violation.name.startswith("time ") for violation in judge(told))


@pytest.mark.parametrize("wait_us", [SHARED_WITHIN_US - 1, SHARED_WITHIN_US])
def test_a_view_has_one_internal_time_after_a_while(wait_us: int) -> None:
    both = [*installed("d0", 10), *installed("d1", 20)]
    at_us = 20 + wait_us
    here, there = inside("d0", at_us, 500, 900), inside("d1", at_us, 500, 900, since_us=4)
    assert shared(*both, here, there) == (wait_us < SHARED_WITHIN_US)
    assert shared(*both, here, inside("d1", at_us, 500, 900))
    assert shared(*both, here, structs.replace(there, time_us=at_us + 1)), "not at one moment"


def test_daemons_without_a_common_view_may_have_times_of_their_own() -> None:
    at_us = 10 + SHARED_WITHIN_US
    said_by_both = [inside("d0", at_us, 500, 0), inside("d1", at_us, 900, 0, since_us=4)]
    assert shared(*installed("d0", 10), *installed("d1", 10, view=8), *said_by_both)
    for event, state in ((Event.STATE, "seg"), (Event.STATE, "statetrans"), (Event.CRASH, "")):
        lost = Record(0, at_us - 5, event, "d1", state=state, reason="silence")
        assert shared(*installed("d0", 10), *installed("d1", 10), lost, *said_by_both)
    gathers = Record(0, at_us - 5, Event.STATE, "d1", state="gather", reason="found")
    assert not shared(*installed("d0", 10), *installed("d1", 10), gathers, *said_by_both)


def test_of_live_runs_no_two_moments_are_the_same() -> None:
    at_us = 10 + SHARED_WITHIN_US
    views = [*installed("d0", 10), *installed("d1", 10)]
    said_by_both = [inside("d0", at_us, 500, 0), inside("d1", at_us, 900, 0, since_us=4)]
    said_by_both.append(inside("d2", at_us, 900, 0))
    assert shared(*views, *(structs.replace(record, true_us=0) for record in said_by_both))
