"""Which packets of one process have come: each counts once."""

_BLOCK_BITS = 10
_BLOCK = 1 << _BLOCK_BITS
_BLOCKS = 64
WINDOW = _BLOCKS * _BLOCK
"""A packet that is overtaken by so many others of its sender, whoever these are for, is too late: at a
hundred thousand packets a second that takes two thirds of a second, and its link sends it again. One window
takes 8 KiB."""


class Window:
    """The counters of one process that were seen, as far back as `WINDOW`."""

    __slots__ = ("_blocks", "_floor", "_newest")

    def __init__(self, first: int) -> None:
        """Only what is sent after `first` counts: that was sent of late, and whatever was recorded before it
        has a smaller counter."""
        self._floor = first
        self._newest = first >> _BLOCK_BITS
        self._blocks: dict[int, int] = {}

    def is_new(self, first: int, count: int = 1) -> bool:
        """Whether `count` consecutive counters from `first` on are all new."""
        if first <= self._floor:
            return False
        block, at = first >> _BLOCK_BITS, first & _BLOCK - 1
        if at + count > _BLOCK:
            before = _BLOCK - at
            return self.is_new(first, before) and self.is_new(first + before, count - before)
        return not self._blocks.get(block, 0) >> at & (1 << count) - 1

    def note(self, first: int, count: int = 1) -> None:
        """These were genuine: they have come."""
        block, at = first >> _BLOCK_BITS, first & _BLOCK - 1
        if at + count > _BLOCK:
            before = _BLOCK - at
            self.note(first, before)
            self.note(first + before, count - before)
            return
        if block > self._newest:
            self._move(block)
        self._blocks[block] = self._blocks.get(block, 0) | (1 << count) - 1 << at

    def _move(self, newest: int) -> None:
        self._newest = newest
        oldest = newest - _BLOCKS + 1
        self._floor = max(self._floor, (oldest << _BLOCK_BITS) - 1)
        for block in [block for block in self._blocks if block < oldest]:
            del self._blocks[block]
