"""Runs of the adaptive order: places that bundles get later than they are born, and bundles that have none.

Both are compared by their places, or not at all, and by nothing less: the lies of this file are found.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from checked_runs import KINDS, run_of_lie, simulated
from doctoring import Doctored, as_live, only, ordered_deliveries, swapped, text_of, without
from msgspec import structs

from antiphon.simulator.oracle import judge
from antiphon.spark.conformance import Violation, check
from antiphon.trace import ORDERED_SERVICES, Event, Identity, Record, Trace

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

SCENARIO, SEED = "restless", 14
"""A small run in which sources are passive now and then, and daemons go apart."""


@cache
def truth() -> Trace:
    return simulated(SCENARIO, SEED)


def ordered_bundles(trace: Trace) -> dict[str, list[Record]]:
    """Of each daemon, the ordered bundles of clients that it delivered."""
    found: dict[str, list[Record]] = {}
    for record in only(trace.records, Event.SDELIVER):
        if record.service in ORDERED_SERVICES and record.message is not None:
            found.setdefault(record.daemon, []).append(record)
    return found


def with_places(trace: Trace) -> set[Identity | None]:
    """The first messages of bundles with tickets."""
    return {record.message for record in only(trace.records, Event.SDELIVER) if record.place}


def bundle_out_of_its_place(trace: Trace) -> Doctored:
    """A bundle with a ticket has its turn one too late, at one daemon."""
    for daemon, mine in ordered_bundles(trace).items():
        for record, following in pairwise(mine):
            assert record.bundle is not None and following.bundle is not None
            if record.place and record.bundle[0] == following.bundle[0]:
                return swapped(trace, record, following), daemon
    raise AssertionError("no such bundle")


def message_out_of_its_place(trace: Trace) -> Doctored:
    """The same for a message of such a bundle, at one process."""
    placed = with_places(trace)
    for mine in ordered_deliveries(trace).values():
        for record, following in pairwise(mine):
            assert record.message is not None and following.message is not None
            is_alike = record.views == following.views and record.message[0] != following.message[0]
            if record.message in placed and is_alike:
                return swapped(trace, record, following), text_of(record.message)
    raise AssertionError("no such message")


def another_place(trace: Trace) -> Doctored:
    """One process is told another place of a message than all others are."""
    placed = with_places(trace)
    told = next(one for mine in ordered_deliveries(trace).values() for one in mine if one.message in placed)
    records = [structs.replace(one, lts=one.lts + 1) if one is told else one for one in trace.records]
    return records, text_of(told.message)


def gap_before_a_place(trace: Trace) -> Doctored:
    """A daemon lacks a bundle with a ticket, and has delivered one with a later place in the same view."""
    for daemon, mine in ordered_bundles(trace).items():
        for record, following in pairwise(mine):
            assert record.bundle is not None and following.bundle is not None
            if record.place and record.bundle[0] == following.bundle[0] and len(record.destinations) > 1:
                return without(trace, record), daemon
    raise AssertionError("no such bundle")


def loose_and_lost(trace: Trace) -> Doctored:
    """A daemon lacks a bundle that has no place."""
    last = max(record.daemon_view for record in only(trace.records, Event.SVIEW))
    for record in only(trace.records, Event.SDELIVER):
        assert record.bundle is not None
        if record.is_loose and record.bundle[0] != last and record.daemon != trace.daemons[record.bundle[1]]:
            return without(trace, record), record.daemon
    raise AssertionError("no such bundle")


LIES: dict[str, Callable[[Trace], Doctored]] = {
    "2.13 one order (daemons)": bundle_out_of_its_place,
    "2.13 one order": message_out_of_its_place,
    "2.13 agreed messages (daemons)": gap_before_a_place,
    "2.7 virtual synchrony (daemons)": loose_and_lost,
}


def told(name: str, kind: str, records: list[Record]) -> Trace:
    return Trace(SCENARIO, SEED, truth().daemons, records, run=run_of_lie(name, kind))


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Violation]]:
    folder = tmp_path_factory.mktemp("places")
    as_live(told("truth", "live", truth().records), folder)
    stories = {"truth": truth().records, "another place": another_place(truth())[0]}
    stories |= {lie: doctor(truth())[0] for lie, doctor in LIES.items()}
    for name, records in stories.items():
        told(name, "simulated", records).write(folder)
    outcomes = check(spark, str(folder), str(tmp_path_factory.mktemp("work")))
    by_run: dict[str, list[Violation]] = {}
    for outcome in outcomes:
        for violation in outcome.told:
            by_run.setdefault(violation.run, []).append(violation)
    return by_run


def test_the_run_has_tickets_and_loose_bundles() -> None:
    delivered = only(truth().records, Event.SDELIVER)
    assert any(record.place and record.service in ORDERED_SERVICES for record in delivered)
    assert any(record.place and record.service not in ORDERED_SERVICES for record in delivered)
    assert any(record.is_loose for record in delivered)
    assert judge(truth()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_a_clean_run(found: dict[str, list[Violation]], kind: str) -> None:
    assert found.get(run_of_lie("truth", kind), []) == []


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_places_is_found(found: dict[str, list[Violation]], lie: str) -> None:
    _, named = LIES[lie](truth())
    said = found.get(run_of_lie(lie, "simulated"), [])
    assert any(named in str(violation) for violation in said if violation.name == lie), (named, said)


def test_a_message_has_the_place_of_its_bundle(found: dict[str, list[Violation]]) -> None:
    _, named = another_place(truth())
    said = found.get(run_of_lie("another place", "simulated"), [])
    assert any(named in str(violation) for violation in said if violation.name == "2.13 one order"), said
