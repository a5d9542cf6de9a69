"""2.12: nothing overtakes its own causes.

Real causality, taken from the trace: a send is caused by the sender's earlier sends and by everything the
sender had delivered (definition 2.6). A vector with one entry per sending process holds the newest send of
each that is in the past of an event. At each receiver, the union of the pasts of the ordered messages that it
has delivered says which messages may no longer come.

Daemons have one order for all bundles, that of the timestamps, to which `one_order` holds their deliveries.
So causes come first if every bundle is stamped later than all that its source had sent and delivered.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import CAUSAL_SERVICES, RELIABLE_SERVICES, Event, Identity, Record, Trace, promises

Past = list[int]
"""For each process, how many of its sends lie in the past."""


class _Receiver:
    """What one process knows, and what it may no longer deliver."""

    def __init__(self, processes: int) -> None:
        self.knows: Past = [0] * processes
        self.closed: Past = [0] * processes
        """Sends that an ordered message already delivered here had in its past."""
        self.closed_by: list[Record | None] = [None] * processes


def _look(trace: Trace) -> Iterator[Finding]:
    index = {process: number for number, process in enumerate(trace.by_process)}
    receivers = {process: _Receiver(len(index)) for process in index}
    births: dict[Identity, tuple[int, int, Past]] = {}
    """For each message: its sender, its place among that sender's, and its past."""
    for record in trace.records:
        if record.event is Event.SEND and record.message is not None:
            sender = index[record.process]
            knows = receivers[record.process].knows
            births[record.message] = (sender, knows[sender] + 1, knows.copy())
            knows[sender] += 1
        elif record.event is Event.DELIVER and record.message in births:
            yield from _deliver(record, receivers[record.process], *births[record.message])


def _deliver(record: Record, receiver: _Receiver, sender: int, place: int, past: Past) -> Iterator[Finding]:
    if record.service in RELIABLE_SERVICES and receiver.closed[sender] >= place:
        effect = receiver.closed_by[sender]
        assert effect is not None and effect.message is not None and record.message is not None
        yield Finding(
            "a message that it caused was delivered before it",
            (record.process,),
            (record.message, effect.message),
            (effect.position, record.position),
        )
    if receiver.knows[sender] < place:
        receiver.knows = list(map(max, receiver.knows, past))
        receiver.knows[sender] = max(receiver.knows[sender], place)
    if record.service in CAUSAL_SERVICES:
        closed = receiver.closed
        for number, newest in enumerate(past):
            if newest > closed[number]:
                closed[number] = newest
                receiver.closed_by[number] = record


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    newest: dict[str, Record] = {}
    for record in trace.records:
        if record.event is Event.RECOVER:
            newest.pop(record.daemon, None)
        elif record.event is Event.SSEND or record.event is Event.SDELIVER:
            before = newest.get(record.daemon)
            if before is None or record.lts > before.lts:
                newest[record.daemon] = record
            elif record.event is Event.SSEND:
                yield Finding(
                    f"sent {name(record.bundle)} with lts {record.lts} after {name(before.bundle)} with lts "
                    f"{before.lts}",
                    (record.daemon,),
                    positions=(before.position, record.position),
                )


PROPERTIES = (
    Property(promises.CAUSAL, _look),
    Property(promises.CAUSAL_OF_DAEMONS, _look_at_daemons),
)
