"""Calls in a session of either kind: the desk of `antiphon.calls`, and what it wants sent.

Frames are looked at when they come in, so that a call waits for its answer without anybody taking events.
What the machines want sent waits in `outbox` until the session may write. One lock guards the machines: a
blocking session's threads receive and answer at the same time.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable

from antiphon import limits
from antiphon.calls import Answers, Call, CallDesk, CallId, Effect, Result, Send
from antiphon.client._send_queue import Payload, SendQueue, as_bytes
from antiphon.errors import CallFailed, CallTimeout, NoQuorum, NotAllowed, UsageError
from antiphon.service import Service
from antiphon.types import (
    LockChanged,
    Message,
    Resilience,
    View,
    check_group,
    check_resilience,
    handler_lock,
)
from antiphon.wire.calls import CallKind, CallMark, CallMode, CallStatus, Roster

MODES = {"one": CallMode.ONE, "all": CallMode.ALL, "delivered": CallMode.DELIVERED}
OUTBOX_MAX = 65_536
"""Messages that wait to be written; beyond it the oldest is dropped, and its caller waits in vain."""
REPEAT_S = 1.0
"""A call that has waited for so long is sent again, then after twice the time, and so on: there may have been
no member when it was delivered."""
SENT_MAX = 65_536
"""Messages of calls on this connection that the daemon may still refuse to send."""


class ClientCalls:
    """The calls of one session object."""

    def __init__(self, me: str, views: bool) -> None:
        self.outbox: deque[Send] = deque(maxlen=OUTBOX_MAX)
        self.finished: Callable[[CallId, Result | NoQuorum | NotAllowed], None] = lambda call, result: None
        """What to do when a call of this session is over."""
        self.views = views
        self._desk = CallDesk(secrets.randbits(64), me, takes_part=views)
        self._guard = threading.RLock()
        self._sent: dict[int, Send] = {}  # by sequence
        self._waits_until_s: float | None = None

    # What comes in ----------------------------------------------------------------------------------------

    def message(self, mark: CallMark, message: Message) -> tuple[bool, list[Call]]:
        """A message with the mark of a call: whether the application gets it as it is, and the calls that it
        gets instead."""
        with self._guard:
            taken = self._desk.message(mark, message, _now_us())
            if taken.result is not None:
                self.finished(taken.result.id, taken.result)
            return taken.is_plain, self._absorb(taken.effects)

    def view(self, view: View) -> list[Call]:
        """A view, and the calls that have become this session's with it."""
        with self._guard:
            return self._absorb(self._desk.view(view, _now_us()))

    def lock(self, change: LockChanged) -> list[Call]:
        with self._guard:
            return self._absorb(self._desk.lock(change, _now_us()))

    def left(self, group: str) -> None:
        with self._guard:
            self._desk.left(group)

    def waited(self) -> list[Call]:
        """Calls that are this session's because others have had the time to tell what they remember."""
        with self._guard:
            if self._waits_until_s is None or time.monotonic() < self._waits_until_s:
                return []
            self._waits_until_s = None
            calls = []
            for group in self._desk.waiting():
                calls += self._absorb(self._desk.waited(group, _now_us()))
            return calls

    @property
    def is_waiting(self) -> bool:
        """Whether `waited` must be called before long."""
        return self._waits_until_s is not None

    def not_sent(self, sequence: int, count: int, group: str, error: NotAllowed | None = None) -> bool:
        """The daemon has refused messages, because a group has no quorum, or with this error; whether they
        belong to calls."""
        is_ours = False
        with self._guard:
            for number in range(sequence, sequence + count):
                send = self._sent.pop(number, None)
                if send is None:
                    continue
                is_ours = True
                call = self._desk.not_sent(send.groups[0], send.mark)
                if call is not None:
                    few = f"too few members of {group!r} are here; nothing was sent"
                    self.finished(call, error or NoQuorum(few))
        return is_ours

    def _absorb(self, effects: list[Effect]) -> list[Call]:
        calls = []
        for effect in effects:
            if isinstance(effect, Send):
                self.outbox.append(effect)
                if effect.mark.kind is CallKind.ASK:
                    self._waits_until_s = time.monotonic() + limits.CALL_MEMORY_WAIT_S
            else:
                calls.append(effect.call)
        return calls

    # What goes out ----------------------------------------------------------------------------------------

    def flush(self, queue: SendQueue) -> None:
        """Put what waits into the queue for the socket."""
        while self.outbox:
            self._put(queue, self.outbox.popleft())

    def _put(self, queue: SendQueue, send: Send) -> None:
        sequence = queue.add_marked(send.groups, send.mark, send.payload, send.service, send.resilience)
        self._sent[sequence] = send
        if len(self._sent) > SENT_MAX:
            del self._sent[next(iter(self._sent))]

    def begin(
        self, queue: SendQueue, group: str, payload: Payload, handler: int, mode: CallMode, timeout_s: float,
        service: Service, resilience: Resilience | None,
    ) -> CallId:  # fmt: skip
        """Make a call. UsageError and NoQuorum change nothing."""
        data = as_bytes(payload)
        queue.check_size(data)
        queue.check_quorum(group)
        with self._guard:
            self.flush(queue)
            call, send = self._desk.caller.call(
                group, data, handler=handler, mode=mode, timeout_ms=int(timeout_s * 1_000), service=service,
                resilience=resilience,
            )  # fmt: skip
            self._put(queue, send)
            return call

    def repeat(self, queue: SendQueue, call: CallId) -> None:
        """Send a call once more that has waited for long; members recognise it."""
        with self._guard:
            send = self._desk.caller.repeat(call)
            if send is not None:
                self._put(queue, send)

    def give_up(self, call: CallId) -> tuple[Roster | None, Answers]:
        """The caller does not wait any more; what has been heard of the call."""
        with self._guard:
            answers = self._desk.caller.so_far(call)
            return self._desk.caller.give_up(call), answers

    def answer(self, call: Call, payload: Payload | None, error: str | None) -> bool:
        """Take the application's answer; whether anybody may still want it."""
        if (payload is None) == (error is None):
            raise UsageError("an answer is a payload or an error")
        if not isinstance(call, Call):
            raise UsageError(f"only a Call can be answered, not {type(call).__name__}")
        if error is not None and not isinstance(error, str):
            raise UsageError(f"an error must be text, not {type(error).__name__}")
        data = as_bytes(payload) if payload is not None else str(error).encode()
        status = CallStatus.DONE if error is None else CallStatus.ERROR
        with self._guard:
            is_taken, effects = self._desk.answer(call.group, call.id, status, data)
            self._absorb(effects)
            return is_taken

    def reconnected(self, me: str, queue: SendQueue) -> None:
        """The session has another connection, and has asked to join its groups: repeat what waits."""
        with self._guard:
            self.outbox.clear()
            self._sent.clear()
            self._waits_until_s = None
            for send in self._desk.reconnected(me):
                self._put(queue, send)


