"""2.2: a process is in its own views."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.of(Event.VIEW):
        if record.process not in record.members:
            yield at(record, f"installed a view of {record.groups[0]} without itself")


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for term in trace.known(daemon_terms):
        view = term.start
        if (term.daemon, term.incarnation) not in zip(view.members, view.incarnations, strict=False):
            yield at(view, f"incarnation {term.incarnation} of {term.daemon} installed a view without itself")


PROPERTIES = (
    Property(promises.SELF_INCLUSION, _look),
    Property(promises.SELF_INCLUSION_OF_DAEMONS, _look_at_daemons),
)
