"""2.9: no message is delivered in a view older than the one it was sent in."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import ORDERED_SERVICES, Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for record in trace.records:
        if (
            record.event is not Event.DELIVER
            or record.service not in ORDERED_SERVICES
            or record.message is None
            or record.process in trace.without_views
        ):
            continue
        sent = trace.sends.get(record.message)
        if sent is None or sent.groups != record.groups:
            continue
        for group, before, after in zip(record.groups, sent.views, record.views, strict=True):
            if before is not None and after is not None and after < before:
                yield Finding(
                    f"sent in view {before} of {group}, delivered in the earlier view {after}",
                    (sent.process, record.process),
                    (record.message,),
                    (sent.position, record.position),
                )


PROPERTY = Property(
    "2.9",
    "sane view delivery",
    "an ordered message is not delivered in a view earlier than the one in which its sender sent it",
    _look,
)
