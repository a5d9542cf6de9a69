"""2.8: the signal has one place in a view, the same for all who go on together.

Part 2 is judged for clients only, group by group. Between daemons there is no single point that is right for
all groups: bundles go to the sites that have members, so what is missing concerns some groups and not others,
and these are told earlier. Of daemons is asked that there is one general signal for a view that loses
members, at most one early one for each group, before the general one, and that those named in it are the ones
who may come along. Of clients, beyond the thesis, that no view ends for a cut of the network without a
signal.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import DaemonTerm, daemon_terms
from antiphon.simulator.oracle.terms import Term, terms_with_views
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import ORDERED_SERVICES, Event, Identity, Record, Trace, ViewNumber, promises

Messages = set[Identity | None]


def _look(trace: Trace) -> Iterator[Finding]:
    moves: dict[tuple[str, ViewNumber, ViewNumber | None], list[Term]] = {}
    for term in trace.known(terms_with_views):
        if term.signals > 1 and term.signal is not None:
            yield at(term.signal, f"{term.signals} signals in view {term.view} of {term.group}")
        if term.signal is not None and term.signal.views[0] != term.view:
            yield at(term.signal, f"a signal for view {term.signal.views[0]} while in {term.view}")
        if term.end is not None and term.end.event is Event.VIEW:
            moves.setdefault((term.group, term.view, term.next_view), []).append(term)
            if term.end.cause == "network" and term.signal is None:
                yield at(term.end, f"view {term.view} of {term.group} was cut, and no signal told of it")
    for together in moves.values():
        if any(term.signal is not None for term in together):
            yield from _compare(trace, together)


def _compare(trace: Trace, together: list[Term]) -> Iterator[Finding]:
    """Compare those who went on together with the first of them who had the signal."""
    signalled = [term for term in together if term.signal is not None]
    first = next((term for term in signalled if not term.start.delivery), signalled[0])
    assert first.signal is not None
    before, after = _ordered(trace, first.before_signal), _ordered(trace, first.after_signal)
    for term in together:
        if term.signal is None:
            yield Finding(
                f"it had a signal in view {term.view} of {term.group}, {term.process} had none and went on "
                "together with it",
                (first.process, term.process),
                positions=(first.signal.position,),
            )
            continue
        if term.start.delivery:
            continue
        for ours, theirs, when in (
            (_ordered(trace, term.before_signal), before, "before"),
            (_ordered(trace, term.after_signal), after, "after"),
        ):
            if ours != theirs:
                yield Finding(
                    f"these messages were delivered {when} the signal in view {term.view} of {term.group} "
                    "at one of them only",
                    (first.process, term.process),
                    tuple(sorted(message for message in ours ^ theirs if message is not None)),
                    (first.signal.position, term.signal.position),
                )


def _ordered(trace: Trace, records: list[Record]) -> Messages:
    """The ordered messages among `records`, but for those that some sender kept from itself."""
    return {
        record.message
        for record in records
        if record.service in ORDERED_SERVICES
        and record.message is not None
        and not ((sent := trace.sends.get(record.message)) is not None and sent.self_discard)
    }


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for term in trace.known(daemon_terms):
        yield from _judge_daemon(term)


def _judge_daemon(term: DaemonTerm) -> Iterator[Finding]:
    told: set[str] = set()
    for record in term.signals:
        if record.daemon_view != term.view:
            yield at(record, f"a signal for daemon view {record.daemon_view} while in {term.view}")
        for group in record.groups or ("",):
            if group in told or "" in told:
                yield at(record, f"a second signal in daemon view {term.view}")
            told.add(group)
    if term.end is None or term.end.event is not Event.SVIEW:
        return
    companions = set(term.end.transitional)
    if "" not in told and not set(term.start.members) <= companions:
        yield at(term.end, f"daemon view {term.view} lost members, and no signal told of it")
    for record in term.signals:
        if not companions <= set(record.transitional):
            yield Finding(
                "the next view's transitional set has daemons that the signal did not name",
                (term.daemon, *sorted(companions - set(record.transitional))),
                positions=(record.position, term.end.position),
            )


PROPERTIES = (
    Property(promises.TRANSITIONAL_SIGNALS, _look),
    Property(promises.TRANSITIONAL_SIGNALS_OF_DAEMONS, _look_at_daemons),
)
