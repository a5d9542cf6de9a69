"""The two lines in the adaptive order: the agreed line is drawn from the active sources alone.

Everything else is as in `stability`: a daemon acknowledges what has come from all sources, so that stability
counts all of them.
"""

from collections.abc import Set

from antiphon.core.ordering.stability import Lines


class AdaptiveLines(Lines):
    """See `stability.Lines`."""

    _active: Set[int]

    @classmethod
    def following(cls, lines: Lines, active: Set[int]) -> "AdaptiveLines":
        """The same lines, of which the agreed one waits for the `active` sources alone; their owner changes
        these."""
        made = cls.__new__(cls)
        made.__dict__.update(lines.__dict__)
        made._active = active
        return made

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
