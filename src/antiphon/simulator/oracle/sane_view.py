"""2.9 and, for daemons, 2.19: no message is delivered in a view older than the one it was sent in, and none
of a sender's earlier life in a view of its later one.

For clients, part 1 speaks of ordered messages only (thesis 2.2.4). Part 2 is about processes that bear the
same name one after the other, and about one that leaves and joins again: what was sent before is delivered
before the view with which the name becomes a member. Processes that are not told of views are left out.

For daemons both parts are strict: a bundle is sent and delivered in one and the same view (2.18 adds to that
the receivers), and that view has the incarnation of the daemon that sent it.
"""

from bisect import bisect_right
from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import DaemonTerm, History, daemon_terms, history, name
from antiphon.simulator.oracle.terms import terms
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import (
    CAUSAL_SERVICES,
    RELIABLE_SERVICES,
    Event,
    Identity,
    Record,
    Trace,
    ViewNumber,
    promises,
)
from antiphon.trace.bearers import private_name

Births = dict[tuple[str, str], tuple[list[int], list[ViewNumber]]]
"""For each private name and group, when it asked to join, and with which views it became a member."""


def _look(trace: Trace) -> Iterator[Finding]:
    births = _births(trace)
    first: dict[tuple[Identity, str, ViewNumber], int] = {}  # where a message was first delivered in a view
    for record in trace.of(Event.DELIVER):
        if (
            record.service not in RELIABLE_SERVICES
            or record.message is None
            or record.process in trace.without_views
        ):
            continue
        sent = trace.sends.get(record.message)
        if sent is None or sent.groups != record.groups:
            continue
        ordered = record.service in CAUSAL_SERVICES
        for group, before, after in zip(record.groups, sent.views, record.views, strict=True):
            if after is None:
                continue
            if ordered and before is not None and _is_too_early(trace, sent, group, before, after):
                yield Finding(
                    f"sent in view {before} of {group}, delivered in the earlier view {after}",
                    (sent.process, record.process),
                    (record.message,),
                    (sent.position, record.position),
                )
            first_position = first.setdefault((record.message, group, after), record.position)
            yield from _judge_birth(trace, births, sent, record, group, after, first_position)


def _is_too_early(trace: Trace, sent: Record, group: str, before: ViewNumber, after: ViewNumber) -> bool:
    if after >= before or not _are_in_line(before, after):
        return False
    # One who has asked to leave speaks as an outsider. Its leave may take effect on its side of a cut: then
    # those on the other side never see the view in which it spoke, nor one that follows from it.
    return before[:2] == after[:2] or not trace.is_leaving(sent.process, group, sent.position)


def _are_in_line(view: ViewNumber, other: ViewNumber) -> bool:
    """Whether one of two views can be said to be earlier. On the two sides of a cut, neither is: they come
    from the same epoch and belong to different branches."""
    return view[0] != other[0] or not view[1] or not other[1] or view[1] == other[1]


def _is_not_before(view: ViewNumber, birth: ViewNumber) -> bool:
    """Whether a view is the one with which a sender joined, or comes after it. A view of a branch has left
    the common line at its own lts: what others added to that line later does not come before it."""
    if view < birth or not _are_in_line(view, birth):
        return False
    is_aside = view[0] == birth[0] and view[1] and not birth[1]
    return not is_aside or view[2] >= birth[2]


def _beginnings(trace: Trace) -> dict[int, int]:
    """Where each daemon view was first installed."""
    views = trace.known(history).views
    return {view: min(term.start.position for term in terms.values()) for view, terms in views.items()}


def _births(trace: Trace) -> Births:
    """The n-th time that a process becomes a member answers its n-th join."""
    joins: dict[tuple[str, str], list[int]] = {}
    for record in trace.of(Event.JOIN):
        joins.setdefault((record.process, record.groups[0]), []).append(record.position)
    found = []
    for term in trace.known(terms):
        asked = joins.get((term.process, term.group))
        if term.previous is None and asked:
            found.append((asked.pop(0), private_name(term.process), term.group, term.view))
    births: Births = {}
    for position, bearer, group, view in sorted(found):
        positions, views = births.setdefault((bearer, group), ([], []))
        positions.append(position)
        views.append(view)
    return births


def _judge_birth(
    trace: Trace,
    births: Births,
    sent: Record,
    record: Record,
    group: str,
    view: ViewNumber,
    first_position: int,
) -> Iterator[Finding]:
    """A daemon that is started anew, alone, may begin with views that are smaller than those of its former
    life, and then numbers do not tell which of the two lines is earlier. So a message is judged no further
    that was delivered somewhere in this view (`first_position`) before its sender's name asked to join, or
    in a daemon view that began before the one in which it became a member."""
    known = births.get((private_name(sent.process), group))
    if known is None or record.message is None:
        return
    positions, views = known
    place = bisect_right(positions, sent.position)
    if place == len(positions) or first_position < positions[place]:
        return
    began = trace.known(_beginnings)
    if began.get(view[0], 0) < began.get(views[place][0], 0):
        return
    if _is_not_before(view, views[place]):
        yield Finding(
            f"delivered in view {view} of {group}, although its sender asked to join, with view "
            f"{views[place]}, only after it had sent it",
            (sent.process, record.process),
            (record.message,),
            (sent.position, positions[place], record.position),
        )


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    told = trace.known(history)
    for term in trace.known(daemon_terms):
        for record in term.sent:
            if record.bundle is None or record.bundle[0] != term.view:
                yield at(record, f"sent {name(record.bundle)} while in daemon view {term.view}")
        incarnations = dict(zip(term.start.members, term.start.incarnations, strict=False))
        for record in term.delivered:
            yield from _judge_bundle(trace, told, term, incarnations, record)


def _judge_bundle(
    trace: Trace, told: History, term: DaemonTerm, incarnations: dict[str, int], record: Record
) -> Iterator[Finding]:
    if record.bundle is None:
        return
    view, number, _ = record.bundle
    if view > term.view:
        yield at(record, f"delivered {name(record.bundle)} in the earlier daemon view {term.view}")
    source = trace.daemons[number]
    sender = told.views.get(view, {}).get(source)
    if sender is not None and incarnations.get(source) != sender.incarnation:
        yield at(
            record,
            f"delivered {name(record.bundle)} of incarnation {sender.incarnation} of {source} in daemon view "
            f"{term.view}, which has incarnation {incarnations.get(source)}",
        )


PROPERTIES = (
    Property(promises.SANE_VIEW, _look),
    Property(promises.SANE_VIEW_OF_DAEMONS, _look_at_daemons),
)
