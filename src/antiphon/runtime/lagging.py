"""Sessions that do not keep up with their output: what the node hears of them, and who is spared."""

from itertools import islice

from antiphon.config import Settings
from antiphon.runtime import client_limits
from antiphon.runtime.connection import OPEN, Connection
from antiphon.runtime.notices import Notices
from antiphon.runtime.serving import Served
from antiphon.wire import frames


class Lagging:
    """Those that were warned and do not keep up yet."""

    def __init__(self, node: Served, settings: Settings, notices: Notices) -> None:
        self._node = node
        self._grace_us = min(client_limits.SLOW_GRACE_US, round(settings.slow_patience_ms * 1_000))
        self._notices = notices
        self._behind: dict[Connection, None] = {}
        self._look_us = 0

    def next_deadline_us(self) -> int | None:
        """When to look at them again."""
        return self._look_us if self._behind else None

    def is_spared(self, connection: Connection, now: int) -> bool:
        """Whether a client for which too much waits has more time to read it."""
        return connection.spared_until_us > now or self._node.backpressure.bounds(connection.session)

    def due(self, now: int) -> list[Connection]:
        """Those to look at now; they are last in turn then."""
        if not self._behind or self._look_us > now:
            return []
        self._look_us = now + client_limits.LOOK_US
        due = list(islice(self._behind, client_limits.LOOKS_MAX))
        for connection in due:
            del self._behind[connection]
            if connection.phase is OPEN:
                self._behind[connection] = None
        return [connection for connection in due if connection.phase is OPEN]

    def tell(self, connection: Connection, waiting_bytes: int, now: int) -> None:
        """The node wants to know how much output waits; it may have a warning for the client."""
        band = self._node.backlog(connection.session, waiting_bytes, connection.read_bytes, now)
        connection.low_bytes, connection.high_bytes = band.low_bytes, band.high_bytes
        notice = band.notice
        if notice is None:
            return
        if not notice.is_over:
            connection.spared_until_us = now + self._grace_us
            self._behind[connection] = None
            self._look_us = max(self._look_us, now + client_limits.LOOK_US)
        else:
            self._behind.pop(connection, None)
        self._notices.tell_lag(connection.name, notice, waiting_bytes)
        if band.is_wanted:
            connection.queue_first(frames.encode_control(frames.SlowFrame(notice)))

    def forget(self, connection: Connection) -> None:
        """Its connection is over."""
        self._behind.pop(connection, None)
