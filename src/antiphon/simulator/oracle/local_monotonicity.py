"""2.3: view identifiers only grow."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import Event, Record, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    for process, history in trace.by_process.items():
        newest: dict[str, Record] = {}
        for record in history:
            if record.event is not Event.VIEW:
                continue
            (group,), (view,) = record.groups, record.views
            before = newest.get(group)
            if view is None or (before is not None and (before.views[0] or view) >= view):
                yield Finding(
                    f"view {view} of {group} came after view {before.views[0] if before else None}",
                    (process,),
                    positions=(before.position if before else record.position, record.position),
                )
            newest[group] = record


PROPERTY = Property(
    "2.3", "local monotonicity", "at one process, later views of a group have greater identifiers", _look
)
