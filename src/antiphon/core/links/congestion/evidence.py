"""What a link has seen of its path lately: round trips, in rounds, and the share of packets that were lost.

Follows: RFC 9406 4.2 (rounds, the least round trip of each, the rise that tells of a queue).
Deviations:
- acks are sparse, so four samples make a round trustworthy, where RFC 9406 wants eight
- a loss is evidence of congestion only together with a queue, or if more than a fiftieth is lost: a long path
  that loses one packet in a hundred by itself would otherwise carry twelve packets a round trip (RFC 5348:
  the window is about 1.2 by the root of the loss), whatever its capacity
"""

SAMPLES_MIN = 4
RISE_MIN_US = 4_000
RISE_MAX_US = 16_000
RISE_SHARE = 8
HIGH_FADES = 32
"""The highest round trip of late fades by this part every round."""
LEAST_AGE_US = 10_000_000
"""The least round trip is that of the last ten to twenty seconds: paths change."""
LOSS_TOLERATED = 0.02
LOSS_PACKETS = 2_048
"""The share of losses is that of the last so many packets, or of half as many."""
LOSS_SLOW_START = 4
"""So many losses end a slow start, if there is a queue, too."""
LOSS_PACKETS_MIN = 128
"""Of fewer packets the share says little: it is reckoned as if so many had been sent."""


class Evidence:
    """What the sending side of one link knows about its path."""

    def __init__(self) -> None:
        self.round = 0
        """Counts rounds: each lasts until a packet has arrived that was sent after it began."""
        self.round_samples = 0
        self.round_least_us: int | None = None
        self.last_round_least_us: int | None = None
        self._round_end = 0
        self._high_us = 0  # the highest least round trip of a round, lately
        self._least_us: int | None = None
        self._earlier_least_us: int | None = None
        self._least_since_us = 0
        self._sent = 0
        self._lost = 0

    # Round trips ------------------------------------------------------------------------------------------

    def took(self, sample_us: int, now_us: int) -> None:
        """A packet and its answer took so long, whatever its receiver did meanwhile (RFC 9002 5.2)."""
        if now_us - self._least_since_us >= LEAST_AGE_US:
            self._earlier_least_us, self._least_us = self._least_us, None
            self._least_since_us = now_us
        if self._least_us is None or sample_us < self._least_us:
            self._least_us = sample_us

    def sampled(self, sample_us: int) -> None:
        """The round trip of a packet took so long."""
        if self.round_least_us is None or sample_us < self.round_least_us:
            self.round_least_us = sample_us
        self.round_samples += 1

    def reached(self, newest: int, highest_sent: int) -> bool:
        """Packet `newest` has arrived; whether that begins a new round."""
        if newest <= self._round_end:
            return False
        self._round_end = highest_sent
        self.round += 1
        if self.round_least_us is not None:
            self.last_round_least_us = self.round_least_us
            self._high_us -= (self._high_us - self.round_least_us) // HIGH_FADES
            self._high_us = max(self._high_us, self.round_least_us)
        self.round_least_us = None
        self.round_samples = 0
        return True

    @property
    def least_us(self) -> int | None:
        """The least round trip of the last ten seconds or more; None if none was measured."""
        if self._least_us is None or self._earlier_least_us is None:
            return self._earlier_least_us if self._least_us is None else self._least_us
        return min(self._least_us, self._earlier_least_us)

    @property
    def has_queue(self) -> bool:
        """Whether all round trips of this round and the last one took longer than the path explains, and more
        than half of what they take at most: a queue that loses packets is full. A single round is not enough,
        because a process that had to wait for its turn looks the same."""
        return self._is_above(1)

    @property
    def is_free(self) -> bool:
        """Whether it is known that no packets wait in a queue."""
        return self.last_round_least_us is not None and not self._is_above(2)

    def _is_above(self, part: int) -> bool:
        """Whether the rise of the round trip is at least this part of what tells of a queue."""
        least_us, lately_us = self.least_us, self.last_round_least_us
        if least_us is None or lately_us is None:
            return False
        if self.round_least_us is not None:
            lately_us = min(lately_us, self.round_least_us)
        usual_us = (self._high_us - least_us) // 2
        return lately_us >= least_us + max(rise_us(least_us), usual_us) // part

    # Losses -----------------------------------------------------------------------------------------------

    def sent(self, packets: int) -> None:
        self._sent += packets
        if self._sent >= LOSS_PACKETS:
            self._sent //= 2
            self._lost //= 2

    def lost(self) -> None:
        """One packet more was requested again."""
        self._lost += 1

    def is_congested(self, is_slow_start: bool) -> bool:
        """Whether losses tell of congestion, rather than of a path that loses packets by itself. A slow start
        that fills a queue loses many packets at once."""
        if self._lost > LOSS_TOLERATED * max(self._sent, LOSS_PACKETS_MIN):
            return True
        return self.has_queue and (self._lost >= LOSS_SLOW_START or not is_slow_start)

    def answered(self) -> None:
        """The window was decreased: what counts from now on is what is lost with the lesser one."""
        self._sent = self._lost = 0


def rise_us(least_us: int) -> int:
    """How much longer than `least_us` a round trip takes when packets wait in a queue on their way."""
    return min(RISE_MAX_US, max(RISE_MIN_US, least_us // RISE_SHARE))
