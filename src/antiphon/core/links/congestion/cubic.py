"""CUBIC: a window that grows with time, not with round trips, and is soon back where the last loss was.

Follows: RFC 9438 4 (the cubic function, the window that Reno would have, fast convergence, a decrease to
0.7), 4.9 (decreases for losses that were none are taken back), 5.8 (time without use does not count); RFC
9406 for the first slow start.
Deviations:
- the window counts bytes, and the function counts segments of the default packet size, whatever the size of
  the link's packets: larger packets do not make a link greedier
- losses without evidence of congestion do not decrease the window (see `evidence`)
- beyond its last peak, while round trips show no queue at all, the window grows by an eighth every round trip
  if the function grows more slowly, as in the delay-based part of Compound TCP: the function would take half
  a minute to find out that a long, fat path is empty
Checked by: tests/paper/test_congestion.py, bench/fairness.py.
"""

from typing import Any

from antiphon import limits
from antiphon.core.links.congestion.controller import Controller
from antiphon.core.links.congestion.evidence import Evidence
from antiphon.core.links.congestion.slow_start import SlowStart

SCALE = 0.4
"""C of RFC 9438, in segments by seconds cubed."""
DECREASE = 0.7
"""Beta of RFC 9438."""
RENO_INCREASE = 3 * (1 - DECREASE) / (1 + DECREASE)
"""Segments per round trip with which a window that falls to 0.7 has the average of Reno's."""
_SEGMENT_BYTES = limits.PACKET_DEFAULT_BYTES
_TARGET_MAX = 1.5
"""In one round trip the window grows to at most this multiple."""
_TARGET_FREE = 1.125
"""In one round trip the window grows to at least this multiple on a path that is known to be free."""


class Cubic(Controller):
    """The window of CUBIC."""

    name = "cubic"

    def __init__(self, most_bytes: int, packet_bytes: int) -> None:
        super().__init__(most_bytes, packet_bytes)
        self._slow_start: SlowStart | None = SlowStart()
        self._peak_bytes = 0.0  # W_max: where the last decrease was, or less with fast convergence
        self._prior_bytes = 0.0  # the window before the last decrease
        self._epoch_us: int | None = None  # when this congestion avoidance began
        self._rise_s = 0.0  # K: how long the function takes to its peak
        self._reno_bytes = 0.0  # W_est: the window that Reno would have

    def arrived(self, size_bytes: int, evidence: Evidence, rtt_us: int, now_us: int) -> None:
        if self.is_slow_start:
            divisor = 1
            if self._slow_start is not None:
                if self._slow_start.has_ended(evidence):
                    self.threshold_bytes = self.window_bytes
                    self._slow_start = None
                    return
                divisor = self._slow_start.divisor
            self._grow(size_bytes / divisor)
            return
        if self._epoch_us is None:
            self._begin_epoch(now_us)
        assert self._epoch_us is not None
        window_bytes = self.window_bytes
        increase = 1.0 if self._reno_bytes >= self._prior_bytes else RENO_INCREASE
        self._reno_bytes += increase * _SEGMENT_BYTES * size_bytes / window_bytes
        ahead_s = (now_us - self._epoch_us + rtt_us) / 1e6
        target_bytes = self._peak_bytes + SCALE * (ahead_s - self._rise_s) ** 3 * _SEGMENT_BYTES
        if ahead_s > self._rise_s and evidence.is_free:
            target_bytes = max(target_bytes, _TARGET_FREE * window_bytes)
        target_bytes = min(max(target_bytes, window_bytes), _TARGET_MAX * window_bytes)
        self._grow((target_bytes - window_bytes) * min(1.0, size_bytes / window_bytes))
        if self._reno_bytes > self.window_bytes:
            self.window_bytes = min(self._most_bytes, self._reno_bytes)

    def _begin_epoch(self, now_us: int) -> None:
        self._epoch_us = now_us
        self._peak_bytes = max(self._peak_bytes, self.window_bytes)
        self._rise_s = ((self._peak_bytes - self.window_bytes) / (SCALE * _SEGMENT_BYTES)) ** (1 / 3)
        self._reno_bytes = self.window_bytes

    def unused(self, elapsed_us: int) -> None:
        if self._epoch_us is not None:
            self._epoch_us += elapsed_us

    def lost(self, evidence: Evidence, now_us: int) -> bool:
        if not evidence.is_congested(self.is_slow_start):
            return False
        self.lost_all(now_us)
        self.window_bytes = self.threshold_bytes
        return True

    def lost_all(self, now_us: int) -> None:
        window_bytes = self.window_bytes
        self._slow_start = None
        self._epoch_us = None
        self._prior_bytes = window_bytes
        # Fast convergence: a window that did not reach its last peak leaves room for others.
        is_shrinking = window_bytes < self._peak_bytes
        self._peak_bytes = window_bytes * (1 + DECREASE) / 2 if is_shrinking else window_bytes
        self.threshold_bytes = max(self._least_bytes, window_bytes * DECREASE)

    def rested(self) -> None:
        super().rested()
        self._epoch_us = None

    def restore(self, before: dict[str, Any], lasted_us: int) -> None:
        super().restore(before, lasted_us)
        self.unused(lasted_us)
