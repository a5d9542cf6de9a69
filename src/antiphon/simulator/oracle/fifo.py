"""2.11: the order of one sender; for daemons, too, the senders are the sessions whose messages they carry."""

from collections.abc import Iterable, Iterator

from antiphon.simulator.oracle.daemons import history
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import FIFO_SERVICES, RELIABLE_SERVICES, Event, Record, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    for process, records in trace.by_process.items():
        yield from _judge(process, (record for record in records if record.event is Event.DELIVER))


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for life in trace.known(history).lives:
        yield from _judge(life.daemon, (record for term in life.terms for record in term.delivered))


def _judge(receiver: str, deliveries: Iterable[Record]) -> Iterator[Finding]:
    newest: dict[tuple[int, int, int], Record] = {}
    for record in deliveries:
        if record.message is None or record.service not in RELIABLE_SERVICES:
            continue
        sender = record.message[:3]
        later = newest.get(sender)
        if later is not None and later.message is not None and later.message > record.message:
            yield Finding(
                f"the later {later.service} message came first",
                (receiver,),
                (record.message, later.message),
                (later.position, record.position),
            )
        elif record.service in FIFO_SERVICES:
            newest[sender] = record


PROPERTIES = (
    Property(promises.FIFO, _look),
    Property(promises.FIFO_OF_DAEMONS, _look_at_daemons),
)
