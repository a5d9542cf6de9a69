"""2.20: one identifier, one membership."""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.simulator.trace import Event, Record, Trace, ViewNumber


def _look(trace: Trace) -> Iterator[Finding]:
    first: dict[tuple[str, ViewNumber], Record] = {}
    for record in trace.records:
        if record.event is not Event.VIEW or record.views[0] is None:
            continue
        other = first.setdefault((record.groups[0], record.views[0]), record)
        if (other.members, other.cause, other.changed) != (record.members, record.cause, record.changed):
            yield Finding(
                f"view {record.views[0]} of {record.groups[0]} is not the same at two members",
                (other.process, record.process),
                positions=(other.position, record.position),
            )


PROPERTY = Property(
    "2.20",
    "membership agreement",
    "two processes that install the same view of a group install the same members, in the same order",
    _look,
)
