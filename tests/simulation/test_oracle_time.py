"""What daemons say the time is, as the oracle judges it."""

from oracle_stories import DAEMONS

from antiphon.simulator.oracle import judge
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
