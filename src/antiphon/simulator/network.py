"""One-way paths between daemons, and the faults that they suffer.

A fault is an ordinary value, such as `Loss(0.05)`; a path takes any number of them. What a node sends in one
call may be a train of packets: each packet has its own fate on the way, and those that arrive together are
handed over as one train again some of the time, as a kernel does.
"""

from random import Random

from msgspec import Struct

from antiphon import limits

COALESCE_WITHIN_US = 200
"""Packets of a train that arrive closer together than this may be read in one call."""


class Loss(Struct, frozen=True):
    """Each packet is lost with probability `rate`, whatever happened to the others."""

    rate: float


class BurstLoss(Struct, frozen=True):
    """Losses that come in runs: a two-state chain in which every packet of the bad state is lost."""

    enter: float
    """Probability per packet to fall into the bad state."""
    leave: float
    """Probability per packet to come out of it."""


class Duplicate(Struct, frozen=True):
    """A packet arrives a second time, up to `within_us` later."""

    rate: float
    within_us: int = 5_000


class Reorder(Struct, frozen=True):
    """A packet is overtaken: it takes up to `within_us` longer than those behind it."""

    rate: float
    within_us: int


class Jitter(Struct, frozen=True):
    """Latency varies by up to `up_to_us`, but packets stay in order."""

    up_to_us: int


class Bandwidth(Struct, frozen=True):
    """The path carries so many bytes per second; what does not fit in its queue is lost."""

    bytes_per_s: int
    queue_bytes: int


class Silence(Struct, frozen=True):
    """Nothing that leaves between these times arrives."""

    from_us: int
    until_us: int


Fault = Loss | BurstLoss | Duplicate | Reorder | Jitter | Bandwidth | Silence

Arrival = tuple[int, bytes, int]
"""(time_us, bytes, packet size): what the receiver reads in one call."""


class Path:
    """The way from one daemon to another."""

    def __init__(self, latency_us: int, faults: tuple[Fault, ...], random: Random, coalesce: float) -> None:
        self.latency_us = latency_us
        self.sent = 0
        self.lost = 0
        self.duplicated = 0
        self._random = random.random
        self._coalesce = coalesce
        self._loss = 0.0
        self._burst: BurstLoss | None = None
        self._in_burst = False
        self._duplicate = Duplicate(0.0)
        self._reorder = Reorder(0.0, 0)
        self._jitter_us = 0
        self._bandwidth: Bandwidth | None = None
        self._silences: list[Silence] = []
        self._free_at_us = 0.0
        self._last_arrival_us = 0
        for fault in faults:
            self.suffer(fault)

    def suffer(self, fault: Fault) -> None:
        """One more fault; of its own kind it takes the place of an earlier one, except for silences."""
        match fault:
            case Loss():
                self._loss = fault.rate
            case BurstLoss():
                self._burst = fault
            case Duplicate():
                self._duplicate = fault
            case Reorder():
                self._reorder = fault
            case Jitter():
                self._jitter_us = fault.up_to_us
            case Bandwidth():
                self._bandwidth = fault
            case Silence():
                self._silences.append(fault)

    def carry(self, data: bytes, segment_bytes: int, now_us: int) -> list[Arrival]:
        """What arrives, and when, of the packet or train `data` that leaves now."""
        size = len(data)
        if size <= segment_bytes:
            arrivals = self._packet(data, now_us)
        else:
            arrivals = []
            for at in range(0, size, segment_bytes):
                arrivals += self._packet(data[at : at + segment_bytes], now_us)
        if len(arrivals) > 1 and self._random() < self._coalesce:
            return _coalesced(arrivals)
        return arrivals

    def _packet(self, packet: bytes, now_us: int) -> list[Arrival]:
        self.sent += 1
        random = self._random
        size = len(packet)
        if self._silences and self.is_silent(now_us):
            self.lost += 1
            return []
        leaves_us = now_us if self._bandwidth is None else self._leaves(size, now_us, self._bandwidth)
        if leaves_us is None or random() < self._loss or (self._burst is not None and self._burst_takes()):
            self.lost += 1
            return []
        arrival_us = leaves_us + self.latency_us
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

    def is_silent(self, now_us: int) -> bool:
        """Whether nothing gets through now."""
        return any(silence.from_us <= now_us < silence.until_us for silence in self._silences)

    def _leaves(self, size: int, now_us: int, bandwidth: Bandwidth) -> int | None:
        """When the last byte of a packet is on its way; None where the queue is full."""
        waits_us = max(0.0, self._free_at_us - now_us)
        if waits_us * bandwidth.bytes_per_s > bandwidth.queue_bytes * 1e6:
            return None
        self._free_at_us = now_us + waits_us + size * 1e6 / bandwidth.bytes_per_s
        return int(self._free_at_us)

    def _burst_takes(self) -> bool:
        assert self._burst is not None
        turn = self._burst.leave if self._in_burst else self._burst.enter
        if self._random() < turn:
            self._in_burst = not self._in_burst
        return self._in_burst


def _coalesced(arrivals: list[Arrival]) -> list[Arrival]:
    """Neighbours of equal size that arrive together become one train; its last packet may be shorter."""
    trains: list[Arrival] = []
    run = [arrivals[0][1]]
    first_us, _, segment_bytes = arrivals[0]
    last_us = first_us
    for time_us, packet, size in arrivals[1:]:
        joins = (
            size <= segment_bytes
            and len(run[-1]) == segment_bytes
            and abs(time_us - first_us) <= COALESCE_WITHIN_US
            and len(run) < limits.TRAIN_MAX_PACKETS
        )
        if joins:
            run.append(packet)
            last_us = max(last_us, time_us)
        else:
            trains.append((last_us, b"".join(run), segment_bytes))
            run = [packet]
            first_us = last_us = time_us
            segment_bytes = size
    trains.append((last_us, b"".join(run), segment_bytes))
    return trains
