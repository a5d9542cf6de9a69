"""What a daemon has fed to its edges of late, in the order of the feed: the memory from which they go on.

A feed goes through daemon views, *parts* here: within a part, items are in ascending order of their keys, and
positions mean the same at every daemon that was in that view. A group is *carried* from one place on, where
its `Base` stands; that everything of it is there from a position on is known group by group, because groups
come and go, and because what is dropped, oldest first, is of some groups only.

Follows: InterGroup 6 (RMRA): what precedes the new membership is recovered, or known to be missing.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct, field

from antiphon import limits
from antiphon.types import TransitionalSignal, View, ViewId
from antiphon.wire import frames
from antiphon.wire.bundle import Header
from antiphon.wire.edges import Base, Position

Frame = bytes | bytearray | memoryview
Key = tuple[int, str]
Point = tuple[int, Key]
"""A part's number and a key: where something stands in one log."""

BEHIND = "\x01"
"""Right behind a name, and before all longer ones."""
SIGNALS_MAX = 64
"""Signals of a group that are remembered: an edge may come back that has missed one of a view long gone."""
ITEM_BYTES = 256
"""What an item takes beside its frame."""


class Kind(Enum):
    """What an item is."""

    BUNDLE = "bundle"
    VIEW = "view"
    SIGNAL = "signal"
    BASE = "base"
    """From here on a group is carried, or carried again after something of it was missing."""
    GAP = "gap"
    """Something of a group is missing from here on to its next base."""


class Item(Struct, frozen=True):
    """One step of the feed."""

    kind: Kind
    point: Point
    view: int
    """The daemon view of its part, which may be forgotten before the item is."""
    branch: int
    groups: tuple[str, ...]
    """The carried ones to which it belongs."""
    frame: Frame
    """What is written for it."""
    header: Header | None = None
    """Of a bundle."""
    gap: str = ""
    """Of a gap: why something is missing."""
    came_us: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.frame) + ITEM_BYTES


class Part(Struct):
    """A daemon view through which the feed goes."""

    number: int
    view: int
    next_view: int = 0
    """The one that followed; 0 as long as none has."""


class Carried(Struct):
    """A group that is in the feed."""

    since: Point
    """Where its newest base stands."""
    view: View
    """Its last view in the feed."""
    dropped: Point | None = None
    """Where its last item stood that is forgotten."""
    signals: dict[ViewId, Point] = field(default_factory=dict)
    """Where the transitional signals of its newest views stand, oldest first."""

    @property
    def signalled(self) -> Point | None:
        """Where the transitional signal of its last view stands, once it is given."""
        return self.signals.get(self.view.id)

    def signal(self, view: ViewId, point: Point) -> None:
        """The transitional signal of a view stands at a point."""
        self.signals[view] = point
        if len(self.signals) > SIGNALS_MAX:
            del self.signals[next(iter(self.signals))]


class Lost(Enum):
    """Why the feed cannot go on after a position."""

    VIEW = "the attachment was not in the daemon view in which it stopped"
    BRANCH = "the attachment went on from there with other daemons"
    OLD = "the attachment has forgotten what came next"
    NEW = "the attachment did not listen to the group then"


