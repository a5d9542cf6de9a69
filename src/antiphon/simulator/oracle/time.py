"""Every stated bound holds, time does not run backwards at one daemon, and a view has one internal time.

Time of a reference is compared with the time of the world, which only a simulated run knows. Internal time
has no such judge: daemons that say at one moment what the internal time of the same daemon is are compared
with one another, and those that have worked in one view for a while must have the same one. Two moments are
one only in a simulated run: in a live one they are what two clocks show.
"""

from collections.abc import Iterator

from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Event, Record, Trace, promises

SHARED_WITHIN_US = 6_000_000
"""From then on the daemons of a view have the same internal time. Who does not know it yet asks five times a
second. It may have to pass five sites, in which three of ten packets are lost, and a daemon that is paused
for two seconds."""
VIEW_LOST = ("seg", "statetrans")
"""States with which a view stops."""

Moment = tuple[int, str, int]
"""When it was said, and whose internal time it is."""
Moments = dict[Moment, list[Record]]


class _Views:
    """In which view each daemon works, and what daemons of one view say."""

    def __init__(self) -> None:
        self._works: dict[str, tuple[int, int]] = {}  # by daemon, its view, and since when it works
        self.said: dict[tuple[int, int], list[Record]] = {}
        """By moment and view, the internal times of those who have been in it for long enough."""

    def follow(self, record: Record) -> None:
        """Something happened at a daemon."""
        if record.event is Event.SVIEW:
            self._works[record.daemon] = (record.daemon_view, record.time_us)
        elif record.event in (Event.RECOVER, Event.CRASH) or (
            record.event is Event.STATE and record.state in VIEW_LOST
        ):
            self._works.pop(record.daemon, None)

    def take(self, record: Record) -> None:
        """A daemon told an internal time."""
        if record.daemon in self._works:
            view, since_us = self._works[record.daemon]
            if record.time_us - since_us >= SHARED_WITHIN_US:
                self.said.setdefault((record.time_us, view), []).append(record)


def _look(trace: Trace) -> Iterator[Finding]:
    last: dict[str, int] = {}
    together: Moments = {}
    views = _Views()
    for record in trace.records:
        views.follow(record)
        if record.event is Event.RECOVER:
            last.pop(record.daemon, None)
        if record.event is not Event.CLOCK:
            continue
        time_us, error_us = record.clock["time_us"], record.clock["error_us"]
        before_us = last.get(record.daemon)
        if before_us is not None and time_us < before_us:
            yield at(record, f"time runs backwards by {before_us - time_us} us")
        last[record.daemon] = time_us
        if not record.true_us:
            continue
        if record.state == "internal":
            moment = (record.time_us, record.peer, record.clock["since_us"])
            together.setdefault(moment, []).append(record)
            views.take(record)
        elif abs(time_us - record.true_us) > error_us:
            wrong_us = time_us - record.true_us
            yield at(record, f"it is wrong by {wrong_us} us and says that it is by {error_us} us at most")
    for records in together.values():
        yield from _compare(records)
    for records in views.said.values():
        yield from _compare_bases(records)


def _compare(records: list[Record]) -> Iterator[Finding]:
    """Two spans that contain the same moment of internal time have something in common."""
    early = min(records, key=lambda record: record.clock["time_us"] + record.clock["error_us"])
    late = max(records, key=lambda record: record.clock["time_us"] - record.clock["error_us"])
    apart_us = late.clock["time_us"] - early.clock["time_us"]
    allowed_us = late.clock["error_us"] + early.clock["error_us"]
    if apart_us > allowed_us:
        yield Finding(
            f"their internal times are {apart_us} us apart; they say that it is {allowed_us} us at most",
            (early.daemon, late.daemon),
            positions=(early.position, late.position),
        )


def _compare_bases(records: list[Record]) -> Iterator[Finding]:
    """The daemons of a view have one internal time."""
    first = records[0]
    for other in records:
        if (other.peer, other.clock["since_us"]) != (first.peer, first.clock["since_us"]):
            yield Finding(
                f"they have been in one view for {SHARED_WITHIN_US} us or longer, and one has the internal "
                f"time that {first.peer} began at {first.clock['since_us']}, the other that {other.peer} "
                f"began at {other.clock['since_us']}",
                (first.daemon, other.daemon),
                positions=(first.position, other.position),
            )
            return


PROPERTIES = (Property(promises.TIME, _look),)
