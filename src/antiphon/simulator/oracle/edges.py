"""*edges*, a promise of our own: a member at an edge has an image of the core's one order, all gaps told.

- What it delivers was sent as it is delivered, to a group of which it is a member or to its private name, was
  delivered by a daemon of the core before, and comes once.
- Within a daemon view it comes in ascending places, whatever its service, and the daemon views are those
  through which the feed of its edge goes; unreliable messages come when they come.
- Of each group nothing is left out from where it begins to flow until a gap is told: of the daemon views that
  end meanwhile, all that the daemons delivered which went on in the same way, and nothing that others alone
  delivered after their signals; of the last one, up to the newest message that came. Once the faults are
  over, everything comes.
- A message that was sent to a group after a member had its first view there comes to it, too, wherever the
  attachment says that the group began to flow.
- What is said to members at the edge is what members of the core were told: views have the same members, none
  is skipped, and a signal comes between two views where it did for members of the core.
- All that a client hands to its edge is sent once, by each attachment in its order, unless the client is told
  that it was not sent, or that this is unknown; that is said only after an attachment was lost.

Views, signals and the one order of all are judged in `edge_views`, what clients hand over in `edge_sends`.
"""

from collections.abc import Iterator
from itertools import pairwise

from antiphon.simulator.oracle.edge_sends import judge_sends
from antiphon.simulator.oracle.edge_views import judge_views
from antiphon.simulator.oracle.stretches import Core, Edges, Stretch, Way, core, edges, messages
from antiphon.simulator.oracle.verdict import Finding, Property, at
from antiphon.trace import Bundle, Event, Identity, Record, Trace, promises
from antiphon.trace.bearers import private_name

Owed = dict[Bundle, Record]


def _look(trace: Trace) -> Iterator[Finding]:
    if not trace.edges:
        return
    for process, records in trace.known(edges).by_process.items():
        yield from _judge_deliveries(trace, process, records)
        yield from _judge_order(trace, process, records)
    whole = _Whole(trace)
    for stretch in trace.known(edges).stretches:
        yield from whole.judge(stretch)
    yield from _judge_end(trace)
    yield from judge_views(trace)
    yield from judge_sends(trace)


# What comes, and in which order ---------------------------------------------------------------------------


def _judge_deliveries(trace: Trace, process: str, records: list[Record]) -> Iterator[Finding]:
    told = trace.known(core)
    groups: set[str] = set()
    seen: set[Identity] = set()
    for record in records:
        if record.event is Event.VIEW:
            groups.add(record.groups[0])
        elif record.event in (Event.LEFT, Event.GAP):
            groups.discard(record.groups[0])
        if record.event is not Event.DELIVER or record.message is None:
            continue
        sent = trace.sends.get(record.message)
        if sent is None or sent.position > record.position:
            yield at(record, "delivered, but not sent before")
            continue
        if (sent.checksum, sent.groups, sent.service) != (record.checksum, record.groups, record.service):
            yield at(record, "not as it was sent: payload, groups or service differ")
        if sent.self_discard and trace.known(edges).is_own(sent, process):
            yield at(record, "came back to a sender that did not want it")
        if groups.isdisjoint(record.groups) and private_name(process) not in record.groups:
            yield at(record, "delivered to a process at an edge that is a member of none of its groups")
        if record.message in seen:
            yield at(record, "delivered twice")
        seen.add(record.message)
        delivered = told.delivery(record.message)
        if record.service != "unreliable" and (delivered is None or delivered.position > record.position):
            yield at(record, "delivered before any daemon of the core delivered it")


def _judge_order(trace: Trace, process: str, records: list[Record]) -> Iterator[Finding]:
    """Ascending places, in the daemon views of the feed; anew after a gap."""
    told, course = trace.known(core), trace.known(edges).courses[records[0].daemon]
    newest: Record | None = None
    newest_at = (0, 0)
    for record in records:
        if record.event is Event.GAP:
            newest = None
        if record.event is not Event.DELIVER or record.service == "unreliable":
            continue
        delivered = told.delivery(record.message)
        if delivered is None or delivered.bundle is None:
            continue
        view = delivered.bundle[0]
        if view != course.at(record.position):
            yield at(
                record,
                f"of daemon view {view}, while the feed of its edge is in {course.at(record.position)}",
            )
        if newest is not None and newest_at[0] == view and record.lts < newest_at[1]:
            assert newest.message is not None and record.message is not None
            yield Finding(
                f"{process} delivered at place {record.lts} of daemon view {view} after place {newest_at[1]}",
                (process,),
                (newest.message, record.message),
                (newest.position, record.position),
            )
        newest, newest_at = record, (view, record.lts)


