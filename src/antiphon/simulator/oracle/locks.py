"""*locks*: a lock has one holder at most, none without quorum, passes on in the order of asking, and every
grant has a greater number than those before; all members see the same.

Only processes that are told of views are asked: the others know of their own requests alone.
"""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, LockState, Record, Trace, ViewNumber, promises

NOBODY: LockState = ("", "", 0, ())


class _Term(Struct, eq=False):
    """What one process saw of the locks of a group in one view."""

    process: str
    start: Record
    changes: list[Record]
    before_signal: int = -1
    """How many of `changes` came before the signal; -1: there was none."""
    next_view: ViewNumber | None = None


def _look(trace: Trace) -> Iterator[Finding]:
    terms: dict[tuple[str, ViewNumber], list[_Term]] = {}
    holders: dict[tuple[str, str, int], tuple[str, Record]] = {}
    for process, history in trace.by_process.items():
        if process not in trace.without_views:
            yield from _follow(process, history, terms, holders)
    for together in terms.values():
        yield from _compare(together)


def _follow(
    process: str,
    history: list[Record],
    terms: dict[tuple[str, ViewNumber], list[_Term]],
    holders: dict[tuple[str, str, int], tuple[str, Record]],
) -> Iterator[Finding]:
    """The stream of one process."""
    current: dict[str, _Term] = {}
    locks: dict[str, dict[str, LockState]] = {}
    newest: dict[tuple[str, str], int] = {}
    for record in history:
        if record.event not in (Event.VIEW, Event.LOCK, Event.TRANSSIG, Event.LEFT):
            continue
        (group,) = record.groups
        if record.event is Event.LEFT:
            current.pop(group, None)
            locks.pop(group, None)
            for known in [known for known in newest if known[0] == group]:
                del newest[known]
            continue
        term = current.get(group)
        if record.event is Event.TRANSSIG:
            if term is not None and term.before_signal < 0:
                term.before_signal = len(term.changes)
            continue
        before = locks.get(group)
        if record.event is Event.VIEW:
            view = record.views[0]
            assert view is not None
            if term is not None:
                term.next_view = view
            current[group] = term = _Term(process, record, [])
            terms.setdefault((group, view), []).append(term)
            after = {lock[0]: lock for lock in record.locks}
        else:
            if term is None:
                yield at(record, f"told of a lock of {group} while it is no member")
                continue
            term.changes.append(record)
            after = dict(before or {})
            after[record.locks[0][0]] = record.locks[0]
        locks[group] = after
        yield from _judge(record, term, before, after)
        for name, holder, fence, _ in after.values():
            if not holder:
                continue
            first, told = holders.setdefault((group, name, fence), (holder, record))
            if first != holder:
                yield Finding(
                    f"grant {fence} of lock {name} of {group} is {first}'s and {holder}'s",
                    (told.process, process),
                    positions=(told.position, record.position),
                )
            had = (before or {}).get(name, NOBODY)
            if (had[1], had[2]) != (holder, fence) and fence <= newest.get((group, name), 0):
                yield at(record, f"grant {fence} of lock {name} comes after {newest.get((group, name), 0)}")
            newest[group, name] = max(fence, newest.get((group, name), 0))


def _judge(
    record: Record, term: _Term, before: dict[str, LockState] | None, after: dict[str, LockState]
) -> Iterator[Finding]:
    """What one process is told, beside what it knew. After the signal, no lock is granted in a group with a
    quorum."""
    view = term.start
    members = set(view.members)
    for name, holder, _, waiting in after.values():
        if holder and not view.has_quorum:
            yield at(record, f"lock {name} has a holder although the group has no quorum")
        if not members.issuperset(waiting) or (holder and holder not in members):
            yield at(record, f"lock {name} is held or waited for by one who is no member")
        if holder in waiting or len(set(waiting)) < len(waiting):
            yield at(record, f"a session holds lock {name} and waits for it, or waits twice")
        if not holder and waiting and view.has_quorum and term.before_signal < 0:
            yield at(record, f"no session holds lock {name}, and some wait for it")
        had = (before or {}).get(name, NOBODY)
        if before is None or record.cause == "merge" or holder == had[1] or not holder:
            continue
        queue = [one for one in had[3] if one in members]
        if record.event is Event.LOCK and record.cause == "released":
            queue = [one for one in queue if one != record.changed[0]]
        if had[1] in members and record.event is Event.LOCK and record.changed[0] != had[1] and had[1]:
            yield at(record, f"lock {name} passes on although its holder has not given it back")
        if queue and holder != queue[0]:
            yield at(record, f"lock {name} goes to {holder}, not to {queue[0]}, who has waited longer")


def _compare(together: list[_Term]) -> Iterator[Finding]:
    """The streams of all who were in one view."""
    first = together[0]
    for term in together[1:]:
        if term.start.locks != first.start.locks or term.start.has_quorum != first.start.has_quorum:
            yield _differ(first.start, term.start, "they begin one view with different locks, or quorum")
        one, other = (_told(first), _told(term))
        if first.next_view is not None and first.next_view == term.next_view:
            if [_said(record) for record in first.changes] != [_said(record) for record in term.changes]:
                yield _differ(first.start, term.start, "they went on together and saw different locks")
        elif one[: len(other)] != other[: len(one)]:
            yield _differ(first.start, term.start, "they saw different locks before the signal")


def _told(term: _Term) -> list[object]:
    changes = term.changes if term.before_signal < 0 else term.changes[: term.before_signal]
    return [_said(record) for record in changes]


def _said(record: Record) -> object:
    return record.locks, record.cause, record.changed


def _differ(one: Record, other: Record, what: str) -> Finding:
    return Finding(what, (one.process, other.process), positions=(one.position, other.position))


PROPERTIES = (Property(promises.LOCKS, _look),)
