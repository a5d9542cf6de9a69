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
        self._last_update_us = now_us - delta_us
        self._lts = start
        self._aru = start
        self._hold = False

    def announced(self, now_us: int, lts: int, aru: int, hold: bool | None = None) -> None:
        """An update goes out and says this, or a bundle of our segment, which says all but `hold`."""
        self._last_us = now_us
        self._lts = max(self._lts, lts)  # a ring's bundles may come in any order
        self._aru = max(self._aru, aru)
        if hold is not None:
            self._hold = hold
            self._last_update_us = now_us

    def is_due(self, highest_lts: int, lts: int, aru: int, hold: bool) -> bool:
        """Whether others wait for news that we have: somebody's bundle with `highest_lts` needs our lts or
        our aru."""
        return (
            (highest_lts > self._lts and lts > self._lts)
            or (aru > self._aru and highest_lts > self._aru)
            or hold != self._hold
        )

    def due_us(self, hold: bool) -> int:
        """The earliest time at which an update may go; a wish to hold does not wait for a pause in our own
        bundles, which say nothing of it."""
        return (self._last_us if hold == self._hold else self._last_update_us) + self._delta_us
