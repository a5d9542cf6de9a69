"""2.4: who came along from the previous view."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import Event, Record, Trace, ViewNumber

Installed = dict[str, tuple[ViewNumber | None, Record]]
"""Process: its previous view of the group, and how it installed this one."""


def _look(trace: Trace) -> Iterator[Finding]:
    installed: dict[tuple[str, ViewNumber], Installed] = {}
    for process, history in trace.by_process.items():
        current: dict[str, ViewNumber] = {}
        for record in history:
            if record.event is Event.LEFT:
                current.pop(record.groups[0], None)
            if record.event is not Event.VIEW or record.views[0] is None:
                continue
            (group,), view = record.groups, record.views[0]
            installed.setdefault((group, view), {})[process] = (current.get(group), record)
            current[group] = view
    for (group, _view), members in installed.items():
        yield from _compare(trace, group, members)


def _compare(trace: Trace, group: str, installed: Installed) -> Iterator[Finding]:
    for process, (previous, record) in installed.items():
        together = set(record.transitional)
        if previous is None:
            if together:
                yield at(record, f"its first view of {group} has a transitional set")
            continue
        if not together <= set(trace.members[group, previous]) & set(record.members):
            yield at(record, f"the transitional set in {group} has processes that were not in both views")
        for other, (came_from, _) in installed.items():
            if (other in together) != (came_from == previous):
                yield Finding(
                    f"{other} came from view {came_from} of {group}, {process} from {previous}",
                    (process, other),
                    positions=(record.position,),
                )


PROPERTY = Property(
    "2.4",
    "transitional set",
    "the transitional set names those members who come from the same previous view, and nobody else",
    _look,
)
