"""Which role a source wants: decided by its representative, from what it measures itself.

Follows: NAVTECH 5.4 (the switching heuristic): a source is active if the time between its messages is shorter
than the delay to the closest active source, and passive if it is longer, with a margin of 20 %.
Deviations:
- a role is kept for some time (`limits.ROLE_MIN_US`, `limits.ROLE_MIN_DELAYS`)
- a source that is silent becomes passive: nobody waits for it (see `mean_shift`)
- a passive source that sends while all active ones are silent becomes active, even if it sends rarely:
  otherwise the last active source would stay one for ever, and every ticket would take the long way to it
Checked by: tests/paper/test_adaptive.py.
"""

from collections.abc import Mapping

from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.mean_shift import MeanShift
from antiphon.core.ordering.told import Reason, Wish


class Decision(Struct, frozen=True):
    """A change of role that a source wants."""

    wish: Wish
    sequencer: int
    """The closest active source."""
    reason: Reason


class Decider:
    """Decides for one source in one view."""

    def __init__(self, now_us: int) -> None:
        self._gaps = MeanShift()
        self._sent = 0  # how many bundles the source had sent when it was last looked at
        self._sent_us = now_us  # when it sent the last one
        self._changed_us = now_us
        self._active_sent = 0  # the same of the active sources
        self._active_sent_us = now_us
        self.due_us: int | None = None
        """When to look again although nothing happens."""

    def gap_us(self, now_us: int) -> int:
        """The time between two messages of the source."""
        return self._gaps.with_unfinished(now_us - self._sent_us)

    def changed(self, now_us: int) -> None:
        """The source has another role, or was refused one."""
        self._changed_us = now_us

    def look(self, sent: int, active_sent: int, now_us: int) -> None:
        """The source has sent so many bundles so far, and the active sources together so many."""
        count = sent - self._sent
        if count > 0:
            for _ in range(min(count, limits.ROLE_SAMPLES)):
                self._gaps.add((now_us - self._sent_us) // count)
            self._sent, self._sent_us = sent, now_us
        if active_sent != self._active_sent:
            self._active_sent, self._active_sent_us = active_sent, now_us

    def decide(
        self, is_active: bool, sequencer: int | None, delays_us: Mapping[int, int], now_us: int
    ) -> Decision | None:
        """The change that the source wants now. `delays_us` are those to the other active sources,
        `sequencer` is that of a passive source."""
        self.due_us = None
        if not delays_us:
            return None
        closest = min(delays_us, key=lambda source: (delays_us[source], source))
        delay_us = delays_us[closest]
        wanted = self._wanted(is_active, delay_us, now_us)
        if wanted is None and sequencer is not None and self._rare_us(delay_us) < delays_us.get(sequencer, 0):
            wanted = Wish.SEQUENCER, Reason.CLOSER
        may_us = self._changed_us + max(limits.ROLE_MIN_US, limits.ROLE_MIN_DELAYS * delay_us)
        if wanted is None:
            if is_active:
                self.due_us = max(may_us, self._sent_us + self._gaps.reaches(self._rare_us(delay_us)))
            return None
        if now_us < may_us:
            self.due_us = may_us
            return None
        return Decision(wanted[0], closest, wanted[1])

    @staticmethod
    def _rare_us(delay_us: int) -> int:
        return delay_us * (100 + limits.ROLE_MARGIN_PERCENT) // 100

    def _wanted(self, is_active: bool, delay_us: int, now_us: int) -> tuple[Wish, Reason] | None:
        gap_us = self.gap_us(now_us)
        if is_active:
            if gap_us <= self._rare_us(delay_us):
                return None
            is_silent = gap_us <= now_us - self._sent_us
            return Wish.PASSIVE, Reason.SILENT if is_silent else Reason.RARE
        if gap_us < delay_us * (100 - limits.ROLE_MARGIN_PERCENT) // 100:
            return Wish.ACTIVE, Reason.BUSY
        patience_us = limits.ROLE_SAMPLES * gap_us
        sends = now_us - self._sent_us <= gap_us and self._sent > 1
        if sends and now_us - self._active_sent_us > patience_us:
            return Wish.ACTIVE, Reason.ONLY_SENDER
        return None
