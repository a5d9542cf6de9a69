"""The two lines in the adaptive order: the agreed line is drawn from the active sources alone.

Stamps pass over the places that this daemon has given to bundles of passive sources (`ahead`). Everything
else is as in `stability`: a daemon acknowledges what has come from all sources, so that stability counts all
of them.
"""

from collections.abc import Set

from antiphon.core.ordering.ahead import Reservations
from antiphon.core.ordering.stability import Lines, number_of_round, stamp_at


class AdaptiveLines(Lines):
    """See `stability.Lines`."""

    _active: Set[int]
    _reserved: Reservations

    @classmethod
    def following(cls, lines: Lines, active: Set[int], reserved: Reservations) -> "AdaptiveLines":
        """The same lines, of which the agreed one waits for the `active` sources alone; their owner changes
        these, and what is reserved."""
        made = cls.__new__(cls)
        made.__dict__.update(lines.__dict__)
        made._active = active
        made._reserved = reserved
        return made

    def tick(self) -> int:
        """See `stability.Lines`. What tickets have is passed over."""
        number = self._reserved.free_from(number_of_round(self.clock) + 1)
        self.clock = stamp_at(number, self._me)
        return self.clock

    def advance(self, is_complete: bool) -> None:
        """See `stability.Lines`."""
        super().advance(is_complete)
        self.draw()

    @property
    def come(self) -> int:
        """Everything that was born up to here has come, from all sources."""
        return min(self._received)

    def draw(self) -> None:
        """The roles have changed: draw the agreed line again."""
        received = self._received
        self.agreed = min(received[source] for source in self._active)

    def slowest(self) -> tuple[int, int]:
        """See `stability.Lines`."""
        _, stable = super().slowest()
        return min(self._active, key=lambda source: (self._received[source], source)), stable
