"""Sessions that fall behind and catch up: counted, warned, and not given what may be dropped."""

from typing import Protocol

from antiphon.config import Settings
from antiphon.core.groups.backlog import Band, Lag, lag_after, marks_of, stops_senders
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.types import SlowReceiver


class Senders(Protocol):
    """What those who send to slow sessions hear of them."""

    def behind(self, session: Session, read_bytes: int, now_us: int) -> None:
        """Too much output waits for a session."""

    def has_read(self, session: int, read_bytes: int, now_us: int) -> None:
        """It has read so much in all."""

    def caught_up(self, session: int) -> None:
        """It has read enough, or is gone."""


class SlowSessions:
    """Finds out which sessions of one daemon are slow, from how much output waits for each."""

    def __init__(self, settings: Settings, sessions: Sessions, backpressure: Senders) -> None:
        self._soft_bytes = settings.output_soft_bytes
        self._hard_bytes = settings.output_hard_bytes
        self._sessions = sessions
        self._backpressure = backpressure

    def told(self, session: Session, waiting_bytes: int, read_bytes: int, now_us: int) -> Band:
        """So much output waits for a session now, and so much it has read in all; what the driver is to do
        about it."""
        before = session.lag
        were_waiting = stops_senders(before, session.slow)
        session.lag = lag_after(before, waiting_bytes, self._soft_bytes)
        if not stops_senders(session.lag, session.slow):
            self._backpressure.caught_up(session.number)
        elif not were_waiting:
            self._backpressure.behind(session, read_bytes, now_us)
        else:  # the patience with it is not renewed once it is over
            self._backpressure.has_read(session.number, read_bytes, now_us)
        low_bytes, high_bytes = marks_of(session.lag, self._soft_bytes)
        if bool(before) == bool(session.lag):
            return Band(low_bytes, high_bytes)
        if session.lag:
            self._fell_behind(session)
        else:
            self._sessions.dropping.discard(session.number)
        return Band(low_bytes, high_bytes, self._notice(session, waiting_bytes), session.warnings)

    def _fell_behind(self, session: Session) -> None:
        session.warned += 1
        self._sessions.warned += 1
        if session.slow == "drop-unreliable":
            self._sessions.dropping.add(session.number)

    def _notice(self, session: Session, waiting_bytes: int) -> SlowReceiver:
        return SlowReceiver(
            waiting_bytes,
            self._soft_bytes,
            self._hard_bytes,
            session.slow,
            session.dropped_messages,
            is_over=session.lag is Lag.NONE,
        )
