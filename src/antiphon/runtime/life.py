"""What a daemon of the core and an edge have in common: how they begin and end, and how they take clients."""

import logging
import os
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from antiphon.config import Security
from antiphon.errors import ConfigError
from antiphon.runtime import process
from antiphon.runtime.answers import UNREAD_MAX_BYTES
from antiphon.runtime.clients import Clients
from antiphon.runtime.listener import Listener, Protocol
from antiphon.runtime.loop import Loop, now_us

STOP_TIMEOUT_S = 10.0
FAREWELLS_US = 1_000_000
"""How long a daemon that has left the others waits at most until its clients have taken their last output."""
CLOSINGS_US = 100_000
"""How long it waits for clients that have, until they hang up."""

_logger = logging.getLogger("antiphon.daemon")
_serving: WeakSet["Life"] = WeakSet()


class Life(ABC):
    """A daemon of either kind, with its thread, its loop, its listeners and its clients.

    It lives once: to start again, make another. In a forked child it does not go on: it stays the parent's.
    """

    kind = "daemon"
    """What its log calls it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_leaving = False
        self._closed_us = 0
        self._gone_us: int | None = None
        """Since when nothing but its clients' last output keeps it from ending."""
        self._loop: Loop | None = None
        self._listeners: list[Listener] = []
        self.insecure_places: list[str] = []
        """Those that other machines may reach, and that nothing protects."""
        self._clients: Clients

    @property
    def places(self) -> tuple[str, ...]:
        """Where clients can connect, once the daemon listens."""
        return self._places("antiphon")

    @property
    def spread_places(self) -> tuple[str, ...]:
        """Where Spread's clients can connect."""
        return self._places("spread")

    def _places(self, protocol: Protocol) -> tuple[str, ...]:
        return tuple(listener.place for listener in self._listeners if listener.protocol == protocol)

    def _listen(
        self, opened: ExitStack, places: tuple[str, ...], security: Security, protocol: Protocol = "antiphon"
    ) -> None:
        """Take these places; `opened` gives them back. ConfigError for one that other machines may reach, and
        that nothing protects."""
        for place in places:
            listener = Listener(place, protocol)
            opened.callback(listener.close)
            self._listeners.append(listener)
            if not listener.is_exposed or (protocol == "spread" and security.spread_from):
                continue
            if not security.insecure:
                way = "use tls: and [security.tls]"
                if protocol == "spread":
                    way = "name the networks of its clients in spread_from of [security]"
                raise ConfigError(
                    f"{place} is plain TCP that other machines may reach: {way}, or say insecure = true there"
                )
            self.insecure_places.append(place)
            _logger.warning("%s is plain TCP that other machines may reach (insecure = true)", place)

    # Beginning and end ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop` is called, also by a signal handler; for a process of the daemon's own.

        ConnectError or ConfigError, before anything is served, if an address cannot be had.
        """
        process.tune()
        self.open()
        self.serve()

    def start(self) -> None:
        """Serve in a thread of its own; returns when clients can connect. Errors as in `run`."""
        self.open()
        self._thread = threading.Thread(target=self.serve, name=f"antiphon-{self.name}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Let the daemon end in a planned way, from any thread and also by a signal handler: its sessions,
        and daemons that depend on it, are told first and need not detect it by a timeout. Returns at once."""
        self._is_leaving = True
        self._wake()

    def stop(self) -> None:
        """End the daemon now, from any thread; sessions get a Goodbye, others find out by silence. A started
        thread has ended on return."""
        self._is_stopping = True
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)

    def reload(self) -> None:
        """Read keys, access list and certificate again, from any thread and also by a signal handler; what
        becomes of it is logged. Returns at once."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._reload)

    def _reload(self) -> None:
        reloaded = self._clients.reload(now_us())
        _logger.log(logging.INFO if reloaded.is_changed else logging.WARNING, "%s", reloaded)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def open(self) -> None:
        """Take every address before anything is served; on an error give back those already taken."""

    def serve(self) -> None:
        """Serve until told to stop, after `open`."""
        assert self._loop is not None
        try:
            self._serve(self._loop)
        except Exception:
            _logger.exception("%s %s ends because of a mistake of its own", self.kind, self.name)
            raise
        finally:
            _serving.discard(self)
            with ExitStack() as closing:  # each of these, whatever becomes of the others; last first
                closing.callback(self._loop.close)
                self._give_back(closing)
                closing.callback(self._clients.stop)
            _logger.info("%s %s has stopped", self.kind, self.name)

    @abstractmethod
    def _serve(self, loop: Loop) -> None:
        """Turn by turn, until the end."""

    @abstractmethod
    def _give_back(self, closing: ExitStack) -> None:
        """Have everything closed that others see, besides the clients."""

    def _is_read(self, now: int) -> bool:
        """Whether clients have read their last output, or had their time; for a daemon that has left."""
        if self._gone_us is None:
            self._gone_us = now
            self._closed_us = now + CLOSINGS_US
        farewells = self._clients.farewells
        if now >= self._closed_us:  # output that is not written yet has more time
            self._closed_us = self._gone_us + FAREWELLS_US
            return now >= self._closed_us or not any(client.waiting_bytes for client in farewells)
        return not farewells

    def forget(self) -> None:
        """In a forked child: close our copies of the descriptors.

        Otherwise a client cut off by the parent would not see the end of its connection, and the addresses
        would stay taken, for as long as the child lives.
        """
        assert self._loop is not None
        self._is_stopping = True
        self._thread = None
        self._clients.forget()
        self._forget()
        self._loop.forget()

    @abstractmethod
    def _forget(self) -> None:
        """Close the rest of our copies."""

    def _begins(self) -> None:
        """Everything is open."""
        _serving.add(self)

    # What clients take ------------------------------------------------------------------------------------

    def _told_of_clients(self) -> dict[str, Any]:
        """For the status: where clients connect, what happened with them, and what they take of the memory
        that they share, with the most that it may be, in bytes."""
        clients = self._clients
        return {
            "pid": os.getpid(),
            "places": self.places,
            "spread_places": self.spread_places,
            "insecure_places": self.insecure_places,
            "clients": clients.counters,
            "access": clients.entrance.status(),
            "memory": {
                "input": {"bytes": clients.input.used_bytes, "limit": clients.input.most_bytes},
                "output": {"bytes": clients.output.bytes, "limit": clients.output.most_bytes},
                "answers": {"bytes": clients.answers.unread_bytes, "limit": UNREAD_MAX_BYTES},
                # The client that asks is being answered and does not wait.
                "waiting": {"large_frames": clients.input.waiting, "questions": clients.answers.waiting - 1},
            },
        }


def _after_fork() -> None:
    for life in list(_serving):
        life.forget()
    _serving.clear()


os.register_at_fork(after_in_child=_after_fork)
