"""2.10: every member that stays gets every message.

A message belongs to the daemon view in which its bundle was sent. It is owed to the processes at those
daemons of that view that go on together with the sender's daemon. For the others it may be lost, and virtual
synchrony (2.7) says what is owed among them.
"""

from collections import Counter
from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_of, daemon_terms, history, name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import RELIABLE_SERVICES, Event, Record, Trace, ViewNumber, promises


def _look(trace: Trace) -> Iterator[Finding]:
    inside: dict[str, dict[str, None]] = {}
    leaving: Counter[tuple[str, str]] = Counter()
    for record in trace.records:
        if record.event is Event.SEND:
            if record.service in RELIABLE_SERVICES:
                yield from _missing(trace, record, inside)
        elif record.event is Event.DISCONNECT:
            for members in inside.values():
                members.pop(record.process, None)
        elif record.event is Event.VIEW:
            if not leaving[record.process, record.groups[0]]:
                inside.setdefault(record.groups[0], {})[record.process] = None
        elif record.event is Event.LEAVE:
            leaving[record.process, record.groups[0]] += 1
            inside.get(record.groups[0], {}).pop(record.process, None)
        elif record.event is Event.LEFT:
            leaving[record.process, record.groups[0]] -= 1


def _missing(trace: Trace, sent: Record, inside: dict[str, dict[str, None]]) -> Iterator[Finding]:
    message = sent.message
    assert message is not None
    for group, view in zip(sent.groups, sent.views, strict=True):
        for process in _candidates(trace, sent, group, view, inside.get(group, {})):
            if message in trace.delivered[process] or (process == sent.process and sent.self_discard):
                continue
            if trace.known(history).go_together(message, sent.daemon, daemon_of(process)) and _stays(
                trace, sent, group, process, inside
            ):
                yield Finding(
                    f"sent to {group}; {process} was a member, stayed one and never delivered it",
                    (sent.process, process),
                    (message,),
                    (sent.position,),
                )


def _candidates(
    trace: Trace, sent: Record, group: str, view: ViewNumber | None, inside: dict[str, None]
) -> Iterator[str]:
    """Who may have to get it: members by their own word, members by the sender's, or the session it names."""
    bearer = trace.bearers.get(group)
    if bearer is not None:
        if trace.by_process[bearer][0].position < sent.position:
            yield bearer
        return
    yield from inside
    for process in trace.members[group, view] if view is not None else ():
        if process not in inside and process in trace.by_process:
            yield process


def _stays(trace: Trace, sent: Record, group: str, process: str, inside: dict[str, dict[str, None]]) -> bool:
    if group in trace.bearers:
        return trace.stays(process, "", 0)
    if process in inside.get(group, {}):
        return trace.stays(process, group, sent.position)
    return trace.joined_once(process, group)


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    delivered = {
        (term.view, term.daemon): {record.bundle for record in term.delivered}
        for term in trace.known(daemon_terms)
    }
    for term in trace.known(daemon_terms):
        if term.is_cut_short:
            continue
        together = {
            daemon
            for daemon, other in told.views[term.view].items()
            if not other.is_cut_short and other.next_view == term.next_view
        }
        for record in term.sent:
            for daemon in record.destinations:
                if daemon in together and record.bundle not in delivered[term.view, daemon]:
                    yield Finding(
                        f"{term.daemon} sent {name(record.bundle)}; {daemon} went on together with it and "
                        "never delivered it",
                        (term.daemon, daemon),
                        positions=(record.position,),
                    )


PROPERTIES = (
    Property(promises.RELIABLE, _look),
    Property(promises.RELIABLE_OF_DAEMONS, _look_at_daemons),
)
