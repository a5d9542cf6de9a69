"""How a blocking session reads and writes: locks, a thread that flushes, and the way back after a loss.

Any thread may send, and any may receive, at the same time: one lock guards each direction. A message goes
out at once unless the last write was a moment ago; then it opens a bundle, which others join, and a small
thread writes it soon after if it does not fill up first. While a send waits for a full socket it also reads,
up to the usual bound: a program that sends much before it receives does not block itself.

A connection that is lost is noted by a thread that holds `_receiving`; from then on no thread touches the
socket. If the session may reconnect, a thread of its own looks for another connection and puts it in place
while it holds `_sending`. Until then senders wait without that lock, and receivers hand out what has arrived.
"""

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from antiphon.client._base import CLOSED, SessionBase
from antiphon.client._opening import Opened
from antiphon.client._reconnecting import ReconnectPlan
from antiphon.client.batches import BatchMemory
from antiphon.errors import BadFrame, Disconnected

GATHER_S = 0.000_1
"""A message within this time of the last write gathers with those after it; the flusher looks this often."""
LOOKS_MAX = 8
"""A bundle that keeps growing slowly is written after so many looks of the flusher."""
LOOK_AGAIN_MS = 50
"""How long a sender on a full socket leaves the reading to another thread before it looks again."""


class ThreadedSession(SessionBase):
    """What happens below `antiphon.blocking.Session`."""

    def __init__(
        self,
        opened: Opened,
        *,
        bundle: bool = True,
        release: Callable[[], None] | None = None,
        reconnect_plan: ReconnectPlan | None = None,
        batches: BatchMemory | None = None,
    ) -> None:
        super().__init__(
            opened, bundle=bundle, release=release, reconnect_plan=reconnect_plan, batches=batches
        )
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._present = threading.Event()
        """Set unless the session is looking for another connection."""
        self._present.set()
        self._last_write_s = 0.0
        self._wake_flusher = threading.Event()
        self._flusher: threading.Thread | None = None
        self._flusher_watches = False
        self._begin_calls()
        self._socket.setblocking(False)

    def _begin_calls(self) -> None:
        """For the part of the session that calls."""

    def _let_go(self) -> None:
        """Close the socket once no other thread is using it: shutting it down first wakes them all."""
        self._ended(CLOSED)
        self._hang_up()
        with self._sending, self._receiving:
            self._send_queue.drop()
            self._socket.close()
        if self._flusher is not None:
            self._wake_flusher.set()
            self._flusher.join()

    def _forked(self) -> None:
        self._sending = threading.Lock()  # a thread that is not in this process may have held the old ones
        self._receiving = threading.Lock()
        self._present = threading.Event()
        self._present.set()
        self._flusher = None
        super()._forked()

    def _check_open(self) -> None:
        if self._is_over:
            raise self._disconnected()

    # Coming back ------------------------------------------------------------------------------------------

    def _over(self, reason: str) -> None:
        super()._over(reason)
        self._present.set()

    def _cut(self) -> None:
        self._present.clear()
        self._hang_up()  # wakes a sender that waits for room; the descriptor is closed when no call uses it

    def _hang_up(self) -> None:
        with suppress(OSError):  # the daemon may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def _found(self, opened: Opened) -> None:
        with self._sending:
            if self._loss is None or self._closed:
                opened.abandon()
                return
            self._come_back(opened)
            self._present.set()
            with suppress(Disconnected):  # the next call of the application tells it
                self._write()

    def _not_found(self, failure: str) -> None:
        with self._sending:
            if self._loss is not None:
                self._over(f"{self._loss}; and {failure}")

    def _wait_present(self) -> None:
        """Wait until there is a connection, or raise because there never will be.

        The caller holds `_sending`, which is free while this waits.
        """
        while self._loss is not None and not self._closed:
            self._sending.release()
            try:
                self._present.wait()
            finally:
                self._sending.acquire()
        self._check_open()

    # Writing; the caller holds `_sending` -----------------------------------------------------------------

    def _opened_bundle(self) -> None:
        """A message has opened a bundle: write it now, or let it gather more if we wrote a moment ago."""
        if time.monotonic() - self._last_write_s > GATHER_S:
            self._send_queue.close_bundle()
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
        send_queue = self._send_queue
        while send_queue.queued_bytes:
            try:
                send_queue.written(self._socket.sendmsg(send_queue.buffers()))
            except (BlockingIOError, InterruptedError):
                self._wait_writable(deadline_s)
            except OSError as error:
                self._read_rest(error.strerror or str(error))
                send_queue.drop()
                if self._loss is not None:
                    return  # `Reconnected` will tell what became of it
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
                if not self._is_cut:
                    self._read()
            finally:
                self._receiving.release()

    def _flush_soon(self) -> None:
        """The flusher: writes the open bundle once nothing was added to it between two looks, or after
        `LOOKS_MAX` looks in any case. It sleeps while nothing gathers."""
        while self._end_reason is None:
            self._wake_flusher.wait()
            self._wake_flusher.clear()
            looks = 0
            seen = (-1, -1)
            while self._flusher_watches and self._end_reason is None:
                time.sleep(GATHER_S)
                with self._sending:
                    send_queue = self._send_queue
                    now = (send_queue.bundle_count, send_queue.open_count)
                    looks = looks + 1 if now[0] == seen[0] else 1
                    if now == seen or looks >= LOOKS_MAX:
                        self._flush_gathered()
                    seen = now

    def _flush_gathered(self) -> None:
        """Write the open bundle; stop watching if there is none."""
        if self._is_over or self._loss is not None or not self._send_queue.open_count:
            self._flusher_watches = False
            return
        self._send_queue.close_bundle()
        try:
            self._write()
        except Disconnected:
            self._end_told = False  # this thread cannot tell the application; its next call does

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
                self._incoming.end_diary()
                raise self._disconnected()
            left_s = None
            if deadline_s is not None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(f"no event within {timeout_s:g} s")
            if self._loss is not None:
                self._present.wait(left_s)
                continue
            wanted = select.POLLIN | (select.POLLOUT if self._offer() else 0)
            again_s = self._look_again_s()
            if again_s is not None:
                left_s = again_s if left_s is None else min(left_s, again_s)
                if self._ready or self._incoming.is_queued:
                    continue
            if self._poll(wanted, None if left_s is None else left_s * 1_000) & select.POLLIN:
                self._read()

    def _look_again_s(self) -> float | None:
        """How long to wait for the daemon at most, if there is something else to see to."""
        return None

    def _wait_effect(self, group: str) -> None:
        """Wait until the joins and leaves of `group` asked for so far have taken effect; read meanwhile,
        beyond the usual bound if need be, unless another thread does."""
        asked = self._asked[group]
        effects = self._incoming.effects
        self._read_until(lambda: effects[group] >= asked)

    def _read_until(self, is_done: Callable[[], bool]) -> None:
        """Read until something that only reading brings about has happened, or raise because it never will;
        leave the reading to another thread if one does it."""
        while not is_done():
            self._check_open()
            self._present.wait(LOOK_AGAIN_MS / 1_000)
            if not self._receiving.acquire(timeout=LOOK_AGAIN_MS / 1_000):
                continue
            try:
                # Another thread may have closed or lost the connection while this one waited.
                if not is_done() and not self._is_cut and self._poll(select.POLLIN, LOOK_AGAIN_MS):
                    self._read()
            finally:
                self._receiving.release()

    def _offer(self) -> bool:
        """Write without waiting what is still queued: a caller that waits for an answer needs its request
        sent.

        Tells whether something remains. If another thread is sending, that one sees to it; if the daemon
        has hung up, the reading finds out why.
        """
        send_queue = self._send_queue
        if not (send_queue.open_count or send_queue.queued_bytes) or not self._sending.acquire(
            blocking=False
        ):
            return False
        try:
            if self._is_cut:
                return False
            send_queue.close_bundle()
            while send_queue.queued_bytes:
                send_queue.written(self._socket.sendmsg(send_queue.buffers()))
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
            self._lost(f"the daemon sent what cannot be read: {error.reason}")
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

    @property
    def _is_cut(self) -> bool:
        """Whether the connection is over; with `_receiving` held, the answer holds as long."""
        return self._loss is not None or self._is_over

    def _read_rest(self, reason: str) -> None:
        """The daemon has hung up: what it said before that is still in the socket.

        Another thread in `receive` reads it, too, and may then wait for a new connection: so do not insist.
        """
        while self._end_reason is None and self._loss is None:
            if self._receiving.acquire(timeout=LOOK_AGAIN_MS / 1_000):
                try:
                    while self._end_reason is None and self._loss is None and self._read():
                        pass
                    self._lost(reason)
                finally:
                    self._receiving.release()
