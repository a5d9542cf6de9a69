"""Calls: what is answered was executed, once; nobody executes what it has worked at, or what was answered.

*Called* is of the caller, *executed* of a member's application that begins to work at a call, *answered* of a
session that gets an answer of a handler's holder, in the group or as the caller; *finished* of a caller whose
call is over. A *person* is a session object, over all of its connections.

A call may end without an answer, and does so once, too: its caller gives it up, or it was refused because the
group has no quorum. What is refused was never sent, so nobody executes it. Where there is no quorum, a member
does not begin to work at a call as one that is its own to answer.

A member of a view in which another one is that had the answer before it came into this view has been told, or
waits to be told, and does not execute the call as one that is its own to answer. What members do with calls
that others are to answer binds them alone. Of members that are in no view together nothing is promised.
"""

from collections import defaultdict
from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import REFUSED, Event, Record, Trace, promises
from antiphon.trace.records import ViewNumber


def _look(trace: Trace) -> Iterator[Finding]:
    called = {record.call: record for record in trace.of(Event.CALLED)}
    executed: dict[str, list[Record]] = defaultdict(list)
    by: dict[tuple[str, str], Record] = {}
    for record in trace.of(Event.EXECUTED):
        if record.call not in called or called[record.call].position > record.position:
            yield at(record, f"{record.person} executed the call {record.call}, which was never made")
        before = by.setdefault((record.person, record.call), record)
        if before is not record:
            yield _both(before, record, f"{record.person} executed the call {record.call} twice")
        executed[record.call].append(record)
    yield from _look_at_ends(trace, called, executed)
    yield from _look_at_what_was_known(trace)


def _look_at_ends(
    trace: Trace, called: dict[str, Record], executed: dict[str, list[Record]]
) -> Iterator[Finding]:
    ends: dict[str, Record] = {}
    answers: dict[tuple[str, str], Record] = {}
    for record in trace.of(Event.FINISHED):
        call = called.get(record.call)
        if call is None or call.person != record.person:
            yield at(record, f"{record.person} has an end of {record.call}, which it has not called")
        end = ends.setdefault(record.call, record)
        if end is not record and (record.state or end.state):
            yield _both(end, record, f"the call {record.call} ended although it was over")
        if record.state:
            if record.state == REFUSED:
                for work in executed[record.call]:
                    yield _both(
                        work, record, f"{work.person} executed the call {record.call}, which was refused"
                    )
            continue
        if not any(
            work.checksum == record.checksum and work.position < record.position
            for work in executed[record.call]
        ):
            yield at(record, f"the answer to {record.call} is from a session that did not execute it")
        before = answers.setdefault((record.call, record.peer), record)
        if before is not record:
            yield _both(before, record, f"the call {record.call} was answered twice")


def _both(before: Record, record: Record, what: str) -> Finding:
    """A finding about two events."""
    return Finding(what, (record.process,), (), (before.position, record.position))


def _look_at_what_was_known(trace: Trace) -> Iterator[Finding]:
    """Executions by members of a view that has no quorum, or in which another one knew the answer when it
    came into the view."""
    answers: dict[str, dict[str, Record]] = defaultdict(dict)  # by call and process
    views: dict[tuple[ViewNumber, str], dict[str, int]] = defaultdict(dict)
    stopped: set[tuple[ViewNumber, str]] = set()
    for record in trace.of(Event.VIEW):
        view = record.views[0]
        assert view is not None
        views[view, record.groups[0]].setdefault(record.process, record.position)
        if not record.has_quorum:
            stopped.add((view, record.groups[0]))
    left: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in trace.of(Event.LEFT):
        left[record.process, record.groups[0]].append(record.position)
    for record in trace.of(Event.ANSWERED):
        answers[record.call].setdefault(record.process, record)
    for record in trace.of(Event.EXECUTED):
        view = record.views[0]
        if record.service != "one" or record.state != "own" or view is None:
            continue
        if (view, record.groups[0]) in stopped:
            yield at(record, f"it executed the call {record.call} although its group has no quorum")
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
