"""Every stated bound holds, and time does not run backwards at one daemon.

Time of a reference is compared with the time of the world, which only a simulated run knows. Internal time
has no such judge: daemons that say at one moment what the internal time of the same daemon is are compared
with one another.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises

Moment = tuple[int, str, int]
"""When it was said, and whose internal time it is."""


def _look(trace: Trace) -> Iterator[Finding]:
    last: dict[str, int] = {}
    together: dict[Moment, list[Record]] = {}
    for record in trace.records:
        if record.event is Event.RECOVER:
            last.pop(record.daemon, None)
        if record.event is not Event.CLOCK:
            continue
        time_us, error_us = record.clock["time_us"], record.clock["error_us"]
        before_us = last.get(record.daemon)
        if before_us is not None and time_us < before_us:
            yield at(record, f"time runs backwards by {before_us - time_us} us")
        last[record.daemon] = time_us
        if record.state == "internal":
            moment = (record.time_us, record.peer, record.clock["since_us"])
            together.setdefault(moment, []).append(record)
        elif record.true_us and abs(time_us - record.true_us) > error_us:
            wrong_us = time_us - record.true_us
            yield at(record, f"it is wrong by {wrong_us} us and says that it is by {error_us} us at most")
    for records in together.values():
        yield from _compare(records)


def _compare(records: list[Record]) -> Iterator[Finding]:
    """Two spans that contain the same moment of internal time have something in common."""
    early = min(records, key=lambda record: record.clock["time_us"] + record.clock["error_us"])
    late = max(records, key=lambda record: record.clock["time_us"] - record.clock["error_us"])
    apart_us = late.clock["time_us"] - early.clock["time_us"]
    allowed_us = late.clock["error_us"] + early.clock["error_us"]
    if apart_us > allowed_us:
        yield Finding(
            f"their internal times are {apart_us} us apart; they say that it is {allowed_us} us at most",
            (early.daemon, late.daemon),
            positions=(early.position, late.position),
        )


PROPERTIES = (Property(promises.TIME, _look),)
