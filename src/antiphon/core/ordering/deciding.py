"""Which role a source wants: decided by its representative, from what it measures itself.

Follows: NAVTECH 5.4 (the switching heuristic): a source is active if the time between its messages is shorter
than the delay to the closest active source, and passive if it is longer, with a margin of 20 %.
Deviations:
- a role is kept for some time (`limits.ROLE_MIN_US`, `limits.ROLE_MIN_DELAYS`)
- a source becomes passive only if the active ones send much more often than it does (`limits.ROLE_BUSIER`),
  and active again when they do not. In NAVTECH's symmetric mode everybody waits for the next message of the
  slowest source, so whoever is slow must be passive. Here idle sources announce themselves, and a ticket has
  to be confirmed: being passive costs a source a third delay for its own messages, and must save others more
- a source that is silent while others send becomes passive: nobody waits for it (see `mean_shift`)
Checked by: tests/unit/test_deciding.py, tests/paper/test_adaptive.py, tests/paper/test_adaptive_loads.py.
"""

from collections import deque
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
        self._others = 0  # how many the active sources have sent, without this one
        self._others_then = 0  # the same when this one sent its last bundle
        self._window: deque[tuple[int, int]] = deque([(0, 0)], maxlen=limits.ROLE_SAMPLES)
        # How many the source, and the others, had sent when it sent its last ones.
        self.due_us: int | None = None
        """When to look again although nothing happens."""

    def gap_us(self, now_us: int) -> int:
        """The time between two messages of the source."""
        return self._gaps.with_unfinished(now_us - self._sent_us)

    def changed(self, now_us: int) -> None:
        """The source has another role, or was refused one."""
        self._changed_us = now_us

    def look(self, sent: int, others: int, now_us: int) -> None:
        """The source has sent so many bundles so far, and the active sources without it have sent so many
        while they were active."""
        count = sent - self._sent
        if count > 0:
            for _ in range(min(count, limits.ROLE_SAMPLES)):
                self._gaps.add((now_us - self._sent_us) // count)
            self._sent, self._sent_us = sent, now_us
            self._window.append((sent, others))
            self._others_then = others
        self._others = others

    def _recently(self) -> tuple[int, int]:
        """How many bundles the source, and the others, have sent since it sent its last few."""
        sent, others = self._window[0]
        return self._sent - sent, self._others - others

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
            if is_active and self._others > self._window[0][1]:
                due_us = max(may_us, self._sent_us + self._gaps.reaches(self._rare_us(delay_us)))
                self.due_us = due_us if due_us > now_us else None
            return None
        if now_us < may_us:
            self.due_us = may_us
            return None
        return Decision(wanted[0], closest, wanted[1])

    @staticmethod
    def _rare_us(delay_us: int) -> int:
        return delay_us * (100 + limits.ROLE_MARGIN_PERCENT) // 100

    def _is_silent(self, now_us: int) -> bool:
        """Whether it has stopped sending: one that sends at random is quiet for many gaps now and then."""
        mean_us = self._gaps.mean
        if mean_us is None:
            return self.gap_us(now_us) <= now_us - self._sent_us
        return now_us - self._sent_us > limits.ROLE_SILENT_GAPS * mean_us

    def _wanted(self, is_active: bool, delay_us: int, now_us: int) -> tuple[Wish, Reason] | None:
        gap_us = self.gap_us(now_us)
        own, others = self._recently()
        if is_active:
            is_silent = self._is_silent(now_us)
            if is_silent:
                own, others = 1, self._others - self._others_then
            if gap_us <= self._rare_us(delay_us) or others < limits.ROLE_BUSIER * max(own, 1):
                return None
            return Wish.PASSIVE, Reason.SILENT if is_silent else Reason.RARE
        is_busy = gap_us < delay_us * (100 - limits.ROLE_MARGIN_PERCENT) // 100
        if is_busy and others < 4 * limits.ROLE_BUSIER * own:  # seven messages may be close by chance
            return Wish.ACTIVE, Reason.BUSY
        is_alike = own > 1 and 2 * others < limits.ROLE_BUSIER * own
        if is_alike and not self._is_silent(now_us):  # or it would be passive again for its silence
            return Wish.ACTIVE, Reason.ALIKE
        return None
