"""Sessions that fall behind and catch up: counted, warned, and spared what may be left out."""

from antiphon.config import Settings
from antiphon.core.groups.backlog import Band, Lag, lag_after, marks_of
from antiphon.core.groups.sessions import Session, Sessions
from antiphon.types import SlowReceiver


class SlowSessions:
    """Draws the conclusions from how much output waits for each session of one daemon."""

    def __init__(self, settings: Settings, sessions: Sessions) -> None:
        self._soft_bytes = settings.output_soft_bytes
        self._hard_bytes = settings.output_hard_bytes
        self._sessions = sessions

    def told(self, session: Session, waiting_bytes: int) -> Band:
        """So much output waits for a session now; what the driver is to do about it."""
        before = session.lag
        session.lag = lag_after(before, waiting_bytes, self._soft_bytes)
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
