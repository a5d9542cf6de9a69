"""How many members groups have at an edge and behind it, and what else is told on now and then.

Follows: InterGroup 4: control information is gathered on its way up, and its rate is limited.
"""

from typing import TYPE_CHECKING

from antiphon import limits
from antiphon.wire import edges

if TYPE_CHECKING:
    from antiphon.core.edge.node import EdgeNode

GROUPS_AT_ONCE = 1_024
"""Counts in one frame."""


class ReceiverCounts:
    """What the attachment knows of the members here."""

    def __init__(self, node: "EdgeNode", now_us: int) -> None:
        self._node = node
        self._told: dict[str, int] = {}
        self._due_us = self._report_us = now_us

    def attached(self, now_us: int) -> None:
        """The attachment knows nothing yet."""
        self._told.clear()
        self._node.members.changed.update(dict.fromkeys(self._node.members.groups))
        self._due_us = self._report_us = now_us

    def go_on(self, now_us: int) -> None:
        """Tell what has changed, if it is time."""
        node = self._node
        changed, main = node.members.changed, node.links.main
        if main is not None and node.places and self._report_us <= now_us:
            self._report_us = now_us + limits.EDGE_DETERMINE_US
            node.links.tell(main, node.behind.server.report, now_us)
        if not changed or main is None or now_us < self._due_us:
            return
        counts = {name: self._count(name) for name in changed}
        changed.clear()
        news = [(name, count) for name, count in counts.items() if self._told.get(name, 0) != count]
        for name, count in news:
            if count:
                self._told[name] = count
            else:
                del self._told[name]
        for at in range(0, len(news), GROUPS_AT_ONCE):
            node.links.tell(main, edges.Receivers(dict(news[at : at + GROUPS_AT_ONCE])), now_us)
        if news:
            self._due_us = now_us + limits.EDGE_RECEIVERS_US

    def _count(self, name: str) -> int:
        return self._node.members.count(name) + self._node.behind.server.receivers(name)

    def next_deadline_us(self) -> int | None:
        """When there is something to tell."""
        if self._node.links.main is None:
            return None
        due = [self._due_us] if self._node.members.changed else []
        return min([*due, self._report_us] if self._node.places else due, default=None)
