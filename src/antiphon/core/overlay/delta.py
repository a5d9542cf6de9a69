"""Delta: how long a daemon waits at least between two announcements.

Follows: thesis 5.2, where delta is a constant of the configuration.
Deviations:
- delta is a share of the measured delay of the paths (`DELTA_SHARE`), because waiting a small part of the
  time that a packet takes costs little latency; it has a floor, and the configured value is its ceiling
- announcements have a budget. What comes in between two of them postpones the second one, each bundle and
  each full packet of it by as much as the floor, up to the ceiling: under a flood there are as few of them as
  with a constant delta, and under light load each message is answered at once. The floor grows with the
  number of pairs of sources, because every source's update goes to all others
Checked by: tests/paper/test_updates.py, bench/light_load.py.
"""

DELTA_SHARE = 4
"""Delta is the longest delay of a path, divided by this."""
DELTA_FLOOR_US = 100
"""The least delta, and what each bundle or packet postpones the next update by, for up to three sources."""
_PAIRS = 6
"""Ordered pairs of three sources."""


class Delta:
    """How long a daemon waits between two announcements in one view."""

    def __init__(self, ceiling_us: int, sources: int) -> None:
        self._ceiling_us = ceiling_us
        self._floor_us = min(ceiling_us, DELTA_FLOOR_US * max(1, sources * (sources - 1) // _PAIRS))
        self.now_us = ceiling_us
        """What delta is while little happens."""

    def measured(self, delay_us: int) -> None:
        """The longest one-way delay to a neighbour is now this."""
        self.now_us = min(self._ceiling_us, max(self._floor_us, delay_us // DELTA_SHARE))

    def wait_us(self, came: int, is_urgent: bool = True) -> int:
        """From one announcement to the next, if so many bundles and packets came in since the first."""
        if not is_urgent:
            return self._ceiling_us
        return min(self._ceiling_us, self.now_us + came * self._floor_us)
