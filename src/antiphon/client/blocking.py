"""The blocking session: the same nouns for programs without an event loop; `_threaded` does the work."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from antiphon import limits
from antiphon.client._base import CLOSE_TIMEOUT_S
from antiphon.client._finding import chosen_address
from antiphon.client._opening import addresses, ask_status, request, trace_folder
from antiphon.client._send_queue import Groups, Payload
from antiphon.client._threaded_calls import ThreadedCalls
from antiphon.client._time import AGAIN_S, NOT_KNOWN
from antiphon.client.batches import BatchMemory
from antiphon.client.connecting import open_with, reconnect_plan_for
from antiphon.client.events import Event
from antiphon.errors import Disconnected, NoTime
from antiphon.runtime.credentials import credentials
from antiphon.runtime.tls import Tls
from antiphon.service import Service
from antiphon.types import BatchStamp, Choice, Minimum, Resilience, SlowPolicy, Time
from antiphon.wire import frames


class Session(ThreadedCalls):
    """A connection to a daemon, for threads. Made by `antiphon.blocking.connect`.

    >>> import antiphon
    >>> with antiphon.blocking.connect(embedded=True, name="alice") as session:
    ...     session.join("chat")
    ...     session.send("chat", b"hello")
    ...     view, message = session.receive(), session.receive()
    ...     print(view.members, message.payload)
    ('#alice#d1',) b'hello'
    """

    # Requests ---------------------------------------------------------------------------------------------

    def join(
        self,
        group: str,
        *,
        minimum: Minimum | None = None,
        delivery: Choice | None = None,
        wait: bool = True,
    ) -> None:
        """Become a member of `group`; its first `View` stands in the stream where that happened.

        Returns when this session is a member, which takes the agreement of all sites; without `wait`, when
        the request is written.

        `minimum` is the least size of a part of the group that may go on: a number of members, "majority" or
        "all"; the greatest wish of all members counts. A view of a part that is too small says so
        (`has_quorum`), and `send` to the group raises NoQuorum until enough members are back.

        With `delivery` messages to the group come earlier than their senders asked for: "agreed" does not
        wait until others have them, "fifo" keeps only the order of each sender, "arrival" none.

        Raises NotAllowed if the access list of the daemon does not allow it; without `wait`, `receive` does.
        """
        with self._sending:
            self._wait_present()
            self._ask_join(group, minimum, delivery)
            if wait:
                self._incoming.joining.add(group)
            self._write()
        if wait:
            try:
                self._wait_effect(group)
            finally:
                self._incoming.joining.discard(group)
            self._check_joined(group)

    def leave(self, group: str, *, wait: bool = True) -> None:
        """Leave `group`; a `Left` stands in the stream where that happened, nothing of the group follows it.

        Returns when this session is no member any more; without `wait`, when the request is written.
        """
        with self._sending:
            self._wait_present()
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
        resilience: Resilience | None = None,
    ) -> None:
        """Send one message to a group, a private name, or several of them.

        Returns when the library has taken the message; waits while the daemon takes no more, or while the
        session reconnects. With `self_discard` this session does not get the message even if it is a member.
        With `resilience` an agreed message is delivered once so many daemons are known to hold it.
        Raises NoQuorum if this session knows that a group of which it is a member has no quorum; messages
        that meet that on their way come back in a `NotSent`.
        """
        with self._sending:
            if self._loss is not None or self._end_reason is not None or self._closed:
                self._wait_present()
            send_queue = self._send_queue
            send_queue.add(groups, payload, service, tag, self_discard, resilience)
            if send_queue.queued_bytes:
                self._write()
            elif send_queue.open_count == 1:
                self._opened_bundle()

    def send_many(
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

        An error in the middle leaves those before it sent. An iterator may take its time: what it gave
        before goes out meanwhile, and other threads may send. With `batch`, the stamp of the first one,
        receivers drop those that they had before with the same stamps.
        """
        if batch is not None:
            self._send_batch(groups, list(payloads), service, tag, self_discard, batch, resilience)
            return
        if not isinstance(payloads, list | tuple):
            for payload in payloads:
                self.send(groups, payload, service, tag=tag, self_discard=self_discard, resilience=resilience)
            return
        with self._sending:
            send_queue = self._send_queue
            try:
                for payload in payloads:
                    self._wait_present()
                    send_queue.add(groups, payload, service, tag, self_discard, resilience)
                    if send_queue.queued_bytes:
                        self._write()
            finally:
                send_queue.close_bundle()
            self._write()

    def _send_batch(
        self,
        groups: Groups,
        payloads: list[Payload],
        service: Service,
        tag: int,
        self_discard: bool,
        batch: BatchStamp,
        resilience: Resilience | None,
    ) -> None:
        at = 0
        with self._sending:
            while at < len(payloads):
                self._wait_present()
                some = payloads[at : at + limits.BUNDLE_MESSAGES_MAX]
                at += self._send_queue.add_batch(
                    groups, some, service, tag, self_discard, batch.moved(at), resilience
                )
                self._write()

    def flush(self) -> None:
        """Wait until everything sent so far has been handed to the operating system, or is lost with the
        connection: then `Reconnected` tells of it."""
        with self._sending:
            self._wait_present()
            self._send_queue.close_bundle()
            self._write()

    def wait_accepted(self) -> None:
        """Wait until everything sent so far is at every daemon that must have it, so that no crash loses it;
        or is lost with a connection: then `Reconnected` tells of it, or at an edge `Unsure`. Unreliable
        messages do not count.

        Arriving events are queued meanwhile even beyond the usual bound. Raises Disconnected if the session
        ends first.
        """
        self.flush()
        self._read_until(lambda: not self._send_queue.unaccepted())

    def status(self) -> dict[str, Any]:
        """What the daemon says about itself: daemon, sites, links, groups, sessions, counters."""
        return ask_status(self.address, shown=self._credentials)

    def now(self, timeout_s: float = 2.0) -> Time:
        """The time, and by how much it may be wrong (`antiphon.Time`).

        A daemon that does not know the time yet is asked again for up to `timeout_s`; then NoTime is raised.
        Raises Disconnected if the session ends first. Events that arrive meanwhile are queued.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = self._ask_time(deadline_s)
            if found is not None:
                return found
            if time.monotonic() >= deadline_s:
                raise NoTime(NOT_KNOWN)
            time.sleep(AGAIN_S)

    def _ask_time(self, deadline_s: float) -> Time | None:
        """Ask once; None if the daemon does not know, or there was no answer."""
        times = self._incoming.times
        with self._sending:
            self._wait_present()
            ledger = self._incoming.ledger
            question, asked_ns = times.begin(), time.monotonic_ns()
            self._send_queue.control(question)
            self._write()

        def is_done() -> bool:
            is_lost = self._incoming.ledger is not ledger
            return times.answer(question) is not None or is_lost or time.monotonic() >= deadline_s

        try:
            self._read_until(is_done)
            answer = times.answer(question)
            return None if answer is None else times.result(answer, asked_ns)
        finally:
            times.end(question)

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
            self._incoming.end_diary()
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
                if self._loss is not None:
                    self._over(self._loss)  # no need to look for another connection
                if self._end_reason is None:
                    self._send_queue.control(frames.Disconnect())
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


def connect(
    address: str | Sequence[str] | None = None,
    *,
    cluster: str | None = None,
    name: str = "",
    priority: int | str = 0,
    slow: SlowPolicy | None = None,
    views: bool = True,
    embedded: bool = False,
    bundle: bool = True,
    timeout_s: float = 10.0,
    reconnect: bool = False,
    reconnect_timeout_s: float = 60.0,
    batches: BatchMemory | None = None,
    trace: str | Path | None = None,
    tls: Tls | str | Path | None = None,
    token: str | Path | None = None,
) -> Session:
    """Connect to a daemon; arguments and errors as for `antiphon.connect`.

    >>> with connect(embedded=True, name="bob") as session:
    ...     print(session.name)
    #bob#d1
    """
    places = () if embedded else addresses(chosen_address(address, cluster))
    hello = request(name, priority, views, slow)
    folder = trace_folder(trace)
    shown = credentials(tls, token, places)
    reconnect_plan = reconnect_plan_for(
        places,
        hello,
        shown,
        reconnect=reconnect,
        timeout_s=timeout_s,
        limit_s=reconnect_timeout_s,
        trace=folder,
    )
    opened, release = open_with(places, hello, shown, embedded=embedded, timeout_s=timeout_s, trace=folder)
    return Session(opened, bundle=bundle, release=release, reconnect_plan=reconnect_plan, batches=batches)
