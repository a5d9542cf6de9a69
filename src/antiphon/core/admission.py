"""Which bundles of the clients may be ordered now, and how many in one go.

Sessions of lower priority leave room for those of higher priority that are active. What is under way nobody
can overtake: a link keeps the order of what it was given, and agreed messages wait for all before them. So
the queues after the daemon's choice are kept short for those who are in less of a hurry.
"""

from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.wire import frames

if TYPE_CHECKING:
    from antiphon.core.links.link import Link
    from antiphon.core.links.ring import Ring
    from antiphon.core.node import Node
    from antiphon.core.origin import Origin


class Admission:
    """Lets the bundles that wait at a daemon into the order of its view."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._room_bytes = 0  # what may still be ordered before the driver has its turn

    @property
    def has_leave(self) -> bool:
        """Whether new bundles may be ordered when it is this daemon's turn: messages flow, and not too much
        of ours is unstable."""
        node = self._node
        return (
            node.membership.is_active
            and node.merging is None
            and node.order.own_unstable_bytes < node.config.settings.unstable_bytes
        )

    @property
    def is_accepting(self) -> bool:
        """Whether new bundles may be ordered now."""
        ring = self._node.ring
        return self.has_leave and self._node.order.is_turn and (ring is None or ring.has_room)

    @property
    def is_exhausted(self) -> bool:
        """Whether as much was ordered in one go as may be.

        A daemon that is alone in its view knows at once that a message is everywhere, so that no limit on
        what is unstable ever stops it. Between two turns the driver tells who reads too slowly for that.
        """
        return self._room_bytes <= 0

    def begin(self) -> None:
        """The driver has had its turn."""
        self._room_bytes = self._node.config.settings.unstable_bytes

    def may_go_on(self, now_us: int) -> bool:
        """Whether a bundle waits that may be ordered now."""
        sessions = self._node.sessions
        return bool(sessions.waiting) and sessions.has_turn(self._lowest(now_us))

    def admit(self, origin: "Origin", now_us: int) -> None:
        """Order what sessions have sent, as long as there is room."""
        node = self._node
        holds = node.backpressure.holds if node.backpressure else None
        while self._room_bytes > 0 and self.is_accepting:
            turn = node.sessions.take(self._lowest(now_us), holds)
            if turn is None:
                return
            session, pending = turn
            self._room_bytes -= len(pending.bundle)
            origin.send(session, pending, now_us)
            if session.is_leaving and session.is_connected and not session.input:
                node.endings.append((session.number, frames.Goodbye("bye", "disconnected as asked")))

    def _lowest(self, now_us: int) -> int:
        """The lowest priority whose bundles may be ordered now."""
        node = self._node
        active = node.sessions.active_priority(now_us)
        if not active:
            return 0
        share_bytes = node.config.settings.unstable_bytes // limits.PRIORITY_SHARE
        ways: list[Link | Ring] = [*node.links.values()]
        if node.ring is not None:
            ways.append(node.ring)
        if node.order.own_unstable_bytes >= share_bytes or any(
            way.waiting_bytes > limits.PRIORITY_QUEUE_BYTES for way in ways
        ):
            return active
        return 0
