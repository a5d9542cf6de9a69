"""2.7: those who move together from view to view have delivered the same messages.

Reliable and FIFO messages are not tied to views (thesis 2.2.4): a process may deliver one ahead of views that
others have behind them. Taken literally the property would then ask for deliveries to processes that left
before the message was even sent; so for these services it speaks of processes that stay.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import (
    ORDERED_SERVICES,
    RELIABLE_SERVICES,
    Event,
    Identity,
    Record,
    Trace,
    ViewNumber,
)

Move = tuple[str, ViewNumber, ViewNumber | None]
"""From a view of a group to the next; None is the end of the run."""


class Stay(Struct):
    """One process in one view of a group."""

    since: int
    """Position at which it installed the view."""
    delivered: list[Record]


def _look(trace: Trace) -> Iterator[Finding]:
    moves: dict[Move, dict[str, Stay]] = {}
    for process, history in trace.by_process.items():
        if history[-1].event is not Event.DISCONNECT:
            for move, stay in _moves(history).items():
                moves.setdefault(move, {})[process] = stay
    for (group, view, _next), together in moves.items():
        union = {record.message: record for stay in together.values() for record in stay.delivered}
        for process, stay in together.items():
            remains = trace.stays(process, group, stay.since)
            for message, record in union.items():
                if message is None or _has(trace, process, message):
                    continue
                if remains or record.service in ORDERED_SERVICES:
                    yield Finding(
                        f"{record.process} delivered it in view {view} of {group}, {process} moved on "
                        "together with it and never did",
                        (record.process, process),
                        (message,),
                        (record.position,),
                    )


def _moves(history: list[Record]) -> dict[Move, Stay]:
    """What one process delivered in each of its views, by where it went from there."""
    current: dict[str, tuple[ViewNumber, Stay]] = {}
    moves: dict[Move, Stay] = {}
    for record in history:
        if record.event is Event.DELIVER and record.service in RELIABLE_SERVICES:
            for group in record.groups:
                if group in current:
                    current[group][1].delivered.append(record)
        elif record.event is Event.VIEW and record.views[0] is not None:
            (group,), after = record.groups, record.views[0]
            if group in current:
                view, stay = current[group]
                moves[group, view, after] = stay
            current[group] = (after, Stay(record.position, []))
        elif record.event is Event.LEFT:
            current.pop(record.groups[0], None)
    for group, (view, stay) in current.items():
        moves[group, view, None] = stay
    return moves


def _has(trace: Trace, process: str, message: Identity) -> bool:
    if message in trace.delivered[process]:
        return True
    sent = trace.sends.get(message)
    return sent is not None and sent.self_discard and sent.process == process


PROPERTY = Property(
    "2.7",
    "virtual synchrony",
    "two processes that go from one view to the next together deliver what either delivered in the first",
    _look,
)
