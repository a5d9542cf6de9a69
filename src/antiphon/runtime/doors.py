"""The listeners of a daemon: where connections come in, and when none is taken for a while.

Newcomers wait in the queues of all listeners while the system has no descriptor or memory left. Those of one
kind, with TLS or without, wait while there are as many fresh greetings of that kind as may be; those for TLS
also while there were as many handshakes in the last second as may be (`client_limits`).
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from antiphon.core.access.bucket import Bucket
from antiphon.runtime import client_limits
from antiphon.runtime.client_counters import ClientCounters
from antiphon.runtime.greetings import Greetings
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
        greetings: Greetings,
        come_in: Callable[[Listener, socket.socket, int], None],
    ) -> None:
        """`come_in` takes another one, who joins the `greetings`."""
        self._loop = loop
        self._notices = notices
        self._counters = counters
        self._greetings = greetings
        self._come_in = come_in
        self._listeners: list[Listener] = []
        self._watched: set[Listener] = set()
        """Those that the loop watches."""
        self._resting: dict[Listener, int] = {}
        """The others, with the time until which they are not watched."""
        self._handshakes = Bucket(client_limits.HANDSHAKES_PER_S, now_us())
        self.is_crowded = False
        """Whether some rest because of too many fresh greetings."""

    def open(self, listeners: Sequence[Listener]) -> None:
        """Begin to accept."""
        self._listeners = list(listeners)
        self._watch()

    def close(self) -> None:
        """Accept no more clients: those that look for a daemon find another one."""
        self._unwatch(self._listeners)
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        self._resting.clear()

    def forget(self) -> None:
        """Close only this process's copies of the descriptors."""
        for listener in self._listeners:
            listener.forget()

    def next_deadline_us(self) -> int | None:
        """When the next rest is over."""
        return min(self._resting.values(), default=None)

    def timeout(self, now: int) -> None:
        """End the rests whose time is over."""
        over = [listener for listener, until_us in self._resting.items() if until_us <= now]
        if over:
            self._go_on(over)

    def resume(self) -> None:
        """End the rests because of fresh greetings, if there is room again."""
        if self.is_crowded:
            self._go_on(
                [
                    listener
                    for listener in self._resting
                    if self._greetings.in_the_way(listener.is_tls) is None
                ]
            )

    def _accept(self, listener: Listener, _events: int) -> None:
        for _ in range(client_limits.ACCEPTS_PER_WAKE):
            now = now_us()
            if (oldest := self._greetings.in_the_way(listener.is_tls)) is not None:
                spared_until_us = (
                    oldest.deadline_us - client_limits.GREETING_TIMEOUT_US + client_limits.GREETING_GRACE_US
                )
                if spared_until_us > now:
                    self.is_crowded = True
                    self._rest(self._alike(listener), spared_until_us)
                    return
            if listener.is_tls and self._handshakes.free_us(now) > now:
                self._counters.handshake_rests += 1
                self._rest(self._alike(listener), now + client_limits.HANDSHAKES_REST_US)
                return
            try:
                client = listener.accept()
            except OSError as error:  # no descriptor or memory is left
                self._counters.accept_errors += 1
                self._notices.warn("accept", "cannot take more clients for now: %s", error.strerror)
                self._rest(self._listeners, now + client_limits.ACCEPT_PAUSE_US)
                return
            if client is None:
                return
            self._counters.accepted += 1
            if listener.is_tls:
                self._handshakes.take(1, now)
            self._come_in(listener, client, now)

    def _alike(self, one: Listener) -> list[Listener]:
        """All listeners whose newcomers count together."""
        return [listener for listener in self._listeners if listener.is_tls == one.is_tls]

    def _rest(self, listeners: Sequence[Listener], until_us: int) -> None:
        """Newcomers wait in the queues of these listeners for a while."""
        self._unwatch(listeners)
        for listener in listeners:
            self._resting[listener] = max(until_us, self._resting.get(listener, 0))

    def _go_on(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            del self._resting[listener]
        self.is_crowded = self.is_crowded and bool(self._resting)
        self._watch()

    def _watch(self) -> None:
        for listener in self._listeners:
            if listener not in self._watched and listener not in self._resting:
                self._watched.add(listener)
                self._loop.register(listener.fileno(), partial(self._accept, listener), READABLE)

    def _unwatch(self, listeners: Iterable[Listener]) -> None:
        for listener in listeners:
            if listener in self._watched:
                self._watched.discard(listener)
                self._loop.unregister(listener.fileno())
