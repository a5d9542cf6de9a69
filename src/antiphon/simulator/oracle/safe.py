"""2.14: a safe message is delivered only once all who are to get it have it.

The thesis promises that every member of the view delivers it, unless it crashes in that view; after the
signal, every member of the next transitional set. Held to more than that: what makes a message safe is
*when*. At a delivery before the signal the daemon of every member of the view must already hold it, so that
no cut of the network can keep it from any of them.

Deliveries at processes that are not told of views are left out: only those who know the view know its
members. Between daemons, the members of a view are those daemons in it that are at the bundle's destinations.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import DaemonTerm, History, daemon_of, daemon_terms, history, name
from antiphon.simulator.oracle.terms import Term, is_kept_from, terms_by_view, terms_with_views
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Bundle, Event, Identity, Record, Trace, ViewNumber, promises

Home = tuple[str, int]
"""Which life of which daemon, counted from its first."""


def _look(trace: Trace) -> Iterator[Finding]:
    yield from _look_at_holds(trace)
    for term in trace.known(terms_with_views):
        safe_before = {record.message: record for record in term.before_signal if record.service == "safe"}
        if safe_before:
            yield from _missing(trace, term, safe_before, trace.members[term.group, term.view])
        safe_after = {record.message: record for record in term.after_signal if record.service == "safe"}
        if safe_after and term.end is not None and term.end.event is Event.VIEW:
            yield from _missing(trace, term, safe_after, term.end.transitional)


def _missing(
    trace: Trace, term: Term, safe: dict[Identity | None, Record], members: tuple[str, ...]
) -> Iterator[Finding]:
    """Which of `members` did not deliver all of `safe`, although they did not disconnect in this view."""
    for member in members:
        missing = safe.keys() - trace.delivered.get(member, set())
        if not missing or _is_excused(trace, member, term):
            continue
        for message in missing:
            if message is not None and not is_kept_from(trace, member, message):
                yield Finding(
                    f"delivered in view {term.view} of {term.group}; {member} was a member of it, did not "
                    "disconnect in it and did not deliver it",
                    (term.process, member),
                    (message,),
                    (safe[message].position,),
                )


def _is_excused(trace: Trace, member: str, term: Term) -> bool:
    """Whether `member` disconnected in the view of `term`, or before it had come to it."""
    records = trace.by_process.get(member)
    if records is None or records[-1].event is not Event.DISCONNECT:
        return False
    if member in trace.without_views:
        return True
    for other in trace.known(terms_by_view)[term.group, term.view]:
        if other.process == member:
            return other.is_cut_short
    return True


def _look_at_holds(trace: Trace) -> Iterator[Finding]:
    held: dict[Identity, set[Home]] = {}
    ready: set[tuple[Identity, str, ViewNumber]] = set()
    signalled: dict[tuple[str, str], ViewNumber | None] = {}
    lives: dict[str, int] = {}
    homes: dict[str, Home] = {}
    for record in trace.records:
        event = record.event
        if event is Event.HOLD and record.message is not None:
            home = (record.daemon, lives.get(record.daemon, 0))
            daemon, incarnation, session, sequence = record.message
            for place in range(sequence, sequence + record.count):
                held.setdefault((daemon, incarnation, session, place), set()).add(home)
        elif event is Event.DELIVER:
            if record.service != "safe" or record.message is None or record.process in trace.without_views:
                continue
            for group, view in zip(record.groups, record.views, strict=True):
                if view is None or (record.message, group, view) in ready:
                    continue
                if signalled.get((record.process, group)) == view:
                    continue
                lacking = _lacking(trace.members[group, view], homes, held.get(record.message, set()))
                if lacking:
                    yield _too_early(record, group, lacking)
                else:
                    ready.add((record.message, group, view))
        elif event is Event.TRANSSIG:
            signalled[record.process, record.groups[0]] = record.views[0]
        elif event is Event.CONNECT:
            homes[record.process] = (record.daemon, lives.get(record.daemon, 0))
        elif event is Event.RECOVER:
            lives[record.daemon] = lives.get(record.daemon, 0) + 1


def _lacking(members: tuple[str, ...], homes: dict[str, Home], held: set[Home]) -> list[str]:
    """The daemons of members that do not hold a message; in the life in which the member connected."""
    wanted = {homes.get(member, (daemon_of(member), 0)): None for member in members}
    return [home[0] for home in wanted if home not in held]


def _too_early(record: Record, group: str, lacking: list[str]) -> Finding:
    assert record.message is not None
    return Finding(
        f"delivered while the daemon of a member of {group} did not have it: {', '.join(lacking)}",
        (record.process,),
        (record.message,),
        (record.position,),
    )


# Daemons --------------------------------------------------------------------------------------------------


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    delivered: dict[tuple[int, str], set[Bundle | None]] = {}
    for term in trace.known(daemon_terms):
        delivered[term.view, term.daemon] = {
            record.bundle for record in term.delivered if record.service == "safe"
        }
    crashed = {life.daemon for life in told.lives if life.crash is not None}
    for term in trace.known(daemon_terms):
        if not delivered[term.view, term.daemon]:
            continue
        signals = term.signalled_at()
        for record in term.delivered:
            if record.service == "safe" and record.bundle is not None:
                yield from _judge_bundle(told, term, signals, record, delivered, crashed)


def _judge_bundle(
    told: History,
    term: DaemonTerm,
    signals: dict[str, int],
    record: Record,
    delivered: dict[tuple[int, str], set[Bundle | None]],
    crashed: set[str],
) -> Iterator[Finding]:
    assert record.bundle is not None
    expected = set(record.destinations)
    if any(signals.get(group, record.position) < record.position for group in ("", *record.groups)):
        if term.end is None or term.end.event is not Event.SVIEW:
            return
        expected &= set(term.end.transitional)
    else:
        held = told.holds.get(record.bundle, {})
        lacking = sorted(
            daemon for daemon in expected if held.get(daemon, record.position) >= record.position
        )
        if lacking:
            yield Finding(
                f"{term.daemon} delivered {name(record.bundle)} while others did not have it",
                (term.daemon, *lacking),
                positions=(record.position,),
            )
    for daemon in sorted(expected):
        other = told.views[term.view].get(daemon)
        excused = daemon in crashed if other is None else other.is_cut_short
        if not excused and record.bundle not in delivered.get((term.view, daemon), ()):
            yield Finding(
                f"{term.daemon} delivered {name(record.bundle)}; {daemon} did not, nor did it crash then",
                (term.daemon, daemon),
                positions=(record.position,),
            )


PROPERTIES = (
    Property(promises.SAFE, _look),
    Property(promises.SAFE_OF_DAEMONS, _look_at_daemons),
)
