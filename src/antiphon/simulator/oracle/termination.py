"""Everything that was asked for happened by the end of the run (2.16, 2.17)."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.simulator.trace import Event, Record, Trace


def _look(trace: Trace) -> Iterator[Finding]:
    final: dict[str, dict[str, Record]] = {}
    for process, history in trace.by_process.items():
        if history[-1].event is Event.DISCONNECT:
            continue
        wishes, views = _fate(history)
        for group, wish in wishes.items():
            if wish.event is Event.JOIN and group not in views:
                yield at(wish, f"asked to join {group} and never became a member")
            elif wish.event is Event.LEAVE and group in views:
                yield at(wish, f"asked to leave {group} and never left")
        for group, view in views.items():
            final.setdefault(group, {})[process] = view
    for group, views in final.items():
        for process, view in views.items():
            if process not in trace.without_views and set(view.members) != set(views):
                yield Finding(
                    f"at the end its view of {group} is not the set of those who are in it",
                    (process, *sorted(set(view.members) ^ set(views))),
                    positions=(view.position,),
                )


def _fate(history: list[Record]) -> tuple[dict[str, Record], dict[str, Record]]:
    """For each group, the last wish of one process, and the view that it ended in."""
    wishes: dict[str, Record] = {}
    views: dict[str, Record] = {}
    for record in history:
        if record.event in (Event.JOIN, Event.LEAVE):
            wishes[record.groups[0]] = record
        elif record.event is Event.VIEW:
            views[record.groups[0]] = record
        elif record.event is Event.LEFT:
            views.pop(record.groups[0], None)
    return wishes, views


PROPERTY = Property(
    "2.17",
    "termination",
    "joins, leaves and disconnects take effect: at the end the members of a group are all in one view",
    _look,
)
