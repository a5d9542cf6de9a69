"""Where an edge stands in the feed, and what of the feed is new to it.

Items of one daemon view come in ascending order of their keys. What is at or before the place that the edge
has come to in that view is not handed on again, whichever attachment it comes from. The places that it had
come to in earlier daemon views are remembered for that, too: an attachment of another partition may lead
back to a view that the edge knows.

A group that begins to flow before the edge's place (the attachment is behind) flows for its members from
that place on: until then only its views are noted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from antiphon import limits
from antiphon.core.edge.connection import Connection
from antiphon.errors import BadFrame
from antiphon.service import UNRELIABLE
from antiphon.types import View
from antiphon.wire import bundle as bundles
from antiphon.wire import edges, frames
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.edges import Position

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

Key = tuple[int, str]
_START: Key = (0, "")
UNRELIABLE_MAX = 4_096
"""So many unreliable bundles are known again when another attachment sends them late."""


class Feed:
    """The feed of one edge, as the attachment tells it."""

    def __init__(self, node: "EdgeNode") -> None:
        self.position: Position | None = None
        """Up to where everything is handed on, or told as missing."""
        self.again = 0
        """Items that came a second time, and were not handed on."""
        self._node = node
        self._part: tuple[int, int] | None = None  # daemon view and branch of what comes
        self._last: Key = _START  # the key of what came last in it
        self._unreliable: dict[tuple[int, int, int, int], None] = {}  # the newest ones
        self._known: dict[int, Key] = {}  # by daemon view: how far the edge had come in it
        self._handlers: dict[type, Callable[[Connection, Any], None]] = {
            edges.Part: self._on_part,
            edges.Base: self._on_base,
            edges.Gap: self._on_gap,
            edges.Reached: self._on_reached,
            frames.ViewFrame: self._on_view,
            frames.SignalFrame: self._on_signal,
        }

    def begin(self) -> None:
        """What comes from now on comes from another attachment."""
        self._part, self._last = None, _START

    def take(self, connection: Connection, value: frames.ToEdge) -> None:
        """A control frame of the feed."""
        handler = self._handlers.get(type(value))
        if handler is None:
            raise BadFrame(f"control frame: {type(value).__name__} is nothing for an edge")
        if self._node.witness is not None:
            self._node.witness(value)
        handler(connection, value)

    def take_of_cast(self, connection: Connection, value: frames.ToEdge) -> None:
        """A control frame that is for several edges. Of groups that do not flow here only their places
        count."""
        if isinstance(value, edges.Gap):
            raise BadFrame("cast: a gap, which is for one edge")
        if isinstance(value, edges.Base) and not self._node.members.is_flowing(value.view.group):
            self._enter(value.position.view, value.position.branch)
            self._advance(value.position.key)
        else:
            self.take(connection, value)

    def bundle(self, frame: memoryview) -> None:
        """Messages."""
        data = bytes(frame)
        header = bundles.parse_from_daemon(data)
        if header.flags & ~Flag.CLIENT:
            raise BadFrame("bundle: not for clients")
        if header.service is UNRELIABLE:
            if self._is_first(header):
                self._node.pass_unreliable(header, data)
        elif self._advance((header.lts, "")):
            self._node.pass_bundle(header, data)

    def bundle_of_cast(self, data: bytes) -> None:
        """Messages that are for several edges: perhaps not for this one."""
        header = bundles.parse_from_daemon(data)
        if header.flags & ~Flag.CLIENT or header.service is UNRELIABLE:
            raise BadFrame("bundle: not for a cast")
        if self._advance((header.lts, "")) and self._node.members.is_wanted(header.names):
            self._node.pass_bundle(header, data)

    def _is_first(self, header: Header) -> bool:
        """Whether an unreliable bundle has not come before, from another attachment."""
        came = (header.daemon, header.incarnation, header.session, header.sequence)
        if came in self._unreliable:
            self.again += 1
            return False
        self._unreliable[came] = None
        if len(self._unreliable) > UNRELIABLE_MAX:
            del self._unreliable[next(iter(self._unreliable))]
        return True

    # Places -----------------------------------------------------------------------------------------------

    def _enter(self, view: int, branch: int) -> None:
        """What comes belongs to this daemon view."""
        if not (0 < view <= limits.COUNTER_MAX and 0 <= branch <= limits.COUNTER_MAX):
            raise BadFrame("feed: an impossible daemon view")
        if self._part == (view, branch):
            return
        if self._part is None or self._part[0] != view:
            self._last = _START
        self._part = (view, branch)
        position = self.position
        if position is None or position.view != view:
            if position is not None:
                self._known[position.view] = position.key
            key = self._known.pop(view, _START)
            if len(self._known) > limits.FEED_PARTS_MAX:
                del self._known[next(iter(self._known))]
            self.position = Position(view, branch, *key)
            self._node.members.catch_up()
        self._node.pass_part(view, branch)

    def _advance(self, key: Key) -> bool:
        """Something with this key came; whether it is new."""
        if self._part is None:
            raise BadFrame("feed: an item before its daemon view is known")
        if not self._last < key:
            raise BadFrame("feed: an item out of order")
        self._check(key[0])
        self._last = key
        assert self.position is not None
        if key <= self.position.key:
            self.again += 1
            return False
        self._node.members.catch_up()
        self.position = Position(*self._part, *key)
        return True

    def _come_to(self, position: Position) -> bool:
        """The attachment has come to a position; False if the edge is further on."""
        self._enter(position.view, position.branch)
        self._check(position.place)
        if position.place < self._last[0]:
            raise BadFrame("feed: a position that goes back")
        self._last = max(self._last, position.key)
        mine = self.position
        assert mine is not None and self._part is not None
        if position.place < mine.place:
            return False
        self.position = Position(*self._part, *max(mine.key, position.key))
        return True

    @staticmethod
    def _check(place: int) -> None:
        if not 0 <= place <= limits.COUNTER_MAX:
            raise BadFrame("feed: an impossible place")

    # Items ------------------------------------------------------------------------------------------------

    def _on_part(self, _connection: Connection, part: edges.Part) -> None:
        self._enter(part.view, part.branch)

    def _on_base(self, connection: Connection, base: edges.Base) -> None:
        group = base.view.group
        if group not in connection.listened and group not in connection.left:
            raise BadFrame("feed: a base of a group that nobody listens to")
        if self._node.members.is_flowing(group):
            self._enter(base.position.view, base.position.branch)
            self._on_view_at(base.view, base.position.place)
            return
        is_here = self._come_to(base.position)
        if group in connection.listened:
            self._node.pass_base(base.view, is_here)

    def _on_gap(self, connection: Connection, gap: edges.Gap) -> None:
        if gap.group not in connection.listened and gap.group not in connection.left:
            raise BadFrame("feed: a gap of a group that nobody listens to")
        if gap.group in connection.listened:
            self._node.pass_gap(gap)

    def _on_reached(self, _connection: Connection, reached: edges.Reached) -> None:
        if self._come_to(reached.position):
            self._node.members.catch_up()
            self._node.pass_reached()

    def _on_view(self, _connection: Connection, told: frames.ViewFrame) -> None:
        self._on_view_at(told.view, told.view.id.lts)

    def _on_view_at(self, view: View, place: int) -> None:
        if self._advance((place, view.group)):
            self._node.pass_view(view, place)
        else:
            self._node.members.note(view)

    def _on_signal(self, _connection: Connection, told: frames.SignalFrame) -> None:
        self._node.pass_signal(told.signal)
