"""When an idle site speaks: at once, but never more often than delta.

Follows: thesis 5.2 (table 5.1, "Balanced"). A site's own bundles announce as much as an update does, so a
busy site sends none. When everybody has said everything, nobody speaks.
"""


class Announcer:
    """Decides when our segment's lts and aru must be told to the others, if it is ours to do so."""

    def __init__(self, delta_us: int, now_us: int, start: int = 0) -> None:
        """`start` is the lts with which the view began: there is nothing to say about it."""
        self._delta_us = delta_us
        self._last_us = now_us - delta_us
        self._lts = start
        self._aru = start

    def announced(self, now_us: int, lts: int, aru: int) -> None:
        """An update goes out and says this, or a bundle of our segment."""
        self._last_us = now_us
        self._lts = max(self._lts, lts)  # a ring's bundles may come in any order
        self._aru = max(self._aru, aru)

    def is_due(self, highest_lts: int, lts: int, aru: int) -> bool:
        """Whether others wait for news that we have: somebody's bundle with `highest_lts` needs our lts or
        our aru."""
        return (highest_lts > self._lts and lts > self._lts) or (aru > self._aru and highest_lts > self._aru)

    @property
    def due_us(self) -> int:
        """The earliest time at which an update may go."""
        return self._last_us + self._delta_us
