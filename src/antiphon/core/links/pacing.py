"""Trains spread over the round trip, so that a window does not leave as one burst.

Follows: RFC 9002 7.7 (a rate of a little more than one window per round trip, bursts of no more than the
initial window), Spread paper 3.2 for the burst limit.
Deviations: a path with a round trip of less than two milliseconds is not paced, because timers are coarser;
a fast link may burst what it sends in four milliseconds, so that trains stay long.
Checked by: tests/paper/test_congestion.py.
"""

PACED_RTT_US = 2_000
GAIN_SLOW_START = 2.0
GAIN = 1.25
BURST_US = 4_000
BURST_PACKETS = 4
BURST_FIRST_PACKETS = 16
"""The burst of a link that has nothing under way: the initial window. Both count packets of the base size."""
TRAIN_US = BURST_US // 2
TRAIN_PACKETS = 2
"""Trains of a slow link are short: long ones would be lost together, which counts as one loss, and TCP beside
it, whose packets come one by one, would be hit more often. A burst has room for one in any case."""


class Pacer:
    """The allowance of one sender: bytes that it may send now."""

    def __init__(self, now_us: int) -> None:
        self._rate_bytes_per_us = 0.0
        self._packet_bytes = 0
        self._burst_bytes = 0.0
        self._allowed_bytes = float("inf")
        self._filled_us = now_us

    def refill(self, rate_bytes_per_us: float, burst_bytes: int, packet_bytes: int, now_us: int) -> float:
        """What may be sent at this rate now, in packets of this size; a burst has at least `burst_bytes`."""
        self._rate_bytes_per_us = rate_bytes_per_us
        self._packet_bytes = packet_bytes
        least_bytes = max(burst_bytes, TRAIN_PACKETS * packet_bytes)
        self._burst_bytes = max(float(least_bytes), rate_bytes_per_us * BURST_US)
        gained_bytes = (now_us - self._filled_us) * rate_bytes_per_us
        self._allowed_bytes = min(self._burst_bytes, self._allowed_bytes + gained_bytes)
        self._filled_us = now_us
        return self._allowed_bytes

    def sent(self, size_bytes: int) -> None:
        self._allowed_bytes = max(-self._burst_bytes, self._allowed_bytes - size_bytes)

    def wait_us(self, waiting_bytes: int) -> int:
        """How long until the next train may be sent: two packets, or what a fast link sends in two
        milliseconds, or what waits if that is less."""
        train_bytes = max(TRAIN_PACKETS * self._packet_bytes, self._rate_bytes_per_us * TRAIN_US)
        wanted_bytes = min(train_bytes, self._burst_bytes, float(waiting_bytes))
        return max(1, int((wanted_bytes - self._allowed_bytes) / self._rate_bytes_per_us) + 1)
