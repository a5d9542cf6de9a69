"""2.15: a member gets its own messages, however the views change."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms, name
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import RELIABLE_SERVICES, Event, Trace, promises


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


PROPERTIES = (
    Property(promises.SELF_DELIVERY, _look),
    Property(promises.SELF_DELIVERY_OF_DAEMONS, _look_at_daemons),
)
