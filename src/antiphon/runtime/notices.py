"""Log lines about things that may repeat without end."""

import logging

from antiphon.runtime.loop import now_us
from antiphon.types import SlowReceiver

INTERVAL_US = 5_000_000


class Notices:
    """Logs each kind of line at most once every few seconds, and then how many were left out.

    A client that sends garbage must not be able to fill the disk or slow the daemon down. Kinds are our own
    constants, never text from outside, so the table stays small.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._logged: dict[str, tuple[int, int]] = {}
        """For each kind: when it was last logged, and how many lines were left out since."""

    def warn(self, kind: str, text: str, *values: object) -> None:
        """Log an event from outside that is worth a warning."""
        self._log(logging.WARNING, kind, text, *values)

    def info(self, kind: str, text: str, *values: object) -> None:
        """Log an event from outside that is good to know."""
        self._log(logging.INFO, kind, text, *values)

    def error(self, kind: str, text: str, *values: object) -> None:
        """Log a mistake of our own as an error, with the traceback of the exception being handled."""
        self._log(logging.ERROR, kind, text, *values)

    def tell_lag(self, name: str, notice: SlowReceiver, waiting_bytes: int) -> None:
        """Log that a client reads too slowly, or keeps up again."""
        if not notice.is_over:
            text = "%s reads too slowly (policy %s): %d bytes wait for it, it is cut off at %d"
            self.warn("slow", text, name, notice.policy, waiting_bytes, notice.hard_bytes)
        else:
            text = "%s keeps up again; %d unreliable messages were not given to it so far"
            self.info("caught-up", text, name, notice.dropped_messages)

    def _log(self, level: int, kind: str, text: str, *values: object) -> None:
        last_us, left_out = self._logged.get(kind, (-INTERVAL_US, 0))
        now = now_us()
        if now - last_us < INTERVAL_US:
            self._logged[kind] = (last_us, left_out + 1)
            return
        self._logged[kind] = (now, 0)
        if left_out:
            text = f"{text} (and {left_out} more like this since the last such line)"
        self._logger.log(level, text, *values, exc_info=level >= logging.ERROR)
