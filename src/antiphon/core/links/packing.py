"""Packets packed full without waiting: what waits for a link, cut into trains.

Follows: Spread paper 3.1 ("send full packets as much as possible"), with byte ranges of bundles in the place
of the paper's objects.
Deviations:
- a bundle that fits a packet is never cut: its receiver has it at once, where the parts of one that was cut
  must be put together again. What is left of a packet then stays empty
- a bundle of several packets starts a fresh packet, so that its train can be read as a whole
The packets of a train have one size, but for the last. Packets with small bundles have the size of the first
one of them, which is the same again and again where bundles are alike; where they are not, a packet that
lacks little is padded, and one that lacks more is the last of its train.
"""

from collections import deque

from msgspec import Struct

from antiphon import limits
from antiphon.core.effects import DatagramCounter
from antiphon.wire import packet, trains
from antiphon.wire.packet import Fragment, Pressure, Skip, Update

Buffer = bytes | memoryview

_FRESH_START_PACKETS = 4
"""Fragments of at least so many packets start in a packet of their own."""
_WORTH_CUTTING_BYTES = 128
"""A smaller rest of a packet is left empty rather than filled with a sliver; also, a bundle's first fragment
always has its whole header, so that daemons on the way can read it."""
_PADDING_SHARE = 8
"""At most this part (an eighth) of a packet is padding, which costs less than a train of its own would."""


class Train(Struct):
    """Packets sent together, kept until all of them are acknowledged."""

    first: int
    count: int
    buffers: list[Buffer]
    stride_bytes: int
    size_bytes: int
    sent_us: int = 0

    def packet(self, number: int) -> bytes:
        """One packet of the train as it was sent."""
        if len(self.buffers) > 1:
            self.buffers = [b"".join(self.buffers)]
        begin = (number - self.first) * self.stride_bytes
        return bytes(self.buffers[0][begin : begin + self.stride_bytes])


