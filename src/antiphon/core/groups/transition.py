"""The groups of a daemon at the end of its view: what is left is delivered, around the transitional signals.

Follows: thesis 6.1.10 (figure 6.16, DeliverMembership) and 6.4.5 (the state GTRANS).
Deviations: where the certain part of a group's stream ends is found for each group, so that there may be
signals of single groups before the general one; groups that were being put together when the view ended are
put together before any signal, because daemons that are lost to us may have done so without one (figure 6.26
signals first, against 2.8). What is delivered and dropped is decided in `membership.recovery`.
Checked by: tests/paper/test_recovery_signal.py, the oracle's properties 2.4, 2.8, 2.13 and 2.18.
"""

from collections import deque

from antiphon.core.groups.delivery import Delivery
from antiphon.core.groups.dispatch import NOT_FOR_MEMBERS, Dispatcher, Work
from antiphon.core.groups.group import Group
from antiphon.core.groups.membership import Mark
from antiphon.core.groups.merging import Merging
from antiphon.core.membership.recovery import Recovery
from antiphon.core.observer import Observer
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.order import Order
from antiphon.core.ordering.stability import round_of, stamp_after
from antiphon.types import ViewId
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag
from antiphon.wire.events import GroupEvent, is_last_of_groups, parse_event


class Transition:
    """The deliveries of one daemon at the end of a view: a `dispatch.Passage`."""

    def __init__(
        self,
        me: int,
        view_id: int,
        next_view_id: int,
        order: Order,
        recovery: Recovery,
        *,
        delivery: Delivery,
        dispatcher: Dispatcher,
        merging: Merging | None,
        observer: Observer | None,
    ) -> None:
        """`order` and `merging` are those of the view that ends."""
        self.view_id = view_id
        self.merging = merging
        """The GROUPS messages so far, while groups that were not whole when the view ended may become so."""
        self.dropped_bundles = 0
        self.were_apart = False
        """Once all is concluded: whether the groups must be put together anew, because they were not when the
        view ended."""
        self._me = me
        self._next_view_id = next_view_id
        self._order = order
        self.recovery = recovery
        self._delivery = delivery
        self._dispatcher = dispatcher
        self._observer = observer
        self._steps = 0
        self._known_joins: dict[str, list[tuple[int, int]]] = {}  # by group: place and daemon
        self._signalled: set[str] = set()  # groups whose signal came before the general one
        self._late_views: list[str] = []  # groups whose view belongs after their signal
        self._ends: deque[tuple[int, str]] | None = None  # where the certain part of each group ends
        self._is_signalled = False

    def conclude(self) -> Work:
        """Deliver the rest, signal, remove the members that are lost. Yields the steps of each part of it."""
        recovery = self.recovery
        rest = self._order.undelivered(recovery.committed)
        for entry in rest:
            entry.delivered = True
        kept = [entry for entry in rest if recovery.is_delivered(entry)]
        self.dropped_bundles += len(rest) - len(kept)
        will_merge = self._will_merge(kept)
        self._find_known_joins(kept)
        for entry in kept:
            if entry.header.flags & NOT_FOR_MEMBERS:
                continue  # a signal before it could come before a merge that others have without one
            is_merge = will_merge and entry.header.flags & Flag.GROUPS
            if entry.place > recovery.certain_line and not is_merge:
                yield from self._signal_all()
            elif self.merging is None:
                yield from self._signal_up_to(entry.place, kept)
            self._steps = 0
            work = self._dispatcher.deliver(entry, self)
            yield self._steps
            if work is not None:
                yield from work
                self.merging = None
        yield from self._signal_all()
        self._delivery.membership.forget_joins()
        last = round_of(stamp_after(recovery.ending.last_line, self._me))
        yield from self._delivery.lose(
            recovery.together, lambda first: ViewId(self.view_id, self._next_view_id, last, first)
        )
        self._delivery.changed()
        self.were_apart = self.merging is not None

    def _will_merge(self, rest: list[Entry]) -> bool:
        """Whether the groups are put together after all. Then they are before any signal."""
        if self.merging is None:
            return False
        coming = {
            entry.daemon
            for entry in rest
            if entry.header.flags & Flag.GROUPS and is_last_of_groups(entry.header)
        }
        return coming.issuperset(self.merging.missing)

    # What differs from a view that works ------------------------------------------------------------------

    @property
    def drops(self) -> bool:
        """What was sent after a merge that has not taken place here is dropped."""
        return self.merging is not None

    def dropped(self) -> None:
        """See `Passage`."""
        self.dropped_bundles += 1

    def spend(self, steps: int) -> None:
        """See `Passage`."""
        self._steps += steps

    def before_message(self, entry: Entry) -> None:
        """Signal the torn groups among its groups for which the certain part of the stream is over."""
        place = entry.place
        groups = self._delivery.membership.groups
        for name in bundles.parse_names(entry.header.names)[1:]:
            group = groups.get(name)
            if group is None:  # a private name, or no member is left
                if place > self.recovery.ending.line_of(()):
                    self._tell_signal(name)
            elif place > self._line_of(group, place):
                self._signal(group)

    def before_event(self, entry: Entry, event: GroupEvent) -> Mark:
        """Signal as before a message. A view that comes after the signal of its group belongs to a branch."""
        place, joiner = entry.place, entry.daemon
        membership = self._delivery.membership
        departed = () if event.group else event.departed((entry.daemon, entry.header.session))
        for name in [event.group] if event.group else membership.groups_of(*departed):
            group = membership.groups.get(name)
            if group is not None and place > self._line_of(group, place, joiner):
                self._signal(group)
        self._late_views.clear()

        def mark(name: str) -> tuple[ViewId, frozenset[int] | None]:
            if place <= self._line_of(membership.groups[name], place, joiner):
                return ViewId(self.view_id, 0, place, joiner), None
            self._late_views.append(name)
            return ViewId(self.view_id, self._next_view_id, place, joiner), self.recovery.together

        return mark

    def after_event(self, entry: Entry, event: GroupEvent) -> None:
        """Sessions that joined after the signal of their group have to get it, too."""
        for name in self._late_views:
            group = self._delivery.membership.groups.get(name)
            if group is not None:
                self._signal(group)

    # Signals ----------------------------------------------------------------------------------------------

    def _find_known_joins(self, rest: list[Entry]) -> None:
        """Find the joins that the daemon of the joining session has delivered already."""
        for entry in rest:
            header = entry.header
            if header.flags & Flag.EVENT and self.recovery.ending.has_delivered(entry.daemon, entry.place):
                event = parse_event(entry.bundle, header)
                if event.kind == "join":
                    self._known_joins.setdefault(event.group, []).append((entry.place, entry.daemon))

    def _line_of(self, group: Group, place: int, joiner: int | None = None) -> int:
        """Where the certain part of a group's stream ends, as it looks at a bundle with this place. A session
        that joins later, and whose daemon has told it so already, counts: it got no signal before."""
        hosts = set(group.hosts)
        hosts.update(daemon for joined, daemon in self._known_joins.get(group.name, ()) if joined >= place)
        if joiner is not None:
            hosts.add(joiner)
        return self.recovery.ending.line_of(hosts)

    def _signal_all(self) -> Work:
        """Nothing that follows is certain to reach the members that are lost (stranssig)."""
        if self._is_signalled:
            return
        self._is_signalled = True
        membership = self._delivery.membership
        for name in sorted(membership.groups):
            if membership.groups[name].is_torn(self.recovery.together):
                self._delivery.signal(membership.groups[name])
            yield 1
        self._tell_observer(())

    def _signal_up_to(self, place: int, rest: list[Entry]) -> Work:
        """Signal the groups whose certain part is over before a bundle, also one for other groups: what is
        before it may be a hole, and no daemon knows for which group that was. Groups that are joined wait for
        a bundle of their own, or for the general signal: that join may move where their part ends."""
        membership = self._delivery.membership
        if self._ends is None:
            events = (parse_event(one.bundle, one.header) for one in rest if one.header.flags & Flag.EVENT)
            joined = {event.group for event in events if event.kind == "join"}
            ends = []
            for name, one in membership.groups.items():
                if name not in joined:
                    ends.append((self._line_of(one, 0), name))
                    yield 1
            self._ends = deque(sorted(ends))
        while self._ends and self._ends[0][0] < place:
            _, name = self._ends.popleft()
            group = membership.groups.get(name)
            if group is not None:
                self._signal(group)
                yield 1

    def _signal(self, group: Group) -> None:
        """The certain part of a group's stream is over; its members care only if some of them are lost."""
        if group.is_torn(self.recovery.together):
            self._delivery.signal(group)
        self._tell_signal(group.name)

    def _tell_signal(self, name: str) -> None:
        if not self._is_signalled and name not in self._signalled:
            self._signalled.add(name)
            self._tell_observer((name,))

    def _tell_observer(self, groups: tuple[str, ...]) -> None:
        if self._observer is not None:
            together = tuple(sorted(self.recovery.together))
            committed = tuple(sorted(self.recovery.committed))
            self._observer.signalled(self.view_id, together, committed, groups)
