"""HyStart++: a slow start that ends before it overshoots.

Follows: RFC 9406 4.2 and 4.3: when round trips rise, the window grows more slowly for five rounds, and if
they do not fall meanwhile, slow start is over.
Deviations: no limit on the growth by one ack, because trains are paced; see `evidence` for the samples.
Checked by: tests/paper/test_congestion.py.
"""

from antiphon.core.links.congestion.evidence import SAMPLES_MIN, Evidence, rise_us

GROWTH_DIVISOR = 4
ROUNDS = 5


class SlowStart:
    """Whether a window may still be doubled every round trip; for the first slow start of a link only, after
    which the threshold is known."""

    def __init__(self) -> None:
        self.divisor = 1
        """The growth of the window is divided by this."""
        self._baseline_us = 0
        self._rounds = 0
        self._round = 0

    def has_ended(self, evidence: Evidence) -> bool:
        """Take the evidence of one more ack."""
        least_us, before_us = evidence.round_least_us, evidence.last_round_least_us
        if self.divisor > 1 and evidence.round != self._round:
            self._round = evidence.round
            self._rounds += 1
            if self._rounds >= ROUNDS:
                return True
        if evidence.round_samples < SAMPLES_MIN or least_us is None:
            return False
        if self.divisor > 1:
            if least_us < self._baseline_us:
                self.divisor = 1  # it was jitter
        elif before_us is not None and least_us >= before_us + rise_us(before_us):
            self.divisor = GROWTH_DIVISOR
            self._baseline_us = least_us
            self._rounds = 0
            self._round = evidence.round
        return False
