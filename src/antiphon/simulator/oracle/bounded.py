"""No buffer beyond its limit, and none in use once everything is said."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    last: dict[str, Record] = {}
    for record in trace.records:
        if record.event is Event.CRASH:
            last.pop(record.daemon, None)
        if record.event is not Event.BUFFERS:
            continue
        last[record.daemon] = record
        for name, (used, limit) in record.buffers.items():
            if used > limit:
                yield at(record, f"daemon {record.daemon}: {name} holds {used}, its limit is {limit}")
    for daemon, record in last.items():
        for name, (used, _limit) in record.buffers.items():
            if used:
                yield at(record, f"daemon {daemon}: {name} still holds {used} at the end")


PROPERTIES = (Property(promises.BOUNDED, _look),)
