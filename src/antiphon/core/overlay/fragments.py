"""Bundles put together again from fragments that come in any order.

Memory follows what has arrived, never what a header claims.

Follows: Spread paper 3.3 (parts of an unreliable message are discarded if the rest does not come in time).
"""

from collections import OrderedDict

from msgspec import Struct

from antiphon import limits
from antiphon.wire.packet import Fragment


class _Partial(Struct):
    """A bundle some of whose bytes have come."""

    total: int
    began_us: int
    received: int
    pieces: dict[int, bytes | bytearray | memoryview]


class Reassembly:
    """The incomplete bundles of one source, of one kind (reliable or unreliable)."""

    def __init__(self, limit_bytes: int) -> None:
        self.buffered_bytes = 0
        self.dropped = 0
        self._limit_bytes = limit_bytes
        self._partials: OrderedDict[int, _Partial] = OrderedDict()

    def __len__(self) -> int:
        return len(self._partials)

    @property
    def largest_bytes(self) -> int:
        """The size of the largest incomplete bundle."""
        return max((partial.total for partial in self._partials.values()), default=0)

    def received_of(self, number: int) -> int:
        """How many bytes of an incomplete bundle have come."""
        partial = self._partials.get(number)
        return 0 if partial is None else partial.received

    def add(self, fragment: Fragment, now_us: int) -> bytes | None:
        """The bundle, if this fragment was the last of it."""
        size = len(fragment.body)
        if size == fragment.total:
            return bytes(fragment.body)
        partial = self._partials.get(fragment.number)
        if partial is None:
            partial = self._partials[fragment.number] = _Partial(fragment.total, now_us, 0, {})
        if fragment.total != partial.total or fragment.offset in partial.pieces:
            self.dropped += 1
            return None
        if self.buffered_bytes + size > self._limit_bytes:
            self.dropped += 1
            return None
        partial.pieces[fragment.offset] = fragment.body
        partial.received += size
        self.buffered_bytes += size
        if partial.received < partial.total:
            return None
        del self._partials[fragment.number]
        self.buffered_bytes -= partial.received
        return self._join(partial)

    def _join(self, partial: _Partial) -> bytes | None:
        """The pieces in their order; None if they overlap. Links do not drop duplicates of unreliable
        packets, and every hop may cut a bundle elsewhere."""
        end = 0
        for offset in sorted(partial.pieces):
            if offset != end:
                self.dropped += 1
                return None
            end += len(partial.pieces[offset])
        return b"".join(partial.pieces[offset] for offset in sorted(partial.pieces))

    def expire(self, now_us: int) -> None:
        """Give up unreliable bundles whose missing fragments are overdue."""
        while self._partials:
            number, partial = next(iter(self._partials.items()))
            if partial.began_us + limits.UNRELIABLE_REASSEMBLY_TIMEOUT_US > now_us:
                return
            del self._partials[number]
            self.buffered_bytes -= partial.received
            self.dropped += 1