def check_call(
    group: str, handler: int, answers: str, timeout_s: float, service: Service, resilience: Resilience | None
) -> CallMode:
    """The mode of a call; UsageError if it cannot be made."""
    if resilience is not None:
        check_resilience(resilience, service)
    check_group(group)
    handler_lock(handler)
    if answers not in MODES:
        raise UsageError(f"answers must be 'one', 'all' or 'delivered', not {answers!r}")
    if service not in (Service.AGREED, Service.SAFE):
        raise UsageError(f"a call is agreed or safe, not {service!r}")
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= limits.CALL_TIMEOUT_MAX_S:
        most = limits.CALL_TIMEOUT_MAX_S
        raise UsageError(f"timeout_s of a call must be more than 0 and at most {most}, not {timeout_s!r}")
    return MODES[answers]


def value_of(result: Result | NoQuorum | NotAllowed) -> bytes | Answers | tuple[str, ...]:
    """What `call` returns, or raises."""
    if isinstance(result, NoQuorum | NotAllowed):
        raise result
    if result.status is not CallStatus.DONE:
        code = {CallStatus.FORGOTTEN: "forgotten", CallStatus.BUSY: "busy"}.get(result.status, "error")
        raise CallFailed(result.payload.decode("utf-8", "replace"), code, result.answerer)
    if result.answers is not None:
        return result.answers
    return result.members or result.payload


def timed_out(
    group: str, handler: int, mode: CallMode, timeout_s: float, roster: Roster | None, answers: Answers
) -> CallTimeout:
    """The error for a call whose time is over, with what is known of it."""
    if roster is None:
        known = "whether it was delivered is not known"
    elif mode is CallMode.ALL:
        came = len(answers) + len(answers.errors)
        known = f"{came} of {len(roster.members)} members have answered"
    else:
        held = "" if roster.is_held else f", none of which held handler {handler}"
        known = f"it was delivered to {len(roster.members)} members{held}"
    members = () if roster is None else roster.members
    missing = tuple(name for name in members if name not in answers and name not in answers.errors)
    return CallTimeout(f"no answer from {group!r} within {timeout_s:g} s; {known}", answers, missing)


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
