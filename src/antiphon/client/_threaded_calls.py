"""Locks, handlers and calls of a blocking session: the twins of those in `_asyncio_calls`."""

import select
import threading
import time
from types import TracebackType
from typing import Literal, overload

from antiphon.calls import Answers, Call, CallId, Result
from antiphon.client._calls import REPEAT_S, check_call, timed_out, value_of
from antiphon.client._locks import OwnLock
from antiphon.client._send_queue import Payload
from antiphon.client._threaded import LOOK_AGAIN_MS, ThreadedSession
from antiphon.errors import Disconnected, LockLost, NoQuorum, NotAllowed
from antiphon.service import Service
from antiphon.types import Resilience, handler_lock
from antiphon.wire import frames


class HeldLock:
    """A lock that this session holds, until it is released or lost.

    `with` releases it at the end of the block, and raises LockLost there if it was lost meanwhile. The loss
    is noted when a thread reads from the daemon: in `receive`, or in a call that waits.
    """

    def __init__(self, session: "ThreadedCalls", own: OwnLock) -> None:
        self._session = session
        self._own = own
        self.lost = threading.Event()
        """Set when the lock is lost."""
        own.on_lost = self.lost.set
        if own.reason:
            self.lost.set()

    @property
    def group(self) -> str:
        return self._own.group

    @property
    def name(self) -> str:
        return self._own.name

    @property
    def fence(self) -> int:
        """The number of the grant; every later grant of this lock has a greater one. It grows while the lock
        is held when parts of the group merge."""
        return self._own.fence

    @property
    def is_held(self) -> bool:
        """Whether this session holds the lock, as far as it has heard."""
        return self._own.is_held

    def check(self) -> None:
        """Raise LockLost if the lock is not held any more."""
        if not self._own.is_held:
            why = self._own.reason or "it was released"
            raise LockLost(f"the lock {self.name!r} of {self.group!r} is not held any more: {why}")

    def release(self) -> None:
        """Give the lock back; releasing it again, or when it is lost, does nothing."""
        self._session._release_lock(self._own)

    def __enter__(self) -> "HeldLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_lost = bool(self._own.reason)
        self.release()
        if was_lost and error is None:
            self.check()


