"""The asyncio session: a raw non-blocking socket on the event loop, no streams, no tasks of its own.

A session that has lost its connection and may reconnect has a thread that looks for another. Until it has
found one, requests and sends wait, and events that arrived before are handed out.

Sending. A message on an idle connection is written at once. After that the session gathers: what is sent
until the event loop comes round joins the open bundle, and one callback per turn of the loop writes it. A
full bundle is written where it fills up. Only after a turn without any message is the connection idle
again; so a sender in a tight loop makes full bundles, and a lone message never waits.

Receiving. Bundles are queued whole and decoded when the application reaches them. While more than
`limits.CLIENT_EVENTS_MAX_BYTES` wait, the socket is not read, and the daemon's queue for this session grows
instead: back-pressure, and in the end a disconnected slow receiver.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from antiphon import limits
from antiphon.client._asyncio_calls import AsyncCalls
from antiphon.client._base import CLOSE_TIMEOUT_S, CLOSED
from antiphon.client._opening import Opened, ask_status
from antiphon.client._reconnecting import ReconnectPlan
from antiphon.client._send_queue import Groups, Payload
from antiphon.client._time import AGAIN_S, NOT_KNOWN
from antiphon.client.batches import BatchMemory
from antiphon.client.events import Event
from antiphon.errors import BadFrame, Disconnected, NoTime
from antiphon.service import Service
from antiphon.types import BatchStamp, Choice, Minimum, Resilience, Time
from antiphon.wire import frames

WRITE_BYTES = limits.BUNDLE_TARGET_BYTES // 2
"""What waits is written before the end of the turn once it is this much: every full bundle is."""
QUEUE_MAX_BYTES = 256 * 1024
"""Encoded bytes that wait for a full socket before `send` waits, too."""


class Session(AsyncCalls):
    """A connection to a daemon, for asyncio. Made by `antiphon.connect`.

    Any task of the loop that opened it may send, and any may receive, at the same time. A cancelled
    `receive` loses nothing; a cancelled `send` has sent nothing.

    >>> import asyncio, antiphon
    >>> async def main():
    ...     async with antiphon.connect(embedded=True, name="alice") as session:
    ...         await session.join("chat")
    ...         await session.send("chat", b"hello")
    ...         async for event in session:
    ...             match event:
    ...                 case antiphon.View():
    ...                     print("members:", *event.members)
    ...                 case antiphon.Message():
    ...                     return print(event.sender, "says", event.payload)
    >>> asyncio.run(main())
    members: #alice#d1
    #alice#d1 says b'hello'
    """

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
        self._loop = asyncio.get_running_loop()
        self._fd = self._socket.fileno()
        self._sends_wait = False
        """Whether the next send must wait first: session ended, socket full, or the loop's turn."""
        self._gathers = False
        """Whether messages wait for the end of this turn, because some were sent in it already."""
        self._turn_bytes = 0
        """Written in this turn of the loop since gathering began."""
        self._blocked = False
        """Whether the socket is full and its writability is watched."""
        self._reads = True
        self._awaits_effects = 0
        """Joins and leaves that wait to take effect."""
        self._arrived = asyncio.Event()
        self._drained = asyncio.Event()
        self._begin_calls()
        self._socket.setblocking(False)
        self._loop.add_reader(self._fd, self._readable)

    # Requests ---------------------------------------------------------------------------------------------

    async def join(
        self,
        group: str,
        *,
        minimum: Minimum | None = None,
        delivery: Choice | None = None,
        wait: bool = True,
    ) -> None:
        """Become a member of `group`; its first `View` stands in the stream where that happened.

        Returns when this session is a member, which takes the agreement of all sites; without `wait`, when
        the library has taken the request. A cancelled join may still take effect.

        `minimum` is the least size of a part of the group that may go on: a number of members, "majority" or
        "all"; the greatest wish of all members counts. A view of a part that is too small says so
        (`has_quorum`), and `send` to the group raises NoQuorum until enough members are back.

        With `delivery` messages to the group come earlier than their senders asked for: "agreed" does not
        wait until others have them, "fifo" keeps only the order of each sender, "arrival" none.

        Raises NotAllowed if the access list of the daemon does not allow it; without `wait`, `receive` does.
        """
        while self._sends_wait:
            await self._wait_turn()
        self._ask_join(group, minimum, delivery)
        if not wait:
            self._push()
            return
        self._incoming.joining.add(group)
        try:
            self._push()
            await self._wait_effect(group)
        finally:
            self._incoming.joining.discard(group)
        self._check_joined(group)

    async def leave(self, group: str, *, wait: bool = True) -> None:
        """Leave `group`; a `Left` stands in the stream where that happened, nothing of the group follows it.

        Returns when this session is no member any more; without `wait`, when the library has taken the
        request.
        """
        while self._sends_wait:
            await self._wait_turn()
        self._ask_leave(group)
        self._push()
        if wait:
            await self._wait_effect(group)

    async def send(
        self,
        groups: Groups,
        payload: Payload,
        service: Service = Service.AGREED,
        *,
        tag: int = 0,
        self_discard: bool = False,
        resilience: Resilience | None = None,
    ) -> None:
        """Send one message to a group, a private name, or several of them.

        Returns when the library has taken the message; waits while the daemon takes no more, or while the
        session reconnects. With `self_discard` this session does not get the message even if it is a member.
        With `resilience` an agreed message is delivered once so many daemons are known to hold it.
        Raises NoQuorum if this session knows that a group of which it is a member has no quorum; messages
        that meet that on their way come back in a `NotSent`.
        """
        while self._sends_wait:
            await self._wait_turn()
        send_queue = self._send_queue
        send_queue.add(groups, payload, service, tag, self_discard, resilience)
        if send_queue.queued_bytes or not self._gathers:
            self._push()

    async def send_many(
        self,
        groups: Groups,
        payloads: Iterable[Payload],
        service: Service = Service.AGREED,
        *,
        tag: int = 0,
        self_discard: bool = False,
        batch: BatchStamp | None = None,
        resilience: Resilience | None = None,
    ) -> None:
        """Send each of `payloads` as a message of its own, in order; faster than one `send` for each.

        An error or a cancellation in the middle leaves those before it sent. With `batch`, the stamp of the
        first one, receivers drop those that they had before with the same stamps.
        """
        send_queue = self._send_queue
        if batch is not None:
            waiting = list(payloads)
            at = 0
            while at < len(waiting):
                while self._sends_wait:
                    await self._wait_turn()
                some = waiting[at : at + limits.BUNDLE_MESSAGES_MAX]
                at += send_queue.add_batch(
                    groups, some, service, tag, self_discard, batch.moved(at), resilience
                )
                self._push()
            return
        add = send_queue.add
        for payload in payloads:
            while self._sends_wait:
                await self._wait_turn()
            add(groups, payload, service, tag, self_discard, resilience)
            if send_queue.queued_bytes or not self._gathers:
                self._push()

    async def flush(self) -> None:
        """Wait until everything sent so far has been handed to the operating system, or is lost with the
        connection: then `Reconnected` tells of it."""
        if self._fd >= 0:
            self._send_queue.close_bundle()
            self._write()
        while self._send_queue.queued_bytes or self._loss is not None:
            self._drained.clear()
            await self._drained.wait()
        if self._end_reason is not None:
            raise self._disconnected()

    async def wait_accepted(self) -> None:
        """Wait until everything sent so far is at every daemon that must have it, so that no crash loses it;
        or is lost with a connection: then `Reconnected` tells of it, or at an edge `Unsure`. Unreliable
        messages do not count.

        Arriving events are queued meanwhile even beyond the usual bound. Raises Disconnected if the session
        ends first.
        """
        await self.flush()
        self._awaits_effects += 1
        try:
            self._read_again()
            while self._send_queue.unaccepted() or self._loss is not None:
                if self._is_over:
                    raise self._disconnected()
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._awaits_effects -= 1

    async def status(self) -> dict[str, Any]:
        """What the daemon says about itself: daemon, sites, links, groups, sessions, counters."""
        return await asyncio.to_thread(ask_status, self.address, shown=self._credentials)

    async def now(self, timeout_s: float = 2.0) -> Time:
        """The time, and by how much it may be wrong (`antiphon.Time`).

        A daemon that does not know the time yet is asked again for up to `timeout_s`; then NoTime is raised.
        Raises Disconnected if the session ends first. Events that arrive meanwhile are queued.
        """
        deadline_s = self._loop.time() + timeout_s
        while True:
            found = await self._ask_time(deadline_s)
            if found is not None:
                return found
            if self._loop.time() >= deadline_s:
                raise NoTime(NOT_KNOWN)
            await asyncio.sleep(AGAIN_S)

    async def _ask_time(self, deadline_s: float) -> Time | None:
        """Ask once; None if the daemon does not know, or there was no answer."""
        while self._sends_wait:
            await self._wait_turn()
        times, ledger = self._incoming.times, self._incoming.ledger
        question, asked_ns = times.begin(), time.monotonic_ns()
        self._awaits_effects += 1
        try:
            self._send_queue.control(question)
            self._push()
            self._read_again()
            while (answer := times.answer(question)) is None:
                if self._is_over:
                    raise self._disconnected()
                if self._incoming.ledger is not ledger:
                    return None  # lost with its connection
                self._arrived.clear()
                try:
                    async with asyncio.timeout_at(deadline_s):
                        await self._arrived.wait()
                except TimeoutError:
                    return None
            return times.result(answer, asked_ns)
        finally:
            times.end(question)
            self._awaits_effects -= 1

    # Events -----------------------------------------------------------------------------------------------

    async def receive(self) -> Event:
        """The next event. Raises Disconnected when the session is over and every event was taken."""
        try:
            return self._ready.popleft()
        except IndexError:
            await self._wait_event()
            return self._ready.popleft()

    async def receive_many(self) -> list[Event]:
        """Every event that has arrived, at least one: the cheapest way to take many."""
        await self._wait_event()
        while not self._incoming.complains and self._refill():
            pass
        events = list(self._ready)
        self._ready.clear()
        return events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        try:
            return self._ready.popleft()
        except IndexError:
            pass
        try:
            await self._wait_event()
        except Disconnected:
            if self._closed:
                raise StopAsyncIteration from None
            raise
        return self._ready.popleft()

    # The end ----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush, leave all groups and disconnect; events not taken yet are dropped.

        Waits, not for ever, until the daemon confirms. Raises Disconnected if it did not and sent messages
        have an unknown fate. Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._sends_wait = True
        try:
            error = await self._say_goodbye()
        finally:
            self._over(CLOSED)
            self._incoming.end_diary()
            if self._release is not None:
                await asyncio.to_thread(self._release)
        if error is not None:
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Disconnected:
            if error is None:
                raise

    async def _say_goodbye(self) -> Disconnected | None:
        """Send Disconnect and wait for the answer; the error to raise if messages may be lost."""
        self._incoming.drop()
        self._read_again()
        self._arrived.set()
        if self._loss is not None:
            self._over(self._loss)
        if self._end_reason is None:
            self._send_queue.control(frames.Disconnect())
            self._push()
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    while self._end_reason is None:
                        self._arrived.clear()
                        await self._arrived.wait()
            except TimeoutError:
                self._over(f"no answer to the request to disconnect within {CLOSE_TIMEOUT_S:g} s")
        return self._close_error()

    def _over(self, reason: str) -> None:
        """The session has ended: close the socket, keep the events, wake all waiting calls."""
        super()._over(reason)
        self._cut()

    def _cut(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._socket.close()
            self._fd = -1
        self._send_queue.drop()
        self._sends_wait = True
        self._blocked = False
        self._arrived.set()
        self._drained.set()

    def _forked(self) -> None:
        super()._forked()
        self._fd = -1
        self._sends_wait = True

    # Coming back ------------------------------------------------------------------------------------------

    def _found(self, opened: Opened) -> None:
        try:
            self._loop.call_soon_threadsafe(self._go_on, opened)
        except RuntimeError:  # the loop has ended
            opened.abandon()

    def _not_found(self, failure: str) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._give_up, failure)

    def _go_on(self, opened: Opened) -> None:
        """The state is that after connecting; waiting calls go on."""
        if self._loss is None:  # closed meanwhile
            opened.abandon()
            return
        self._come_back(opened)
        self._fd = self._socket.fileno()
        self._reads = True
        self._loop.add_reader(self._fd, self._readable)
        self._sends_wait = False
        self._gathers = False
        self._arrived.set()
        self._drained.set()
        if self._send_queue.queued_bytes:
            self._push()

    def _give_up(self, failure: str) -> None:
        if self._loss is not None:
            self._over(f"{self._loss}; and {failure}")

    # Writing ----------------------------------------------------------------------------------------------

    async def _wait_turn(self) -> None:
        """Wait until sending may go on, or raise because it never will."""
        if self._is_over:
            raise self._disconnected()
        if self._blocked or self._loss is not None:
            self._drained.clear()
            await self._drained.wait()
        else:
            await asyncio.sleep(0)

    def _push(self) -> None:
        """Something was sent: write it if the connection is idle or a bundle's worth is waiting."""
        send_queue = self._send_queue
        if self._blocked:
            self._sends_wait = self._closed or send_queue.queued_bytes >= QUEUE_MAX_BYTES
        elif not self._gathers:
            send_queue.close_bundle()
            self._write()
            self._gathers = True
            self._turn_bytes = 0
            self._loop.call_soon(self._turn)
        elif send_queue.queued_bytes >= WRITE_BYTES:
            self._write()

    def _turn(self) -> None:
        """Once per turn of the loop while gathering: write what has gathered, or become idle."""
        if self._blocked or self._fd < 0:
            return  # `_writable` or `_go_on` goes on from here
        send_queue = self._send_queue
        send_queue.close_bundle()
        busy = send_queue.queued_bytes + self._turn_bytes
        self._write()
        self._turn_bytes = 0
        if self._blocked or self._fd < 0:
            return
        self._sends_wait = self._closed
        if busy:
            self._loop.call_soon(self._turn)
        else:
            self._gathers = False

    def _write(self) -> None:
        """Give the socket what it takes now; watch it if that is not everything."""
        send_queue = self._send_queue
        while send_queue.queued_bytes and not self._blocked:
            try:
                count = self._socket.sendmsg(send_queue.buffers())
            except (BlockingIOError, InterruptedError):
                self._blocked = True
                self._sends_wait = self._closed or send_queue.queued_bytes >= QUEUE_MAX_BYTES
                self._loop.add_writer(self._fd, self._writable)
            except OSError as error:
                self._read_rest()
                self._lost(error.strerror or str(error))
                return
            else:
                send_queue.written(count)
                self._turn_bytes += count
        if self._turn_bytes >= WRITE_BYTES:
            self._sends_wait = True

    def _writable(self) -> None:
        """The socket takes more: go on, and gather again once the queue is empty."""
        self._blocked = False
        self._loop.remove_writer(self._fd)
        self._turn_bytes = 0
        self._write()
        if self._blocked or self._fd < 0:
            return
        self._sends_wait = self._closed
        self._drained.set()
        self._loop.call_soon(self._turn)

    # Reading ----------------------------------------------------------------------------------------------

    async def _wait_effect(self, group: str) -> None:
        """Wait until the joins and leaves of `group` asked for so far have taken effect.

        Events are queued meanwhile even beyond the usual bound: the application may have no task that takes
        them.
        """
        asked = self._asked[group]
        effects = self._incoming.effects
        self._awaits_effects += 1
        try:
            self._read_again()
            while effects[group] < asked:
                if self._is_over:
                    raise self._disconnected()
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._awaits_effects -= 1

    async def _wait_event(self) -> None:
        """Wait until `ready` holds an event; raise what stands in its place in the stream."""
        while not self._ready:
            if self._refill():
                continue
            if self._is_over:
                self._incoming.end_diary()
                raise self._disconnected()
            self._arrived.clear()
            await self._arrived.wait()

    def _refill(self) -> bool:
        try:
            return self._incoming.refill()
        except BadFrame as error:
            self._lost(f"the daemon sent what cannot be read: {error.reason}")
            return False
        finally:
            self._read_again()

    def _read_again(self) -> None:
        if not self._reads and (self._incoming.has_room or self._awaits_effects) and self._fd >= 0:
            self._reads = True
            self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        """The socket has something: read one buffer full, so that the loop stays fair."""
        self._read()
        self._incoming.ledger.forget()
        self._arrived.set()
        if self._incoming.is_full and not self._awaits_effects and self._fd >= 0:
            self._reads = False
            self._loop.remove_reader(self._fd)

    def _read_rest(self) -> None:
        """The daemon has hung up: what it said before that is still in the socket."""
        while self._fd >= 0 and self._read():
            pass
