"""While something flaps, daemons that are well keep their views, and have one that works almost always.

`steady` says from when on, which daemons these are, how many daemon views each may install until the faults
are over, and for how long it may be without one that works. The bounds come from the formula of the damping
(`simulator.steadiness`).
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Event, Record, Trace, promises

LOST = ("seg", "statetrans")
"""States with which a view ends; only `op` ends the silence that follows."""


def _look(trace: Trace) -> Iterator[Finding]:
    for begin in trace.of(Event.STEADY):
        end = next((record for record in trace.of(Event.RESTORED) if record.position > begin.position), None)
        end_us = end.time_us if end is not None else trace.records[-1].time_us
        for daemon in begin.parts[0]:
            yield from _judge(trace, daemon, begin, end_us)


def _judge(trace: Trace, daemon: str, begin: Record, end_us: int) -> Iterator[Finding]:
    views = sum(
        record.daemon == daemon and begin.time_us < record.time_us < end_us
        for record in trace.of(Event.SVIEW)
    )
    if views > begin.count:
        minutes = (end_us - begin.time_us) / 60e6
        yield Finding(
            f"it installs {views} views in {minutes:.1f} minutes; {begin.count} are allowed",
            (daemon,),
            positions=(begin.position,),
        )
    silent_us = _silent_us(trace, daemon, begin.time_us, end_us)
    if silent_us > begin.bound_us:
        yield Finding(
            f"it has no view that works for {silent_us} us in all; {begin.bound_us} are allowed",
            (daemon,),
            positions=(begin.position,),
        )


def _silent_us(trace: Trace, daemon: str, from_us: int, until_us: int) -> int:
    """For how long a daemon has no view that works in this span."""
    silent_us = 0
    since_us: int | None = None
    for record in trace.of(Event.STATE):
        if record.daemon != daemon:
            continue
        if record.state in LOST and since_us is None:
            since_us = record.time_us
        elif record.state == "op" and since_us is not None:
            silent_us += max(0, min(record.time_us, until_us) - max(since_us, from_us))
            since_us = None
    return silent_us if since_us is None else silent_us + max(0, until_us - max(since_us, from_us))


PROPERTIES = (Property(promises.STEADINESS, _look),)
