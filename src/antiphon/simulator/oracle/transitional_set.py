"""2.4: who came along from the previous view.

Processes that are not told of views know only those that they joined with: there they are like any other,
later they are left out.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from antiphon.simulator.oracle.daemons import history
from antiphon.simulator.oracle.terms import terms
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Record, Trace, ViewNumber, promises


class Step(Struct, gc=False):
    """How one process, or daemon, came into a view."""

    name: str
    previous: ViewNumber | int | None
    previous_members: tuple[str, ...]
    start: Record


Steps = Mapping[object, list[Step]]
"""For each view, the processes that installed it."""


def _look(trace: Trace) -> Iterator[Finding]:
    installed: dict[object, list[Step]] = {}
    for term in trace.known(terms):
        if term.previous is None:
            step = Step(term.process, None, (), term.start)
        elif term.process in trace.without_views:
            continue
        else:
            members = trace.members[term.group, term.previous]
            step = Step(term.process, term.previous, members, term.start)
        installed.setdefault((term.group, term.view), []).append(step)
    yield from _judge(installed)


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    installed: dict[object, list[Step]] = {}
    for life in trace.known(history).lives:
        members: tuple[str, ...] = ()
        for term in life.terms:
            step = Step(term.daemon, term.previous, members, term.start)
            installed.setdefault(term.view, []).append(step)
            if term.previous is None and term.start.members != (term.daemon,):
                yield at(term.start, f"the first view of {term.daemon} after its start has others")
            members = term.start.members
    yield from _judge(installed)


def _judge(installed: Steps) -> Iterator[Finding]:
    for steps in installed.values():
        installers = {step.name for step in steps}
        origins: dict[object, list[Step]] = {}
        for step in steps:
            if step.previous is None:
                if step.start.transitional:
                    yield at(step.start, "the first view after a start has a transitional set")
            else:
                origins.setdefault(step.previous, []).append(step)
        for companions in origins.values():
            yield from _compare(companions, installers)


def _compare(companions: list[Step], installers: set[str]) -> Iterator[Finding]:
    """Compare the sets of those who came from one view with who they are, and with one another."""
    first = companions[0]
    names = {step.name for step in companions}
    judged: set[tuple[str, ...]] = set()
    for step in companions:
        transitional = step.start.transitional
        if transitional in judged:
            continue
        judged.add(transitional)
        together = set(transitional)
        if not together <= set(step.previous_members) & set(step.start.members):
            yield at(step.start, "the transitional set has members that were not in both views")
        if together & installers != names:
            yield Finding(
                f"its transitional set is wrong about those who came from view {step.previous}",
                (step.name, *sorted((together & installers) ^ names)),
                positions=(step.start.position,),
            )
        if together != set(first.start.transitional):
            yield Finding(
                "both came from the same view and have different transitional sets",
                (first.name, step.name),
                positions=(first.start.position, step.start.position),
            )


PROPERTIES = (
    Property(promises.TRANSITIONAL_SET, _look),
    Property(promises.TRANSITIONAL_SET_OF_DAEMONS, _look_at_daemons),
)
