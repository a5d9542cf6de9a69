"""Resilient bundles in Spark's check: one run in which all is well, with lies put into it."""

from collections.abc import Callable
from functools import cache

import pytest
from checked_runs import KINDS, run_of_lie, simulated
from doctoring import Doctored, as_live, only

from antiphon.simulator.oracle import judge
from antiphon.simulator.oracle.resilience import needed
from antiphon.spark.conformance import Violation, check
from antiphon.spark.conformance.resilience import PROPERTIES
from antiphon.trace import Event, Record, Trace

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

SCENARIO, SEED = "resilient", 0
NAME = PROPERTIES[0].promise.name


@cache
def truth() -> Trace:
    return simulated(SCENARIO, SEED)


def delivered_in_peace(trace: Trace) -> list[Record]:
    """Deliveries of resilient bundles for several daemons, in views that had no signal."""
    signalled = {record.daemon_view for record in only(trace.records, Event.STRANSSIG)}
    return [
        record
        for record in only(trace.records, Event.SDELIVER)
        if record.resilience
        and record.bundle is not None
        and record.bundle[0] not in signalled
        and len(record.destinations) > 1
    ]


def held_by_one(trace: Trace) -> Doctored:
    """Nobody but the daemon that delivered it says that it has a bundle for which two or more were needed."""
    for record in delivered_in_peace(trace):
        if needed(record.resilience, len(record.destinations), len(record.destinations)) > 1:
            kept = [
                one
                for one in trace.records
                if one.event is not Event.HOLD or one.bundle != record.bundle or one.daemon == record.daemon
            ]
            return kept, f"bundle {record.bundle[2]} of daemon"  # type: ignore[index]
    raise AssertionError("no such bundle")


def delivered_by_one(trace: Trace) -> Doctored:
    """All of them have a bundle that must reach all, and only one says that it has delivered it."""
    for record in delivered_in_peace(trace):
        if record.resilience == "total":
            kept = [
                one
                for one in trace.records
                if one.event is not Event.SDELIVER or one.bundle != record.bundle or one is record
            ]
            return kept, f"bundle {record.bundle[2]} of daemon"  # type: ignore[index]
    raise AssertionError("no such bundle")


LIES: dict[str, Callable[[Trace], Doctored]] = {"held": held_by_one, "delivered": delivered_by_one}


def told(name: str, kind: str, records: list[Record]) -> Trace:
    return Trace(SCENARIO, SEED, truth().daemons, records, run=run_of_lie(name, kind))


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    folder = tmp_path_factory.mktemp("resilience")
    stories = {"truth": truth().records, **{lie: doctor(truth())[0] for lie, doctor in LIES.items()}}
    for name, records in stories.items():
        told(name, "simulated", records).write(folder)
        as_live(told(name, "live", records), folder)
    by_run: dict[str, list[Violation]] = {}
    for outcome in check(spark, str(folder), str(tmp_path_factory.mktemp("work")), PROPERTIES):
        assert outcome.checked
        for violation in outcome.told:
            by_run.setdefault(violation.run, []).append(violation)
    return by_run


def test_the_run_is_clean_and_has_every_kind() -> None:
    asked = {record.resilience for record in only(truth().records, Event.SDELIVER)}
    assert asked >= {"1", "2", "3", "majority", "total"}
    assert judge(truth()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_a_clean_run(found: dict[str, list[Violation]], kind: str) -> None:
    assert found.get(run_of_lie("truth", kind), []) == []


@pytest.mark.parametrize(
    ("lie", "kind"), [("held", "simulated"), ("held", "live"), ("delivered", "simulated")]
)
def test_a_lie_is_found(found: dict[str, list[Violation]], lie: str, kind: str) -> None:
    """In a live run a daemon that told nothing of a delivery may have stopped writing."""
    records, named = LIES[lie](truth())
    said = found.get(run_of_lie(lie, kind), [])
    assert any(named in violation.what for violation in said if violation.name == NAME), (named, said)
    if kind == "simulated":
        by_oracle = [str(one) for one in judge(told(lie, kind, records)) if one.name == NAME]
        assert any(named in one for one in by_oracle), by_oracle
