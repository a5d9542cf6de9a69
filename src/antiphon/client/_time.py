"""Questions for the time: which are open, what came of them, and how long the way from the daemon took.

The daemon's answer was true between the question and now, so the time now is the daemon's and at most the
round trip more: half of it is added, with half of it as an error. What is returned never goes back, for the
same reason as at the daemon: where an answer is behind, time runs at half speed and the bound is greater.

Follows: NAVTECH 3 leaves open how a program asks.
Checked by: tests/runtime/test_time.py.
"""

import time

from antiphon.types import Time
from antiphon.wire import frames

AGAIN_S = 0.02
"""How long to wait before a daemon that does not know the time is asked again."""
NOT_KNOWN = "the daemon does not know the time yet: it has not heard from a reference, nor from its view"


class TimeQuestions:
    """The open questions of one session."""

    def __init__(self) -> None:
        self._number = 0
        self._open: dict[int, frames.Time | None] = {}
        self._last: tuple[int, int] | None = None  # what was returned, and when

    def begin(self) -> frames.AskTime:
        """A new question."""
        self._number += 1
        self._open[self._number] = None
        return frames.AskTime(self._number)

    def take(self, value: frames.Time) -> None:
        """An answer came; one that nobody waits for is dropped."""
        if value.number in self._open:
            self._open[value.number] = value

    def answer(self, question: frames.AskTime) -> frames.Time | None:
        """What came of a question so far."""
        return self._open[question.number]

    def end(self, question: frames.AskTime) -> None:
        """Nobody waits for it any more."""
        self._open.pop(question.number, None)

    def result(self, value: frames.Time, asked_ns: int) -> Time | None:
        """The time now by an answer to what was asked then; None if the daemon does not know it."""
        if value.basis is frames.TimeBasis.UNKNOWN:
            return None
        now_ns = time.monotonic_ns()
        half_ns = (now_ns - asked_ns + 1) // 2
        time_ns = value.time_us * 1_000 + half_ns
        error_ns = (value.error_us + 1) * 1_000 + half_ns  # one for the part of a microsecond
        if self._last is not None:
            floor_ns = self._last[0] + (now_ns - self._last[1]) // 2
            error_ns += max(0, floor_ns - time_ns)
            time_ns = max(time_ns, floor_ns)
        self._last = (time_ns, now_ns)
        return Time(time_ns, error_ns, value.basis.value, value.root)
