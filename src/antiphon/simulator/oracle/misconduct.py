"""Who sends nonsense under its seal is left out by those who got enough of it, and by nobody sooner.

The trace has each such packet that a receiver opened, before what followed from it. How many it takes is
`limits.NONSENSE_MAX`, within `limits.NONSENSE_WITHIN_US`; then

- if the sender is in the view that works, that view ends at the same moment, with the reason "nonsense"
- the receiver installs no view with that process for half of the shortest time for which daemons are left
  out; half, because clocks differ

And where a view ends with that reason, it was enough before, for the time that a daemon may be left out.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon import limits
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises

ENOUGH = limits.NONSENSE_MAX
WITHIN_US = limits.NONSENSE_WITHIN_US
OUT_US = limits.EXCLUDED_US // 2
OUT_MAX_US = 2 * limits.EXCLUDED_MAX_US
REASON = "nonsense"

Sender = tuple[str, int]
"""A daemon and its incarnation."""


class _Daemon(Struct):
    """What the trace has told of one daemon so far."""

    view: frozenset[Sender] = frozenset()
    works: bool = False
    came_us: dict[Sender, list[int]] = {}
    enough_us: dict[Sender, int] = {}
    """When it was enough, the last time."""
    owes: Record | None = None
    """The packet with which it was enough, if the view must end because of it."""


def _look(trace: Trace) -> Iterator[Finding]:
    daemons = {name: _Daemon() for name in trace.daemons}
    for record in trace.records:
        daemon = daemons.get(record.daemon)
        if daemon is None:
            continue
        if daemon.owes is not None and record.time_us > daemon.owes.time_us:
            yield at(daemon.owes, f"daemon {record.daemon} keeps its view with {daemon.owes.members[0]}")
            daemon.owes = None
        match record.event:
            case Event.NONSENSE:
                _came(daemon, record)
            case Event.STATE:
                yield from _entered(daemon, record)
            case Event.SVIEW:
                yield from _installed(daemon, record)
            case Event.RECOVER | Event.CRASH:
                daemons[record.daemon] = _Daemon()


def _came(daemon: _Daemon, record: Record) -> None:
    sender = (record.members[0], record.incarnations[0])
    times_us = daemon.came_us.setdefault(sender, [])
    times_us[:] = [time_us for time_us in times_us if record.time_us - time_us <= WITHIN_US]
    times_us.append(record.time_us)
    if len(times_us) >= ENOUGH:
        times_us.clear()
        daemon.enough_us[sender] = record.time_us
        if daemon.works and sender in daemon.view:
            daemon.owes = record


def _entered(daemon: _Daemon, record: Record) -> Iterator[Finding]:
    if record.reason == REASON:
        if not any(record.time_us - time_us <= OUT_MAX_US for time_us in daemon.enough_us.values()):
            yield at(record, f"daemon {record.daemon} gives up its view for nonsense that has not come")
        daemon.owes = None
    daemon.works = record.state == "op"


def _installed(daemon: _Daemon, record: Record) -> Iterator[Finding]:
    daemon.view = frozenset(zip(record.members, record.incarnations, strict=False))
    for sender, enough_us in daemon.enough_us.items():
        if sender in daemon.view and record.time_us < enough_us + OUT_US:
            yield at(record, f"daemon {record.daemon} takes {sender[0]} in, which has just sent nonsense")


PROPERTIES = (Property(promises.NONSENSE, _look),)
