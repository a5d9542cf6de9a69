"""How fast a link may send: its round-trip time, its timeouts, its configured rate, and its window.

Follows: RMP 4.6 for the variance of the round-trip time and a timer that doubles up to two seconds (RFC
6298); Spread paper 3.2 and thesis 4.3 for the Hop protocol's fairness to TCP, its maximum window and its
leaky bucket with a burst limit; RFC 9002 6.2 and 7.6 (a timeout asks first; only when two of them, that is
three times the first, brought no answer is the congestion persistent).
How the window grows and shrinks is a matter of `congestion`, how it is spread over a round trip of `pacing`.
Windows count bytes, because packets have many sizes; `window_packets` is in packets of the base size.
Checked by: tests/paper/test_hop.py, tests/paper/test_congestion.py.
"""

from antiphon import limits
from antiphon.core.links.congestion import CONTROLLERS
from antiphon.core.links.congestion.evidence import Evidence
from antiphon.core.links.congestion.losses import Losses
from antiphon.core.links.pacing import (
    BURST_FIRST_PACKETS,
    BURST_PACKETS,
    GAIN,
    GAIN_SLOW_START,
    PACED_RTT_US,
    Pacer,
)

TIMEOUT_MIN_US = 20_000
TIMEOUT_MAX_US = 2_000_000
RTT_UNKNOWN_US = 100_000
RATE_BURST_PACKETS = 128
ACK_DELAY_MIN_US = 2_000
ACK_DELAY_MAX_US = 10_000


class Regulator:
    """Congestion window, round-trip time and rate of the sending side of one link."""

    def __init__(
        self,
        window_max_packets: int,
        rate_bytes_per_s: int,
        packet_bytes: int,
        now_us: int,
        congestion: str = "cubic",
    ) -> None:
        self.window_max_packets = window_max_packets
        self._base_bytes = packet_bytes
        self.controller = CONTROLLERS[congestion](window_max_packets * packet_bytes, packet_bytes)
        self.evidence = Evidence()
        self.losses = Losses(self.controller, self.evidence)
        self.rtt_us = RTT_UNKNOWN_US
        self.rtt_variance_us = RTT_UNKNOWN_US // 2
        self.backoff = 1
        self._measured = False
        self._arrived_us = now_us
        self._pacer = Pacer(now_us)
        self.has_rate = rate_bytes_per_s > 0
        self._rate_bytes_per_s = rate_bytes_per_s
        self._burst_bytes = float(RATE_BURST_PACKETS * packet_bytes)
        self._tokens_bytes = self._burst_bytes
        self._filled_us = now_us

    # The round trip ---------------------------------------------------------------------------------------

    def sampled(self, sample_us: int, delay_us: int, newest: int, highest_sent: int, now_us: int) -> None:
        """From packet `newest` to its ack it took `sample_us`, of which the peer says that it waited
        `delay_us`. One sample a round counts for the timeout; all of them tell whether packets wait in a
        queue on their way. No delay makes a round trip quicker than the quickest (RFC 9002 5.3)."""
        if sample_us > limits.ROUND_TRIP_MAX_US:
            return
        sample_us = max(1, sample_us)
        evidence = self.evidence
        evidence.took(sample_us, now_us)
        if evidence.least_us is not None and sample_us - delay_us >= evidence.least_us:
            sample_us -= delay_us
        if evidence.reached(newest, highest_sent):
            self._smooth(sample_us)
        evidence.sampled(sample_us)

    def measured(self, sample_us: int, now_us: int) -> None:
        """A hello and its answer took `sample_us`. An impossible one is left out: with it the link would wait
        for hours before it looks silent."""
        if sample_us > limits.ROUND_TRIP_MAX_US:
            return
        sample_us = max(1, sample_us)
        self.evidence.took(sample_us, now_us)
        self._smooth(sample_us)

    def _smooth(self, sample_us: int) -> None:
        if not self._measured:
            self._measured = True
            self.rtt_us = sample_us
            self.rtt_variance_us = sample_us // 2
            return
        error = sample_us - self.rtt_us
        self.rtt_us = max(1, self.rtt_us + error // 8)
        self.rtt_variance_us += (abs(error) - self.rtt_variance_us) // 4

    @property
    def least_rtt_us(self) -> int:
        """No answer is quicker than this, as far as is known; 0 if nothing is."""
        return (self.evidence.least_us or 0) * 7 // 8

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

    # The window -------------------------------------------------------------------------------------------

    @property
    def window_bytes(self) -> int:
        """How many bytes may be under way."""
        return int(self.controller.window_bytes)

    @property
    def window_max_bytes(self) -> int:
        return self.window_max_packets * self._base_bytes

    @property
    def window_packets(self) -> float:
        return self.controller.window_bytes / self._base_bytes

    def sent_packets(self, packets: int) -> None:
        """New packets were sent."""
        self.evidence.sent(packets)

    def arrived(self, size_bytes: int, newest: int, is_limited: bool, now_us: int) -> None:
        """So many bytes more have arrived, `newest` the last packet; `is_limited` if the window kept their
        sender from sending more."""
        self.backoff = 1
        if not is_limited:
            self.controller.unused(now_us - self._arrived_us)
        elif self.controller.is_slow_start or not self.losses.is_recovering(newest):
            self.controller.arrived(size_bytes, self.evidence, self.rtt_us, now_us)
        self._arrived_us = now_us

    def timed_out(self, is_persistent: bool, highest_sent: int, now_us: int) -> None:
        """No ack came in time: wait longer next time, and begin anew if that lasts."""
        self.backoff = min(64, self.backoff * 2)
        if is_persistent:
            self.losses.collapsed(highest_sent, now_us)

    # Pacing -----------------------------------------------------------------------------------------------

    def paced_packets(self, packet_bytes: int, is_first: bool, now_us: int) -> int:
        """How many packets of this size may leave now, so that a window is spread over a round trip;
        `is_first` if nothing is under way."""
        if self.rtt_us < PACED_RTT_US or not self._measured:
            return limits.TRAIN_MAX_PACKETS
        gain = GAIN_SLOW_START if self.controller.is_slow_start else GAIN
        rate_bytes_per_us = gain * self.controller.window_bytes / self.rtt_us
        burst_bytes = (BURST_FIRST_PACKETS if is_first else BURST_PACKETS) * self._base_bytes
        return int(self._pacer.refill(rate_bytes_per_us, burst_bytes, packet_bytes, now_us) // packet_bytes)

    def pace_us(self, packet_bytes: int, waiting_bytes: int) -> int:
        """How long until more may leave, if `paced_packets` was 0."""
        return self._pacer.wait_us(max(packet_bytes, waiting_bytes))

    # The leaky bucket ---------------------------------------------------------------------------------------

    def may_send_bytes(self, now_us: int) -> float:
        """Bytes that the configured rate allows now."""
        gained = (now_us - self._filled_us) * self._rate_bytes_per_s / 1e6
        self._tokens_bytes = min(self._burst_bytes, self._tokens_bytes + gained)
        self._filled_us = now_us
        return self._tokens_bytes

    def sent(self, size_bytes: int) -> None:
        self._pacer.sent(size_bytes)
        if self.has_rate:
            self._tokens_bytes -= size_bytes

    def refill_us(self, size_bytes: int) -> int:
        """How long until the bucket has `size_bytes`; only with a configured rate."""
        lacking = size_bytes - self._tokens_bytes
        return max(1, int(lacking * 1e6 / self._rate_bytes_per_s) + 1)
