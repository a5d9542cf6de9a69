"""2.1: nothing is delivered, and no signal given, outside a view."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import history
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace, promises
from antiphon.trace.bearers import private_name


def _look(trace: Trace) -> Iterator[Finding]:
    inside: set[tuple[str, str]] = set()
    for record in trace.records:
        event = record.event
        if event is Event.DELIVER:
            if any(record.views) or private_name(record.process) in record.groups:
                continue
            yield at(record, f"delivered a message to {', '.join(record.groups)} while in no view of these")
        elif event is Event.VIEW:
            inside.add((record.process, record.groups[0]))
        elif event is Event.LEFT:
            inside.discard((record.process, record.groups[0]))
        elif event is Event.TRANSSIG and (record.process, record.groups[0]) not in inside:
            yield at(record, f"a signal in {record.groups[0]} while in no view of it")


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for record in trace.known(history).homeless:
        yield at(record, f"{record.event.value} at {record.daemon}, which was in no view since its start")


PROPERTIES = (
    Property(promises.INITIAL_VIEW, _look),
    Property(promises.INITIAL_VIEW_OF_DAEMONS, _look_at_daemons),
)
