"""Packets of another member of the segment, kept to repeat them for one that lacks them."""

from antiphon.wire import trains
from antiphon.wire.packet import Data


class Kept:
    """What has come from one member and is not known to be everywhere (part of RMP's OrderingQ)."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._by_number: dict[int, Data] = {}
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._by_number)

    def add(self, data: Data) -> None:
        """A packet, or a train of them, has come."""
        first = data.head.number
        for number in range(first, first + data.count):
            self._by_number[number] = data
        self.size_bytes += data.size_bytes // data.count * data.count

    def packet(self, number: int) -> Data | None:
        """One packet alone, if it is here."""
        data = self._by_number.get(number)
        return None if data is None else trains.split(data)[number - data.head.number]

    def forget(self, up_to: int) -> None:
        """Every member has the packets up to this one."""
        for number in range(self._forgotten + 1, up_to + 1):
            data = self._by_number.pop(number, None)
            if data is not None:
                self.size_bytes -= data.size_bytes // data.count
        self._forgotten = max(self._forgotten, up_to)
