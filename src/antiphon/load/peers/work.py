"""The work that every peer does: a numbered stream of messages, counted and checked where it arrives.

A payload begins with its number and the time at which it was sent (0 where messages go as fast as they can:
asking the clock would be part of the measurement). Before the first message go probes, which no receiver
counts: some peers cannot tell a receiver when its subscription has reached the server. After the last
message goes an end mark. A peer may lose messages, and the end mark with them; so silence ends a count as
well.
"""

import struct
import time
from collections.abc import Iterable, Iterator

from msgspec import Struct

from antiphon.load.plan import Received, Sent, percentile

CHANNEL = "flood"
"""The group, subject, channel, topic or key that all messages go to."""
SIZE_MIN_BYTES = 16
SIZE_MAX_BYTES = 1_000_000
"""What every peer takes with its usual settings."""
LOOK_S = 0.2
"""How often a receiver to which nothing comes asks whether the silence has lasted too long."""

_HEAD = struct.Struct("<Qq")
_END = 2**64 - 1
_PROBE = 2**64 - 2
_PROBES = 100
_PROBE_EVERY_S = 0.003
_BURST_MESSAGES = 100
_BURST_BYTES = 1_000_000
_START_TIMEOUT_S = 30.0
_SILENCE_S = 3.0
"""A sender that is alive is never silent for so long, and a receiver counts up to its last message only."""
_CLOCK_EVERY = 64

assert _HEAD.size == SIZE_MIN_BYTES


def sleep(seconds: float) -> None:
    """Sleep, if there is time: even a sleep of 0 is a call of the system."""
    if seconds > 0:
        time.sleep(seconds)


class Work(Struct, frozen=True):
    """What a sender sends to `CHANNEL`."""

    size_bytes: int
    rate_per_s: float
    """Messages a second; 0 is as fast as the peer takes them."""
    seconds: float


class Stream:
    """The messages of one sender, in bursts that are due.

    The sender sends each burst and then sleeps for `pause_s`, which is 0 if the next burst is due already.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._padding = bytes(work.size_bytes - _HEAD.size)
        self._sent = 0
        self._begin_s = 0.0
        self._seconds = 0.0
        self.pause_s = 0.0

    def __iter__(self) -> Iterator[list[bytes]]:
        self.pause_s = _PROBE_EVERY_S
        for _ in range(_PROBES):
            yield [self._payload(_PROBE)]
        self.pause_s = 0.0
        self._begin_s = time.monotonic()
        yield from self._paced() if self._work.rate_per_s else self._flat_out()
        self._seconds = time.monotonic() - self._begin_s
        self.pause_s = 0.0
        yield [self._payload(_END)]

    def _payload(self, number: int, sent_us: int = 0) -> bytes:
        return _HEAD.pack(number, sent_us) + self._padding

    def _flat_out(self) -> Iterator[list[bytes]]:
        burst = max(1, min(_BURST_MESSAGES, _BURST_BYTES // self._work.size_bytes))
        pack, padding = _HEAD.pack, self._padding
        while time.monotonic() - self._begin_s < self._work.seconds:
            yield [pack(number, 0) + padding for number in range(self._sent, self._sent + burst)]
            self._sent += burst

    def _paced(self) -> Iterator[list[bytes]]:
        rate_per_s = self._work.rate_per_s
        while (elapsed_s := time.monotonic() - self._begin_s) < self._work.seconds:
            due = int(elapsed_s * rate_per_s) + 1
            now_us = time.time_ns() // 1_000
            numbers = range(self._sent, due)
            self._sent = due
            self.pause_s = max(0.0, self._begin_s + due / rate_per_s - time.monotonic())
            yield [self._payload(number, now_us) for number in numbers]

    def report(self) -> Sent:
        """What was sent, without probes and end mark."""
        return Sent(self._sent, self._seconds)


class Count:
    """What one receiver got: how many messages, in which order, how late."""

    def __init__(self, work: Work, start: int = 0) -> None:
        """`start`: where the payload begins in what is taken, if the channel's name stands before it."""
        self._work = work
        self._start = start
        self._messages = 0
        self._expected = 0
        self._out_of_order = 0
        self._latencies: list[int] = []
        self._first_us = 0
        self._last_us = 0
        self._looked_at = -1
        self._silent_since_s = time.monotonic()
        self.is_over = False
        """Whether the end mark has come, or nothing for too long."""

    def take(self, payload: bytes) -> None:
        """One message has come."""
        number, sent_us = _HEAD.unpack_from(payload, self._start)
        if number != self._expected:
            self._unexpected(number)
            if number >= _PROBE:
                return
        else:
            self._expected = number + 1
        self._messages += 1
        if sent_us:
            self._latencies.append(time.time_ns() // 1_000 - sent_us)
        if not self._messages % _CLOCK_EVERY or self._messages == 1:
            self._note_time()

    def take_many(self, payloads: Iterable[bytes]) -> None:
        """Several messages have come, in this order."""
        for payload in payloads:
            self.take(payload)

    def _note_time(self) -> None:
        self._last_us = time.time_ns() // 1_000
        self._first_us = self._first_us or self._last_us

    def _unexpected(self, number: int) -> None:
        """A probe, the end mark, a message after a gap, or one that was overtaken."""
        if number == _END:
            self._note_time()
            self.is_over = True
        elif number == _PROBE:
            self._silent_since_s = time.monotonic()
        elif number > self._expected:
            self._expected = number + 1
        else:
            self._out_of_order += 1

    def look(self) -> None:
        """Nothing may have come for a while: the count is over if that has lasted too long."""
        now_s = time.monotonic()
        if self._messages != self._looked_at:
            self._looked_at = self._messages
            self._silent_since_s = now_s
        elif now_s - self._silent_since_s > (_SILENCE_S if self._messages else _START_TIMEOUT_S):
            self.is_over = True

    def report(self) -> Received:
        """What was counted; the first tenth of the latencies warms caches up."""
        latencies = [(latency_us, 1) for latency_us in sorted(self._latencies[len(self._latencies) // 10 :])]
        return Received(
            self._messages,
            self._messages * self._work.size_bytes,
            (self._last_us - self._first_us) / 1e6,
            percentile(latencies, 0.5),
            percentile(latencies, 0.99),
            self._out_of_order,
        )
