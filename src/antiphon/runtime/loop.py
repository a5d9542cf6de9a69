"""A small event loop for one thread: file descriptors, one deadline, and a door for other threads.

Raw epoll, because between an event and its handler stands then one dictionary look-up. Its time-outs are
whole milliseconds, too coarse for pacing and short acknowledgement delays, so a wait that is shorter than
`FINE_WAIT_US` goes through `select` on the epoll descriptor itself, which keeps microseconds (it costs 1 us
more; the kernel adds its usual timer slack of about 50 us).

A turn handles a bounded number of descriptors. When thousands are ready at once (clients that hang up
together), those of other daemons do not wait behind them: a packet that lies unread in a socket is a sign of
life that would otherwise be missed.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
FINE_WAIT_US = 3_000
EVENTS_PER_TURN = 256
_SELECT_DESCRIPTORS = 1_024

Handler = Callable[[int], None]


def now_us() -> int:
    """The time that the node is told: microseconds of a clock that never goes back."""
    return time.monotonic_ns() // 1_000


def wall_us() -> int:
    """Microseconds since 1970: a node that starts takes its first identifiers from it, so that they are
    beyond those of its earlier lives."""
    return time.time_ns() // 1_000


class Loop:
    """Waits for descriptors and calls their handlers; only `call_soon_threadsafe` is for other threads."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._urgent = select.epoll()
        self._is_urgent: set[int] = set()
        self._handlers: dict[int, Handler] = {}
        self._calls: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fine = self._epoll.fileno() < _SELECT_DESCRIPTORS
        self._epoll_descriptors = (self._epoll.fileno(),)
        self._gate = threading.RLock()  # a signal handler may come in while its own thread holds it
        self._is_closed = False
        self.register(self._wake, self._run_calls, READABLE)

    def register(self, descriptor: int, handler: Handler, interest: int, *, urgent: bool = False) -> None:
        """Call `handler` with the events of `descriptor`; errors and hang-ups are told unasked. An `urgent`
        one is served in every turn, however many others are ready."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, interest)
        if urgent:
            self._urgent.register(descriptor, interest)
            self._is_urgent.add(descriptor)

    def change(self, descriptor: int, interest: int) -> None:
        self._epoll.modify(descriptor, interest)
        if descriptor in self._is_urgent:
            self._urgent.modify(descriptor, interest)

    def unregister(self, descriptor: int) -> None:
        del self._handlers[descriptor]
        self._epoll.unregister(descriptor)
        if descriptor in self._is_urgent:
            self._urgent.unregister(descriptor)
            self._is_urgent.discard(descriptor)

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        """Have `call` run by the loop's thread, unless the loop is closed; also from signal handlers."""
        with self._gate:
            if not self._is_closed:
                self._calls.append(call)
                os.eventfd_write(self._wake, 1)

    def turn(self, deadline_us: int | None) -> None:
        """Wait until something happens or the deadline has come, and call the handlers."""
        ready = self._wait(deadline_us)
        if len(ready) == EVENTS_PER_TURN:  # and there may be more, the urgent ones among them
            ready = self._urgent.poll(0) + [one for one in ready if one[0] not in self._is_urgent]
        for descriptor, events in ready:
            handler = self._handlers.get(descriptor)
            if handler is not None:  # an earlier handler of this turn may have closed this descriptor
                handler(events)

    def _wait(self, deadline_us: int | None) -> list[tuple[int, int]]:
        if deadline_us is None:
            return self._epoll.poll(None, EVENTS_PER_TURN)
        wait_us = deadline_us - now_us()
        if wait_us <= 0:
            return self._epoll.poll(0, EVENTS_PER_TURN)
        if wait_us >= FINE_WAIT_US:
            # One millisecond less: the rest is waited for finely, on the next turn.
            return self._epoll.poll((wait_us // 1_000 - 1) / 1_000, EVENTS_PER_TURN)
        if not self._fine:
            return self._epoll.poll(wait_us / 1e6, EVENTS_PER_TURN)
        select.select(self._epoll_descriptors, (), (), wait_us / 1e6)
        return self._epoll.poll(0, EVENTS_PER_TURN)

    def _run_calls(self, _events: int) -> None:
        os.eventfd_read(self._wake)
        while self._calls:
            self._calls.popleft()()

    def forget(self) -> None:
        """Close in a forked child, whose threads are gone: any lock may be held for ever."""
        self._gate = threading.RLock()
        self.close()

    def close(self) -> None:
        with self._gate:
            self._is_closed = True
            self._epoll.close()
            self._urgent.close()
            os.close(self._wake)
