"""2.1: nothing is delivered outside a view."""

from collections.abc import Iterator

from antiphon.simulator.bearers import private_name
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.records:
        if record.event is not Event.DELIVER:
            continue
        if any(view is not None for view in record.views) or private_name(record.process) in record.groups:
            continue
        yield at(record, f"delivered a message to {', '.join(record.groups)} while in no view of these")


PROPERTY = Property(
    "2.1",
    "initial view event",
    "a message reaches a process only as a member of one of its groups, or by the process's private name",
    _look,
)
