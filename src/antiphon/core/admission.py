"""Which sessions may go on: those of lower priority leave room for those of higher priority that are active.

What is under way nobody can overtake: a link keeps the order of what it was given, and agreed messages wait
for all before them. So the queues after the daemon's choice are kept short for those who are in less of a
hurry.
"""

from typing import TYPE_CHECKING

from antiphon import limits

if TYPE_CHECKING:
    from antiphon.core.links.link import Link
    from antiphon.core.links.ring import Ring
    from antiphon.core.node import Node


def lowest(node: "Node", now_us: int) -> int:
    """The lowest priority whose bundles may be ordered now."""
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


def may_go_on(node: "Node", now_us: int) -> bool:
    """Whether a bundle waits that may be ordered now."""
    return bool(node.sessions.waiting) and node.sessions.has_turn(lowest(node, now_us))
