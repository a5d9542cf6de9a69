"""Locks, handlers and calls of an asyncio session.

All of them wait for what comes from the daemon as `join` does: no task of the application has to take events
meanwhile.
"""

import asyncio
from abc import abstractmethod
from types import TracebackType
from typing import Literal, overload

from antiphon import limits
from antiphon.calls import Answers, Call, CallId, Result
from antiphon.client._base import SessionBase
from antiphon.client._calls import REPEAT_S, check_call, timed_out, value_of
from antiphon.client._locks import OwnLock
from antiphon.client._send_queue import Payload
from antiphon.errors import Disconnected, LockLost, NoQuorum, NotAllowed
from antiphon.service import Service
from antiphon.types import Resilience, handler_lock
from antiphon.wire import frames


class HeldLock:
    """A lock that this session holds, until it is released or lost.

    `async with` releases it at the end of the block, and raises LockLost there if it was lost meanwhile.
    """

    def __init__(self, session: "AsyncCalls", own: OwnLock) -> None:
        self._session = session
        self._own = own
        self.lost = asyncio.Event()
        """Set when the lock is lost: `await held.lost.wait()`."""
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
            raise LockLost(f"the lock {self.name!r} of {self.group!r} is not held any more: {self._why()}")

    def _why(self) -> str:
        return self._own.reason or "it was released"

    async def release(self) -> None:
        """Give the lock back; releasing it again, or when it is lost, does nothing."""
        await self._session._release_lock(self._own)

    async def __aenter__(self) -> "HeldLock":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_lost = bool(self._own.reason)
        await self.release()
        if was_lost and error is None:
            self.check()

    def __repr__(self) -> str:
        state = f"fence {self.fence}" if self.is_held else self._why()
        return f"<antiphon.HeldLock {self.name} of {self.group}: {state}>"


class LockRequest:
    """A lock on its way: `await` it to get the lock, or use it in `async with` to also release it."""

    def __init__(self, session: "AsyncCalls", group: str, name: str, timeout_s: float | None) -> None:
        self._session = session
        self._group = group
        self._name = name
        self._timeout_s = timeout_s
        self._held: HeldLock | None = None

    def __await__(self):  # type: ignore[no-untyped-def]
        return self._take().__await__()

    async def _take(self) -> HeldLock:
        held = await self._session._take_lock(self._group, self._name, True, self._timeout_s)
        assert held is not None
        return held

    async def __aenter__(self) -> HeldLock:
        self._held = await self._take()
        return self._held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._held is not None
        await self._held.__aexit__(kind, error, trace)


