"""What was sent and may have to be retransmitted."""

from collections import deque

from antiphon.core.effects import DatagramCounter
from antiphon.core.links.packing import Train
from antiphon.wire import packet


class OpenTrains(deque[Train]):
    """Trains that not every receiver has acknowledged, the oldest first (open_pkts of Spread paper 3.2)."""

    @property
    def packets(self) -> int:
        return sum(train.count for train in self)

    @property
    def size_bytes(self) -> int:
        return sum(train.size_bytes for train in self)

    def size_between(self, before: int, last: int) -> int:
        """Bytes of the packets after `before` up to `last`."""
        found = 0
        for train in self:
            first, end = max(train.first, before + 1), min(train.first + train.count, last + 1)
            if train.first > last:
                break
            if first < end:
                begin_bytes = (first - train.first) * train.stride_bytes
                found += min(train.size_bytes, (end - train.first) * train.stride_bytes) - begin_bytes
        return found

    def acknowledged(self, aru: int) -> None:
        """Everything up to this number has arrived; a train is kept until all of it has."""
        while self and self[0].first + self[0].count - 1 <= aru:
            self.popleft()

    def sent_us(self, number: int) -> int | None:
        """When a packet was sent first, if it is among these."""
        train = self._train(number)
        return None if train is None else train.sent_us

    def packet(self, number: int, counter: DatagramCounter) -> bytes | None:
        """One packet again, as a new datagram, if it is among these."""
        train = self._train(number)
        return None if train is None else packet.again(train.packet(number), counter.take())

    def _train(self, number: int) -> Train | None:
        train = next((train for train in self if number < train.first + train.count), None)
        return train if train is not None and train.first <= number else None
