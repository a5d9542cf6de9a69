"""The listeners of a daemon: where connections come in, and when none is taken for a while.

Newcomers wait in the listeners' queues while the system has no descriptor or memory left, and while there are
as many fresh greetings as may be; those for TLS also while there were as many in the last second as may be
(`client_limits`).
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from antiphon.core.access.bucket import Bucket
from antiphon.core.membership.engine import earliest_us
from antiphon.runtime import client_limits
from antiphon.runtime.client_counters import ClientCounters
from antiphon.runtime.connection import Connection
from antiphon.runtime.listener import Listener
from antiphon.runtime.loop import READABLE, Loop, now_us
from antiphon.runtime.notices import Notices


class Doors:
    """Accepts connections and hands them on."""

    def __init__(
        self,
        loop: Loop,
        notices: Notices,
        counters: ClientCounters,
        greetings: Mapping[Connection, None],
        come_in: Callable[[Listener, socket.socket, int], None],
    ) -> None:
        """`greetings` are the connections without a session, oldest first; `come_in` takes another one."""
        self._loop = loop
        self._notices = notices
        self._counters = counters
        self._greetings = greetings
        self._come_in = come_in
        self._listeners: list[Listener] = []
        self._watched: set[Listener] = set()
        """Those that the loop watches."""
        self._handshakes = Bucket(client_limits.HANDSHAKES_PER_S, now_us())
        self._rests_until_us: int | None = None
        """When to go on accepting for TLS, while that alone is paused."""
        self._opens_at_us: int | None = None
        """When to go on accepting, while that is paused."""
        self.is_crowded = False
        """Whether it is paused because of too many fresh greetings."""

    def open(self, listeners: Sequence[Listener]) -> None:
        """Begin to accept."""
        self._listeners = list(listeners)
        for listener in self._listeners:
            if listener not in self._watched and not (listener.is_tls and self._rests_until_us is not None):
                self._watched.add(listener)
                self._loop.register(listener.fileno(), partial(self._accept, listener), READABLE)

    def close(self) -> None:
        """Accept no more clients: those that look for a daemon find another one."""
        self._unwatch(self._listeners)
        for listener in self._listeners:
            listener.close()
        self._listeners, self._opens_at_us, self._rests_until_us = [], None, None

    def forget(self) -> None:
        """Close only this process's copies of the descriptors."""
        for listener in self._listeners:
            listener.forget()

    def next_deadline_us(self) -> int | None:
        """When a pause is over."""
        return earliest_us(self._opens_at_us, self._rests_until_us)

    def timeout(self, now: int) -> None:
        """End a pause whose time is over."""
        if self._opens_at_us is not None and self._opens_at_us <= now:
            self._go_on()
        if self._rests_until_us is not None and self._rests_until_us <= now:
            self._rests_until_us = None
            if self._opens_at_us is None:
                self.open(self._listeners)

    def resume(self) -> None:
        """End a pause because of fresh greetings, if there is room again."""
        if self.is_crowded and len(self._greetings) < client_limits.GREETINGS_MAX:
            self._go_on()

    def _accept(self, listener: Listener, _events: int) -> None:
        for _ in range(client_limits.ACCEPTS_PER_WAKE):
            now = now_us()
            if len(self._greetings) >= client_limits.GREETINGS_MAX:
                oldest = next(iter(self._greetings))
                spared_until_us = (
                    oldest.deadline_us - client_limits.GREETING_TIMEOUT_US + client_limits.GREETING_GRACE_US
                )
                if spared_until_us > now:
                    self.is_crowded = True
                    self._pause(spared_until_us)
                    return
            if listener.is_tls and self._handshakes.free_us(now) > now:
                self._rest(now)
                return
            try:
                client = listener.accept()
            except OSError as error:  # no descriptor or memory is left
                self._counters.accept_errors += 1
                self._notices.warn("accept", "cannot take more clients for now: %s", error.strerror)
                self._pause(now + client_limits.ACCEPT_PAUSE_US)
                return
            if client is None:
                return
            self._counters.accepted += 1
            if listener.is_tls:
                self._handshakes.take(1, now)
            self._come_in(listener, client, now)

    def _pause(self, until_us: int) -> None:
        """Newcomers wait in the listeners' queues for a while."""
        self._unwatch(self._listeners)
        self._opens_at_us = until_us

    def _rest(self, now: int) -> None:
        """Newcomers for TLS wait for a moment, and nobody else does."""
        self._counters.handshake_rests += 1
        self._unwatch([listener for listener in self._listeners if listener.is_tls])
        self._rests_until_us = now + client_limits.HANDSHAKES_REST_US

    def _unwatch(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            if listener in self._watched:
                self._watched.discard(listener)
                self._loop.unregister(listener.fileno())

    def _go_on(self) -> None:
        self._opens_at_us = None
        self.is_crowded = False
        self.open(self._listeners)