class _Waiter:
    """A call of a thread."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.result: Result | NoQuorum | NotAllowed | None = None


class ThreadedCalls(ThreadedSession):
    """What a blocking session does for locks and calls."""

    _waiters: dict[CallId, _Waiter]

    def _begin_calls(self) -> None:
        self._waiters = {}
        self._calls.finished = self._finished

    # Locks ------------------------------------------------------------------------------------------------

    def lock(self, group: str, name: str, *, timeout_s: float | None = None) -> HeldLock:
        """The lock `name` of a group that this session has joined: `with session.lock(...) as held`.

        Waits until this session holds it; TimeoutError after `timeout_s`, which takes the request back.
        Raises LockLost if the session leaves the group or loses its connection first.
        """
        held = self._take_lock(group, name, True, timeout_s)
        assert held is not None
        return held

    def handle(self, group: str, handler: int, *, timeout_s: float | None = None) -> HeldLock:
        """As `lock`, for a handler from 0 to 255: who holds it answers the calls for it."""
        return self.lock(group, handler_lock(handler), timeout_s=timeout_s)

    def try_lock(self, group: str, name: str, *, timeout_s: float | None = None) -> HeldLock | None:
        """The lock if it is free, or None: this takes the agreement of the members' daemons, too."""
        return self._take_lock(group, name, False, timeout_s)

    def _take_lock(self, group: str, name: str, wait: bool, timeout_s: float | None) -> HeldLock | None:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._sending:
            self._wait_present()
            own = self._ask_lock(group, name, wait)
            self._write()

        def is_done() -> bool:
            return own.is_held or own.is_over or (deadline_s is not None and time.monotonic() >= deadline_s)

        try:
            self._read_until(is_done)
        except BaseException:
            self._release_lock(own)
            raise
        if own.denial is not None:
            raise own.denial
        if own.is_refused:
            return None
        if not own.is_held and not own.is_over:
            self._release_lock(own)
            raise TimeoutError(f"no lock {name!r} of {group!r} within {timeout_s:g} s")
        held = HeldLock(self, own)
        held.check()
        return held

    def _release_lock(self, own: OwnLock) -> None:
        with self._sending:
            if self._locks.release(own) and not self._is_cut:
                self._send_queue.control(frames.Unlock(own.group, own.name))
                try:
                    self._write()
                except Disconnected:
                    self._end_told = False  # the next call of the application tells it

    # Calls ------------------------------------------------------------------------------------------------

    @overload
    def call(
        self, group: str, payload: Payload, *, answers: Literal["one"] = ..., handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> bytes: ...  # fmt: skip

    @overload
    def call(
        self, group: str, payload: Payload, *, answers: Literal["all"], handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> Answers: ...  # fmt: skip

    @overload
    def call(
        self, group: str, payload: Payload, *, answers: Literal["delivered"], handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> tuple[str, ...]: ...  # fmt: skip

    def call(
        self,
        group: str,
        payload: Payload,
        *,
        answers: Literal["one", "all", "delivered"] = "one",
        handler: int = 0,
        timeout_s: float = 5.0,
        service: Service = Service.AGREED,
        resilience: Resilience | None = None,
    ) -> bytes | Answers | tuple[str, ...]:
        """Call a group, as a member or not, and return what is answered; as `call` of an asyncio session."""
        mode = check_call(group, handler, answers, timeout_s, service, resilience)
        deadline_s = time.monotonic() + timeout_s
        waiter = _Waiter()
        id: CallId | None = None
        try:
            while id is None:
                if not self._present.wait(max(0.0, deadline_s - time.monotonic())):
                    break
                with self._sending:
                    if self._loss is not None:
                        continue
                    self._check_open()
                    id = self._calls.begin(
                        self._send_queue, group, payload, handler, mode, timeout_s, service, resilience
                    )
                    self._waiters[id] = waiter
                    self._write()
            if id is not None:
                self._wait_answer(id, waiter, deadline_s)
            if waiter.result is not None:
                return value_of(waiter.result)
            roster, came = (None, Answers()) if id is None else self._calls.give_up(id)
            raise timed_out(group, handler, mode, timeout_s, roster, came)
        finally:
            if id is not None:
                self._waiters.pop(id, None)
                self._calls.give_up(id)

    def _wait_answer(self, id: CallId, waiter: _Waiter, deadline_s: float) -> None:
        """Read until the answer has come, or leave the reading to another thread that does it."""
        look_again_s, patience_s = LOOK_AGAIN_MS / 1_000, REPEAT_S
        repeat_s = time.monotonic() + patience_s
        while not waiter.is_over.is_set():
            self._check_open()
            if time.monotonic() >= repeat_s:
                patience_s *= 2
                repeat_s += patience_s
                with self._sending:
                    if not self._is_cut:
                        self._calls.repeat(self._send_queue, id)
                        self._write()
            left_s = min(look_again_s, deadline_s - time.monotonic())
            if left_s <= 0:
                return
            if self._loss is not None:
                self._present.wait(left_s)
            elif not self._receiving.acquire(blocking=False):
                waiter.is_over.wait(left_s)
            else:
                try:
                    if not self._is_cut and self._poll(select.POLLIN, left_s * 1_000):
                        self._read()
                finally:
                    self._receiving.release()

    def answer(self, call: Call, payload: Payload | None = None, *, error: str | None = None) -> bool:
        """Answer a call with a payload, or with an error, which its caller gets as CallFailed.

        A member that is not to answer may do so, too: its answer is kept, and sent if that member is lost.
        False: nobody waits for an answer any more.
        """
        with self._sending:
            self._wait_present()
            is_taken = self._calls.answer(call, payload, error)
            self._calls.flush(self._send_queue)
            self._write()
        return is_taken

    def _finished(self, id: CallId, result: Result | NoQuorum | NotAllowed) -> None:
        waiter = self._waiters.get(id)
        if waiter is not None:
            waiter.result = result
            waiter.is_over.set()

    # What the machines want sent --------------------------------------------------------------------------

    def _read(self) -> bool:
        found = super()._read()
        if self._calls.outbox:
            self._offer()
        return found

    def _offer(self) -> bool:
        if self._calls.outbox and self._sending.acquire(blocking=False):
            try:
                if not self._is_cut:
                    self._calls.flush(self._send_queue)
            finally:
                self._sending.release()
        return super()._offer()

    def _look_again_s(self) -> float | None:
        if self._calls.is_waiting:
            self._incoming.queue_calls(self._calls.waited())
        return LOOK_AGAIN_MS / 1_000 if self._calls.outbox or self._calls.is_waiting else None

    def _over(self, reason: str) -> None:
        super()._over(reason)
        self._locks.ended(reason)
