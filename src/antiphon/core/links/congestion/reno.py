"""Van Jacobson's rules, as RMP describes them.

Follows: RMP 4.6 (slow start, a window that a nack halves), RFC 5681 for what RMP leaves out.
Deviations:
- the window is halved once for all losses of one window of data, where RMP remembers the last three lost
  packets; after persistent congestion it starts again from its least, as in TCP, where RMP halves it
Checked by: tests/paper/test_hop.py, tests/paper/test_congestion.py.
"""

from antiphon.core.links.congestion.controller import Controller
from antiphon.core.links.congestion.evidence import Evidence


class Reno(Controller):
    """Slow start up to the threshold, then one packet per round trip; half of it after a loss."""

    name = "reno"

    def arrived(self, size_bytes: int, evidence: Evidence, rtt_us: int, now_us: int) -> None:
        if self.is_slow_start:
            self._grow(size_bytes)
        else:
            self._grow(size_bytes * self._packet_bytes / self.window_bytes)

    def unused(self, elapsed_us: int) -> None:
        """Time does not count here."""

    def lost(self, evidence: Evidence, now_us: int) -> bool:
        self.lost_all(now_us)
        self.window_bytes = self.threshold_bytes
        return True

    def lost_all(self, now_us: int) -> None:
        self.threshold_bytes = max(self._least_bytes, self.window_bytes / 2)