# Nothing is left out --------------------------------------------------------------------------------------


class _Whole:
    """Judges whether stretches are whole."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._core: Core = trace.known(core)
        self._edges: Edges = trace.known(edges)
        restored = trace.of(Event.RESTORED)
        self._in_reach = frozenset(restored[-1].members) if restored else frozenset()
        parts = restored[-1].parts if restored else ()
        self._last_view = 0
        """In which daemon view the run ends, if all daemons are in one."""
        if len(parts) == 1:
            last = {record.daemon: record.daemon_view for record in trace.of(Event.SVIEW)}
            views = {last.get(daemon, 0) for daemon in parts[0]}
            self._last_view = views.pop() if len(views) == 1 else 0

    def judge(self, stretch: Stretch) -> Iterator[Finding]:
        """What is missing in a stretch."""
        end = len(self._trace.records) if stretch.end is None else stretch.end.position
        course = self._edges.courses[stretch.edge].between(stretch.start.position, end)
        if stretch.gap is not None and stretch.gap.daemon_view in course:
            course = course[: course.index(stretch.gap.daemon_view) + 1]
        goes_on = stretch.end is None and stretch.edge in self._in_reach and self._last_view
        if goes_on and course[-1] != self._last_view:
            course.append(self._last_view)
        for view, next_view in pairwise(course):
            lacking = self._lacking_between(stretch, view, next_view)
            if lacking is None:
                yield self._broken(stretch, view, next_view)
            else:
                yield from self._tell(stretch, lacking)
                yield from self._judge_way(stretch, view, next_view)
        if goes_on:
            lacking = {}
            for way in self._core.ways(course[-1]):
                lacking |= self._lacking(stretch, way)
            yield from self._tell(stretch, lacking)
        else:
            yield from self._judge_last(stretch, course[-1])

    def _lacking_between(self, stretch: Stretch, view: int, last: int) -> Owed | None:
        """What is missing of the daemon views from one to another, by the way on which the least is missing;
        None if there is no way."""
        if view == last:
            return {}
        best: Owed | None = None
        for next_view in sorted(self._core.next_views.get(view, ())):
            if next_view > last:
                continue
            rest = self._lacking_between(stretch, next_view, last)
            if rest is None:
                continue
            lacking = self._lacking(stretch, (view, next_view, "")) | rest
            if best is None or len(lacking) < len(best):
                best = lacking
        return best

    def _judge_last(self, stretch: Stretch, view: int) -> Iterator[Finding]:
        """Of the daemon view in which a stretch ends, everything must be there up to the newest message, as
        some daemons delivered it that delivered this one."""
        gap = stretch.gap
        came = [
            (record.lts, delivered.bundle)
            for record in stretch.delivered
            if (gap is None or record.position < gap.position)
            and (delivered := self._core.delivery(record.message)) is not None
            and delivered.bundle is not None
            and delivered.bundle[0] == view
        ]
        if gap is not None:
            for record in stretch.delivered:
                if gap.position < record.position and not _comes_by_another(record, stretch.group):
                    yield at(record, "delivered after a gap of its group, which was not told")
        if not came:
            return
        up_to, newest = max(came)
        if gap is not None and gap.daemon_view == view:
            up_to = max(up_to, gap.lts)
        best: Owed | None = None
        for way in self._core.ways(view):
            if newest in self._core.on(way, stretch.group):
                lacking = self._lacking(stretch, way, up_to)
                if best is None or len(lacking) < len(best):
                    best = lacking
        yield from self._tell(stretch, best or {})

    def _judge_way(self, stretch: Stretch, view: int, next_view: int) -> Iterator[Finding]:
        """What came of a daemon view that ended was delivered by daemons that went on in the same way, or by
        one that had not signalled: that may have come before the edge went over to those. Of daemon views in
        which nothing came between the two, the edge was not told."""
        there = {
            bundle
            for following in self._core.next_views.get(view, ())
            if self._core.leads(following, next_view)
            for bundle in self._core.on((view, following, ""), stretch.group)
        }
        for record in stretch.delivered:
            delivered = self._core.delivery(record.message)
            if record.message is None or delivered is None or delivered.bundle is None:
                continue
            if delivered.bundle[0] != view or delivered.bundle in there:
                continue
            if not self._core.was_certain(record.message, stretch.group):
                went = f"from daemon view {view}, from which the feed of its edge went on to {next_view}"
                yield at(record, f"{went}; only others delivered it")

    def _lacking(self, stretch: Stretch, way: Way, up_to: int | None = None) -> Owed:
        """What is missing of what was delivered on a way."""
        delivered = self._trace.delivered[stretch.process]
        lacking: Owed = {}
        since = self._since(stretch, way[0])
        for bundle, record in self._core.on(way, stretch.group).items():
            if record.service == "unreliable" or (up_to is not None and record.rank > up_to):
                continue
            if all(message in delivered for message in messages(record)):
                continue
            sent = None if record.message is None else self._trace.sends.get(record.message)
            if sent is not None and sent.self_discard and self._edges.is_own(sent, stretch.process):
                continue
            is_later = sent is not None and sent.position > stretch.start.position
            if is_later or (since is not None and record.rank > since):
                lacking[bundle] = record
        return lacking

    def _since(self, stretch: Stretch, view: int) -> int | None:
        """After which place of a daemon view everything has to come; None: what was sent later has to."""
        if stretch.base is not None:
            return stretch.base.place if stretch.base.daemon_view == view else 0
        if self._edges.courses[stretch.edge].at(stretch.start.position) != view:
            return 0
        for record in stretch.delivered:
            delivered = self._core.delivery(record.message)
            if delivered is not None and delivered.bundle is not None and delivered.bundle[0] == view:
                return record.lts
        return None

    def _tell(self, stretch: Stretch, lacking: Owed) -> Iterator[Finding]:
        for record in sorted(lacking.values(), key=lambda record: record.position)[:3]:
            assert record.message is not None and record.bundle is not None
            end = "the end of the run" if stretch.end is None else f"its {stretch.end.event.value}"
            yield Finding(
                f"{stretch.process} never got it, which {record.daemon} delivered in daemon view "
                f"{record.bundle[0]} at place {record.rank}; {stretch.group} flowed from the first position "
                f"to {end}",
                (stretch.process,),
                (record.message,),
                (stretch.start.position, record.position),
            )

    def _broken(self, stretch: Stretch, view: int, next_view: int) -> Finding:
        return Finding(
            f"the feed of {stretch.edge} went from daemon view {view} to {next_view} while {stretch.group} "
            "flowed, and no daemons did",
            (stretch.process,),
            positions=(stretch.start.position,),
        )


def _comes_by_another(record: Record, group: str) -> bool:
    """Whether a message was sent to another group, too, of which its receiver was a member."""
    views = zip(record.groups, record.views, strict=True)
    return any(one != group and view is not None for one, view in views)


def _judge_end(trace: Trace) -> Iterator[Finding]:
    """Whoever wants to be a member when all is over is one."""
    restored = trace.of(Event.RESTORED)
    in_reach = frozenset(restored[-1].members) if restored else frozenset()
    for process, records in trace.known(edges).by_process.items():
        wanted: dict[str, Record] = {}
        members: set[str] = set()
        for record in records:
            if record.event is Event.JOIN:
                wanted[record.groups[0]] = record
            elif record.event is Event.LEAVE:
                wanted.pop(record.groups[0], None)
            elif record.event is Event.VIEW:
                members.add(record.groups[0])
            elif record.event in (Event.LEFT, Event.GAP):
                members.discard(record.groups[0])
        if records[-1].event is Event.DISCONNECT or records[0].daemon not in in_reach:
            continue
        for group in sorted(wanted.keys() - members):
            yield at(wanted[group], f"{process} asked to join {group}, and is no member in the end")


PROPERTIES = (Property(promises.EDGES, _look, is_of_edges=True),)
