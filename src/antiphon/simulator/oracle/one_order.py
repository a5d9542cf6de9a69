"""2.13, part 2, across all groups: one order for everything.

If there is one order of all messages that every process follows and that respects causes, then what each
process saw can be laid side by side without a circle. The edges say "comes before":

- from each ordered delivery or view at a process to its next one
- from the last ordered delivery or view at a process to a reliable or FIFO message delivered after it
  (once an agreed message is delivered nothing earlier may follow)
- from what a process had sent or delivered to what it sent afterwards (definition 2.7)

The two sides of a cut are no exception: their orders are apart, and whatever both saw before and see after it
has its place on either side. Between daemons the order can be read: it is that of the places of bundles.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.daemons import history, name
from antiphon.simulator.oracle.verdict import Finding, Property
from antiphon.trace import (
    ORDERED_SERVICES,
    RELIABLE_SERVICES,
    Event,
    Identity,
    Record,
    Trace,
    ViewNumber,
    promises,
)

Point = tuple[str, Identity | ViewNumber]
"""A message, or the agreed event that made a view: the kind, then its four numbers."""


def _look(trace: Trace) -> Iterator[Finding]:
    after: dict[Point, dict[Point, int]] = {}
    for records in trace.by_process.values():
        lay(records, after)
    circle = circle_in(after)
    if circle:
        pairs = list(zip(circle, circle[1:] + circle[:1], strict=True))
        positions = tuple(after[first][second] for first, second in pairs)
        yield Finding(
            f"these {len(circle)} events follow one another in a circle: "
            + " < ".join(f"{kind} {'.'.join(map(str, numbers))}" for kind, numbers in circle[:8]),
            tuple(dict.fromkeys(trace.records[position].process for position in positions)),
            tuple(numbers for kind, numbers in circle if kind == "message"),
            positions,
        )


def lay(records: list[Record], after: dict[Point, dict[Point, int]]) -> None:
    """Add what one process saw; each edge remembers the position of the event that showed it."""
    newest: Point | None = None
    causes: list[Point] = []
    for record in records:
        if record.event is Event.SEND and record.message is not None:
            point: Point = ("message", record.message)
            for cause in causes:
                after.setdefault(cause, {}).setdefault(point, record.position)
            causes = [point]
        elif record.event is Event.DELIVER and record.message is not None:
            if record.service not in RELIABLE_SERVICES:
                continue
            point = ("message", record.message)
            if newest is not None and newest != point:
                after.setdefault(newest, {}).setdefault(point, record.position)
            causes.append(point)
            if record.service in ORDERED_SERVICES:
                newest = point
        elif record.event is Event.VIEW and record.views[0] is not None:
            epoch, _branch, lts, daemon = record.views[0]
            point = ("view", (epoch, 0, lts, daemon))  # one event may change some groups before their signal
            if newest is not None and newest != point:
                after.setdefault(newest, {}).setdefault(point, record.position)
            newest = point


def circle_in(after: dict[Point, dict[Point, int]]) -> list[Point]:
    """A circle in the graph, or nothing: remove what has no predecessor until no more can be removed."""
    waiting: dict[Point, int] = {}
    for followers in after.values():
        for follower in followers:
            waiting[follower] = waiting.get(follower, 0) + 1
    free = [point for point in after if point not in waiting]
    while free:
        for follower in after.get(free.pop(), ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                free.append(follower)
    stuck = {point for point, count in waiting.items() if count > 0}
    if not stuck:
        return []
    before = {
        follower: point for point in after if point in stuck for follower in after[point] if follower in stuck
    }
    # Every stuck point has a stuck predecessor, so walking back must meet itself.
    walk: list[Point] = [min(stuck)]
    while walk[-1] not in walk[:-1]:
        walk.append(before[walk[-1]])
    return walk[walk.index(walk[-1]) : -1][::-1]


def _look_at_daemons(trace: Trace) -> Iterator[Finding]:
    for life in trace.known(history).lives:
        newest: Record | None = None
        for term in life.terms:
            for record in term.delivered:
                if newest is not None and record.rank < newest.rank and not record.is_loose:
                    yield Finding(
                        f"delivered {name(record.bundle)} at place {record.rank} after the ordered "
                        f"{name(newest.bundle)} at place {newest.rank}",
                        (life.daemon,),
                        positions=(newest.position, record.position),
                    )
                elif record.service in ORDERED_SERVICES:
                    newest = record


PROPERTIES = (
    Property(promises.ONE_ORDER, _look),
    Property(promises.ONE_ORDER_OF_DAEMONS, _look_at_daemons),
)
