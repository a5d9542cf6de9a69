"""How fast the story is told."""

import asyncio
import time

_BUSY_S = 18.0
"""What the story needs without pauses for reading: connecting, sending, measuring."""
_READING_S = 64.0
"""The sum of all pauses at the speed at which people read."""
_STORY_SHARE = 0.9
"""The story's share of the whole time; the rest is left to the reader's own experiments."""
_ABRIDGED_BELOW_S = 20.0


class Pauses:
    """Pauses for the reader, stretched or shortened so that the story fits the time there is."""

    def __init__(self, seconds: float | None) -> None:
        self._deadline_s = None if seconds is None else time.monotonic() + seconds
        self.abridged = seconds is not None and seconds < _ABRIDGED_BELOW_S
        self._stretch = 1.0
        if seconds is not None:
            self._stretch = min(1.5, max(0.0, (seconds * _STORY_SHARE - _BUSY_S) / _READING_S))

    async def read(self, seconds: float) -> None:
        """Let the reader read what normally takes `seconds`."""
        if not self.abridged:
            await asyncio.sleep(seconds * self._stretch)

    def left_s(self) -> float | None:
        """How long the demo still runs; None: until it is interrupted."""
        return None if self._deadline_s is None else max(0.0, self._deadline_s - time.monotonic())