class FeedLog:
    """The feed of one daemon."""

    def __init__(
        self,
        view: int,
        *,
        retain_bytes: int = limits.FEED_RETAIN_BYTES,
        retain_us: int = limits.FEED_RETAIN_US,
    ) -> None:
        """`view` is the daemon view in which it begins."""
        self.groups: dict[str, Carried] = {}
        self.size_bytes = 0
        self._retain_bytes = retain_bytes
        self._retain_us = retain_us
        self._items: deque[Item] = deque()
        self.first = 0
        """The serial number of the oldest item that is here; items count from 0."""
        self._branch = 0
        self._place = 0
        self._last: Point = (1, (0, ""))
        self._parts: dict[int, Part] = {view: Part(1, view)}  # by view, oldest first
        self.part = self._parts[view]
        """The newest one."""

    @property
    def end(self) -> int:
        """The serial number of the next item."""
        return self.first + len(self._items)

    @property
    def reached(self) -> Position:
        """The feed has come so far."""
        return Position(self.part.view, self._branch, self._place)

    def item(self, serial: int) -> Item:
        return self._items[serial - self.first]

    def after(self, serial: int) -> Iterator[Item]:
        """The items from this serial number on."""
        for at in range(serial - self.first, len(self._items)):
            yield self._items[at]

    def position(self, item: Item) -> Position:
        """The position of an item."""
        _, (place, group) = item.point
        return Position(item.view, item.branch, place, group)

    # What comes in ----------------------------------------------------------------------------------------

    def begin_part(self, view: int) -> None:
        """What follows belongs to this daemon view."""
        if view == self.part.view:
            return
        self.part.next_view = view
        self.part = Part(self.part.number + 1, view)
        self._parts.pop(view, None)  # the feed has come back to it after a gap
        self._parts[view] = self.part
        self._branch = self._place = 0
        if len(self._parts) > limits.FEED_PARTS_MAX:
            del self._parts[next(iter(self._parts))]

    def begin_branch(self, next_view: int) -> None:
        """What follows in this part is the same only at daemons that go on to `next_view`."""
        self._branch = next_view

    def reach(self, place: int) -> None:
        """Nothing more comes in this part up to a place."""
        self._place = max(self._place, place)

    def pass_by(self, key: Key) -> None:
        """Something with this key came that belongs to no carried group."""
        self._last = max(self._last, (self.part.number, key))
        self.reach(key[0])

    def bundle(self, groups: tuple[str, ...], frame: Frame, header: Header, now_us: int) -> None:
        """Messages; the lts of the header is their place."""
        self._append(Kind.BUNDLE, (header.lts, ""), groups, frame, now_us, header)

    def view(self, view: View, now_us: int, place: int) -> None:
        """A view of a carried group. One that was not made here, but elsewhere before this daemon came, does
        not tell its place itself."""
        carried = self.groups[view.group]
        carried.view = view
        carried.signals.pop(view.id, None)  # one that comes back from elsewhere was not given one there
        key = (place, view.group)
        if view.id.lts == place and view.id.epoch == self.part.view:
            frame = frames.encode_control(frames.ViewFrame(view))
        else:
            frame = frames.encode_control(Base(view, Position(self.part.view, self._branch, *key)))
        self._append(Kind.VIEW, key, (view.group,), frame, now_us)

    def signal(self, signal: TransitionalSignal, place: int, now_us: int) -> None:
        """The transitional signal of a carried group's view, after what is up to a place."""
        key = self._free_key(place)
        self.groups[signal.group].signal(signal.id, (self.part.number, key))
        frame = frames.encode_control(frames.SignalFrame(signal))
        self._append(Kind.SIGNAL, key, (signal.group,), frame, now_us)

    def base(self, view: View, place: int, now_us: int) -> None:
        """From here on a group is carried, or carried again."""
        key = self._free_key(place)
        self.groups[view.group] = Carried((self.part.number, key), view)
        frame = frames.encode_control(Base(view, Position(self.part.view, self._branch, *key)))
        self._append(Kind.BASE, key, (view.group,), frame, now_us)

    def gap(self, group: str, place: int, now_us: int, reason: str) -> None:
        """Something of a carried group is missing: it is carried again from its next base on."""
        self._append(Kind.GAP, self._free_key(place), (group,), b"", now_us, gap=reason)
        self.forget(group)

    def _free_key(self, place: int) -> Key:
        """A key for what has no place of its own: behind what has come up to a place, also if that is only
        known to have been nothing, and before what may still follow there."""
        number, last = self._last
        come = max(last, self.reached.key) if number == self.part.number else self.reached.key
        if place <= come[0]:
            return come[0], come[1] + BEHIND
        return place, ""

    def forget(self, group: str) -> None:
        """A group is carried no longer."""
        self.groups.pop(group, None)

    def _append(
        self,
        kind: Kind,
        key: Key,
        groups: tuple[str, ...],
        frame: Frame,
        now_us: int,
        header: Header | None = None,
        gap: str = "",
    ) -> None:
        point = (self.part.number, key)
        assert point > self._last, f"{kind} at {point}, after {self._last}"
        self._last = point
        item = Item(kind, point, self.part.view, self._branch, groups, frame, header, gap, now_us)
        self._items.append(item)
        self.size_bytes += item.size_bytes
        self.reach(key[0])
        self.drop_old(now_us)

    def drop_old(self, now_us: int) -> None:
        """Forget what is too old, or too much."""
        items, horizon_us = self._items, now_us - self._retain_us
        while items and (self.size_bytes > self._retain_bytes or items[0].came_us < horizon_us):
            item = items.popleft()
            self.first += 1
            self.size_bytes -= item.size_bytes
            for group in item.groups:
                carried = self.groups.get(group)
                if carried is not None and item.kind is not Kind.BASE:
                    carried.dropped = item.point

    # Where to go on ---------------------------------------------------------------------------------------

    def find(self, position: Position) -> Point | Lost | None:
        """Where a position stands in this log, or why it does not; None if it may do so soon, because who
        has it is ahead of us."""
        part = self._parts.get(position.view)
        if part is None:
            return None if position.view > self.part.view else Lost.VIEW
        if position.branch and position.branch != part.next_view:
            if part.next_view or position.branch < self.part.view:
                return Lost.BRANCH
            return None
        return part.number, position.key

    def serial_after(self, point: Point) -> int:
        """The serial number of the first item that is here and stands after a point."""
        low, high = 0, len(self._items)
        while low < high:
            middle = (low + high) // 2
            if self._items[middle].point <= point:
                low = middle + 1
            else:
                high = middle
        return self.first + low

    def lost_since(self, group: str, point: Point) -> Lost | None:
        """Why something of a carried group may be missing after a point; None if nothing is."""
        carried = self.groups[group]
        if carried.since > point:
            return Lost.NEW
        if carried.dropped is not None and carried.dropped > point:
            return Lost.OLD
        return None
