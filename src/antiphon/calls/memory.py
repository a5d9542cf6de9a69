"""Which calls were answered, and with what: bounded, and never wrong about what was answered.

By caller there is a *floor*: every call of that caller before it was answered and is forgotten, or its caller
does not wait for it any more. Above the floor, answers are kept. What is forgotten is the oldest answer of
all, and raises the floor of its caller. So a repeated call is either recognised or refused, and never taken
for a new one.

A caller that has not called for `CALL_MEMORY_AGE_US` may be forgotten altogether, when there are too many: no
library repeats a call that is so old. Until then a further caller is refused.
"""

from antiphon import limits
from antiphon.calls.values import CallId
from antiphon.wire.calls import Answered, CallMode, CallStatus


class _Caller:
    """What is known of one caller."""

    __slots__ = ("floor", "seen_us")

    def __init__(self, seen_us: int) -> None:
        self.floor = 1
        self.seen_us = seen_us


class Memory:
    """The answered calls of one group, as one member knows them."""

    def __init__(self) -> None:
        self.forgotten_count = 0
        """Answers that were forgotten because there were too many, or too much."""
        self._callers: dict[int, _Caller] = {}  # the one that called last comes last
        self._answers: dict[CallId, Answered] = {}  # oldest first
        self._answers_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def has_room_for(self, caller: int, now_us: int) -> bool:
        """Whether calls of `caller` can be remembered; one that was silent for long may make way for it."""
        if caller in self._callers or len(self._callers) < limits.CALL_CALLERS_MAX:
            return True
        oldest, known = next(iter(self._callers.items()))
        if now_us - known.seen_us < limits.CALL_MEMORY_AGE_US:
            return False
        del self._callers[oldest]
        for call in [call for call in self._answers if call.caller == oldest]:
            self._drop(call)
        return True

    def saw(self, caller: int, oldest: int, now_us: int) -> None:
        """A request of `caller` has come, who waits for no call before `oldest`."""
        known = self._callers.pop(caller, None) or _Caller(now_us)
        self._callers[caller] = known
        known.seen_us = now_us
        if oldest > known.floor:
            floor = known.floor
            known.floor = oldest
            if oldest - floor > len(self._answers):
                done = [call for call in self._answers if call.caller == caller and call.number < oldest]
            else:
                done = [CallId(caller, number) for number in range(floor, oldest)]
            for call in done:
                self._drop(call)

    def is_forgotten(self, call: CallId) -> bool:
        """Whether a call must not be taken for a new one although nothing is known of it."""
        known = self._callers.get(call.caller)
        return known is not None and call.number < known.floor

    def find(self, call: CallId) -> Answered | None:
        """The answer of a call, if it was answered and that is remembered."""
        return self._answers.get(call)

    def keep(
        self, call: CallId, mode: CallMode, status: CallStatus, payload: bytes | None, now_us: int
    ) -> bool:
        """The call was answered; False if that was known. Forgets the oldest if that is too much."""
        if call in self._answers or self.is_forgotten(call):
            return False
        if call.caller not in self._callers:
            if not self.has_room_for(call.caller, now_us):
                return False
            self._callers[call.caller] = _Caller(now_us)
        self._answers[call] = Answered(call.caller, call.number, mode, status, payload)
        self._answers_bytes += len(payload or b"")
        while len(self._answers) > 1 and (
            len(self._answers) > limits.CALL_ANSWERS_MAX
            or self._answers_bytes > limits.CALL_ANSWERS_MAX_BYTES
        ):
            self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        call = next(iter(self._answers))
        self._drop(call)
        self.forgotten_count += 1
        known = self._callers[call.caller]
        known.floor = max(known.floor, call.number + 1)

    def _drop(self, call: CallId) -> None:
        answer = self._answers.pop(call, None)
        if answer is not None:
            self._answers_bytes -= len(answer.payload or b"")

    # From member to member --------------------------------------------------------------------------------

    def told(self) -> tuple[tuple[tuple[int, int], ...], tuple[Answered, ...]]:
        """Floors, and answers of handlers, for a member that has not been here: the newest with their
        payloads."""
        left_bytes = limits.CALL_TOLD_MAX_BYTES
        answers = []
        for answer in reversed(self._answers.values()):
            if answer.mode != CallMode.ONE:
                continue  # each member's own
            left_bytes -= len(answer.payload or b"")
            if left_bytes < 0 and answer.payload:
                answer = Answered(answer.caller, answer.number, answer.mode, answer.status, None)
            answers.append(answer)
        floors = tuple((caller, known.floor) for caller, known in self._callers.items())
        return floors, tuple(reversed(answers))

    def learn(self, floors: tuple[tuple[int, int], ...], now_us: int) -> None:
        """Callers and floors that another member knows; its answers are `keep`'s to take."""
        for caller, floor in floors:
            if 0 <= caller < 1 << 64 and self.has_room_for(caller, now_us):
                known = self._callers.setdefault(caller, _Caller(now_us))
                if floor > known.floor:
                    self.saw(caller, min(floor, limits.COUNTER_MAX), now_us)
