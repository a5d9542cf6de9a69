"""The attachment's side of the conversation with its edges: who listens to what, and how far each is fed.

All edges that keep up are fed together: an item is one frame for all of them, or goes by the cast to those
that hear it. One that does not keep up, or comes back, is fed by itself from the log until it has come to its
end. Nobody waits for an edge: what the
log has forgotten before an edge got it is told as a gap, and the group goes on with a new base.

Follows: InterGroup 6: receivers are in no membership that senders wait for.
Checked by: the scenario `edges`, the oracle's *edges*, tests/unit/test_feed_server.py.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from antiphon import limits
from antiphon.core.feeds.attached import Edge, Flow, Interest, check_listened, is_flowing, state_of
from antiphon.core.feeds.cast import Cast
from antiphon.core.feeds.log import Carried, FeedLog, Item, Kind, Lost, Point
from antiphon.core.groups.backlog import Band
from antiphon.core.groups.delivery import Endings, Frames
from antiphon.errors import UsageError
from antiphon.types import TransitionalSignal, ViewId, check_name
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Header

Body = bytes | bytearray | memoryview


class FeedOwner(Protocol):
    """Who has a feed, and gets what its edges listen to into it."""

    def want(self, group: str) -> None:
        """A group is wanted in the log: sooner or later it has a base there."""

    def unwant(self, group: str) -> None:
        """A group is wanted no longer."""

    def count(self, group: str, receivers: int) -> None:
        """So many members of a group are at the edges here and behind them."""


class Together(Struct, frozen=True):
    """Edges that keep up and get the items of some groups."""

    is_cast: bool
    """Whether some of them get these by the cast."""
    by_line: tuple[int, ...]
    """The others."""


class FeedServer:
    """The edges of one daemon, or of one edge."""

    def __init__(
        self,
        name: str,
        log: FeedLog,
        owner: FeedOwner,
        output: Frames,
        endings: Endings,
        *,
        edges_max: int = limits.EDGES_MAX,
        linger_us: int = limits.FEED_RETAIN_US,
    ) -> None:
        self.edges: dict[int, Edge] = {}
        self.log = log
        self.cast: Cast | None = None
        """By which edges that hear it are fed together, if there is one."""
        self.gaps = 0
        self._name = name
        self._owner = owner
        self._output = output
        self._endings = endings
        self._edges_max = edges_max
        self._linger_us = linger_us
        self._wanted: dict[str, int] = {}  # how many edges listen to a group
        self._lingering: dict[str, int] = {}  # until when a group that none listens to stays
        self._counts: dict[str, int] = {}  # receivers, by group
        self._looked_us = 0
        self._fed = log.end  # the serial number up to which edges that keep up are fed
        self._receivers: dict[tuple[str, ...], Together] = {}  # by groups of items

    # Coming and going -------------------------------------------------------------------------------------

    def attach(
        self, number: int, request: edges.Attach, daemon: str, path: tuple[str, ...], now_us: int
    ) -> edges.Attached | frames.Refuse:
        """An edge wants to be attached here, as this session."""
        if request.version != frames.PROTOCOL_VERSION:
            return frames.Refuse(
                "version", f"{self._name} speaks version {frames.PROTOCOL_VERSION}, not {request.version}"
            )
        try:
            check_name(request.name, "edge", limits.DAEMON_NAME_MAX_BYTES)
        except UsageError as error:
            return frames.Refuse("name", str(error))
        if request.name == self._name or request.name in path:
            return frames.Refuse("loop", f"{self._name} gets its feed through {request.name}")
        for other in [edge for edge in self.edges.values() if edge.name == request.name]:
            if other.incarnation != request.incarnation and now_us - other.heard_us < 3 * limits.EDGE_BEAT_US:
                return frames.Refuse("name-taken", f"another edge called {request.name!r} is attached here")
            self._endings.append((other.number, frames.Goodbye("replaced", "a newer connection took over")))
            self.lost(other.number, now_us)
        if len(self.edges) >= self._edges_max:
            return frames.Refuse("full", f"{self._name} has its {self._edges_max} edges")
        self.edges[number] = Edge(number, request, self.log.end, now_us)
        return edges.Attached(
            frames.PROTOCOL_VERSION, self._name, daemon, path, limits.MESSAGE_MAX_BYTES, limits.EDGE_BEAT_US
        )

    def lost(self, number: int, now_us: int) -> None:
        """The connection of an edge is gone."""
        edge = self.edges.pop(number)
        self._receivers.clear()
        if self.cast is not None:
            self.cast.lost(number)
        for group in list(edge.groups):
            self._unlisten(edge, group, now_us)
        self._count(edge, dict.fromkeys(edge.counts, 0))

    def __contains__(self, number: int) -> bool:
        return number in self.edges

    # What edges say ---------------------------------------------------------------------------------------

    def control(self, number: int, value: edges.FromEdge, now_us: int) -> None:
        """An edge has said something about its feed."""
        edge = self.edges[number]
        edge.heard_us = now_us
        if isinstance(value, edges.Listen):
            self._listen(edge, value)
        elif isinstance(value, edges.Unlisten):
            self._unlisten(edge, value.group, now_us)
        elif isinstance(value, edges.Go):
            if not edge.is_going and edge.wish is None:
                edge.wish, edge.wished_us = value, now_us
                edge.is_standby = False
                self._try(edge, now_us)
        elif isinstance(value, edges.Receivers):
            self._count(edge, value.counts)
        elif isinstance(value, edges.Report):
            edge.report = value
        elif self.cast is not None:
            self._of_cast(edge, self.cast, value)

    def heard(self, number: int, now_us: int) -> None:
        """An edge has sent something else."""
        self.edges[number].heard_us = now_us

    def backlog(self, number: int, waiting_bytes: int) -> Band:
        """So much output waits for an edge: when to tell it again."""
        edge = self.edges[number]
        most = limits.EDGE_OUTPUT_BYTES
        edge.is_blocked = waiting_bytes > (most // 4 if edge.is_blocked else most)
        if edge.is_blocked:
            self._by_line(edge)
        self._receivers.clear()
        return Band(most // 4, 1 << 62) if edge.is_blocked else Band(-1, most)

    def _listen(self, edge: Edge, request: edges.Listen) -> None:
        group = request.group
        try:
            check_listened(group)
        except UsageError as error:
            self._tell(edge, frames.Problem("group-name", str(error)))
            return
        interest = edge.groups.get(group)
        if interest is None:
            if len(edge.groups) >= limits.EDGE_GROUPS_MAX:
                most = f"an edge listens to {limits.EDGE_GROUPS_MAX:,} groups at most"
                self._tell(edge, frames.Problem("too-many-groups", most))
                return
            interest = edge.groups[group] = Interest()
            self._wanted[group] = self._wanted.get(group, 0) + 1
            if self._wanted[group] == 1 and self._lingering.pop(group, None) is None:
                self._owner.want(group)
        if not edge.is_going:
            interest.held = request.held
        elif self._is_live(edge) and not self._is_ahead(edge):
            self._begin(edge, group, interest)
        else:
            edge.is_waiting = True

    def _unlisten(self, edge: Edge, group: str, now_us: int) -> None:
        if edge.groups.pop(group, None) is None:
            return
        self._receivers.clear()
        self._wanted[group] -= 1
        if not self._wanted[group]:
            del self._wanted[group]
            self._lingering[group] = now_us + self._linger_us

    def probed(
        self,
        request: edges.Probe,
        path: tuple[str, ...],
        few: int = 0,
        coordinators: tuple[edges.Neighbour, ...] = (),
    ) -> edges.Probed:
        """Who is here."""
        room = max(0, self._edges_max - len(self.edges))
        return edges.Probed(
            request.number, self._name, room, len(self.edges), path, few,
            coordinators[: limits.EDGE_NEIGHBOURS_MAX],
        )  # fmt: skip

    def coordinators(self) -> Iterator[edges.Neighbour]:
        """The edges that are fed here and take others."""
        for edge in self.edges.values():
            if edge.is_going and edge.places:
                yield edges.Neighbour(edge.name, edge.places, edge.report.room)

    @property
    def report(self) -> edges.Report:
        """What is told on of all edges here, and of those behind them."""
        reports = [edge.report for edge in self.edges.values()]
        needs = [edge.position for edge in self.edges.values() if edge.is_going and edge.position is not None]
        needs += [report.needs for report in reports if report.needs is not None]
        return edges.Report(
            behind=len(reports) + sum(report.behind for report in reports),
            room=max(0, self._edges_max - len(self.edges)),
            needs=min(needs, default=None),
            gaps=self.gaps + sum(report.gaps for report in reports),
        )

    def _count(self, edge: Edge, counts: dict[str, int]) -> None:
        """Members of groups at an edge and behind it."""
        for group, count in counts.items():
            if group not in edge.groups and count:
                continue
            before = edge.counts.pop(group, 0)
            if count > 0:
                edge.counts[group] = min(count, limits.COUNTER_MAX)
            total = self._counts.get(group, 0) - before + edge.counts.get(group, 0)
            self._counts[group] = total
            if not total:
                del self._counts[group]
            self._owner.count(group, total)

    def receivers(self, group: str) -> int:
        """The members of a group at the edges here and behind them."""
        return self._counts.get(group, 0)

    @property
    def wanted(self) -> Iterable[str]:
        """The groups that somebody listens to, or did of late."""
        yield from self._wanted
        yield from self._lingering

    # Beginning to feed ------------------------------------------------------------------------------------

    def _try(self, edge: Edge, now_us: int) -> None:
        """Begin to feed an edge from where it is, unless that is not known here yet."""
        assert edge.wish is not None
        after, log = edge.wish.after, self.log
        found: Point | Lost | None = None
        if after is not None:
            found = log.find(after)
            if found is None:
                if now_us - edge.wished_us < limits.EDGE_RESUME_US:
                    return
                found = Lost.VIEW
        edge.wish, edge.is_going = None, True
        self._receivers.clear()
        edge.cursor, edge.position = log.end, after
        if isinstance(found, tuple):
            edge.cursor, edge.skips = log.serial_after(found), found
        for group, interest in edge.groups.items():
            if interest.held is None or after is None:
                continue
            lost = found
            if isinstance(found, tuple):
                lost = log.lost_since(group, found) if group in log.groups else Lost.NEW
            if isinstance(lost, Lost):
                self._lose(edge, group, interest, after, lost.value)
            else:
                assert isinstance(found, tuple)
                interest.flow = Flow.FLOWING
                self._signal_missed(edge, log.groups[group], interest.held, found)
        if self.cast is not None and edge.hears and edge.number not in self.cast.listeners:
            self._tell(edge, self.cast.join(edge.number))
        self._go_on(edge, now_us)

    def _signal_missed(self, edge: Edge, carried: Carried, held: edges.Held, point: Point) -> None:
        """The signal of a view that an edge is in may stand here before the edge's position."""
        view = ViewId(*held.view)
        signalled = carried.signals.get(view)
        if not held.is_signalled and signalled is not None and signalled <= point:
            self._tell(edge, frames.SignalFrame(TransitionalSignal(carried.view.group, view)))

    # Feeding ----------------------------------------------------------------------------------------------

    def pump(self, now_us: int) -> None:
        """Feed what has come to the log since the last call, and whoever is behind."""
        log = self.log
        going = [edge for edge in self.edges.values() if edge.is_going and not edge.is_blocked]
        apart = [edge for edge in going if self._is_apart(edge)]
        if log.end > self._fed:
            self._feed_together([edge for edge in going if not self._is_apart(edge)], now_us)
        self._fed = log.end
        for edge in apart:
            self._go_on(edge, now_us)
        for edge in [edge for edge in self.edges.values() if edge.wish is not None]:
            self._try(edge, now_us)
        if self.cast is not None:
            self.cast.flush()

    def _is_apart(self, edge: Edge) -> bool:
        """Whether an edge is not fed together with those that keep up."""
        return edge.cursor != self._fed or edge.skips is not None

    def _feed_together(self, live: list[Edge], now_us: int) -> None:
        """Feed the edges that have got all that came before."""
        if not live:
            return
        log = self.log
        if self._fed < log.first:  # more came at once than is kept
            for edge in live:
                self._go_on(edge, now_us)
            return
        for item in log.after(self._fed):
            if item.kind is Kind.BASE:
                for edge in live:
                    self._pass_base(edge, item)
                self._receivers.clear()
                continue
            if item.kind is Kind.GAP:
                for edge in live:
                    self._pass_gap(edge, item)
                continue
            receivers = self._receivers.get(item.groups)
            if receivers is None or (receivers.is_cast and len(item.frame) > limits.CAST_ITEM_MAX_BYTES):
                receivers = self._find(live, item)
            if receivers.is_cast and self.cast is not None:
                position = log.position(item)
                self.cast.put((position.view, position.branch), item.frame)
            if receivers.by_line:
                self._tell_part([self.edges[number] for number in receivers.by_line], item)
                self._output.append((receivers.by_line, item.frame, item.header))
        position, end = log.reached, log.end
        for edge in live:
            edge.cursor, edge.position = end, position
            if edge.is_waiting:
                self._begin_all(edge)

    def _find(self, live: list[Edge], item: Item) -> Together:
        """Who gets an item, and others of its groups, and by which road from here on."""
        receivers = [edge for edge in live if is_flowing(edge, item.groups)]
        able = () if self.cast is None else self.cast.able
        hearing = [edge for edge in receivers if edge.number in able]
        is_large = len(item.frame) > limits.CAST_ITEM_MAX_BYTES
        if is_large or len(hearing) < limits.CAST_CHILDREN_MIN:
            hearing = []
        by_line = [edge for edge in receivers if edge not in hearing]
        for edge in by_line:
            self._by_line(edge)
        for edge in hearing:
            self._by_cast(edge)
        found = Together(bool(hearing), tuple(edge.number for edge in by_line))
        if not is_large:
            self._receivers[item.groups] = found
        return found

    def _by_cast(self, edge: Edge) -> None:
        """What follows for an edge comes by the cast."""
        if not edge.is_cast and self.cast is not None:
            self._tell(edge, self.cast.enter(edge.number))
            edge.is_cast = True
            self._receivers.clear()

    def _by_line(self, edge: Edge) -> None:
        """What follows for an edge comes over its own connection."""
        if edge.is_cast and self.cast is not None:
            self._tell(edge, self.cast.leave(edge.name))
            edge.is_cast, edge.told = False, None
            self._receivers.clear()

    def _go_on(self, edge: Edge, now_us: int) -> None:
        """Feed one edge from its cursor on."""
        self._by_line(edge)
        log = self.log
        if edge.cursor < log.first:
            self._fell_behind(edge)
        room = limits.EDGE_OUTPUT_BYTES
        for item in log.after(edge.cursor):
            if room <= 0:
                break
            edge.cursor += 1
            if edge.skips is not None and item.point <= edge.skips:
                if item.kind is Kind.SIGNAL and is_flowing(edge, item.groups):
                    # Elsewhere it had come so far without one; if it had one, it knows.
                    self._output.append(((edge.number,), item.frame, None))
                elif item.kind is Kind.GAP:
                    self._pass_gap(edge, item)  # it may last for longer than the edge is ahead
                continue
            edge.skips = None
            edge.position = log.position(item)
            if item.kind is Kind.BASE:
                self._pass_base(edge, item)
            elif item.kind is Kind.GAP:
                self._pass_gap(edge, item)
            elif is_flowing(edge, item.groups):
                self._tell_part([edge], item)
                self._output.append(((edge.number,), item.frame, item.header))
                edge.said_us = now_us
                room -= item.size_bytes
        if self._is_live(edge) and not self._is_ahead(edge):
            edge.position, edge.skips = log.reached, None
            self._begin_all(edge)

    def _begin_all(self, edge: Edge) -> None:
        """An edge has come to the end of the log: what it waits for, and is there, begins here."""
        edge.is_waiting = False
        for group, interest in edge.groups.items():
            self._begin(edge, group, interest)
        self._receivers.clear()

    def _fell_behind(self, edge: Edge) -> None:
        """The log has forgotten what an edge would have got next."""
        log, position = self.log, edge.position
        found = None if position is None else log.find(position)
        edge.cursor = log.first
        for group, interest in edge.groups.items():
            if interest.flow is not Flow.FLOWING:
                continue
            lost = (
                log.lost_since(group, found) if isinstance(found, tuple) and group in log.groups else Lost.OLD
            )
            if lost is not None:
                self._lose(edge, group, interest, position, lost.value)

    def _is_live(self, edge: Edge) -> bool:
        return edge.is_going and edge.cursor == self.log.end

    def _is_ahead(self, edge: Edge) -> bool:
        """Whether an edge has got more elsewhere than has come to the log."""
        reached = (self.log.part.number, self.log.reached.key)
        return edge.skips is not None and edge.skips > reached

    def _pass_base(self, edge: Edge, item: Item) -> None:
        """An edge has come to the base of a group."""
        (group,) = item.groups
        interest = edge.groups.get(group)
        if interest is None:
            return
        carried = self.log.groups.get(group)
        if interest.flow is Flow.FLOWING or carried is None or carried.since != item.point:
            return  # it was fed with it before, or another base follows
        self._by_line(edge)
        self._output.append(((edge.number,), item.frame, None))
        interest.flow = Flow.FLOWING

    def _begin(self, edge: Edge, group: str, interest: Interest) -> None:
        """An edge that has everything up to the end of the log waits for a group."""
        carried = self.log.groups.get(group)
        if interest.flow is Flow.FLOWING or carried is None:
            return
        reached = self.log.reached
        self._by_line(edge)
        self._tell(edge, edges.Base(carried.view, reached))
        if carried.signalled is not None:
            self._tell(edge, frames.SignalFrame(TransitionalSignal(group, carried.view.id)))
        interest.flow = Flow.FLOWING
        self._receivers.clear()

    def _lose(
        self, edge: Edge, group: str, interest: Interest, after: edges.Position | None, reason: str
    ) -> None:
        """Something of a group is missing. That is told before anything that follows: messages to several
        groups may come by others."""
        interest.flow, interest.held = Flow.WAITING, None
        self._receivers.clear()
        edge.gaps += 1
        self.gaps += 1
        reached = self.log.reached
        self._by_line(edge)
        self._tell(edge, edges.Gap(group, after or reached, reached, reason))

    def _pass_gap(self, edge: Edge, item: Item) -> None:
        """An edge has come to a gap of a group."""
        (group,) = item.groups
        interest = edge.groups.get(group)
        if interest is not None and interest.flow is Flow.FLOWING:
            self._lose(edge, group, interest, edge.position, item.gap)

    def _tell_part(self, receivers: list[Edge], item: Item) -> None:
        """What follows belongs to the part of an item."""
        position = self.log.position(item)
        part = (position.view, position.branch)
        untold = [edge for edge in receivers if edge.told != part]
        if not untold:
            return
        for edge in untold:
            edge.told = part
        numbers = tuple(edge.number for edge in untold)
        self._output.append((numbers, frames.encode_control(edges.Part(*part)), None))

    def _tell(self, edge: Edge, value: frames.ToEdge) -> None:
        self._output.append(((edge.number,), frames.encode_control(value), None))

    def unreliable(self, groups: tuple[str, ...], frame: Body, header: Header) -> None:
        """An unreliable bundle has come: whoever keeps up gets it."""
        numbers = tuple(
            edge.number
            for edge in self.edges.values()
            if not edge.is_blocked and self._is_live(edge) and is_flowing(edge, groups)
        )
        if numbers:
            self._output.append((numbers, frame, header))

    # The cast ---------------------------------------------------------------------------------------------

    def _of_cast(self, edge: Edge, cast: Cast, value: edges.FromEdge) -> None:
        """An edge has heard the cast, or lacks some of it."""
        if isinstance(value, edges.Heard):
            if cast.heard(edge.number, value):
                self._receivers.clear()
        elif isinstance(value, edges.Lack) and edge.is_going:
            pieces = cast.lacks(edge.number, value.ranges)
            if pieces is None:
                self._begin_anew(edge, cast)
            for piece in pieces or ():
                self._tell(edge, piece)

    def _begin_anew(self, edge: Edge, cast: Cast) -> None:
        """What an edge lacks is here no more but in the log: it is to say where it goes on."""
        cast.bar(edge.number)
        edge.is_cast = edge.is_going = edge.is_waiting = False
        edge.told = edge.skips = edge.wish = None
        edge.cursor = self.log.end
        for interest in edge.groups.values():
            interest.flow, interest.held = Flow.WAITING, None
        self._receivers.clear()
        self._tell(edge, edges.Anew())

    # Time -------------------------------------------------------------------------------------------------

    def timeout(self, now_us: int) -> None:
        """Say what is due; give up edges that say nothing."""
        if self.cast is not None:
            self.cast.timeout()
            for number in self.cast.expired():
                self._by_line(self.edges[number])
                self._receivers.clear()
        for edge in list(self.edges.values()):
            if self.is_silent(edge.number, now_us):
                reason = f"this edge was silent for {3 * limits.EDGE_BEAT_US // 1_000} ms"
                self._endings.append((edge.number, frames.Goodbye("silent", reason)))
                self.lost(edge.number, now_us)
            elif now_us - edge.said_us >= limits.EDGE_BEAT_US:
                edge.said_us = now_us
                self._beat(edge)
        for group in [group for group, until_us in self._lingering.items() if until_us <= now_us]:
            del self._lingering[group]
            self._owner.unwant(group)
        self.log.drop_old(now_us)

    def excuse_pause(self, now_us: int) -> None:
        """While this process stood still it heard nothing, whichever edge spoke."""
        paused_us = now_us - self._looked_us
        self._looked_us = now_us
        if paused_us > 2 * limits.EDGE_BEAT_US:  # a beat of ours was due before
            for edge in self.edges.values():
                edge.heard_us = min(now_us, edge.heard_us + paused_us)

    def is_silent(self, number: int, now_us: int) -> bool:
        """Whether nothing was heard of an edge for too long."""
        return now_us - self.edges[number].heard_us >= 3 * limits.EDGE_BEAT_US

    def _beat(self, edge: Edge) -> None:
        if self._is_live(edge) and not edge.is_blocked and not self._is_ahead(edge):
            edge.position = self.log.reached
            if edge.is_cast and self.cast is not None:
                self.cast.reach(edge.position)
                self._tell(edge, edges.Beat())
                return
            edge.told = (edge.position.view, edge.position.branch)
            self._tell(edge, edges.Reached(edge.position))
        else:
            self._tell(edge, edges.Beat())

    def next_deadline_us(self) -> int | None:
        """When `timeout` must be called."""
        due = [min(edge.said_us, edge.heard_us + 2 * limits.EDGE_BEAT_US) for edge in self.edges.values()]
        deadline_us = min(due) + limits.EDGE_BEAT_US if due else None
        if self.cast is not None and (cast_us := self.cast.next_deadline_us()) is not None:
            deadline_us = cast_us if deadline_us is None else min(deadline_us, cast_us)
        if self._lingering:
            first_us = min(self._lingering.values())
            deadline_us = first_us if deadline_us is None else min(deadline_us, first_us)
        return deadline_us

    def states(self) -> Iterator[dict[str, object]]:
        """What status shows of each edge."""
        for edge in self.edges.values():
            yield state_of(edge, self._is_live(edge), self.log.end)
