"""The contract of all congestion control: a window in bytes, and the events that change it.

Follows: RFC 9002 7.6 and 7.8 (persistent congestion, a window that is not used), RFC 7661 (a window that has
not been validated lately).
Deviations:
- the window never falls below four packets of the default size, because nacks, not duplicate acks, report a
  loss, and a smaller window would leave most losses to the timer; if packets are smaller, it has as many
  bytes, because otherwise a path that loses a tenth of its packets would carry next to nothing
- after a rest the window is a quarter of what it was and grows back by slow start, where RFC 9002 lets a
  paced sender use all of it and RFC 7661 half: in three round trips the full window is validated again
Checked by: tests/paper/test_congestion.py.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from antiphon import limits
from antiphon.core.links.congestion.evidence import Evidence

WINDOW_MIN_PACKETS = 4
WINDOW_START_PACKETS = 16
RESTART_SHARE = 4
"""After a rest the window is this part of what it was."""


class Controller(ABC):
    """The congestion window of one sender."""

    name: ClassVar[str]
    """Its name in the configuration."""

    def __init__(self, most_bytes: int, packet_bytes: int) -> None:
        """`packet_bytes` is the base size: packets are larger where the window allows it."""
        self._most_bytes = float(most_bytes)
        self.threshold_bytes = self._most_bytes
        """Below this the window grows by slow start."""
        self._packet_bytes = packet_bytes
        default_bytes = limits.PACKET_DEFAULT_BYTES
        least_bytes = WINDOW_MIN_PACKETS * max(packet_bytes, default_bytes)
        self._least_bytes = float(min(least_bytes, self._most_bytes))
        self._start_bytes = max(
            self._least_bytes, float(WINDOW_START_PACKETS * min(packet_bytes, default_bytes))
        )
        self.window_bytes = min(self._start_bytes, self._most_bytes)

    @property
    def is_slow_start(self) -> bool:
        return self.window_bytes < self.threshold_bytes

    # Events -----------------------------------------------------------------------------------------------

    @abstractmethod
    def arrived(self, size_bytes: int, evidence: Evidence, rtt_us: int, now_us: int) -> None:
        """So many bytes more have arrived, sent while the window was used up."""

    @abstractmethod
    def unused(self, elapsed_us: int) -> None:
        """Bytes have arrived that the sender could have sent more of: a window that is not used does not
        grow, and time that passes meanwhile does not count."""

    @abstractmethod
    def lost(self, evidence: Evidence, now_us: int) -> bool:
        """Packets were lost. Whether the window was decreased for it."""

    def collapse(self, now_us: int) -> None:
        """Nothing came through for so long that the path is taken to be congested: begin from the least."""
        if self.window_bytes > self._least_bytes:
            self.lost_all(now_us)
            self.window_bytes = self._least_bytes

    @abstractmethod
    def lost_all(self, now_us: int) -> None:
        """Set the threshold after persistent congestion."""

    def rested(self) -> None:
        """Nothing was sent for longer than the timeout: what the window was is only known to have worked
        once. It grows back quickly, and each step of it is validated."""
        self.threshold_bytes = max(self.threshold_bytes, self.window_bytes)
        restart_bytes = max(self._start_bytes, self.window_bytes / RESTART_SHARE)
        self.window_bytes = min(self.window_bytes, restart_bytes)

    # A decrease that is taken back --------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What a decrease changes, to be given back to `restore`."""
        return dict(vars(self))

    def restore(self, before: dict[str, Any], lasted_us: int) -> None:
        """The decrease `lasted_us` ago was for a loss that was none: as before, or as far as it has come."""
        reached_bytes = self.window_bytes
        vars(self).update(before)
        self.window_bytes = max(self.window_bytes, reached_bytes)

    def _grow(self, by_bytes: float) -> None:
        self.window_bytes = min(self._most_bytes, self.window_bytes + by_bytes)
