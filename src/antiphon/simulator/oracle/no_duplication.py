"""2.5: at most once."""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import history, name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Bundle, Event, Identity, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    for process, records in trace.by_process.items():
        seen: dict[Identity, int] = {}
        for record in records:
            if record.event is not Event.DELIVER or record.message is None:
                continue
            first = seen.setdefault(record.message, record.position)
            if first != record.position:
                yield Finding("delivered twice", (process,), (record.message,), (first, record.position))


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for life in trace.known(history).lives:
        seen: dict[Bundle, int] = {}
        for term in life.terms:
            for record in term.delivered:
                if record.bundle is None:
                    continue
                first = seen.setdefault(record.bundle, record.position)
                if first != record.position:
                    yield Finding(
                        f"delivered {name(record.bundle)} twice",
                        (life.daemon,),
                        positions=(first, record.position),
                    )


PROPERTIES = (
    Property(promises.NO_DUPLICATION, _look),
    Property(promises.NO_DUPLICATION_OF_DAEMONS, _look_at_daemons),
)
