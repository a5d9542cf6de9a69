"""One-way paths between daemons, the faults that they suffer, and which of them are blocked.

A fault is an ordinary value, such as `Loss(0.05)`; a path takes any number of them, for good or for a while.
What a node sends in one call may be a train of packets: each packet has its own fate on the way, and those
that arrive together are handed over as one train again some of the time, as a kernel does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from random import Random

from msgspec import Struct

from antiphon import limits

COALESCE_WITHIN_US = 200
"""Packets of a train that arrive closer together than this may be read in one call."""

Pair = tuple[int, int]


class Fault(Struct, frozen=True, tag_field="kind", tag=str.lower, omit_defaults=True):
    """What can be wrong with a path."""


class Loss(Fault, frozen=True):
    """Each packet is lost with probability `rate`, whatever happened to the others."""

    rate: float


class BurstLoss(Fault, frozen=True):
    """Losses that come in runs: a two-state chain in which every packet of the bad state is lost."""

    enter: float
    """Probability per packet to fall into the bad state."""
    leave: float
    """Probability per packet to come out of it."""
    within_us: int = 200_000
    """It ends by then in any case: on an idle path few packets would last for seconds."""


class Duplicate(Fault, frozen=True):
    """A packet arrives a second time, up to `within_us` later."""

    rate: float
    within_us: int = 5_000


class Reorder(Fault, frozen=True):
    """A packet is overtaken: it takes up to `within_us` longer than those behind it."""

    rate: float
    within_us: int


class Corrupt(Fault, frozen=True):
    """One bit of a packet is flipped with probability `rate`, and no checksum of the network finds out.

    Not on connections: there TCP finds out and repeats the packet, which `Loss` shows already."""

    rate: float


class Jitter(Fault, frozen=True):
    """Latency varies by up to `up_to_us`, but packets stay in order."""

    up_to_us: int


class Delay(Fault, frozen=True):
    """Every packet takes so much longer."""

    extra_us: int


class Bandwidth(Fault, frozen=True):
    """The path carries so many bytes per second; what does not fit in its queue is lost."""

    bytes_per_s: int
    queue_bytes: int


class Oversize(Fault, frozen=True):
    """Packets of more than `above_bytes` are lost with probability `rate`: a hop on the way carries less than
    both ends believe, and does not tell them."""

    above_bytes: int
    rate: float = 1.0


class Mtu(Fault, frozen=True):
    """A hop on the way carries datagrams of up to `up_to_bytes`. Larger ones are cut into IP fragments, or
    lost if they must not be cut."""

    up_to_bytes: int


AnyFault = Loss | BurstLoss | Duplicate | Reorder | Corrupt | Jitter | Delay | Bandwidth | Oversize | Mtu

Arrival = tuple[int, bytes, int]
"""(time_us, bytes, packet size): what the receiver reads in one call."""


class Path:
    """The way from one daemon to another."""

    def __init__(
        self,
        latency_us: int,
        faults: tuple[AnyFault, ...],
        random: Random,
        coalesce: float,
        base_bytes: int = limits.PACKET_DEFAULT_BYTES,
    ) -> None:
        """`base_bytes` is the size of packets that both ends send without a proof that they get through."""
        self.latency_us = latency_us
        self._base_bytes = base_bytes
        self.is_open = True
        """Whether anything gets through."""
        self.sent = 0
        self.lost = 0
        self.duplicated = 0
        self.corrupted = 0
        self._random = random.random
        self._coalesce = coalesce
        self._in_burst = False
        self._burst_until_us = 0
        self._free_at_us = 0.0
        self._last_arrival_us = 0
        self._lasting = faults
        self._passing: list[AnyFault] = []
        self._apply()

    def suffer(self, fault: AnyFault) -> None:
        """One more fault, until `recover`; while it lasts, it takes the place of others of its kind."""
        self._passing.append(fault)
        self._apply()

    def recover(self, fault: AnyFault) -> None:
        """A fault that `suffer` began is over."""
        self._passing.remove(fault)
        self._apply()

    def recover_all(self) -> None:
        """What is left are the faults that it was made with."""
        self._passing.clear()
        self._apply()

    def _apply(self) -> None:
        self._loss = 0.0
        self._burst: BurstLoss | None = None
        self._duplicate = Duplicate(0.0)
        self._reorder = Reorder(0.0, 0)
        self._corrupt = 0.0
        self._jitter_us = 0
        self._delay_us = self.latency_us
        self._bandwidth: Bandwidth | None = None
        self._oversize: Oversize | None = None
        self._mtu: Mtu | None = None
        for fault in (*self._lasting, *self._passing):
            match fault:
                case Loss():
                    self._loss = fault.rate
                case BurstLoss():
                    self._burst = fault
                case Duplicate():
                    self._duplicate = fault
                case Reorder():
                    self._reorder = fault
                case Corrupt():
                    self._corrupt = fault.rate
                case Jitter():
                    self._jitter_us = fault.up_to_us
                case Delay():
                    self._delay_us = self.latency_us + fault.extra_us
                case Bandwidth():
                    self._bandwidth = fault
                case Oversize():
                    self._oversize = fault
                case Mtu():
                    self._mtu = fault

    @property
    def is_whole(self) -> bool:
        """Whether packets that were not proved get through, if not always at once."""
        hole = self._oversize
        return self.is_open and (hole is None or hole.rate < 1 or hole.above_bytes >= self._base_bytes)

    def carry(self, data: bytes, stride_bytes: int, now_us: int, is_whole: bool = False) -> list[Arrival]:
        """What arrives, and when, of the packet or train `data` that leaves now. One that `is_whole` must not
        be cut on the way."""
        size = len(data)
        if is_whole and self._mtu is not None and size > self._mtu.up_to_bytes:
            self.sent += 1
            self.lost += 1
            return []
        if size <= stride_bytes:
            arrivals = self._packet(data, now_us)
        else:
            arrivals = []
            for at in range(0, size, stride_bytes):
                arrivals += self._packet(data[at : at + stride_bytes], now_us)
        if len(arrivals) > 1 and self._random() < self._coalesce:
            return _coalesced(arrivals)
        return arrivals

    def _packet(self, packet: bytes, now_us: int) -> list[Arrival]:
        self.sent += 1
        random = self._random
        size = len(packet)
        if not self.is_open:
            self.lost += 1
            return []
        leaves_us = now_us if self._bandwidth is None else self._leaves(size, now_us, self._bandwidth)
        if (
            leaves_us is None
            or random() < self._loss
            or (self._burst is not None and self._burst_takes(self._burst, now_us))
            or (self._oversize is not None and self._oversize_takes(self._oversize, size))
        ):
            self.lost += 1
            return []
        if self._corrupt and random() < self._corrupt:
            packet = self._flip(packet)
        arrival_us = leaves_us + self._delay_us
        if self._jitter_us:
            arrival_us += int(random() * self._jitter_us)
        if self._reorder.rate and random() < self._reorder.rate:
            arrival_us += int(random() * self._reorder.within_us)
        else:
            arrival_us = max(arrival_us, self._last_arrival_us)
            self._last_arrival_us = arrival_us
        if self._duplicate.rate and random() < self._duplicate.rate:
            self.duplicated += 1
            again_us = arrival_us + int(random() * self._duplicate.within_us)
            return [(arrival_us, packet, size), (again_us, packet, size)]
        return [(arrival_us, packet, size)]

    def _flip(self, packet: bytes) -> bytes:
        """A packet with one bit changed."""
        self.corrupted += 1
        bit = int(self._random() * 8 * len(packet))
        damaged = bytearray(packet)
        damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)

    def _leaves(self, size: int, now_us: int, bandwidth: Bandwidth) -> int | None:
        """When the last byte of a packet is on its way; None where the queue is full."""
        waits_us = max(0.0, self._free_at_us - now_us)
        if waits_us * bandwidth.bytes_per_s > bandwidth.queue_bytes * 1e6:
            return None
        self._free_at_us = now_us + waits_us + size * 1e6 / bandwidth.bytes_per_s
        return int(self._free_at_us)

    def _oversize_takes(self, hole: Oversize, size: int) -> bool:
        return size > hole.above_bytes and self._random() < hole.rate

    def _burst_takes(self, burst: BurstLoss, now_us: int) -> bool:
        if self._in_burst and now_us >= self._burst_until_us:
            self._in_burst = False
        if self._random() < (burst.leave if self._in_burst else burst.enter):
            self._in_burst = not self._in_burst
            self._burst_until_us = now_us + burst.within_us
        return self._in_burst


def _coalesced(arrivals: list[Arrival]) -> list[Arrival]:
    """Neighbours of equal size that arrive together become one train; its last packet may be shorter."""
    trains: list[Arrival] = []
    run = [arrivals[0][1]]
    first_us, _, stride_bytes = arrivals[0]
    last_us = first_us
    for time_us, packet, size in arrivals[1:]:
        joins = (
            size <= stride_bytes
            and len(run[-1]) == stride_bytes
            and abs(time_us - first_us) <= COALESCE_WITHIN_US
            and len(run) < limits.TRAIN_MAX_PACKETS
        )
        if joins:
            run.append(packet)
            last_us = max(last_us, time_us)
        else:
            trains.append((last_us, b"".join(run), stride_bytes))
            run = [packet]
            first_us = last_us = time_us
            stride_bytes = size
    trains.append((last_us, b"".join(run), stride_bytes))
    return trains


class LaidPaths(dict[Pair, Path]):
    """Paths that are laid when something goes over them for the first time."""

    def __init__(self, paths: dict[Pair, Path], lay: Callable[[Pair], Path]) -> None:
        super().__init__(paths)
        self.when_laid: Callable[[Pair], None] | None = None
        """Told of each new one."""
        self._lay = lay

    def get(self, pair: Pair, default: object = None) -> Path:
        """There is a path between any two."""
        path = super().get(pair)
        if path is None:
            path = self[pair] = self._lay(pair)
            if self.when_laid is not None:
                self.when_laid(pair)
        return path

    def __missing__(self, pair: Pair) -> Path:
        return self.get(pair)


class Network:
    """All paths, and what blocks some of them.

    Blocks are counted: a path that two faults block is open again when both are over.
    """

    def __init__(self, paths: dict[Pair, Path]) -> None:
        self.paths = paths
        self.astray = 0
        """Packets to daemons to which no path leads."""
        self.splits = 0
        """How often it was split or united."""
        self.meter: Callable[[Pair, int, int], None] | None = None
        """Told of all that leaves: between whom, how many packets, how many bytes."""
        self._blocks: Counter[Pair] = Counter()
        self._parts: dict[int, int] = {}
        if isinstance(paths, LaidPaths):
            paths.when_laid = self._look_at

    def carry(
        self, pair: Pair, data: bytes, stride_bytes: int, now_us: int, is_whole: bool = False
    ) -> list[Arrival]:
        """What arrives, and when, of what leaves now."""
        path = self.paths.get(pair)
        if path is None:
            self.astray += -(-len(data) // stride_bytes)
            return []
        if self.meter is not None:
            self.meter(pair, -(-len(data) // stride_bytes), len(data))
        return path.carry(data, stride_bytes, now_us, is_whole)

    # Faults -----------------------------------------------------------------------------------------------

    def block(self, pair: Pair) -> None:
        """Nothing gets from the first to the second daemon of the pair, until `unblock`."""
        self._blocks[pair] += 1
        self._look_at(pair)

    def unblock(self, pair: Pair) -> None:
        """One block less, if there is one: a heal may have come before."""
        if self._blocks[pair]:
            self._blocks[pair] -= 1
        self._look_at(pair)

    def split(self, parts: Iterable[Collection[int]]) -> None:
        """Nothing gets from one part to another, until the next split or `unite`. A daemon that is in none of
        them is in one with all others like it."""
        self.splits += 1
        self._parts = {daemon: number for number, part in enumerate(parts) for daemon in part}
        for pair in self.paths:
            self._look_at(pair)

    def unite(self) -> None:
        """No parts any more."""
        self.split(())

    def heal(self) -> None:
        """No parts and no blocks any more, and paths as they were made."""
        self._blocks.clear()
        for path in self.paths.values():
            path.recover_all()
        self.unite()

    def _look_at(self, pair: Pair) -> None:
        path = self.paths.get(pair)
        if path is not None:
            one, other = pair
            path.is_open = not self._blocks[pair] and self._parts.get(one) == self._parts.get(other)

    # Questions --------------------------------------------------------------------------------------------

    def components(self, daemons: Collection[int]) -> list[tuple[int, ...]]:
        """The sets of these daemons that are connected by chains of pairs which work both ways, for packets
        of every size."""
        neighbours: dict[int, list[int]] = {daemon: [] for daemon in daemons}
        for (one, other), path in self.paths.items():
            if one in neighbours and other in neighbours and path.is_whole:
                back = self.paths.get((other, one))
                if back is not None and back.is_whole:
                    neighbours[one].append(other)
        found: list[tuple[int, ...]] = []
        seen: set[int] = set()
        for daemon in sorted(daemons):
            if daemon not in seen:
                reached = _reached(daemon, neighbours)
                seen |= reached
                found.append(tuple(sorted(reached)))
        return found


def _reached(start: int, neighbours: dict[int, list[int]]) -> set[int]:
    reached = {start}
    waiting = [start]
    while waiting:
        for other in neighbours[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
