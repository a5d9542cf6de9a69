"""Clients that ask for the name of a session that is on its way out.

A name is free when the end of its session is delivered, which takes the agreement of all sites. A program
that hangs up, or is killed, and is started again at once comes before that. Such a client is not refused but
waits: its request, and whatever it sent behind it, is kept for `PATIENCE_US` at most, and the daemon serves
all others meanwhile. While no view works no end can be delivered: that time does not count, up to
`PATIENCE_MAX_US` in all.

Whether a session is on its way out is asked of its connection, too: the hang-up of a client stands behind
what it sent last, and the daemon may not have read that yet.
"""

from collections.abc import Callable, Mapping

from antiphon.runtime.answers import Frames
from antiphon.runtime.connection import Connection, Phase
from antiphon.runtime.serving import ServedSessions

PATIENCE_US = 5_000_000
PATIENCE_MAX_US = 30_000_000
AGAIN_US = 1_000_000
"""While no view works, a client whose time would be up has so much more."""


class Successors:
    """The connections that wait for a name, in the order of asking."""

    def __init__(
        self, sessions: ServedSessions, connections: Mapping[int, Connection], flows: Callable[[], bool]
    ) -> None:
        """`flows` tells whether messages flow, so that a session can end."""
        self._sessions = sessions
        self._connections = connections
        """Connections that are read or have disconnected, by the numbers of their sessions."""
        self._flows = flows
        self._waiting: dict[Connection, tuple[str, Frames]] = {}
        self._until_us: dict[Connection, int] = {}
        """When each is refused; known from its first wait on."""
        self._latest_us: dict[Connection, int] = {}

    def __bool__(self) -> bool:
        """Whether a client waits for a name."""
        return bool(self._waiting)

    def is_waiting(self, connection: Connection) -> bool:
        """Whether this client waits for a name, so that no more is read from it."""
        return connection in self._waiting

    def is_taken(self, name: str) -> bool:
        """Whether a session has this name that shows no sign of leaving."""
        session = self._sessions.bearer(name)
        if session is None or session.is_leaving:
            return False
        connection = self._connections.get(session.number)
        return connection is not None and not connection.has_hung_up()

    def must_wait(self, connection: Connection, name: str, now: int) -> bool:
        """Whether a client that asks for this name should wait for the end of the session that has it."""
        if connection.phase is not Phase.GREETING:
            return False
        if self._sessions.bearer(name) is None or self.is_taken(name):
            return False
        self._latest_us.setdefault(connection, now + PATIENCE_MAX_US)
        return now < self._until_us.setdefault(connection, now + PATIENCE_US)

    def postpone(self, connection: Connection, name: str, received: Frames) -> None:
        """Keep what a client has sent, from its request for a session on."""
        self._waiting[connection] = name, [(kind, bytearray(frame)) for kind, frame in received]

    def ready(self, now: int) -> list[tuple[Connection, Frames]]:
        """Take what was kept of those whose name is free or whose time is up."""
        if not self._flows():
            for connection in self._waiting:
                if self._until_us[connection] <= now:
                    self._until_us[connection] = min(now + AGAIN_US, self._latest_us[connection])
        done = [
            connection
            for connection, (name, _) in self._waiting.items()
            if self._sessions.bearer(name) is None or self._until_us[connection] <= now
        ]
        return [(connection, self._waiting.pop(connection)[1]) for connection in done]

    def forget(self, connection: Connection) -> None:
        """The client does not wait any more: it has its session, or has gone."""
        self._waiting.pop(connection, None)
        self._until_us.pop(connection, None)
        self._latest_us.pop(connection, None)

    def next_deadline_us(self) -> int | None:
        """When the patience of the first one ends."""
        return min((self._until_us[connection] for connection in self._waiting), default=None)
