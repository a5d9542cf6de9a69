"""Nobody does what the access list of their daemon forbids, a promise of our own.

Connect tells to which groups a session may neither send nor be a member of. That what is refused was never
sent, and that every other message keeps its number, the other properties say.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Trace, promises

Sender = tuple[int, int, int]
"""A daemon, its incarnation, and its session."""


def _look(trace: Trace) -> Iterator[Finding]:
    forbidden = {record.process: set(record.groups) for record in trace.of(Event.CONNECT) if record.groups}
    if not forbidden:
        return
    senders: dict[Sender, str] = {}
    for record in trace.of(Event.SEND):
        if record.message is not None and record.process in forbidden:
            senders[record.message[:3]] = record.process
    for record in trace.of(Event.VIEW):
        for member in record.members:
            if record.groups[0] in forbidden.get(member, ()):
                yield at(record, f"{member} is a member of {record.groups[0]}, which it may not join")
    for record in trace.of(Event.DELIVER):
        sender = None if record.message is None else senders.get(record.message[:3])
        if sender is None:
            continue
        for group in record.groups:
            if group in forbidden[sender]:
                yield at(
                    record, f"{record.process} got a message of {sender} to {group}: it may not send there"
                )


PROPERTIES = (Property(promises.ACCESS, _look),)
