"""*repairs*, a promise of our own: requests and repairs of a cast suppress one another.

- Whoever multicasts a repair of a piece was asked for it after it had sent or heard the last repair of it.
- Whoever asks for a piece has not heard just before that somebody else did.

The trace tells of what an edge itself sent and heard, at the moments at which its process handled it. Times
are those of the world, while clocks of processes run at other rates: so the bound is half of the shortest
time for which a request is put off.

Follows: SRM: request and repair timers, suppression.
"""

from collections.abc import Iterator

from antiphon import limits
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises

ASKED_AGAIN_US = 2 * limits.CAST_DISTANCE_MIN_US // 2

Key = tuple[str, str, int]
"""An edge, the number of a stream, that of a piece."""


def _look(trace: Trace) -> Iterator[Finding]:
    if not trace.edges:
        return
    asked: dict[Key, Record] = {}  # the newest request of another one since the last repair
    heard: dict[Key, Record] = {}  # the newest request of another one
    for record in trace.records:
        if record.event is Event.CRASH:
            for known in (asked, heard):
                for key in [key for key in known if key[0] == record.daemon]:
                    del known[key]
        if record.event not in (Event.REQUEST, Event.REPAIR):
            continue
        key = (record.daemon, record.reason, record.place)
        if record.event is Event.REQUEST:
            if not record.peer:
                asked[key] = heard[key] = record
            elif key in heard and record.time_us - heard[key].time_us < ASKED_AGAIN_US:
                yield at(record, f"{record.daemon} asks for piece {record.place}, as another one just did")
            continue
        if record.peer and key not in asked:
            yield at(record, f"{record.daemon} repairs piece {record.place}, which was not requested")
        asked.pop(key, None)


PROPERTIES = (Property(promises.REPAIRS, _look, is_of_edges=True),)
