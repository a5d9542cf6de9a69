"""The system clock of a reference: believed while it keeps to its stated error.

A clock that is disciplined is never wrong by more than its stated error, so over a short time it moves with
the monotonic clock but for twice that error and the drift. One that steps is not disciplined, and which of
its two times was right cannot be seen from here. It counts as unknown for `DISTRUST_US`: until then its
operator, or the program that disciplines it, has put it right. Meanwhile the daemon is like any other one.

Follows: NAVTECH 3.1, where a GPS receiver takes this place and is never wrong.
Checked by: tests/unit/test_clock.py, the scenario `clocks`.
"""

from antiphon.core.clock.reading import Reading, drift_us, external

DISTRUST_US = 600_000_000


class SystemClock:
    """The system clock of one reference."""

    def __init__(self, me: int, error_us: int) -> None:
        self._basis = external(me)
        self._error_us = error_us
        self._wall_us = 0
        self._within_us = 0
        self._told_us: int | None = None
        self._distrusted_until_us = 0
        self.steps = 0
        """How often it has stepped."""

    def is_trusted(self, now_us: int) -> bool:
        """Whether it counts."""
        return not self.steps or now_us >= self._distrusted_until_us

    def read(self, wall_us: int, within_us: int, now_us: int) -> Reading | None:
        """It shows `wall_us`, at some moment from `now_us` up to `within_us` later; what follows, if it is
        believed."""
        if self._told_us is not None:
            elapsed_us = now_us - self._told_us
            moved_us = wall_us - self._wall_us - elapsed_us
            inexact_us = self._within_us + within_us + 2
            if abs(moved_us) > 2 * self._error_us + drift_us(elapsed_us) + inexact_us:
                self.steps += 1
                self._distrusted_until_us = now_us + DISTRUST_US
        self._told_us, self._wall_us, self._within_us = now_us, wall_us, within_us
        if not self.is_trusted(now_us) or wall_us < self._error_us:
            return None
        error_us = self._error_us + within_us + 1
        return Reading(now_us, wall_us - error_us, wall_us + error_us, wall_us, self._basis)
