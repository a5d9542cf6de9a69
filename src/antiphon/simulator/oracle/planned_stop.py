"""A daemon that is told to stop costs its peers a few round trips, and their clients nothing but departures.

The record of such a stop says for how long the others may be without a view because of it; where other
troubles may stop them, too, it says nothing, and is not judged. From the first stop that is, to the end of
the run, nothing but stops and starts befalls the daemons: no group has a transitional signal or a view that
the network made, and no daemon is without a view for longer than that. Those that have been started and have
not had a view since then, or are themselves told to stop, do not count.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises

VIEW_LOST = ("seg", "statetrans")
"""States with which a view stops."""
VIEW_WORKS = ("op",)


def _look(trace: Trace) -> Iterator[Finding]:
    bound_us = 0
    stopped: dict[str, Record] = {}  # daemons without a view: since when
    leaving: set[str] = set()
    settled: set[str] = set()  # daemons that have had a view that works in their present life
    for record in trace.records:
        daemon = record.daemon
        match record.event:
            case Event.STOP:
                bound_us = max(bound_us, record.bound_us)
                leaving.add(daemon)
            case Event.RECOVER | Event.CRASH:
                leaving.discard(daemon)
                settled.discard(daemon)
                stopped.pop(daemon, None)
            case Event.STATE if record.state in VIEW_LOST and daemon in settled:
                stopped.setdefault(daemon, record)
            case Event.STATE if record.state in VIEW_WORKS:
                settled.add(daemon)
                begun = stopped.pop(daemon, record)
                pause_us = record.time_us - begun.time_us
                if bound_us and pause_us > bound_us and daemon not in leaving:
                    what = f"daemon {daemon} was without a view for {pause_us} us, not {bound_us} at most"
                    yield Finding(what, (daemon,), (), (begun.position, record.position))
            case Event.TRANSSIG if bound_us:
                yield at(record, "it had a transitional signal, although daemons only stopped on purpose")
            case Event.VIEW if bound_us and record.cause == "network":
                yield at(record, "the network made a view, although daemons only stopped on purpose")


PROPERTIES = (Property(promises.PLANNED_STOP, _look),)
