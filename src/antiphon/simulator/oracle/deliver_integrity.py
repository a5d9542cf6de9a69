"""2.6: only what was sent, as it was sent."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_terms, history, name
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, delivered_as, promises


def _look(trace: Trace) -> Iterator[Finding]:
    sends = trace.sends
    for record in trace.of(Event.DELIVER):
        if record.message is None:
            continue
        sent = sends.get(record.message)
        if sent is None or sent.position > record.position:
            yield at(record, "delivered, but not sent before")
        elif sent.checksum != record.checksum:
            yield at(record, "the payload is not the one that was sent")
        elif sent.groups != record.groups or record.service != delivered_as(sent.service, record.delivery):
            yield at(record, "its groups or its service are not those it was sent with")
        elif sent.self_discard and sent.process == record.process:
            yield at(record, "came back to a sender that did not want it")


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    sends = trace.known(history).sends
    for term in trace.known(daemon_terms):
        for record in term.delivered:
            sent = None if record.bundle is None else sends.get(record.bundle)
            if sent is None or record.bundle is None or sent.position > record.position:
                yield at(record, f"delivered {name(record.bundle)}, which was not sent before")
            elif sent.daemon != trace.daemons[record.bundle[1]]:
                yield at(record, f"delivered {name(record.bundle)}, which {sent.daemon} sent")
            elif _contents(sent) != _contents(record):
                yield at(record, f"{name(record.bundle)} is not as it was sent")


def _contents(record: Record) -> tuple[object, ...]:
    return (record.lts, record.message, record.count, record.service, record.groups)


PROPERTIES = (
    Property(promises.DELIVER_INTEGRITY, _look),
    Property(promises.DELIVER_INTEGRITY_OF_DAEMONS, _look_at_daemons),
)
