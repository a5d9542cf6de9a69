"""2.15: a member gets its own messages, however the views change."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms, name
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import RELIABLE_SERVICES, Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.of(Event.SEND):
        if record.service not in RELIABLE_SERVICES or record.self_discard:
            continue
        for group, view in zip(record.groups, record.views, strict=True):
            if view is None or record.message in trace.delivered[record.process]:
                continue
            if trace.stays(record.process, group, record.position):
                yield at(record, f"sent to {group} as a member, and never got it back")


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for term in trace.known(daemon_terms):
        if term.is_cut_short:
            continue
        delivered = {record.bundle for record in term.delivered}
        for record in term.sent:
            if term.daemon in record.destinations and record.bundle not in delivered:
                yield at(record, f"never delivered its own {name(record.bundle)}")


PROPERTY = Property(
    "2.15", "self delivery", "a member that sends to its group and stays delivers its own message", _look
)
DAEMON_PROPERTY = Property(
    "2.15",
    "self delivery (daemons)",
    "a daemon that does not crash in a view delivers its own bundles of that view",
    _look_at_daemons,
)
