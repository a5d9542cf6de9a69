"""2.10: every member that stays gets every message."""

from collections import Counter
from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import RELIABLE_SERVICES, Event, Record, Trace, ViewNumber


def _look(trace: Trace) -> Iterator[Finding]:
    inside: dict[str, dict[str, None]] = {}
    leaving: Counter[tuple[str, str]] = Counter()
    for record in trace.records:
        if record.event is Event.SEND and record.service in RELIABLE_SERVICES:
            yield from _missing(trace, record, inside)
        elif record.event is Event.DISCONNECT:
            for members in inside.values():
                members.pop(record.process, None)
        elif record.event is Event.VIEW and not leaving[record.process, record.groups[0]]:
            inside.setdefault(record.groups[0], {})[record.process] = None
        elif record.event is Event.LEAVE:
            leaving[record.process, record.groups[0]] += 1
            inside.get(record.groups[0], {}).pop(record.process, None)
        elif record.event is Event.LEFT:
            leaving[record.process, record.groups[0]] -= 1


def _missing(trace: Trace, sent: Record, inside: dict[str, dict[str, None]]) -> Iterator[Finding]:
    assert sent.message is not None
    for group, view in zip(sent.groups, sent.views, strict=True):
        for process in _expected(trace, sent, group, view, inside.get(group, {})):
            if process == sent.process and sent.self_discard:
                continue
            if sent.message not in trace.delivered[process]:
                yield Finding(
                    f"sent to {group}; {process} was a member, stayed one and never delivered it",
                    (sent.process, process),
                    (sent.message,),
                    (sent.position,),
                )


def _expected(
    trace: Trace, sent: Record, group: str, view: ViewNumber | None, inside: dict[str, None]
) -> Iterator[str]:
    """Who must get it: members by their own word, members by the sender's, or the session it names."""
    bearer = trace.bearers.get(group)
    if bearer is not None:
        if trace.by_process[bearer][0].position < sent.position and trace.stays(bearer, "", 0):
            yield bearer
        return
    for process in inside:
        if trace.stays(process, group, sent.position):
            yield process
    for process in trace.members[group, view] if view is not None else ():
        if process not in inside and trace.joined_once(process, group):
            yield process


PROPERTY = Property(
    "2.10",
    "reliable messages",
    "a message sent to a group reaches every process that is a member then and stays one",
    _look,
)
