"""*edges*, its third part: what clients of edges hand over is sent once, and no fate is left in the dark.

One attachment sends it in its order. What a lost one may still send is unsure, and may come after what the
next one sends. Where several messages are alike, which happens in live runs only, they are counted.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_of
from antiphon.simulator.oracle.stretches import Edges, core, edges, mark
from antiphon.simulator.oracle.verdict import Finding, at
from antiphon.trace import RELIABLE_SERVICES, Event, Identity, Record, Trace


def judge_sends(trace: Trace) -> Iterator[Finding]:
    """What is wrong with what was handed over and sent."""
    told: Edges = trace.known(edges)
    sent: dict[Identity, Record] = {}  # by the message as it was handed over
    newest: dict[str, Record] = {}
    left = told.alike.copy()
    for record in trace.of(Event.SEND):
        if not record.peer or (trace.live and daemon_of(record.peer) not in trace.edges):
            continue
        alike = mark(record, record.peer)
        left[alike] -= 1
        if told.alike[alike] > 1 and left[alike] >= 0:
            continue
        given = None if record.message is None else told.givers.get(record.message)
        if given is None or given.message is None or given.position > record.position:
            yield at(record, f"sent for {record.peer}, which had not handed it over")
            continue
        if given.message in sent:
            yield Finding(
                f"sent twice for {record.peer}", (record.process,), (given.message,),
                (sent[given.message].position, record.position),
            )  # fmt: skip
        before = newest.get(record.process)
        if before is not None and before.position > given.position:
            yield at(record, f"sent after what {given.process} handed over later")
        sent[given.message] = record
        newest[record.process] = given
    for process, records in told.by_process.items():
        yield from _judge_fates(trace, process, records, sent)


def _judge_fates(
    trace: Trace, process: str, records: list[Record], sent: dict[Identity, Record]
) -> Iterator[Finding]:
    """What becomes of the messages of one process."""
    given = {record.message: record for record in records if record.event is Event.HANDED}
    unsure: set[Identity] = set()
    unsent: set[Identity] = set()
    losses = trace.known(edges).losses(records[0].daemon)
    for record in records:
        if record.event not in (Event.UNSURE, Event.UNSENT) or record.message is None:
            continue
        daemon, incarnation, session, first = record.message
        for place in range(first, first + record.count):
            message = (daemon, incarnation, session, place)
            handed = given.get(message)
            if handed is None or handed.position > record.position:
                continue  # joins and leaves have numbers, too
            (unsure if record.event is Event.UNSURE else unsent).add(message)
            is_lost = any(handed.position < loss < record.position for loss in losses)
            if record.event is Event.UNSURE and not is_lost:
                yield at(record, "told that a message's fate is unknown, and no attachment was lost")
    restored = trace.of(Event.RESTORED)
    in_reach = frozenset(restored[-1].members) if restored else frozenset()
    stays = records[-1].event is not Event.DISCONNECT and records[0].daemon in in_reach
    for sent_as, record in given.items():
        if sent_as is None:
            continue
        fate = sent.get(sent_as)
        if sent_as in unsent and fate is not None and _is_delivered(trace, fate):
            yield at(record, "told that it was not sent, and it was delivered")
        if not stays or record.service not in RELIABLE_SERVICES or sent_as in unsure | unsent:
            continue
        if fate is None:
            yield at(record, f"{process} handed it to its edge; it was never sent, and nothing was told")
        elif not _is_delivered(trace, fate):
            yield at(record, f"{process} handed it to its edge; it was lost, and nothing was told")


def _is_delivered(trace: Trace, sent: Record) -> bool:
    """Whether any daemon delivered a message."""
    return trace.known(core).delivery(sent.message) is not None
