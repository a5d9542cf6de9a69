"""Calls in Spark's check: one run in which all is well, with lies put into it, and runs of broken protocols.
The oracle finds the same in each of them, to the last finding."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from checked_runs import run_of_lie, simulated, trace_of_mutant
from doctoring import Doctored, as_live, only
from msgspec import structs

from antiphon.simulator.mutants.calls import CALLS
from antiphon.simulator.oracle import judge
from antiphon.simulator.oracle.calls import PROPERTIES as ORACLES
from antiphon.simulator.oracle.verdict import Finding
from antiphon.spark.conformance import Outcome, check
from antiphon.spark.conformance.calls import PROPERTIES
from antiphon.trace import GIVEN_UP, REFUSED, Event, Record, Trace

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

SCENARIO, SEED = "calls", 11
"""A run with signals, and with members that come late to a group in which calls were answered."""


@cache
def truth() -> Trace:
    return simulated(SCENARIO, SEED)


def replaced(record: Record, lie: Record) -> list[Record]:
    return [lie if one is record else one for one in truth().records]


def inserted(after: Record, lie: Record) -> list[Record]:
    """One more event; those behind it have later places."""
    records = []
    for record in truth().records:
        records.append(structs.replace(record, position=len(records)))
        if record is after:
            records.append(structs.replace(lie, position=len(records), time_us=after.time_us))
    return records


def executed_of_nobody(trace: Trace) -> Doctored:
    record = only(trace.records, Event.EXECUTED)[5]
    return replaced(record, structs.replace(record, call="0000/7")), "0000/7"


def executed_before_it_was_made(trace: Trace) -> Doctored:
    made = next(one for one in only(trace.records, Event.CALLED) if answers_of(trace, one.call))
    records = [one for one in trace.records if one is not made]
    records.append(made)
    return [structs.replace(one, position=place) for place, one in enumerate(records)], made.call


def executed_twice(trace: Trace) -> Doctored:
    record = only(trace.records, Event.EXECUTED)[9]
    return inserted(trace.records[-1], record), record.call


def answer_for_another_caller(trace: Trace) -> Doctored:
    record = only(trace.records, Event.FINISHED)[3]
    return replaced(record, structs.replace(record, person="nobody")), record.call


def answer_of_nobody(trace: Trace) -> Doctored:
    record = only(trace.records, Event.FINISHED)[4]
    return replaced(record, structs.replace(record, checksum=record.checksum ^ 1)), record.call


def answered_twice(trace: Trace) -> Doctored:
    record = next(one for one in only(trace.records, Event.FINISHED) if one.service == "one")
    return inserted(trace.records[-1], record), record.call


def answers_of(trace: Trace, call: str) -> list[Record]:
    return [one for one in only(trace.records, Event.ANSWERED) if one.call == call]


def own_executions(trace: Trace) -> Iterator[Record]:
    for record in only(trace.records, Event.EXECUTED):
        if record.service == "one" and record.state == "own" and record.views[0] is not None:
            yield record


def executed_what_it_knew(trace: Trace) -> Doctored:
    for record in own_executions(trace):
        answer = next((one for one in answers_of(trace, record.call) if one.process == record.process), None)
        if answer is not None:
            return inserted(trace.records[record.position - 1], answer), record.call
    raise AssertionError("no such execution")


def executed_what_another_knew(trace: Trace) -> Doctored:
    """Another member of its view had the answer before that view."""
    for record in own_executions(trace):
        for answer in answers_of(trace, record.call):
            view = next(
                (
                    one
                    for one in only(trace.records, Event.VIEW)
                    if (one.process, one.groups, one.views) == (answer.process, record.groups, record.views)
                ),
                None,
            )
            if view is not None and answer.process != record.process:
                return inserted(trace.records[view.position - 1], answer), answer.process
    raise AssertionError("no such execution")


def executed_what_one_knew_that_had_left(trace: Trace) -> Doctored:
    """The same, and that member has left the group meanwhile and come back, so nothing is wrong with it."""
    records, knower = executed_what_another_knew(trace)
    answer = next(one for one in records if one.event is Event.ANSWERED and one.process == knower)
    after = [*records]
    left = structs.replace(answer, event=Event.LEFT, call="", person="", checksum=0, service="")
    after.insert(answer.position + 1, left)
    return [structs.replace(one, position=place) for place, one in enumerate(after)], ""


def given_up_after_the_answer(trace: Trace) -> Doctored:
    record = next(one for one in only(trace.records, Event.FINISHED) if one.service == "one")
    return inserted(record, structs.replace(record, state=GIVEN_UP, checksum=0)), record.call


def refused_and_executed(trace: Trace) -> Doctored:
    """A call that two members worked at is told to be refused."""
    for record in only(trace.records, Event.CALLED):
        works = [one for one in only(trace.records, Event.EXECUTED) if one.call == record.call]
        ends = [one for one in only(trace.records, Event.FINISHED) if one.call == record.call]
        if len(works) > 1 and len(ends) == 1:
            return replaced(ends[0], structs.replace(ends[0], state=REFUSED, checksum=0)), record.call
    raise AssertionError("no such call")


def executed_without_quorum(trace: Trace) -> Doctored:
    record = next(own_executions(trace))
    return [
        structs.replace(one, has_quorum=False)
        if one.event is Event.VIEW and (one.groups, one.views) == (record.groups, record.views)
        else one
        for one in trace.records
    ], record.call


LIES: dict[str, Callable[[Trace], Doctored]] = {
    "nobody made it": executed_of_nobody,
    "made later": executed_before_it_was_made,
    "executed twice": executed_twice,
    "not its call": answer_for_another_caller,
    "not executed": answer_of_nobody,
    "answered twice": answered_twice,
    "knew it": executed_what_it_knew,
    "another knew it": executed_what_another_knew,
    "given up": given_up_after_the_answer,
    "refused": refused_and_executed,
    "no quorum": executed_without_quorum,
    "another had left": executed_what_one_knew_that_had_left,
}
HARMLESS = {"another had left"}
LIVE = "executed twice"
"""The lie that is told of a live run as well."""


def told(name: str, kind: str, records: list[Record]) -> Trace:
    return Trace(SCENARIO, SEED, truth().daemons, records, run=run_of_lie(name, kind))


def by_oracle(trace: Trace) -> list[Finding]:
    """All that the oracle finds, not the first few alone."""
    return [finding for prop in ORACLES for finding in prop.look(trace)]


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    """By name, the runs that are held against the property."""
    stories = {"truth": truth().records, **{lie: doctor(truth())[0] for lie, doctor in LIES.items()}}
    found = {name: told(name, "simulated", records) for name, records in stories.items()}
    return found | {mutant.name: trace_of_mutant(mutant) for mutant in CALLS}


@pytest.fixture(scope="module")
def outcome(spark, traces: dict[str, Trace], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("calls")
    for name, trace in traces.items():
        trace.write(folder)
        if name == LIVE:
            as_live(told(name, "live", trace.records), folder)
    [found] = check(spark, str(folder), str(tmp_path_factory.mktemp("work")), PROPERTIES)
    return found


def test_the_run_is_clean_and_has_every_kind() -> None:
    assert judge(truth()) == []
    assert {one.service for one in only(truth().records, Event.EXECUTED)} == {"one", "all"}
    assert {one.state for one in only(truth().records, Event.EXECUTED)} == {"own", ""}
    assert only(truth().records, Event.TRANSSIG)


@pytest.mark.parametrize("lie", ["truth", *LIES])
def test_a_lie_is_found_as_the_oracle_finds_it(outcome: Outcome, traces: dict[str, Trace], lie: str) -> None:
    agree(outcome, traces[lie])
    if lie not in HARMLESS | {"truth"}:
        _, named = LIES[lie](truth())
        assert any(named in str(one) for one in outcome.told if one.run == traces[lie].run)


@pytest.mark.parametrize("mutant", [mutant.name for mutant in CALLS])
def test_a_broken_protocol_is_found_as_the_oracle_finds_it(
    outcome: Outcome, traces: dict[str, Trace], mutant: str
) -> None:
    assert outcome.by_run[traces[mutant].run]
    agree(outcome, traces[mutant])


def test_what_a_live_run_says_of_calls_is_not_judged(outcome: Outcome, traces: dict[str, Trace]) -> None:
    assert outcome.by_run[traces[LIVE].run]
    assert run_of_lie(LIVE, "live") not in outcome.by_run
    events = (Event.CALLED, Event.EXECUTED, Event.ANSWERED, Event.FINISHED)
    assert outcome.checked == sum(len(trace.of(event)) for trace in traces.values() for event in events)


def agree(outcome: Outcome, trace: Trace) -> None:
    """Both find the same, in number and in words, of which Spark tells the first few."""
    wanted = by_oracle(trace)
    assert outcome.by_run.get(trace.run, 0) == len(wanted)
    known = {(one.what, one.processes, one.positions) for one in wanted}
    said = [one for one in outcome.told if one.run == trace.run]
    assert {(one.what, one.processes, one.positions) for one in said} <= known
