"""Sources that change their roles again and again, for no reason: a test of what a change may break."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random

from antiphon.core.ordering.deciding import Decider, Decision
from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.core.ordering.told import Reason, Wish

WAITS_US = (2_000, 20_000, 100_000, 400_000)
CHANGES_MAX = 150
"""Of one source in one view: a run must come to rest."""


class Restless(Decider):
    """Wants another role, or another sequencer, every few milliseconds."""

    made = 0
    """How many changes were wanted, by all of them."""

    def __init__(self, now_us: int) -> None:
        super().__init__(now_us)
        self._random = Random(now_us)
        self._wait_us = self._random.choice(WAITS_US)
        self._next_us = now_us + self._random.randrange(self._wait_us)
        self._left = CHANGES_MAX

    def decide(
        self, is_active: bool, sequencer: int | None, delays_us: Mapping[int, int], now_us: int
    ) -> Decision | None:
        """See `deciding.Decider`."""
        self.due_us = None
        if not delays_us or not self._left:
            return None
        if now_us < self._next_us:
            self.due_us = self._next_us
            return None
        if self._random.random() < 0.02:
            self._wait_us = self._random.choice(WAITS_US)
        self._next_us = now_us + 1 + self._random.randrange(self._wait_us)
        Restless.made += 1
        self._left -= 1
        wish = Wish.PASSIVE if is_active else self._random.choice((Wish.ACTIVE, Wish.SEQUENCER))
        return Decision(wish, self._random.choice(sorted(delays_us)), Reason.NEW_VIEW)


@contextmanager
def restless_roles(are_restless: bool = True) -> Iterator[None]:
    """While this lasts, all sources decide so."""
    if not are_restless:
        yield
        return
    before = RoleChanges.make_decider
    RoleChanges.make_decider = Restless
    try:
        yield
    finally:
        RoleChanges.make_decider = before
