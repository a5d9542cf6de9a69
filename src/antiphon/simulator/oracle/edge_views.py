"""*edges*, its second part: what members at edges are told of views and signals, and the one order of all.

Views are made in the core; an edge passes them on. The view with which a group begins to flow at an edge is
older than that, so it says nothing of the order; those that follow stand where they do for members of the
core.
"""

from collections.abc import Iterator
from itertools import pairwise

from antiphon.simulator.oracle.one_order import Point, circle_in, lay
from antiphon.simulator.oracle.stretches import Stretch, core, edges, views_of
from antiphon.simulator.oracle.terms import Term, terms_with_views
from antiphon.simulator.oracle.verdict import Finding, at
from antiphon.trace import ORDERED_SERVICES, Event, Identity, Record, Trace, ViewNumber

Move = tuple[str, ViewNumber, ViewNumber]
"""From one view of a group to the next."""


class _Members:
    """What members of the core were told."""

    def __init__(self, trace: Trace) -> None:
        self.moves: dict[Move, list[Term]] = {}
        self.views: dict[str, list[list[ViewNumber]]] = {}
        """By group, the views of each member, in their order."""
        for term in trace.core.known(terms_with_views):
            if term.end is not None and term.end.event is Event.VIEW and term.next_view is not None:
                self.moves.setdefault((term.group, term.view, term.next_view), []).append(term)
        for process, records in trace.core.by_process.items():
            if process not in trace.core.without_views:
                for group in {record.groups[0] for record in records if record.event is Event.VIEW}:
                    self.views.setdefault(group, []).append(views_of(records, group))

    def skips(self, group: str, view: ViewNumber, next_view: ViewNumber) -> bool:
        """Whether members had both views, and all of them one between."""
        both = [one for one in self.views.get(group, ()) if view in one and next_view in one]
        return bool(both) and all(one.index(next_view) - one.index(view) > 1 for one in both)


def judge_views(trace: Trace) -> Iterator[Finding]:
    """What is wrong with views, signals and the one order."""
    told = _Members(trace)
    for stretch in trace.known(edges).stretches:
        for record in stretch.views:
            yield from _judge_members(trace, record)
        yield from _judge_moves(trace, told, stretch)
    yield from _judge_order(trace, told)


def _judge_members(trace: Trace, record: Record) -> Iterator[Finding]:
    view = record.views[0]
    if view is None or not record.members:
        return
    known = trace.core.members.get((record.groups[0], view))
    if known is not None:
        if known != record.members:
            yield at(record, f"view {view} of {record.groups[0]} has other members than in the core")
        return
    for member in record.members:
        if member in trace.core.without_views or member not in trace.core.by_process:
            continue
        if trace.core.stays(member, record.groups[0], 0):
            yield at(record, f"view {view} of {record.groups[0]} has {member}, who never got it")
            return


def _judge_moves(trace: Trace, told: _Members, stretch: Stretch) -> Iterator[Finding]:
    """From one view of a stretch to the next."""
    for record, following in pairwise(stretch.views):
        view, next_view = record.views[0], following.views[0]
        if view is None or next_view is None:
            continue
        if view == next_view:
            yield at(following, f"view {view} of {stretch.group} comes again, and no gap was told")
            continue
        if told.skips(stretch.group, view, next_view):
            yield at(following, f"a view of {stretch.group} between this and {view} is left out")
        signals = [
            signal for signal in stretch.signals if record.position < signal.position < following.position
        ]
        if len(signals) > 1 or any(signal.views[0] != view for signal in signals):
            yield at(signals[-1], f"a signal of {stretch.group} that is not of the present view, or a second")
        moved = told.moves.get((stretch.group, view, next_view))
        if moved is None:
            continue
        if bool(signals) != (moved[0].signal is not None):
            which = "has no signal" if moved[0].signal is not None else "has a signal"
            yield at(
                following, f"{stretch.process} {which} between views {view} and {next_view}, unlike members"
            )
        elif signals:
            yield from _judge_signal(trace, stretch, moved[0], signals[0], following)


def _judge_signal(
    trace: Trace, stretch: Stretch, term: Term, signal: Record, following: Record
) -> Iterator[Finding]:
    """A signal comes between the same ordered messages. But what another daemon had delivered before any
    signal the edge may have had from there, when it comes to one that had not."""
    before = _ordered(term.before_signal)
    after = _ordered(term.after_signal)
    for record in stretch.delivered:
        if record.service not in ORDERED_SERVICES or record.message is None:
            continue
        if record.position < signal.position and record.message in after:
            if not trace.known(core).was_certain(record.message, stretch.group):
                yield at(record, "comes before the signal, and after it in the core")
        elif signal.position < record.position < following.position and record.message in before:
            yield at(record, "comes after the signal, and before it in the core")


def _ordered(records: list[Record]) -> set[Identity]:
    return {
        record.message
        for record in records
        if record.service in ORDERED_SERVICES and record.message is not None
    }


def _judge_order(trace: Trace, told: _Members) -> Iterator[Finding]:
    """What members at edges see goes together with what all others see, in one order."""
    after: dict[Point, dict[Point, int]] = {}
    for records in trace.core.by_process.values():
        lay(records, after)
    for records in trace.known(edges).by_process.values():
        for part in _between_gaps(records, told):
            lay(part, after)
    merged = _as_events(after)
    circle = circle_in(merged)
    if circle:
        pairs = list(zip(circle, circle[1:] + circle[:1], strict=True))
        positions = tuple(merged[first][second] for first, second in pairs)
        yield Finding(
            "with what comes at edges, these events follow one another in a circle: "
            + " < ".join(f"{kind} {'.'.join(map(str, numbers))}" for kind, numbers in circle[:8]),
            tuple(dict.fromkeys(trace.records[position].process for position in positions)),
            tuple(numbers for kind, numbers in circle if kind == "message"),
            positions,
        )


def _as_events(after: dict[Point, dict[Point, int]]) -> dict[Point, dict[Point, int]]:
    """One event may change several groups. Members at edges are told in the order of the groups' names,
    those in the core in another, so that all views that one event made count as one."""

    def event_of(point: Point) -> Point:
        kind, numbers = point
        return (kind, (*numbers[:3], 0)) if kind == "view" else point

    merged: dict[Point, dict[Point, int]] = {}
    for point, followers in after.items():
        one = merged.setdefault(event_of(point), {})
        for follower, position in followers.items():
            if event_of(follower) != event_of(point):
                one.setdefault(event_of(follower), position)
    return merged


def _between_gaps(records: list[Record], told: _Members) -> Iterator[list[Record]]:
    """What one process saw, divided at gaps, and without views that it got when they were old."""
    part: list[Record] = []
    current: dict[str, ViewNumber | None] = {}
    for record in records:
        if record.event is Event.GAP:
            yield part
            part = []
        if record.event in (Event.GAP, Event.LEFT):
            current.pop(record.groups[0], None)
        elif record.event is Event.VIEW:
            (group,), view = record.groups, record.views[0]
            before = current.get(group)
            current[group] = view
            if before is not None and view is not None and (group, before, view) in told.moves:
                part.append(record)
        elif record.event is Event.DELIVER:
            part.append(record)
    yield part
