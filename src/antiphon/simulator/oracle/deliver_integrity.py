"""2.6: only what was sent, as it was sent."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import Event, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    sends = trace.sends
    for record in trace.records:
        if record.event is not Event.DELIVER or record.message is None:
            continue
        sent = sends.get(record.message)
        if sent is None or sent.position > record.position:
            yield at(record, "delivered, but not sent before")
        elif sent.checksum != record.checksum:
            yield at(record, "the payload is not the one that was sent")
        elif sent.groups != record.groups or sent.service != record.service:
            yield at(record, "its groups or its service are not those it was sent with")
        elif sent.self_discard and sent.process == record.process:
            yield at(record, "came back to a sender that did not want it")


PROPERTY = Property(
    "2.6",
    "deliver integrity",
    "what is delivered was sent before, with the same bytes, to the same groups, at the same service",
    _look,
)
