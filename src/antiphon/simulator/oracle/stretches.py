"""What members at edges saw, and what they should have seen: the common part of the property *edges*.

A *stretch* is one member of one group, from a view with which the group began to flow until the next gap, the
end of the membership, or the end of the run. The *course* of an edge are the daemon views through which its
feed goes. What daemons delivered in a daemon view before they went on to another one stands on a *sheet*: all
who go together have the same there, if it was for all of them, so a sheet has what any of them delivered.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from antiphon.simulator.oracle.daemons import DaemonTerm, history
from antiphon.trace import Bundle, Event, Identity, Record, Trace, ViewNumber
from antiphon.trace.bearers import private_name

Mark = tuple[str, int, tuple[str, ...], str]
"""Of a message: the private name of its sender, checksum, groups and service."""
Way = tuple[int, int | None, str]
"""A daemon view, the one that followed it (None: none did), and of a daemon that crashed there its name."""


class Stretch(Struct, eq=False):
    """One member of one group, as long as nothing is missing."""

    process: str
    edge: str
    group: str
    start: Record
    """The view with which it begins; one after a gap is told also to a process that is told of no views."""
    base: Record | None
    """Where the group began to flow at the edge; None if it did before this member came."""
    delivered: list[Record]
    """Messages to the group that are not unreliable."""
    views: list[Record]
    """The first one included."""
    signals: list[Record]
    gap: Record | None = None
    """What the edge was told of the gap that ends it."""
    end: Record | None = None
    """The gap, the end of the membership or of the session; None if the run ended first."""


class Sheet(Struct):
    """What was delivered in a daemon view by those who went on in one way, by group."""

    bundles: dict[str, dict[Bundle, Record]]


class Core:
    """What the daemons of the core did, as far as it matters for edges."""

    def __init__(self, trace: Trace) -> None:
        told = trace.core.known(history)
        self.carriers = told.carriers
        self.views = told.views
        self._length = len(trace.records)
        self.deliveries: dict[Bundle, Record] = {}
        """The first delivery of each bundle."""
        self.next_views: dict[int, set[int]] = {}
        self._sheets: dict[Way, Sheet] = {}
        for view, terms in told.views.items():
            for term in terms.values():
                self._read(view, term)

    def _read(self, view: int, term: DaemonTerm) -> None:
        if term.next_view is not None:
            self.next_views.setdefault(view, set()).add(term.next_view)
        way = (view, term.next_view, term.daemon if term.is_cut_short else "")
        sheet = self._sheets.setdefault(way, Sheet({}))
        for record in term.delivered:
            if record.bundle is None or record.message is None:
                continue
            first = self.deliveries.get(record.bundle)
            if first is None or record.position < first.position:
                self.deliveries[record.bundle] = record
            for group in record.groups:
                sheet.bundles.setdefault(group, {})[record.bundle] = record

    def on(self, way: Way, group: str) -> dict[Bundle, Record]:
        """What was delivered to a group on one way."""
        sheet = self._sheets.get(way)
        return {} if sheet is None else sheet.bundles.get(group, {})

    def ways(self, view: int) -> list[Way]:
        """How the daemons of a view went on."""
        return [way for way in self._sheets if way[0] == view]

    def leads(self, view: int, last: int) -> bool:
        """Whether daemons went from one daemon view to another, perhaps through others."""
        if view >= last:
            return view == last
        return any(self.leads(following, last) for following in self.next_views.get(view, ()))

    def delivery(self, message: Identity | None) -> Record | None:
        """How the core delivered a message, if it did."""
        carrier = None if message is None else self.carriers.get(message)
        return None if carrier is None or carrier.bundle is None else self.deliveries.get(carrier.bundle)

    def was_certain(self, message: Identity, group: str) -> bool:
        """Whether any daemon delivered a message before it signalled."""
        carrier = self.carriers.get(message)
        if carrier is None or carrier.bundle is None:
            return False
        for term in self.views.get(carrier.bundle[0], {}).values():
            signals = term.signalled_at()
            ends = min((signals[name] for name in (group, "") if name in signals), default=self._length)
            if any(record.bundle == carrier.bundle and record.position < ends for record in term.delivered):
                return True
        return False


def messages(record: Record) -> Iterator[Identity]:
    """The messages of a bundle."""
    assert record.message is not None
    daemon, incarnation, session, first = record.message
    return ((daemon, incarnation, session, first + place) for place in range(record.count))


class Course(Struct):
    """Through which daemon views the feed of one edge goes."""

    positions: list[int]
    views: list[int]

    def at(self, position: int) -> int:
        """The daemon view at a position of the trace; 0 before the first one."""
        view = 0
        for begins, daemon_view in zip(self.positions, self.views, strict=True):
            if begins > position:
                break
            view = daemon_view
        return view

    def between(self, start: int, end: int) -> list[int]:
        """The daemon views between two positions, in their order."""
        found = [self.at(start)]
        for begins, view in zip(self.positions, self.views, strict=True):
            if start < begins < end and view != found[-1]:
                found.append(view)
        return found


class Edges:
    """What happened at the edges of a run."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        edges = frozenset(trace.edges)
        self.by_process: dict[str, list[Record]] = {}
        self.courses: dict[str, Course] = {edge: Course([], []) for edge in trace.edges}
        self._detached: dict[str, list[int]] = {edge: [] for edge in trace.edges}
        self._behind: set[str] = set()  # edges that have been behind another one
        self._bases: dict[tuple[str, str], list[Record]] = {}
        self._gaps: dict[tuple[str, str], list[Record]] = {}
        for record in trace.records:
            if record.daemon not in edges:
                continue
            if record.process:
                self.by_process.setdefault(record.process, []).append(record)
            elif record.event in (Event.PART, Event.BASE):
                course = self.courses[record.daemon]
                if not course.views or course.views[-1] != record.daemon_view:
                    course.positions.append(record.position)
                    course.views.append(record.daemon_view)
                if record.event is Event.BASE:
                    self._bases.setdefault((record.daemon, record.groups[0]), []).append(record)
            elif record.event is Event.GAP:
                self._gaps.setdefault((record.daemon, record.groups[0]), []).append(record)
            elif record.event in (Event.DETACH, Event.RECOVER, Event.CRASH):
                self._detached[record.daemon].append(record.position)
            elif record.event is Event.ATTACH and record.peer in edges:
                self._behind.add(record.daemon)

    def losses(self, edge: str) -> list[int]:
        """Where an edge lost its attachment, or one through which it is attached may have lost its own."""
        if edge in self._behind:
            return [position for positions in self._detached.values() for position in positions]
        return self._detached[edge]

    @cached_property
    def stretches(self) -> list[Stretch]:
        """All stretches of all members, process by process."""
        found: list[Stretch] = []
        for process, records in self.by_process.items():
            self._read(process, records, found)
        return found

    def _read(self, process: str, records: list[Record], found: list[Stretch]) -> None:
        current: dict[str, Stretch] = {}
        joined: dict[str, int] = {}
        for record in records:
            event = record.event
            if event is Event.DELIVER:
                for group in record.groups:
                    if group in current and record.service != "unreliable":
                        current[group].delivered.append(record)
            elif event is Event.JOIN:
                joined[record.groups[0]] = record.position
            elif event is Event.VIEW:
                (group,) = record.groups
                if group in current:
                    current[group].views.append(record)
                    continue
                current[group] = self._begin(record, joined.get(group, 0))
                found.append(current[group])
            elif event is Event.TRANSSIG:
                if record.groups[0] in current:
                    current[record.groups[0]].signals.append(record)
            elif event in (Event.GAP, Event.LEFT):
                gone = current.pop(record.groups[0], None)
                if gone is not None:
                    gone.end = record
                if event is Event.GAP and gone is not None:
                    gone.gap = self._gap(record)
                    joined[gone.group] = -1
            elif event is Event.DISCONNECT:
                for stretch in current.values():
                    stretch.end = record
                current.clear()

    def _gap(self, told: Record) -> Record | None:
        """What the edge was told of a gap that a member was told."""
        gaps = self._gaps.get((told.daemon, told.groups[0]), [])
        return max((gap for gap in gaps if gap.position < told.position), key=_place_in_trace, default=None)

    @cached_property
    def alike(self) -> Counter[Mark]:
        """How many messages with the same mark were handed over: in live runs it may be more than one."""
        return Counter(
            mark(record, private_name(record.process))
            for records in self.by_process.values()
            for record in records
            if record.event is Event.HANDED
        )

    @cached_property
    def givers(self) -> dict[Identity, Record]:
        """For each message that was sent for a client of an edge, the record of its being handed over, if it
        is known which one it was."""
        handed = {
            mark(record, private_name(record.process)): record
            for records in self.by_process.values()
            for record in records
            if record.event is Event.HANDED
        }
        for alike, count in self.alike.items():
            if count > 1:
                del handed[alike]
        return {
            record.message: given
            for record in self._trace.of(Event.SEND)
            if record.peer
            and record.message is not None
            and (given := handed.get(mark(record, record.peer))) is not None
        }

    def is_own(self, sent: Record, process: str) -> bool:
        """Whether a message was sent for a process at an edge."""
        given = None if sent.message is None else self.givers.get(sent.message)
        return given is not None and given.process == process

    def _begin(self, start: Record, joined: int) -> Stretch:
        """A stretch that begins with a view of a member that has asked to join at a position; after a gap the
        newest base counts, whenever it was."""
        (group,) = start.groups
        before = [
            base for base in self._bases.get((start.daemon, group), []) if base.position < start.position
        ]
        base = before[-1] if before and before[-1].position > joined else None
        return Stretch(start.process, start.daemon, group, start, base, [], [start], [])


def mark(record: Record, sender: str) -> Mark:
    """What tells a message that is handed over, or sent, from all others: simulated clients make no two
    alike."""
    return (sender, record.checksum, record.groups, record.service)


def _place_in_trace(record: Record) -> int:
    return record.position


def core(trace: Trace) -> Core:
    """See `Core`."""
    return Core(trace)


def edges(trace: Trace) -> Edges:
    """See `Edges`."""
    return Edges(trace)


def views_of(records: list[Record], group: str) -> list[ViewNumber]:
    """The views of a group that a process got, in their order."""
    return [
        record.views[0]
        for record in records
        if record.event is Event.VIEW and record.groups[0] == group and record.views[0] is not None
    ]
