"""What an adaptive order has to tell the others, made when it is taken."""

from collections import deque
from typing import TYPE_CHECKING

from antiphon.core.ordering.told import Confirmation, encode_told

if TYPE_CHECKING:
    from antiphon.core.ordering.adaptive import AdaptiveOrder


class OrderOutbox:
    """What an order has to tell. Tickets are made when they are taken, so that nothing else of the sequencer
    has a stamp between theirs and that of the bundle that carries them."""

    def __init__(self, order: "AdaptiveOrder") -> None:
        self._order = order
        self.bodies: deque[bytes] = deque()

    def __len__(self) -> int:
        order = self._order
        if order.is_over:
            return 0
        return len(self.bodies) + bool(order.to_confirm) + order.must_reassign + order.sequencer.has_wanted()

    def popleft(self) -> bytes:
        """The next body: it must be sent before anything else is."""
        order = self._order
        if self.bodies:
            return self.bodies.popleft()
        if order.to_confirm:
            newest = tuple(sorted(order.to_confirm.items()))
            order.to_confirm.clear()
            return encode_told(Confirmation(newest))
        if order.must_reassign:
            return encode_told(order.reassign())
        return encode_told(order.sequencer.give_tickets())
