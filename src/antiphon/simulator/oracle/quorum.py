"""*quorum*: of the parts of a group of which a member wishes a quorum, at most one has it.

Two views with quorum follow one another: some process went from the one to the other, at once or by other
views. A process may have been cut off from the first when it had just got it, so that no other one has it as
a view: then those in the second are more than half of the first. Parts that never were one group with a wish
are two groups until they meet.

Who came into the first after the last view that both follow counts neither for it nor against it. Newcomers
are counted from the next decision on, and there was none: a decision is safe, so that it would have come to
those who are in both views, after the first, and they would have been in that.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.terms import terms_by_view
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Event, Record, Trace, ViewNumber, promises


def _look(trace: Trace) -> Iterator[Finding]:
    wishing = {(record.process, record.groups[0]) for record in trace.of(Event.JOIN) if record.minimum}
    for group in sorted({group for _, group in wishing}):
        yield from _look_at_group(trace, group, {process for process, name in wishing if name == group})


def _look_at_group(trace: Trace, group: str, wishing: set[str]) -> Iterator[Finding]:
    views: dict[ViewNumber, Record] = {}
    before: dict[ViewNumber, set[ViewNumber]] = {}
    for (name, view), installed in trace.known(terms_by_view).items():
        if name == group:
            views[view] = installed[0].start
            before[view] = {term.previous for term in installed if term.previous is not None}
    is_wished = {view for view, start in views.items() if not wishing.isdisjoint(start.members)}
    past: dict[ViewNumber, frozenset[ViewNumber]] = {}
    for view in sorted(views):  # at one process, later views are greater
        past[view] = frozenset().union(
            *(past.get(earlier, frozenset()) | {earlier} for earlier in before[view])
        )
    having = [view for view in sorted(views) if view in is_wished and views[view].has_quorum]
    for at, later in enumerate(having):
        for earlier in having[:at]:
            shared = past[earlier] & past[later]
            if earlier in past[later] or not (shared & is_wished):
                continue
            last = shared.difference(*(past[view] for view in shared))
            known = {process for view in last for process in views[view].members}
            if not _is_outvoted(trace, group, views[earlier], views[later], known):
                yield Finding(
                    f"view {earlier} and view {later} of {group} have quorum, and neither follows the other",
                    (views[earlier].process, views[later].process),
                    positions=(views[earlier].position, views[later].position),
                )


def _is_outvoted(trace: Trace, group: str, earlier: Record, later: Record, known: set[str]) -> bool:
    """Whether the members of the later view are more than half of those of the earlier one that were members
    before the two were parted (`known`) and have not left."""
    staying = [
        process
        for process in earlier.members
        if process in known
        and (process in later.members or not _has_gone(trace, group, process, earlier, later))
    ]
    return 2 * len(set(staying) & set(later.members)) > len(staying)


def _has_gone(trace: Trace, group: str, process: str, earlier: Record, later: Record) -> bool:
    """Whether a member of the earlier view left, or its session ended, before the later one."""
    return any(
        record.event is Event.DISCONNECT or (record.event is Event.LEAVE and record.groups[0] == group)
        for record in trace.by_process.get(process, ())
        if earlier.position < record.position < later.position
    )


PROPERTIES = (Property(promises.QUORUM, _look),)
