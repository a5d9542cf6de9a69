"""2.2: a process is in its own views."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.records:
        if record.event is Event.VIEW and record.process not in record.members:
            yield at(record, f"installed a view of {record.groups[0]} without itself")


PROPERTY = Property("2.2", "self inclusion", "every view that a process installs has it as a member", _look)
