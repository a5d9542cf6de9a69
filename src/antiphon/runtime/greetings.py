"""The connections of a daemon that have no session yet, oldest first.

Those over TLS have a limit of their own: a handshake that was begun takes some sixty times the memory of a
plain connection, and neither kind shall keep the other one out.
"""

from collections.abc import Iterator
from itertools import chain

from antiphon.runtime import client_limits
from antiphon.runtime.connection import Connection


class Greetings:
    """Who has come and not been welcomed."""

    def __init__(self) -> None:
        self._plain: dict[Connection, None] = {}
        self._tls: dict[Connection, None] = {}

    def __iter__(self) -> Iterator[Connection]:
        return chain(self._plain, self._tls)

    def add(self, connection: Connection) -> None:
        """It is the youngest now."""
        crowd = self._crowd(connection.is_tls)
        crowd.pop(connection, None)
        crowd[connection] = None

    def discard(self, connection: Connection) -> None:
        """It has a session, or is on its way out."""
        self._crowd(connection.is_tls).pop(connection, None)

    def next_late(self) -> Connection | None:
        """Whose time is over first."""
        oldest = [next(iter(crowd)) for crowd in (self._plain, self._tls) if crowd]
        return min(oldest, key=lambda connection: connection.deadline_us, default=None)

    def in_the_way(self, is_tls: bool) -> Connection | None:
        """The oldest of its kind, if no other one may come in."""
        crowd = self._crowd(is_tls)
        most = client_limits.TLS_GREETINGS_MAX if is_tls else client_limits.greetings_max()
        return next(iter(crowd)) if len(crowd) >= most else None

    def _crowd(self, is_tls: bool) -> dict[Connection, None]:
        return self._tls if is_tls else self._plain
