"""2.3: view identifiers only grow.

For daemons: within one incarnation. One whose wall clock was set back between two lives may begin again with
a smaller identifier; that it is a new one all the same, membership agreement (2.20) sees to.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import history
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import Event, Record, Trace, promises


def _look(trace: Trace) -> Iterator[Finding]:
    for process, records in trace.by_process.items():
        newest: dict[str, Record] = {}
        for record in records:
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


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for life in trace.known(history).lives:
        for before, after in zip(life.terms, life.terms[1:], strict=False):
            if after.view <= before.view:
                yield Finding(
                    f"daemon view {after.view} came after {before.view}",
                    (life.daemon,),
                    positions=(before.start.position, after.start.position),
                )


PROPERTIES = (
    Property(promises.LOCAL_MONOTONICITY, _look),
    Property(promises.LOCAL_MONOTONICITY_OF_DAEMONS, _look_at_daemons),
)
