"""2.11: the order of one sender."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import FIFO_SERVICES, RELIABLE_SERVICES, Event, Record, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for process, history in trace.by_process.items():
        newest: dict[tuple[int, int], Record] = {}
        for record in history:
            if record.event is not Event.DELIVER or record.message is None:
                continue
            if record.service not in RELIABLE_SERVICES:
                continue
            sender = record.message[:2]
            later = newest.get(sender)
            if later is not None and later.message is not None and later.message > record.message:
                yield Finding(
                    f"the later {later.service} message came first",
                    (process,),
                    (record.message, later.message),
                    (later.position, record.position),
                )
            elif record.service in FIFO_SERVICES:
                newest[sender] = record


PROPERTY = Property(
    "2.11",
    "FIFO messages",
    "a FIFO message is delivered after everything that its sender sent before and the receiver delivers, too",
    _look,
)
