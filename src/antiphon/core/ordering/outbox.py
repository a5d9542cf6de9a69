"""What an adaptive order has to tell the others, made when it is taken."""

from typing import TYPE_CHECKING

from antiphon.core.ordering.told import Delivered, encode_told

if TYPE_CHECKING:
    from antiphon.core.ordering.adaptive import AdaptiveOrder


class OrderOutbox:
    """What an order has to tell. Tickets are made when they are taken, so that nothing else of the sequencer
    has a stamp between theirs and that of the bundle that carries them."""

    def __init__(self, order: "AdaptiveOrder") -> None:
        self._order = order

    def __len__(self) -> int:
        order = self._order
        if order.is_over:
            return 0
        changes, book = order.changes, order.book
        wanted = len(changes.wanted) + bool(book.to_confirm) + bool(order.resilience.to_tell)
        return wanted + changes.must_reassign + changes.sequencer.has_wanted()

    def popleft(self) -> bytes:
        """The next body: it must be sent before anything else is."""
        order = self._order
        changes = order.changes
        if changes.wanted:
            return changes.wanted.popleft()
        if order.book.to_confirm:
            return encode_told(order.book.confirmation())
        if order.resilience.to_tell:
            return encode_told(Delivered(order.resilience.take_to_tell()))
        if changes.must_reassign:
            return changes.reassign(order.book.highest.get(order.source, 0))
        return encode_told(changes.sequencer.give_tickets())