class Packer:
    """The queue of one link: fragments in order, and the notices that overtake them."""

    def __init__(self, packet_bytes: int, prefix: bytes, counter: DatagramCounter) -> None:
        self.waiting_bytes = 0
        self._prefix = prefix
        self._counter = counter
        self.resize(packet_bytes)
        self._fragments: deque[Fragment] = deque()
        self._start = 0  # how much of the first fragment is sent
        self._updates: dict[int, Update] = {}
        self._skips: deque[Skip] = deque()
        self._pressures: dict[int, Pressure] = {}  # by daemon

    def resize(self, packet_bytes: int) -> None:
        """Packets made from now on have at most this size."""
        self._capacity = packet.capacity(packet_bytes)
        self._stride_bytes = packet.HEAD_BYTES + self._capacity + packet.CHECK_BYTES
        self._step = self._capacity - packet.FRAGMENT_ITEM_BYTES

    def __bool__(self) -> bool:
        return bool(self._fragments or self._updates or self._skips or self._pressures)

    @property
    def largest_bytes(self) -> int:
        """The size of the largest bundle that waits, whole or in part."""
        return max((fragment.total for fragment in self._fragments), default=0)

    def add(self, fragment: Fragment) -> None:
        self._fragments.append(fragment)
        self.waiting_bytes += len(fragment.body)

    def add_update(self, update: Update) -> None:
        """An update makes an older one of the same source that still waits pointless."""
        waiting = self._updates.get(update.source)
        if waiting is None or waiting.serial < update.serial:
            self._updates[update.source] = update

    def add_pressure(self, pressure: Pressure) -> None:
        """A newer list makes an older one of the same daemon that still waits pointless."""
        waiting = self._pressures.get(pressure.daemon)
        if waiting is None or waiting.serial < pressure.serial:
            self._pressures[pressure.daemon] = pressure

    def add_skip(self, skip: Skip) -> None:
        """A range that continues the one before becomes one with it."""
        if self._skips:
            before = self._skips[-1]
            if before.source == skip.source and before.last + 1 == skip.first:
                self._skips[-1] = Skip(skip.source, before.first, skip.last, skip.lts, skip.aru)
                return
        self._skips.append(skip)

    def drop_newest(self) -> int:
        """Give up the newest fragment (for traffic that may be lost); how many bytes that frees."""
        if len(self._fragments) < 2:
            return 0
        size = len(self._fragments.pop().body)
        self.waiting_bytes -= size
        return size

    def train(self, first_number: int, packets_max: int) -> Train:
        """Take up to `packets_max` packets from the queue, numbered from `first_number`."""
        stride_bytes = self._stride_bytes
        packets_max = min(
            packets_max, limits.TRAIN_MAX_PACKETS, max(1, limits.TRAIN_MAX_BYTES // stride_bytes)
        )
        buffers: list[Buffer] = []
        count = size = 0
        while count < packets_max and self:
            whole = 0
            if self._fragments:
                whole = (len(self._fragments[0].body) - self._start) // self._step
            if whole:
                if stride_bytes < self._stride_bytes:
                    break
                taken = min(whole, packets_max - count)
                buffers += trains.fragment_train(
                    self._prefix, first_number + count, self._fragments[0], self._start, self._step, taken,
                    counter=self._counter.take(taken),
                )  # fmt: skip
                self._advance(taken * self._step)
                count += taken
                size += taken * stride_bytes
                continue
            if count and not self._has_fitting(stride_bytes):
                break
            used = self._shared_packet(buffers, first_number + count, stride_bytes, may_pad=count > 0)
            size += used
            if not count:
                stride_bytes = used  # those behind it must have the same size
            count += 1
            if used < stride_bytes:
                break  # only the last packet of a train may be shorter
        return Train(first_number, count, buffers, stride_bytes, size)

    def _has_fitting(self, stride_bytes: int) -> bool:
        """Whether what is to be sent next fits a packet of this size."""
        if self._skips:
            needed = packet.SKIP_ITEM_BYTES
        elif self._updates:
            needed = packet.UPDATE_ITEM_BYTES
        elif self._pressures:
            needed = len(packet.pressure_item(next(iter(self._pressures.values()))))
        else:
            needed = packet.FRAGMENT_ITEM_BYTES + len(self._fragments[0].body) - self._start
        return packet.HEAD_BYTES + needed + packet.CHECK_BYTES <= stride_bytes

    def _shared_packet(self, buffers: list[Buffer], number: int, stride_bytes: int, may_pad: bool) -> int:
        """One packet of at most `stride_bytes` with notices and as many pieces as fit; its size."""
        first = len(buffers)
        buffers.append(packet.head(self._prefix, number, counter=self._counter.take()))
        room = capacity = stride_bytes - packet.HEAD_BYTES - packet.CHECK_BYTES
        while self._skips and room >= packet.SKIP_ITEM_BYTES:
            buffers.append(packet.skip_item(self._skips.popleft()))
            room -= packet.SKIP_ITEM_BYTES
        while self._updates and room >= packet.UPDATE_ITEM_BYTES:
            buffers.append(packet.update_item(self._updates.pop(next(iter(self._updates)))))
            room -= packet.UPDATE_ITEM_BYTES
        while self._pressures:
            item = packet.pressure_item(next(iter(self._pressures.values())))
            if len(item) > room:
                break
            buffers.append(item)
            room -= len(item)
            del self._pressures[next(iter(self._pressures))]
        while self._fragments:
            fragment = self._fragments[0]
            taken = rest = len(fragment.body) - self._start
            room_bytes = room - packet.FRAGMENT_ITEM_BYTES
            if self._start == 0 and rest >= _FRESH_START_PACKETS * self._step and room < capacity:
                break
            if rest > room_bytes:
                if rest <= self._step or room_bytes < _WORTH_CUTTING_BYTES:
                    break  # it has a packet of its own next, or is one by then
                taken = room_bytes
            buffers += packet.fragment_item(fragment, self._start, self._start + taken)
            self._advance(taken)
            room = room_bytes - taken
        if may_pad and 0 < room <= stride_bytes // _PADDING_SHARE and self:
            buffers.append(bytes(room))
            room = 0
        buffers.append(packet.ending(buffers[first:]))
        return stride_bytes - room

    def _advance(self, taken: int) -> None:
        self._start += taken
        self.waiting_bytes -= taken
        if self._start == len(self._fragments[0].body):
            self._fragments.popleft()
            self._start = 0
