"""How fast a link may send: fair to the TCP flows beside it.

Follows: RMP 4.6 for Van Jacobson's rules (variance of the round-trip time, slow start, a window that a nack
halves, a timer that doubles up to two seconds); Spread paper 3.2 and thesis 4.3 for the Hop protocol's
fairness to TCP, its maximum window and its leaky bucket with a burst limit.
Deviations:
- the window counts packets of the base size, not bytes; larger packets count as several (see `HopLink`)
- the window is halved once for all losses of one window of data, where RMP remembers the last three lost
  packets; after a timeout it starts again from its least, as in TCP, where RMP halves it
- the window never falls below four packets of the default size, because nacks, not duplicate acks, report a
  loss, and a smaller window would leave most losses to the timer; if packets are smaller, it is more of them,
  because otherwise a path that loses a tenth of its packets would carry next to nothing
Checked by: tests/paper/test_hop.py.
"""

from antiphon import limits

WINDOW_MIN_PACKETS = 4
WINDOW_START_PACKETS = 16.0
TIMEOUT_MIN_US = 20_000
TIMEOUT_MAX_US = 2_000_000
RTT_UNKNOWN_US = 100_000
BURST_PACKETS = 128
ACK_DELAY_MIN_US = 2_000
ACK_DELAY_MAX_US = 10_000


class Regulator:
    """Congestion window, round-trip time and rate of the sending side of one link."""

    def __init__(
        self, window_max_packets: int, rate_bytes_per_s: int, packet_bytes: int, now_us: int
    ) -> None:
        self.window_max_packets = float(window_max_packets)
        least = max(WINDOW_MIN_PACKETS, WINDOW_MIN_PACKETS * limits.PACKET_DEFAULT_BYTES // packet_bytes)
        self._window_min_packets = float(min(least, window_max_packets))
        self.window_packets = min(WINDOW_START_PACKETS, self.window_max_packets)
        self.threshold_packets = self.window_max_packets
        self.rtt_us = RTT_UNKNOWN_US
        self.rtt_variance_us = RTT_UNKNOWN_US // 2
        self.backoff = 1
        self.losses = 0
        self._measured = False
        self._recovery_number = 0
        self.has_rate = rate_bytes_per_s > 0
        self._rate_bytes_per_s = rate_bytes_per_s
        self._burst_bytes = float(BURST_PACKETS * packet_bytes)
        self._tokens_bytes = self._burst_bytes
        self._filled_us = now_us

    def measured(self, sample_us: int) -> None:
        """A round trip took `sample_us`. An impossible one is left out: with it the link would wait for hours
        before it looks silent."""
        if sample_us > limits.ROUND_TRIP_MAX_US:
            return
        sample_us = max(1, sample_us)
        if not self._measured:
            self._measured = True
            self.rtt_us = sample_us
            self.rtt_variance_us = sample_us // 2
            return
        error = sample_us - self.rtt_us
        self.rtt_us = max(1, self.rtt_us + error // 8)
        self.rtt_variance_us += (abs(error) - self.rtt_variance_us) // 4

    @property
    def timeout_us(self) -> int:
        """How long to wait for an ack before a probe: the time that an ack takes, doubled by each timeout."""
        base_us = max(TIMEOUT_MIN_US, self.patience_us + self.ack_delay_us)
        return min(TIMEOUT_MAX_US, base_us * self.backoff)

    @property
    def patience_us(self) -> int:
        """How long a prompt answer may take: RTT + 4 variances, and never just the RTT on a steady path."""
        return self.rtt_us + max(4 * self.rtt_variance_us, self.rtt_us // 4)

    @property
    def ack_delay_us(self) -> int:
        """How long a receiver waits for more packets before it acknowledges: a fraction of the RTT."""
        return min(ACK_DELAY_MAX_US, max(ACK_DELAY_MIN_US, self.rtt_us // 4))

    def acked(self, packets: float) -> None:
        """As many as `packets` of the base size more have arrived: slow start up to the threshold, then one
        per round trip."""
        self.backoff = 1
        if self.window_packets < self.threshold_packets:
            self.window_packets += packets
        else:
            self.window_packets += packets / self.window_packets
        if self.window_packets > self.window_max_packets:
            self.window_packets = self.window_max_packets

    def lost(self, number: int, highest_sent: int) -> None:
        """Packet `number` was lost: halve, once for all losses of one window of data."""
        if number <= self._recovery_number:
            return
        self.losses += 1
        self._recovery_number = highest_sent
        self.threshold_packets = max(self._window_min_packets, self.window_packets / 2)
        self.window_packets = self.threshold_packets

    def timed_out(self, highest_sent: int) -> None:
        """No ack came in time: start again slowly, wait longer next time."""
        self._recovery_number = highest_sent
        self.threshold_packets = max(self._window_min_packets, self.window_packets / 2)
        self.window_packets = self._window_min_packets
        self.backoff = min(64, self.backoff * 2)

    # The leaky bucket ---------------------------------------------------------------------------------

    def may_send_bytes(self, now_us: int) -> float:
        """Bytes that the configured rate allows now."""
        gained = (now_us - self._filled_us) * self._rate_bytes_per_s / 1e6
        self._tokens_bytes = min(self._burst_bytes, self._tokens_bytes + gained)
        self._filled_us = now_us
        return self._tokens_bytes

    def sent(self, size_bytes: int) -> None:
        if self.has_rate:
            self._tokens_bytes -= size_bytes

    def refill_us(self, size_bytes: int) -> int:
        """How long until the bucket has `size_bytes`; only with a configured rate."""
        lacking = size_bytes - self._tokens_bytes
        return max(1, int(lacking * 1e6 / self._rate_bytes_per_s) + 1)
