"""The blocking session: the same nouns for programs without an event loop.

Any thread may send, and any may receive, at the same time: one lock guards each direction. A message goes
out at once unless the last write was a moment ago; then it opens a bundle, which others join, and a small
thread writes it soon after if it does not fill up first. While a send waits for a full socket it also reads,
up to the usual bound: a program that sends much before it receives does not block itself.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from antiphon.client._base import CLOSE_TIMEOUT_S, CLOSED, SessionBase
from antiphon.client._incoming import Event
from antiphon.client._opening import Opened, addresses, ask_status, request
from antiphon.client._outgoing import Groups, Payload
from antiphon.client.connecting import open_with
from antiphon.errors import BadFrame, Disconnected
from antiphon.service import Service
from antiphon.wire import frames

GATHER_S = 0.000_1
"""A message within this time of the last write gathers with those after it; the flusher looks this often."""
LOOKS_MAX = 8
"""A bundle that keeps growing slowly is written after so many looks of the flusher."""
LOOK_AGAIN_MS = 50
"""How long a sender on a full socket leaves the reading to another thread before it looks again."""


class Session(SessionBase):
    """A connection to a daemon, for threads. Made by `antiphon.blocking.connect`.

    >>> import antiphon
    >>> with antiphon.blocking.connect(embedded=True, name="alice") as session:
    ...     session.join("chat")
    ...     session.send("chat", b"hello")
    ...     view, message = session.receive(), session.receive()
    ...     print(view.members, message.payload)
    ('#alice#d1',) b'hello'
    """

    def __init__(
        self, opened: Opened, *, bundle: bool = True, release: Callable[[], None] | None = None
    ) -> None:
        super().__init__(opened, bundle=bundle, release=release)
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._last_write_s = 0.0
        self._wake_flusher = threading.Event()
        self._flusher: threading.Thread | None = None
        self._flusher_watches = False
        self._socket.setblocking(False)

    # Requests ---------------------------------------------------------------------------------------------

    def join(self, group: str, *, wait: bool = True) -> None:
        """Become a member of `group`; its first `View` stands in the stream where that happened.

        Returns when this session is a member, which takes the agreement of all sites; without `wait`, when
        the request is written.
        """
        with self._sending:
            self._check_open()
            self._ask_join(group)
            self._write()
        if wait:
            self._wait_effect(group)

    def leave(self, group: str, *, wait: bool = True) -> None:
        """Leave `group`; a `Left` stands in the stream where that happened, nothing of the group follows it.

        Returns when this session is no member any more; without `wait`, when the request is written.
        """
        with self._sending:
            self._check_open()
            self._ask_leave(group)
            self._write()
        if wait:
            self._wait_effect(group)

    def send(
        self,
        groups: Groups,
        payload: Payload,
        service: Service = Service.AGREED,
        *,
        tag: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Send one message to a group, a private name, or several of them.

        Returns when the library has taken the message; waits while the daemon takes no more. With
        `self_discard` this session does not get the message even if it is a member.
        """
        with self._sending:
            if self._end_reason is not None or self._closed:
                raise self._disconnected()
            outgoing = self._outgoing
            outgoing.add(groups, payload, service, tag, self_discard)
            if outgoing.queued_bytes:
                self._write()
            elif outgoing.open_count == 1:
                self._opened_bundle()

    def send_many(
        self,
        groups: Groups,
        payloads: Iterable[Payload],
        service: Service = Service.AGREED,
        *,
        tag: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Send each of `payloads` as a message of its own, in order; faster than one `send` for each.

        An error in the middle leaves those before it sent. An iterator may take its time: what it gave
        before goes out meanwhile, and other threads may send.
        """
        if not isinstance(payloads, list | tuple):
            for payload in payloads:
                self.send(groups, payload, service, tag=tag, self_discard=self_discard)
            return
        with self._sending:
            outgoing = self._outgoing
            try:
                for payload in payloads:
                    self._check_open()
                    outgoing.add(groups, payload, service, tag, self_discard)
                    if outgoing.queued_bytes:
                        self._write()
            finally:
                outgoing.close_bundle()
            self._write()

    def flush(self) -> None:
        """Wait until everything sent so far has been handed to the operating system."""
        with self._sending:
            self._check_open()
            self._outgoing.close_bundle()
            self._write()

    def status(self) -> dict[str, Any]:
        """What the daemon says about itself: daemon, sites, links, groups, sessions, counters."""
        return ask_status(self.address)

    # Events -----------------------------------------------------------------------------------------------

    def receive(self, timeout_s: float | None = None) -> Event:
        """The next event; TimeoutError if none comes within `timeout_s`.

        Raises Disconnected when the session is over and every event was taken.
        """
        try:
            return self._ready.popleft()
        except IndexError:
            pass
        deadline_s = self._begin_receiving(timeout_s)
        try:
            while True:
                self._wait_event(deadline_s, timeout_s)
                try:
                    return self._ready.popleft()
                except IndexError:
                    pass  # another thread took it without the lock
        finally:
            self._receiving.release()

    def receive_many(self, timeout_s: float | None = None) -> list[Event]:
        """Every event that has arrived, at least one: the cheapest way to take many."""
        events: list[Event] = []
        deadline_s = self._begin_receiving(timeout_s)
        try:
            while not events:
                self._wait_event(deadline_s, timeout_s)
                while not self._incoming.complains and self._refill():
                    pass
                try:
                    while True:
                        events.append(self._ready.popleft())
                except IndexError:
                    pass  # that was the last
        finally:
            self._receiving.release()
        return events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return self._ready.popleft()
        except IndexError:
            pass
        try:
            return self.receive()
        except Disconnected:
            if self._closed:
                raise StopIteration from None
            raise

    # The end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, leave all groups and disconnect; events not taken yet are dropped.

        Waits, not for ever, until the daemon confirms. Raises Disconnected if it did not and sent messages
        have an unknown fate. Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        error = None
        try:
            error = self._say_goodbye()
        finally:
            self._let_go()
            if self._release is not None:
                self._release()
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Disconnected:
            if error is None:
                raise

    def _say_goodbye(self) -> Disconnected | None:
        """Send Disconnect and wait for the answer; the error to raise if messages may be lost."""
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        self._incoming.drop()
        try:
            if not self._sending.acquire(timeout=CLOSE_TIMEOUT_S):
                raise TimeoutError
            try:
                if self._end_reason is None:
                    self._outgoing.control(frames.Disconnect())
                    self._write(deadline_s)
            finally:
                self._sending.release()
            while self._end_reason is None:
                self._read_before(deadline_s)
        except TimeoutError:
            self._ended(f"no answer to the request to disconnect within {CLOSE_TIMEOUT_S:g} s")
        except Disconnected:
            pass  # the reason is recorded; whether it matters is decided below
        return self._close_error()

    def _let_go(self) -> None:
        """Close the socket once no other thread is using it: shutting it down first wakes them all."""
        self._ended(CLOSED)
        with suppress(OSError):  # the daemon may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._sending, self._receiving:
            self._outgoing.drop()
            self._socket.close()
        if self._flusher is not None:
            self._wake_flusher.set()
            self._flusher.join()

    def _forked(self) -> None:
        self._sending = threading.Lock()  # a thread that is not in this process may have held the old ones
        self._receiving = threading.Lock()
        self._flusher = None
        super()._forked()

    def _check_open(self) -> None:
        if self._is_over:
            raise self._disconnected()

    # Writing; the caller holds `_sending` -----------------------------------------------------------------

    def _opened_bundle(self) -> None:
        """A message has opened a bundle: write it now, or let it gather more if we wrote a moment ago."""
        if time.monotonic() - self._last_write_s > GATHER_S:
            self._outgoing.close_bundle()
            self._write()
        elif not self._flusher_watches:
            self._flusher_watches = True
            if self._flusher is None:
                self._flusher = threading.Thread(
                    target=self._flush_soon, name="antiphon-flusher", daemon=True
                )
                self._flusher.start()
            self._wake_flusher.set()

    def _write(self, deadline_s: float | None = None) -> None:
        """Write all that is queued, waiting for the daemon where needed."""
        outgoing = self._outgoing
        while outgoing.queued_bytes:
            try:
                outgoing.written(self._socket.sendmsg(outgoing.buffers()))
            except (BlockingIOError, InterruptedError):
                self._wait_writable(deadline_s)
            except OSError as error:
                self._read_rest()
                self._ended(error.strerror or str(error))
                outgoing.drop()
                raise self._disconnected() from None
        self._last_write_s = time.monotonic()

    def _wait_writable(self, deadline_s: float | None) -> None:
        """Wait for room in the socket; read meanwhile unless another thread does."""
        if deadline_s is not None and time.monotonic() > deadline_s:
            raise TimeoutError
        reads = not self._receiving.locked() and not self._incoming.is_full
        events = self._poll(select.POLLOUT | (select.POLLIN if reads else 0), LOOK_AGAIN_MS)
        if events & select.POLLIN and self._receiving.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._receiving.release()

    def _flush_soon(self) -> None:
        """The flusher: writes the open bundle once nobody has added to it between two looks, or after
        `LOOKS_MAX` looks in any case. It sleeps while nothing gathers."""
        while self._end_reason is None:
            self._wake_flusher.wait()
            self._wake_flusher.clear()
            looks = 0
            seen = (-1, -1)
            while self._flusher_watches and self._end_reason is None:
                time.sleep(GATHER_S)
                with self._sending:
                    outgoing = self._outgoing
                    now = (outgoing.bundle_count, outgoing.open_count)
                    looks = looks + 1 if now[0] == seen[0] else 1
                    if now == seen or looks >= LOOKS_MAX:
                        self._flush_gathered()
                    seen = now

    def _flush_gathered(self) -> None:
        """Write the open bundle; stop watching if there is none."""
        if self._is_over or not self._outgoing.open_count:
            self._flusher_watches = False
            return
        self._outgoing.close_bundle()
        try:
            self._write()
        except Disconnected:
            self._end_told = False  # nobody heard: the next call of the application tells it

    # Reading; the caller holds `_receiving` ---------------------------------------------------------------

    def _begin_receiving(self, timeout_s: float | None) -> float | None:
        """Get hold of `_receiving`, which another receiver may have; until when the caller may wait."""
        if timeout_s is None:
            self._receiving.acquire()
            return None
        deadline_s = time.monotonic() + timeout_s
        if not self._receiving.acquire(timeout=min(max(timeout_s, 0), threading.TIMEOUT_MAX)):
            raise TimeoutError(f"no event within {timeout_s:g} s")
        return deadline_s

    def _wait_event(self, deadline_s: float | None, timeout_s: float | None) -> None:
        """Wait until `ready` holds an event; raise what stands in its place in the stream."""
        while not self._ready:
            if self._refill():
                continue
            if self._is_over:
                raise self._disconnected()
            wanted = select.POLLIN | (select.POLLOUT if self._offer() else 0)
            timeout_ms = None
            if deadline_s is not None:
                timeout_ms = (deadline_s - time.monotonic()) * 1_000
                if timeout_ms <= 0:
                    raise TimeoutError(f"no event within {timeout_s:g} s")
            if self._poll(wanted, timeout_ms) & select.POLLIN:
                self._read()

    def _wait_effect(self, group: str) -> None:
        """Wait until the joins and leaves of `group` asked for so far have taken effect; read meanwhile,
        beyond the usual bound if need be, unless another thread does."""
        asked = self._asked[group]
        effects = self._incoming.effects
        while effects[group] < asked:
            self._check_open()
            if not self._receiving.acquire(timeout=LOOK_AGAIN_MS / 1_000):
                continue
            try:
                self._check_open()  # another thread may have closed the socket while this one waited
                if effects[group] < asked and self._poll(select.POLLIN, LOOK_AGAIN_MS):
                    self._read()
            finally:
                self._receiving.release()

    def _offer(self) -> bool:
        """Write without waiting what is still here: whoever waits for an answer wants the question out.

        Tells whether something remains. If another thread is sending, that one sees to it; if the daemon
        has hung up, the reading finds out why.
        """
        outgoing = self._outgoing
        if not (outgoing.open_count or outgoing.queued_bytes) or not self._sending.acquire(blocking=False):
            return False
        try:
            outgoing.close_bundle()
            while outgoing.queued_bytes:
                outgoing.written(self._socket.sendmsg(outgoing.buffers()))
            return False
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        finally:
            self._sending.release()

    def _refill(self) -> bool:
        try:
            return self._incoming.refill()
        except BadFrame as error:
            self._ended(f"the daemon sent what cannot be read: {error.reason}")
            return False

    def _read_before(self, deadline_s: float) -> None:
        """While closing: read once, or leave it to the thread in `receive`; TimeoutError at the deadline."""
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 or not self._receiving.acquire(timeout=left_s):
            raise TimeoutError
        try:
            if self._end_reason is None and self._poll(select.POLLIN, left_s * 1_000):
                self._read()
        finally:
            self._receiving.release()

    def _poll(self, events: int, timeout_ms: float | None) -> int:
        """Which of `events` are there, waiting at most `timeout_ms`; an error or a hang-up counts as all."""
        poll = select.poll()
        poll.register(self._socket, events)
        found = poll.poll(timeout_ms)
        if not found:
            return 0
        there = found[0][1]
        return events if there & ~events else there

    def _read_rest(self) -> None:
        """The daemon has hung up: what it said before that is still in the socket."""
        with self._receiving:
            while self._end_reason is None and self._read():
                pass


def connect(
    address: str | Sequence[str] | None = None,
    *,
    name: str = "",
    priority: int = 0,
    views: bool = True,
    embedded: bool = False,
    bundle: bool = True,
    timeout_s: float = 10.0,
) -> Session:
    """Connect to a daemon; arguments and errors as for `antiphon.connect`.

    >>> with connect(embedded=True, name="bob") as session:
    ...     print(session.name)
    #bob#d1
    """
    places = () if embedded else addresses(address)
    hello = request(name, priority, views)
    opened, release = open_with(places, hello, embedded=embedded, timeout_s=timeout_s)
    return Session(opened, bundle=bundle, release=release)
