"""2.7: those who move together from view to view have delivered the same messages.

Reliable and FIFO messages are not tied to the views of groups (thesis 2.2.4): a process may deliver one ahead
of views that others have behind them. Taken literally the property would then ask for deliveries to processes
that left before the message was even sent, or that were cut off in a later view, before it reached them. So
for these services it speaks of processes that stay, and whose daemons went on together from the daemon view
in which the message was sent. Between daemons the property holds as it is written, for every service.

What a member got early, because it chose less than an order, others need not get: it may be dropped at the
end of its view, because it follows a hole. Whatever others get it gets, too.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import DaemonTerm, daemon_of, daemon_terms, history, name
from antiphon.simulator.oracle.terms import Term, is_kept_from, terms_with_views
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import ORDERED_SERVICES, Event, Identity, Record, Trace, ViewNumber, promises

Move = tuple[str, ViewNumber, ViewNumber | None]
"""From a view of a group to the next; None is the end of the run."""


def _look(trace: Trace) -> Iterator[Finding]:
    moves: dict[Move, list[Term]] = {}
    for term in trace.known(terms_with_views):
        if term.end is None or term.end.event is Event.VIEW:
            moves.setdefault((term.group, term.view, term.next_view), []).append(term)
    for together in moves.values():
        if len(together) > 1:
            yield from _compare(trace, together)


def _compare(trace: Trace, together: list[Term]) -> Iterator[Finding]:
    union: dict[Identity | None, Record] = {}
    for term in together:
        for record in term.delivered:
            if record.message not in union or not record.delivery:
                union[record.message] = record
    for term in together:
        missing = union.keys() - trace.delivered[term.process]
        for message in sorted(message for message in missing if message is not None):
            record = union[message]
            if _is_owed(trace, term, message, record):
                yield Finding(
                    f"{record.process} delivered it in view {term.view} of {term.group}, {term.process} "
                    "moved on together with it and never did",
                    (record.process, term.process),
                    (message,),
                    (record.position,),
                )


def _is_owed(trace: Trace, term: Term, message: Identity, record: Record) -> bool:
    """Whether a message that a companion delivered, in `record`, had to come to the process of `term`."""
    if is_kept_from(trace, term.process, message) or record.delivery in ("fifo", "arrival"):
        return False
    if record.service in ORDERED_SERVICES:
        return True
    return trace.stays(term.process, term.group, term.start.position) and trace.known(history).go_together(
        message, daemon_of(record.process), daemon_of(term.process)
    )


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    moves: dict[tuple[int, int | None], list[DaemonTerm]] = {}
    for term in trace.known(daemon_terms):
        if not term.is_cut_short:
            moves.setdefault((term.view, term.next_view), []).append(term)
    for (view, _next), together in moves.items():
        if len(together) < 2:
            continue
        union = {record.bundle: record for term in together for record in term.delivered}
        for term in together:
            missing = union.keys() - {record.bundle for record in term.delivered}
            for bundle in sorted(bundle for bundle in missing if bundle is not None):
                record = union[bundle]
                if term.daemon in record.destinations:
                    yield Finding(
                        f"{record.daemon} delivered {name(bundle)}; {term.daemon} moved on from daemon view "
                        f"{view} together with it and did not",
                        (record.daemon, term.daemon),
                        positions=(record.position,),
                    )


PROPERTIES = (
    Property(promises.VIRTUAL_SYNCHRONY, _look),
    Property(promises.VIRTUAL_SYNCHRONY_OF_DAEMONS, _look_at_daemons),
)
