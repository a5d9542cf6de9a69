"""When a source that has nothing to send announces its lts: at once, but never more often than delta.

Follows: thesis 5.2 (table 5.1, "Balanced"). A source's own bundles announce as much as an update does, so a
busy source sends none. When every source has announced everything, no update is sent.
Deviations: delta follows the network and the load (`overlay.delta`). An aru for which no message waits (only
safe ones and those of daemons do) is announced after its ceiling.
Checked by: tests/paper/test_updates.py, bench/light_load.py.
"""

from antiphon.core.overlay.delta import Delta


class Announcer:
    """Decides when our segment's lts and aru must be announced, at the daemon that does that."""

    def __init__(self, delta: Delta, now_us: int, start: int = 0) -> None:
        """`start` is the lts with which the view began: it needs no announcement."""
        self._delta = delta
        self._last_us = now_us - delta.wait_us(0)
        self._lts = start
        self._aru = start
        self._came = 0  # how much had come in then

    def announced(self, now_us: int, lts: int, aru: int, came: int) -> None:
        """An update of our segment, or one of its bundles, announces this lts and aru."""
        self._last_us = now_us
        if lts > self._lts:  # a ring's bundles may come in any order
            self._lts = lts
        if aru > self._aru:
            self._aru = aru
        self._came = came

    def has_news(self, highest_lts: int, lts: int, aru: int) -> bool:
        """Whether an update would help: some bundle with `highest_lts` needs our lts or our aru, and we can
        announce a greater one than before."""
        return (highest_lts > self._lts and lts > self._lts) or (aru > self._aru and highest_lts > self._aru)

    def due_us(self, needs_lts: int, needs_aru: int, lts: int, aru: int, came: int) -> int:
        """The earliest time at which an update with news may go.

        `needs_lts` and `needs_aru` are the greatest lts of a bundle that cannot be delivered without our lts
        and our aru; `came` is how much has come in so far, as the order counts it."""
        is_urgent = (needs_lts > self._lts and lts > self._lts) or (needs_aru > self._aru and aru > self._aru)
        return self._last_us + self._delta.wait_us(came - self._came, is_urgent)
