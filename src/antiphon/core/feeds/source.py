"""From what a daemon of the core delivers to its feed: everything in the one agreed order, whatever its
service.

A daemon delivers reliable, FIFO and causal messages as early as they allow, and so not in the same order as
another one. In the feed each has its place among the ordered ones, so that an edge can go on at any daemon:
what is delivered waits here until everything that was born before its place has come (`Order.done_line`).
What is delivered at the end of a view comes in the same order; what stands there after the certain part of
the view belongs to a branch, because daemons that go on with others may not have the same.

Follows: InterGroup 5 and 6: born-ordered messages are ordered independently at each receiver.
Checked by: the scenario `edges`, the oracle's *edges*.
"""

from heapq import heappop, heappush

from antiphon.core.feeds.log import FeedLog, Lost
from antiphon.core.groups.choices import in_place
from antiphon.core.groups.group import Change, Group
from antiphon.core.groups.membership import Membership
from antiphon.core.ordering.entry import Entry
from antiphon.service import AGREED
from antiphon.types import Cause, TransitionalSignal, View
from antiphon.wire.bundle import Header, listened_names, parse
from antiphon.wire.events import GroupEvent

Body = bytes | bytearray | memoryview
_CACHE_MAX = 4_096
_Step = Entry | View | TransitionalSignal | GroupEvent
_RANKS: dict[type, int] = {Entry: 0, GroupEvent: 1, View: 2, TransitionalSignal: 3}
"""What comes first of what has the same place."""


class FeedSource:
    """What this daemon listens to, on its way into the log: told as `groups.delivery.Feeding`."""

    def __init__(self, log: FeedLog, membership: Membership) -> None:
        self.log = log
        self.listening: set[str] = set()
        """The groups to which this daemon listens."""
        self.came_unreliable: list[tuple[tuple[str, ...], Header, Body]] = []
        """Unreliable bundles that have come; the owner takes them."""
        self.took_effect: list[str] = []
        """Groups to which this daemon listens now, or no longer; the owner takes them."""
        self._membership = membership
        self._waiting: list[tuple[int, int, str, int, _Step]] = []  # a heap
        self._count = 0
        self._place = 0  # of the ordered bundle or event that was delivered last
        self._names: dict[bytes, tuple[str, ...]] = {}  # which of a bundle's names are listened to

    @property
    def is_active(self) -> bool:
        """See `Feeding`."""
        return bool(self.listening)

    def _put(self, place: int, group: str, step: _Step) -> None:
        self._count += 1
        heappush(self._waiting, (place, _RANKS[type(step)], group, self._count, step))

    # What is delivered ------------------------------------------------------------------------------------

    def message(self, entry: Entry) -> None:
        """See `Feeding`."""
        place = entry.place or entry.header.lts
        if entry.header.service >= AGREED:  # others may be delivered long before their places
            self._place = max(self._place, place)
        if self._listened(entry.header.names):
            self._put(place, "", entry)

    def unreliable(self, header: Header, bundle: Body) -> None:
        """See `Feeding`."""
        groups = self._listened(header.names)
        if groups:
            self.came_unreliable.append((groups, header, bundle))

    def _listened(self, area: bytes) -> tuple[str, ...]:
        found = self._names.get(area)
        if found is None:
            if len(self._names) >= _CACHE_MAX:
                self._names.clear()
            found = self._names[area] = tuple(name for name in listened_names(area) if name in self.listening)
        return found

    def view(self, change: Change) -> None:
        """See `Feeding`."""
        group = change.group
        self._place = max(self._place, group.view.lts)
        if group.name in self.listening:
            self._put(group.view.lts, group.name, change.view)

    def merged(self, group: Group, place: int) -> None:
        """See `Feeding`. Those who listen here may have known another view than the members."""
        if group.name in self.listening:
            self._put(place, group.name, group.show(Cause.MERGE))

    def signal(self, group: Group) -> None:
        """See `Feeding`."""
        if group.name in self.listening:
            self._put(self._place, group.name, TransitionalSignal(group.name, group.view))

    def listens(self, event: GroupEvent, place: int) -> None:
        """See `Feeding`."""
        self._names.clear()
        self._place = max(self._place, place)
        for name in event.groups:
            self.took_effect.append(name)
            if event.kind == "unlisten":
                self.listening.discard(name)
                self._put(place, name, event)
            elif name not in self.listening:
                self.listening.add(name)
                self._put(place, name, event)
                group = self._membership.groups[name]
                self._put(place, name, group.show())
                if group.is_signalled:
                    self._put(place, name, TransitionalSignal(name, group.view))

    # What goes into the log -------------------------------------------------------------------------------

    def advance(self, line: int, now_us: int) -> None:
        """Everything that was born up to a line is delivered."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= line:
            self._log(heappop(waiting), now_us)
        self.log.reach(line)

    def end_view(self, certain_line: int, next_view: int, now_us: int) -> None:
        """Everything of a daemon view is delivered, and another one follows."""
        waiting = self._waiting
        is_certain = True
        while waiting:
            step = heappop(waiting)
            if is_certain and (step[0] > certain_line or isinstance(step[-1], TransitionalSignal)):
                is_certain = False  # who has a signal goes on with those who have it, too
                self.log.begin_branch(next_view)
            self._log(step, now_us)
        self.log.begin_part(next_view)
        self._place = 0

    def _log(self, waited: tuple[int, int, str, int, _Step], now_us: int) -> None:
        place, _, name, _, step = waited
        log = self.log
        if isinstance(step, Entry):
            frame = in_place(step)
            header = step.header if frame is step.bundle else parse(frame)
            # What the log carries decides: this may stand before an end of listening that is known already.
            groups = tuple(group for group in listened_names(header.names) if group in log.groups)
            if groups:
                log.bundle(groups, frame, header, now_us)
        elif isinstance(step, GroupEvent):
            if name in log.groups:  # an edge may have begun to listen again meanwhile
                log.gap(name, place, now_us, Lost.NEW.value)
        elif isinstance(step, View):
            if name not in log.groups:
                log.base(step, place, now_us)
            elif log.groups[name].view.id != step.id:
                log.view(step, now_us, place)
        elif name in log.groups:
            log.signal(step, place, now_us)
