"""Packets that come in pieces, because they no longer get through whole.

A packet keeps its number while the path under it becomes narrower than it is, so it cannot be cut anew into
packets with numbers of their own. Its sender cuts it into pieces of the base size instead, always in the same
places: pieces of several retransmissions complete one another.
"""

from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire.packet import Piece


class _Partial(Struct):
    """One packet of which some pieces have come."""

    total: int
    pieces: dict[int, bytes]
    size_bytes: int = 0


class Pieces:
    """The pieces that have come on one link, until their packets are complete."""

    def __init__(self, step: int) -> None:
        """All pieces of a packet but the last have `step` bytes."""
        self.size_bytes = 0
        self._step = step
        self._partial: dict[int, _Partial] = {}

    def __bool__(self) -> bool:
        return bool(self._partial)

    def take(self, piece: Piece) -> bytes | None:
        """One more piece: the items of its packet if nothing is missing any more."""
        number, size = piece.head.number, len(piece.body)
        partial = self._partial.get(number)
        if piece.offset % self._step or size != min(self._step, piece.total - piece.offset):
            raise BadPacket("piece: not cut as agreed")
        if partial is not None and partial.total != piece.total:
            raise BadPacket("piece: of another packet")
        if partial is not None and piece.offset in partial.pieces:
            return None
        if not self._has_room(number, size):
            return None
        partial = self._partial.setdefault(number, _Partial(piece.total, {}))
        partial.pieces[piece.offset] = piece.body
        partial.size_bytes += size
        self.size_bytes += size
        if partial.size_bytes < partial.total:
            return None
        self._drop(number)
        return b"".join(partial.pieces[at] for at in sorted(partial.pieces))

    def _has_room(self, number: int, size: int) -> bool:
        """Older packets come first: newer ones make room for them."""
        while self.size_bytes + size > limits.LINK_PIECES_MAX_BYTES:
            newest = max(self._partial)
            if newest <= number:
                return False
            self._drop(newest)
        return True

    def _drop(self, number: int) -> None:
        self.size_bytes -= self._partial.pop(number).size_bytes

    def forget(self, aru: int) -> None:
        """Packets up to this number have come, by other ways."""
        for number in [number for number in self._partial if number <= aru]:
            self._drop(number)
