"""What a node keeps of a cast, and when it multicasts some of it once more: repairs.

Everybody in a local group who has a piece may repair it, the coordinator and the edges behind it alike. Who
is asked waits for a time drawn from [D1 d, (D1 + D2) d], and is silent if somebody else was faster; whatever
was repaired is not repaired again for 3 d, because requests may have crossed the repair.

Follows: SRM, repair timers and suppression; its D1 = D2 = 1 grow with the group as in its adaptive algorithm.
Deviations: d is not measured between any two edges. It is taken as the way by their coordinator, of which
each knows its own part and tells it with its requests. The chance is a number that follows from the name and
a count: so runs can be repeated.
Checked by: tests/unit/test_cast_repairs.py, the scenario `rim`, the oracle's *repairs*.
"""

from math import isqrt
from zlib import crc32

from msgspec import Struct

from antiphon import limits
from antiphon.wire.casts import Range

REPAIR_FIRST = 1
"""D1."""
CALM = 3
"""For so many distances a piece is not repaired once more."""
_SHARES = 1 << 32


class Draws:
    """Numbers that look like chance, and follow from a name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def between(self, low: int, high: int) -> int:
        """One of these, or between them."""
        self._count += 1
        return low + (high - low) * crc32(f"{self._name} {self._count}".encode()) // _SHARES


def distance(us: int) -> int:
    """A distance that timers can be made from."""
    return max(limits.CAST_DISTANCE_MIN_US, min(us, limits.CAST_DISTANCE_MAX_US))


class _Kept(Struct):
    data: bytes
    came_us: int


class Repairs:
    """The pieces of one cast that one node has, and who has asked for them."""

    def __init__(self, draws: Draws) -> None:
        self.distance_us = 0
        """From this node to the coordinator."""
        self.members = 0
        """How many edges the cast is for."""
        self.sent = 0
        """How many repairs were multicast."""
        self.spared = 0
        """How many were not, because somebody was faster."""
        self.size_bytes = 0
        self._draws = draws
        self._kept: dict[int, _Kept] = {}
        self._due: dict[int, int] = {}  # by number of the piece, when it is to be repaired
        self._calm: dict[int, int] = {}  # until when it is not, whoever asks
        self._pause_us = 0

    def clear(self) -> None:
        """Another cast begins."""
        self._kept.clear()
        self._due.clear()
        self._calm.clear()
        self.size_bytes = 0

    # What there is ----------------------------------------------------------------------------------------

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def keep(self, number: int, data: bytes, now_us: int) -> None:
        """A piece is here, and was not before."""
        self._kept[number] = _Kept(data, now_us)
        self.size_bytes += len(data)
        while self.size_bytes > limits.CAST_KEEP_BYTES:
            self._drop(next(iter(self._kept)))

    def data(self, number: int) -> bytes | None:
        """A piece, if it is here."""
        kept = self._kept.get(number)
        return None if kept is None else kept.data

    def drop_old(self, now_us: int) -> None:
        """Forget what is too old."""
        horizon_us = now_us - limits.CAST_KEEP_US
        while self._kept and self._kept[first := next(iter(self._kept))].came_us < horizon_us:
            self._drop(first)

    def _drop(self, number: int) -> None:
        self.size_bytes -= len(self._kept.pop(number).data)
        self._due.pop(number, None)
        self._calm.pop(number, None)

    # What others say --------------------------------------------------------------------------------------

    def requested(self, ranges: tuple[Range, ...], distance_us: int, now_us: int) -> None:
        """Somebody at a distance from the coordinator has asked for pieces."""
        self.drop_old(now_us)
        between_us = distance(self.distance_us + distance_us)
        last = max(REPAIR_FIRST, isqrt(self.members))
        wait_us = self._draws.between(REPAIR_FIRST * between_us, (REPAIR_FIRST + last) * between_us)
        for first, count in ranges:
            for number in range(first, first + count):
                if number in self._kept and self._calm.get(number, 0) <= now_us:
                    self._due.setdefault(number, now_us + wait_us)

    def repaired(self, number: int, now_us: int) -> None:
        """Somebody else has repaired a piece."""
        if number in self._kept:
            self._calm[number] = now_us + CALM * distance(self.distance_us)
            if self._due.pop(number, None) is not None:
                self.spared += 1

    # What is to be done -----------------------------------------------------------------------------------

    def take_due(self, now_us: int) -> list[tuple[int, bytes]]:
        """The pieces that are to be multicast now."""
        if now_us < self._pause_us:
            return []
        due = [number for number, due_us in self._due.items() if due_us <= now_us]
        del due[limits.CAST_REPAIRS_TURN :]
        if due:
            self._pause_us = now_us + limits.CAST_REPAIRS_PAUSE_US
        found = []
        for number in due:
            del self._due[number]
            self._calm[number] = now_us + CALM * distance(self.distance_us)
            found.append((number, self._kept[number].data))
        self.sent += len(found)
        return found

    def next_deadline_us(self) -> int | None:
        """When the next repair is due."""
        return max(min(self._due.values()), self._pause_us) if self._due else None
