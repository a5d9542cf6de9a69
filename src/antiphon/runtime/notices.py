"""Log lines about things that may repeat without end."""

import logging

from antiphon.runtime.loop import now_us
from antiphon.types import SlowReceiver

INTERVAL_US = 5_000_000


class Notices:
    """Says each kind of thing at most once every few seconds, and then how often it kept quiet.

    Whoever sends garbage must not be able to fill the disk or slow the daemon down. Kinds are our own
    constants, never text from outside, so the table stays small.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[str, tuple[int, int]] = {}
        """kind: (when last said, how many left out since)"""

    def say(self, kind: str, text: str, *values: object) -> None:
        """Something from outside that is worth a warning."""
        self._log(logging.WARNING, kind, text, *values)

    def tell(self, kind: str, text: str, *values: object) -> None:
        """Something from outside that is good to know."""
        self._log(logging.INFO, kind, text, *values)

    def confess(self, kind: str, text: str, *values: object) -> None:
        """A mistake of our own: an error, with the traceback of the exception being handled."""
        self._log(logging.ERROR, kind, text, *values)

    def tell_lag(self, name: str, notice: SlowReceiver, waiting_bytes: int) -> None:
        """A client reads too slowly, or keeps up again."""
        if not notice.is_over:
            text = "%s reads too slowly (policy %s): %d bytes wait for it, it is cut off at %d"
            self.say("slow", text, name, notice.policy, waiting_bytes, notice.hard_bytes)
        else:
            text = "%s keeps up again; %d unreliable messages were not given to it so far"
            self.tell("caught-up", text, name, notice.dropped_messages)

    def _log(self, level: int, kind: str, text: str, *values: object) -> None:
        last_us, left_out = self._said.get(kind, (-INTERVAL_US, 0))
        now = now_us()
        if now - last_us < INTERVAL_US:
            self._said[kind] = (last_us, left_out + 1)
            return
        self._said[kind] = (now, 0)
        if left_out:
            text = f"{text} (and {left_out} more like this since the last such line)"
        self._logger.log(level, text, *values, exc_info=level >= logging.ERROR)