class AsyncCalls(SessionBase):
    """What an asyncio session does for locks and calls."""

    _loop: asyncio.AbstractEventLoop
    _sends_wait: bool
    _awaits_effects: int
    _arrived: asyncio.Event
    _fd: int
    _has_timer: bool
    _futures: dict[CallId, "asyncio.Future[Result | NoQuorum | NotAllowed]"]

    @abstractmethod
    async def _wait_turn(self) -> None: ...

    @abstractmethod
    def _push(self) -> None: ...

    @abstractmethod
    def _read_again(self) -> None: ...

    def _begin_calls(self) -> None:
        self._futures = {}
        self._has_timer = False
        self._calls.finished = self._finished

    # Locks ------------------------------------------------------------------------------------------------

    def lock(self, group: str, name: str, *, timeout_s: float | None = None) -> LockRequest:
        """The lock `name` of a group that this session has joined: `async with session.lock(...) as held`.

        Waits until this session holds it; TimeoutError after `timeout_s`. A wait that is cancelled or over
        takes the request back. Raises LockLost if the session leaves the group or loses its connection
        first.
        """
        return LockRequest(self, group, name, timeout_s)

    def handle(self, group: str, handler: int, *, timeout_s: float | None = None) -> LockRequest:
        """As `lock`, for a handler from 0 to 255: who holds it answers the calls for it."""
        return LockRequest(self, group, handler_lock(handler), timeout_s)

    async def try_lock(self, group: str, name: str, *, timeout_s: float | None = None) -> HeldLock | None:
        """The lock if it is free, or None: this takes the agreement of the members' daemons, too."""
        return await self._take_lock(group, name, False, timeout_s)

    async def _take_lock(self, group: str, name: str, wait: bool, timeout_s: float | None) -> HeldLock | None:
        own = None
        try:
            async with asyncio.timeout(timeout_s):
                while self._sends_wait:
                    await self._wait_turn()
                own = self._ask_lock(group, name, wait)
                self._push()
                await self._wait_lock(own)
        except TimeoutError:
            if own is not None:
                await self._release_lock(own)
            raise TimeoutError(f"no lock {name!r} of {group!r} within {timeout_s:g} s") from None
        except asyncio.CancelledError:
            if own is not None:
                self._release_lock_now(own)
            raise
        if own.denial is not None:
            raise own.denial
        if own.is_refused:
            return None
        held = HeldLock(self, own)
        held.check()
        return held

    async def _wait_lock(self, own: OwnLock) -> None:
        self._awaits_effects += 1
        try:
            self._read_again()
            while not own.is_held and not own.is_over:
                if self._is_over:
                    raise self._disconnected()
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._awaits_effects -= 1

    async def _release_lock(self, own: OwnLock) -> None:
        while self._sends_wait and not own.is_over:
            try:
                await self._wait_turn()
            except Disconnected:
                return
        self._release_lock_now(own)

    def _release_lock_now(self, own: OwnLock) -> None:
        if self._locks.release(own) and self._fd >= 0:
            self._send_queue.control(frames.Unlock(own.group, own.name))
            self._push()

    # Calls ------------------------------------------------------------------------------------------------

    @overload
    async def call(
        self, group: str, payload: Payload, *, answers: Literal["one"] = ..., handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> bytes: ...  # fmt: skip

    @overload
    async def call(
        self, group: str, payload: Payload, *, answers: Literal["all"], handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> Answers: ...  # fmt: skip

    @overload
    async def call(
        self, group: str, payload: Payload, *, answers: Literal["delivered"], handler: int = ...,
        timeout_s: float = ..., service: Service = ..., resilience: Resilience | None = ...,
    ) -> tuple[str, ...]: ...  # fmt: skip

    async def call(
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
        """Call a group, as a member or not, and return what is answered.

        - `answers="one"`: the answer of the member that holds `handler`.
        - `answers="all"`: those of all members of the view in which the call was delivered, by private name.
          Members that were lost meanwhile are in its `missing`.
        - `answers="delivered"`: the private names of the members to whom it was delivered.

        A call that waits when the connection is lost is repeated by a session that reconnects; it is not
        executed again. Raises CallFailed if the answer is an error or the call was refused, CallTimeout if
        none comes within `timeout_s`, NoQuorum if too few members are there.
        """
        mode = check_call(group, handler, answers, timeout_s, service, resilience)
        id: CallId | None = None
        self._awaits_effects += 1
        try:
            async with asyncio.timeout(timeout_s):
                while self._sends_wait:
                    await self._wait_turn()
                id = self._calls.begin(
                    self._send_queue, group, payload, handler, mode, timeout_s, service, resilience
                )
                future = self._futures[id] = self._loop.create_future()
                self._push()
                self._read_again()
                return value_of(await self._wait_answer(id, future))
        except TimeoutError:
            roster, came = (None, Answers()) if id is None else self._calls.give_up(id)
            raise timed_out(group, handler, mode, timeout_s, roster, came) from None
        finally:
            self._awaits_effects -= 1
            if id is not None:
                self._futures.pop(id, None)
                self._calls.give_up(id)

    async def _wait_answer(
        self, id: CallId, future: "asyncio.Future[Result | NoQuorum | NotAllowed]"
    ) -> Result | NoQuorum | NotAllowed:
        patience_s = REPEAT_S
        while True:
            done, _ = await asyncio.wait((future,), timeout=patience_s)
            if done:
                return future.result()
            patience_s *= 2
            if not self._sends_wait and self._fd >= 0:
                self._calls.repeat(self._send_queue, id)
                self._push()

    async def answer(self, call: Call, payload: Payload | None = None, *, error: str | None = None) -> bool:
        """Answer a call with a payload, or with an error, which its caller gets as CallFailed.

        A member that is not to answer may do so, too: its answer is kept, and sent if that member is lost.
        False: nobody waits for an answer any more.
        """
        while self._sends_wait:
            await self._wait_turn()
        is_taken = self._calls.answer(call, payload, error)
        self._send_marked()
        return is_taken

    def _finished(self, id: CallId, result: Result | NoQuorum | NotAllowed) -> None:
        future = self._futures.get(id)
        if future is not None and not future.done():
            future.set_result(result)

    # What the machines want sent --------------------------------------------------------------------------

    def _read(self) -> bool:
        found = super()._read()
        if self._calls.outbox:
            self._loop.call_soon(self._send_marked)
        if self._calls.is_waiting and not self._has_timer:
            self._has_timer = True
            self._loop.call_later(limits.CALL_MEMORY_WAIT_S * 1.1, self._waited)
        return found

    def _send_marked(self) -> None:
        if self._calls.outbox and self._fd >= 0:
            self._calls.flush(self._send_queue)
            self._push()

    def _waited(self) -> None:
        self._has_timer = False
        calls = self._calls.waited()
        self._incoming.queue_calls(calls)
        self._send_marked()
        if calls:
            self._arrived.set()

    def _over(self, reason: str) -> None:
        super()._over(reason)
        self._locks.ended(reason)
        for future in self._futures.values():
            if not future.done():
                future.set_exception(self._disconnected())
