"""2.14: a safe message is delivered only once all who are to get it have it.

The thesis promises that every member of the view delivers it. While daemons stay, that follows from
reliability; what makes a message safe is *when*: at the delivery, the daemon of every member of the view
must already hold it, so that no cut of the network could keep it from any of them. Deliveries at processes
that are not told of views are left out: only those who know the view know its members.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import Event, Identity, Record, Trace, ViewNumber


def _look(trace: Trace) -> Iterator[Finding]:
    held: dict[Identity, dict[str, int]] = {}
    ready: set[tuple[Identity, str, ViewNumber]] = set()
    for record in trace.records:
        if record.message is None:
            continue
        if record.event is Event.HOLD:
            daemon, session, sequence = record.message
            for place in range(sequence, sequence + record.count):
                held.setdefault((daemon, session, place), {}).setdefault(record.daemon, record.position)
        elif (
            record.event is Event.DELIVER
            and record.service == "safe"
            and record.process not in trace.without_views
        ):
            yield from _judge(trace, record, held.get(record.message, {}), ready)


def _judge(
    trace: Trace,
    record: Record,
    held: dict[str, int],
    ready: set[tuple[Identity, str, ViewNumber]],
) -> Iterator[Finding]:
    assert record.message is not None
    for group, view in zip(record.groups, record.views, strict=True):
        if view is None or (record.message, group, view) in ready:
            continue
        daemons = {member.rpartition("#")[2]: None for member in trace.members[group, view]}
        lacking = [daemon for daemon in daemons if daemon not in held]
        if lacking:
            yield Finding(
                f"delivered while the daemon of a member of {group} did not have it: {', '.join(lacking)}",
                (record.process,),
                (record.message,),
                (record.position,),
            )
        else:
            ready.add((record.message, group, view))


PROPERTY = Property(
    "2.14",
    "safe messages",
    "a safe message is delivered only when the daemons of all members of the view have it",
    _look,
)
