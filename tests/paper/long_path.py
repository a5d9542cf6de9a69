"""One link over a long path in virtual time: delay, losses, a bottleneck, ends that stand still."""

import heapq
from collections.abc import Callable
from random import Random

from small_worlds import SIGNS, ends_of, packets_of

from antiphon.config import LinkConfig
from antiphon.core.effects import Outbox
from antiphon.core.links.hop import HopLink
from antiphon.wire import packet
from antiphon.wire.packet import Data, Fragment

BODY = bytes(60_000)


class Bottleneck:
    """A queue in front of a line of a certain rate; what comes while it is full is lost, whatever its size.
    Flows may share it."""

    def __init__(self, bytes_per_s: int, queue_bytes: int) -> None:
        self._bytes_per_us = bytes_per_s / 1e6
        self._queue_bytes = queue_bytes
        self._free_us = 0.0
        self.lost = 0

    def pass_us(self, size_bytes: int, now_us: int) -> int | None:
        """When a packet that comes now has left the queue; None if it is lost."""
        begin_us = max(self._free_us, now_us)
        if (begin_us - now_us) * self._bytes_per_us > self._queue_bytes:
            self.lost += 1
            return None
        self._free_us = begin_us + size_bytes / self._bytes_per_us
        return int(self._free_us)


class LongPath:
    """A Hop link whose end 0 sends as fast as it may, while `is_busy`."""

    def __init__(
        self,
        *,
        rtt_ms: float = 50.0,
        loss: float = 0.0,
        bottleneck: Bottleneck | None = None,
        congestion: str = "cubic",
        seed: int = 1,
        packet_bytes: int = 1_400,
        rate_bytes_per_s: int = 0,
    ) -> None:
        path = LinkConfig(
            ("s0", "s1"),
            packet_bytes=packet_bytes,
            rate_bytes_per_s=rate_bytes_per_s,
            congestion=congestion,  # type: ignore[arg-type]
        )
        self.now_us = 0
        self.loss = loss
        self.bottleneck = bottleneck
        self.is_busy = True
        self.late_us: Callable[[], int] = lambda: 0
        """How much later than others a packet comes."""
        self.received_bytes = 0
        self._delay_us = int(rtt_ms * 500)
        self._random = Random(seed)
        self._out = (Outbox(), Outbox())
        self.ends = tuple(
            HopLink(ends_of(me), path, signs=SIGNS, datagrams=self._out[me], now_us=0) for me in (0, 1)
        )
        self._flying: list[tuple[int, int, int, bytes]] = []
        self._count = 0
        self._still_until_us = [0, 0]
        self._bundles = 0

    # Questions ----------------------------------------------------------------------------------------------

    @property
    def sender(self) -> HopLink:
        return self.ends[0]

    @property
    def window_bytes(self) -> float:
        return self.sender.regulator.controller.window_bytes

    def next_us(self) -> int:
        """When something happens."""
        found = [max(end.next_deadline_us(), self._still_until_us[me]) for me, end in enumerate(self.ends)]
        if self._flying:
            found.append(self._flying[0][0])
        return max(self.now_us, min(found))

    # Requests -----------------------------------------------------------------------------------------------

    def stand_still(self, end: int, ms: float) -> None:
        """The process of one end stops for a while; what comes waits in its socket."""
        self._still_until_us[end] = self.now_us + int(ms * 1_000)

    def run(self, seconds: float) -> float:
        """Let time pass; how many bytes a second came through."""
        until_us = self.now_us + int(seconds * 1e6)
        before = self.received_bytes
        self.work()
        while self.next_us() <= until_us:
            self.step()
        self.now_us = until_us
        return (self.received_bytes - before) / seconds

    def step(self) -> None:
        self.now_us = self.next_us()
        while self._flying and self._flying[0][0] <= self.now_us:
            _, _, receiver, data = heapq.heappop(self._flying)
            if self._still_until_us[receiver] > self.now_us:
                self._fly_until(self._still_until_us[receiver], receiver, data)
                continue
            incoming = packet.parse(memoryview(data))
            if receiver == 1 and isinstance(incoming, Data):
                self.received_bytes += sum(
                    len(item.body)
                    for news in self.ends[1].receive(incoming, self.now_us)
                    for item in news.items
                    if isinstance(item, Fragment)
                )
            else:
                self.ends[receiver].receive(incoming, self.now_us)
        self.work()

    def work(self) -> None:
        """Both processes do what is due."""
        for me, end in enumerate(self.ends):
            if self._still_until_us[me] <= self.now_us:
                if end.next_deadline_us() <= self.now_us:
                    end.timeout(self.now_us)
                if me == 0 and self.is_busy:
                    self._fill(end)
        self._send()

    def _fill(self, end: HopLink) -> None:
        while end.waiting_bytes < 8 * len(BODY):
            self._bundles += 1
            end.send(Fragment(0, self._bundles, 3, len(BODY), 0, BODY))
        end.pump(self.now_us)

    def _send(self) -> None:
        for me, outbox in enumerate(self._out):
            for datagram in outbox:
                for data in packets_of(datagram):
                    if self._random.random() >= self.loss:
                        self._cross(1 - me, data)
            outbox.clear()

    def _cross(self, receiver: int, data: bytes) -> None:
        leaves_us: int | None = self.now_us
        if receiver == 1 and self.bottleneck is not None:
            leaves_us = self.bottleneck.pass_us(len(data), self.now_us)
        if leaves_us is not None:
            self._fly_until(leaves_us + self._delay_us + self.late_us(), receiver, data)

    def _fly_until(self, at_us: int, receiver: int, data: bytes) -> None:
        self._count += 1
        heapq.heappush(self._flying, (at_us, self._count, receiver, data))
