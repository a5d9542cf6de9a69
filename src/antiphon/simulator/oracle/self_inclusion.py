"""2.2: a process is in its own views."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.of(Event.VIEW):
        if record.process not in record.members:
            yield at(record, f"installed a view of {record.groups[0]} without itself")


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for term in trace.known(daemon_terms):
        view = term.start
        if (term.daemon, term.incarnation) not in zip(view.members, view.incarnations, strict=False):
            yield at(view, f"incarnation {term.incarnation} of {term.daemon} installed a view without itself")


PROPERTY = Property("2.2", "self inclusion", "every view that a process installs has it as a member", _look)
DAEMON_PROPERTY = Property(
    "2.2",
    "self inclusion (daemons)",
    "every view that a daemon installs has it as a member, in its present incarnation",
    _look_at_daemons,
)
