"""When an idle site speaks: at once, but never more often than delta.

Follows: thesis 5.2 (table 5.1, "Balanced"). A site's own bundles announce as much as an update does, so a
busy site sends none. When everybody has said everything, nobody speaks.
"""


class Announcer:
    """Decides when this site's lts and aru must be told to the others."""

    def __init__(self, delta_us: int, now_us: int) -> None:
        self._delta_us = delta_us
        self._last_us = now_us - delta_us
        self._lts = 0
        self._aru = 0
        self._hold = False

    def announced(self, now_us: int, lts: int, aru: int, hold: bool | None = None) -> None:
        """An update goes out and says this, or a bundle of our own, which says all but `hold`."""
        self._last_us = now_us
        self._lts = lts
        self._aru = aru
        if hold is not None:
            self._hold = hold

    def is_due(self, highest_lts: int, aru: int, hold: bool) -> bool:
        """Whether others wait for news: somebody's bundle with `highest_lts` needs our lts or our aru."""
        return highest_lts > self._lts or (aru > self._aru and highest_lts > self._aru) or hold != self._hold

    def due_us(self) -> int:
        """The earliest time at which an update may go."""
        return self._last_us + self._delta_us
