"""Calls: what is answered was executed, once; nobody executes what it has worked at, or what was answered.

*Called* is of the caller, *executed* of a member's application that begins to work at a call, *answered* of a
session that gets an answer of a handler's holder, in the group or as the caller; *finished* of a caller whose
call is over. A *person* is a session object, over all of its connections.

A member of a view in which another one is that had the answer before it came into this view has been told, or
waits to be told, and does not execute the call as one that is its own to answer. What members do with calls
that others are to answer binds them alone. Of members that are in no view together nothing is promised.
"""

from collections import defaultdict
from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises
from antiphon.trace.records import ViewNumber


def _look(trace: Trace) -> Iterator[Finding]:
    called = {record.call: record for record in trace.of(Event.CALLED)}
    executed: dict[str, list[Record]] = defaultdict(list)
    by: dict[tuple[str, str], Record] = {}
    for record in trace.of(Event.EXECUTED):
        if record.call not in called or called[record.call].position > record.position:
            yield at(record, f"{record.person} executed the call {record.call}, which nobody had made")
        before = by.setdefault((record.person, record.call), record)
        if before is not record:
            yield Finding(
                f"{record.person} executed the call {record.call} twice",
                (record.process,),
                (),
                (before.position, record.position),
            )
        executed[record.call].append(record)
    yield from _look_at_answers(trace, called, executed)
    yield from _look_at_what_was_known(trace)


def _look_at_answers(
    trace: Trace, called: dict[str, Record], executed: dict[str, list[Record]]
) -> Iterator[Finding]:
    finished: dict[tuple[str, str], Record] = {}
    for record in trace.of(Event.FINISHED):
        call = called.get(record.call)
        if call is None or call.person != record.person:
            yield at(record, f"{record.person} has an answer to {record.call}, which it has not called")
        if not any(
            work.checksum == record.checksum and work.position < record.position
            for work in executed[record.call]
        ):
            yield at(record, f"the answer to {record.call} is of nobody who executed it")
        before = finished.setdefault((record.call, record.peer), record)
        if before is not record:
            yield Finding(
                f"the call {record.call} was answered twice",
                (record.process,),
                (),
                (before.position, record.position),
            )


def _look_at_what_was_known(trace: Trace) -> Iterator[Finding]:
    """Executions by members of a view in which another one knew the answer when it came into the view."""
    answers: dict[str, dict[str, Record]] = defaultdict(dict)  # by call and process
    views: dict[tuple[ViewNumber, str], dict[str, int]] = defaultdict(dict)
    for record in trace.of(Event.VIEW):
        view = record.views[0]
        assert view is not None
        views[view, record.groups[0]].setdefault(record.process, record.position)
    left: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in trace.of(Event.LEFT):
        left[record.process, record.groups[0]].append(record.position)
    for record in trace.of(Event.ANSWERED):
        answers[record.call].setdefault(record.process, record)
    for record in trace.of(Event.EXECUTED):
        view = record.views[0]
        if record.service != "one" or record.state != "own" or view is None:
            continue
        own = answers[record.call].get(record.process)
        if own is not None and own.position < record.position:
            yield at(record, f"it executed the call {record.call} after it had got the answer")
        for process, answer in answers[record.call].items():
            installed = views[view, record.groups[0]].get(process)
            if installed is None or answer.groups != record.groups or answer.position > installed:
                continue
            # One that has left knows the answer, and tells it to nobody: it comes back as a new member.
            if not any(answer.position < gone < installed for gone in left[process, record.groups[0]]):
                yield Finding(
                    f"{record.process} executed the call {record.call}, of which {process} had the answer "
                    "before their view",
                    (record.process, process),
                    (),
                    (answer.position, record.position),
                )


PROPERTIES = (Property(promises.CALLS, _look),)
