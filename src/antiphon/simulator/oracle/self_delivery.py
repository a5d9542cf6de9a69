"""2.15: a member gets its own messages."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import RELIABLE_SERVICES, Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.records:
        if record.event is not Event.SEND or record.service not in RELIABLE_SERVICES or record.self_discard:
            continue
        for group, view in zip(record.groups, record.views, strict=True):
            if view is None or record.message in trace.delivered[record.process]:
                continue
            if trace.stays(record.process, group, record.position):
                yield at(record, f"sent to {group} as a member, and never got it back")


PROPERTY = Property(
    "2.15", "self delivery", "a member that sends to its group and stays delivers its own message", _look
)
