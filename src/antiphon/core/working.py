"""Deliveries in a daemon view that works: what is special about them, for `groups.dispatch`.

Follows: thesis 6.4.4 (the state GOP, figures 6.18 and 6.19).
Deviation: a view of a group is identified by the place of the event that makes it, where the thesis
increments an index of the group.
Checked by: tests/paper/test_group_membership.py, tests/paper/test_group_changes.py.
"""

from typing import TYPE_CHECKING

from antiphon.core.groups.membership import Mark
from antiphon.core.groups.merging import Merging
from antiphon.core.ordering.entry import Entry
from antiphon.types import ViewId
from antiphon.wire.events import GroupEvent

if TYPE_CHECKING:
    from antiphon.core.node import Node
    from antiphon.core.origin import Origin


class WorkingPassage:
    """The deliveries of one daemon in one view: a `dispatch.Passage`."""

    drops = False
    """No daemon lets messages in before the groups are whole."""

    def __init__(self, node: "Node", view_id: int, origin: "Origin") -> None:
        self.view_id = view_id
        self._node = node
        self._me = node.me
        self._origin = origin
        self.spend = node.regrouping.spend

    @property
    def merging(self) -> Merging | None:
        """See `Passage`."""
        return self._node.regrouping.merging

    def dropped(self) -> None:
        """Never called: nothing is dropped in a view that works."""

    def before_message(self, entry: Entry) -> None:
        """Nothing: there is no signal in a view that works."""

    def before_event(self, entry: Entry, event: GroupEvent) -> Mark:
        """Views are called after the place of the event that makes them."""
        view_id = ViewId(self.view_id, 0, entry.place, entry.daemon)
        return lambda group: (view_id, None)

    def after_event(self, entry: Entry, event: GroupEvent) -> None:
        """Whatever waited for the event goes on, and what was kept of sessions that are over is forgotten."""
        node = self._node
        if node.delivery.membership.undecided:
            self._origin.decide_quorums(node.settled_us)
        if event.brings_messages and entry.daemon == self._me:
            self._origin.joined(entry, event)
            return
        node.backpressure.is_eased |= node.sessions.has_parked  # a slow receiver may have left
        if event.kind == "disconnect":
            departed = event.departed((entry.daemon, entry.header.session))
            node.order.forget_sessions(entry.source, departed)
