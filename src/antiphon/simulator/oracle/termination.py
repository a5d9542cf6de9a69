"""2.17: everything that was asked for happened by the end of the run.

At the end there are sets of daemons that can reach one another (`restored` names them; without it all daemons
are one). In each of these, joins and leaves have taken effect, all members of a group are in one view that
has exactly them, no view is about to end, and what was sent in that view is delivered by all of its members.
What a daemon took from a client and still lives to send was sent.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import daemon_of, daemon_terms, history, name
from antiphon.simulator.oracle.membership_precision import restored
from antiphon.simulator.oracle.terms import Term, is_kept_from, terms
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import RELIABLE_SERVICES, Event, Record, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    last = {(term.process, term.group): term for term in trace.known(terms) if term.end is None}
    yield from _unfulfilled(trace, last)
    yield from _scattered(trace, last)
    yield from _pending(trace, last)


def _unfulfilled(trace: Trace, last: dict[tuple[str, str], Term]) -> Iterator[Finding]:
    """Wishes that did not come true, and ends that were announced and did not come."""
    for process, records in trace.by_process.items():
        if records[-1].event is Event.DISCONNECT:
            continue
        wishes = {record.groups[0]: record for record in records if record.event in (Event.JOIN, Event.LEAVE)}
        for group, wish in wishes.items():
            if wish.event is Event.JOIN and (process, group) not in last:
                yield at(wish, f"asked to join {group} and never became a member")
            elif wish.event is Event.LEAVE and (process, group) in last:
                yield at(wish, f"asked to leave {group} and never left")
    for term in last.values():
        if term.signal is not None and term.process not in trace.without_views:
            yield at(term.signal, f"the signal in {term.group} was not followed by a view")


def _scattered(trace: Trace, last: dict[tuple[str, str], Term]) -> Iterator[Finding]:
    """Members of one group who could be in one view and are not."""
    peace = trace.known(restored)
    parts = {daemon: number for number, part in enumerate(peace.parts if peace else ()) for daemon in part}
    final: dict[tuple[str, int], list[Term]] = {}
    for term in last.values():
        final.setdefault((term.group, parts.get(daemon_of(term.process), -1)), []).append(term)
    for (group, _), together in final.items():
        members = {term.process for term in together}
        views = [term for term in together if term.process not in trace.without_views]
        for term in views:
            if set(term.start.members) != members:
                yield Finding(
                    f"at the end its view of {group} is not the set of those who are in it",
                    (term.process, *sorted(set(term.start.members) ^ members)),
                    positions=(term.start.position,),
                )
            elif term.view != views[0].view:
                yield Finding(
                    f"at the end they are in different views of {group}",
                    (views[0].process, term.process),
                    positions=(views[0].start.position, term.start.position),
                )


def _pending(trace: Trace, last: dict[tuple[str, str], Term]) -> Iterator[Finding]:
    """Messages that their daemon never sent, and those of the last view that did not reach all members."""
    told = trace.known(history)
    alive = {(life.daemon, life.incarnation) for life in told.lives if life.crash is None}
    for sent in trace.of(Event.SEND):
        if sent.service not in RELIABLE_SERVICES or sent.message is None:
            continue
        if sent.message not in told.carriers and (sent.daemon, sent.message[1]) in alive:
            yield at(sent, "the daemon took it from its client and never sent it")
        if sent.process in trace.without_views:
            continue
        for group, view in zip(sent.groups, sent.views, strict=True):
            term = last.get((sent.process, group))
            if term is not None and term.view == view:
                yield from _unreached(trace, sent, term)


def _unreached(trace: Trace, sent: Record, term: Term) -> Iterator[Finding]:
    assert sent.message is not None
    for member in term.start.members:
        if sent.message not in trace.delivered.get(member, ()) and not is_kept_from(
            trace, member, sent.message
        ):
            yield Finding(
                f"sent in the last view of {term.group}, and {member} did not deliver it",
                (sent.process, member),
                (sent.message,),
                (sent.position,),
            )


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    delivered = {
        (term.view, term.daemon): {record.bundle for record in term.delivered}
        for term in trace.known(daemon_terms)
        if term.end is None
    }
    for term in trace.known(daemon_terms):
        if term.end is not None:
            continue
        if term.signals:
            yield at(term.signals[0], f"the signal in daemon view {term.view} was not followed by a view")
        for record in term.sent:
            for daemon in record.destinations:
                if record.bundle not in delivered.get((term.view, daemon), ()):
                    yield Finding(
                        f"{term.daemon} sent {name(record.bundle)} in its last view, and {daemon} did not "
                        "deliver it",
                        (term.daemon, daemon),
                        positions=(record.position,),
                    )
    for life in told.lives:
        if life.crash is None and not life.terms:
            yield Finding("a daemon started and never installed a view", (life.daemon,))


PROPERTIES = (
    Property(promises.TERMINATION, _look),
    Property(promises.TERMINATION_OF_DAEMONS, _look_at_daemons),
)
