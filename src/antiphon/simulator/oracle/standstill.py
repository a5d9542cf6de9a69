"""Watchdogs end views that stand still; among daemons that keep to the protocols there are none.

A run in which packets were forged is not judged. A standstill that is noticed although nothing was forged is
either a mistake of the protocols, which the watchdog covers, or one of the watchdog.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace, promises

REASONS = ("stalled", "impossible-state")
"""Why a daemon gives up its view then."""


def _look(trace: Trace) -> Iterator[Finding]:
    if any(True for _ in trace.of(Event.FORGED)):
        return
    for record in trace.of(Event.STATE):
        if record.reason in REASONS:
            yield at(record, f"daemon {record.daemon} gives up its view ({record.reason})")


PROPERTIES = (Property(promises.STANDSTILL, _look),)
