"""2.5: at most once."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import Event, Identity, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for process, history in trace.by_process.items():
        seen: dict[Identity, int] = {}
        for record in history:
            if record.event is not Event.DELIVER or record.message is None:
                continue
            first = seen.setdefault(record.message, record.position)
            if first != record.position:
                yield Finding("delivered twice", (process,), (record.message,), (first, record.position))


PROPERTY = Property("2.5", "no duplication", "a process delivers a message at most once", _look)
