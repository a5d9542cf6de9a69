"""What a session that calls knows of its calls: which wait, and what has come for them.

A call is over when its answer has come; with mode ALL, when the members that it was delivered to are known
and each of them has answered or is lost. The first answer counts. After a reconnection every call that waits
is sent again with the identity that it had (`again`); and so is one that has waited for long (`repeat`).

A group without quorum refuses messages. A call is over with that only if all of its messages were refused:
one that was sent, or may have been, may be executed, so such a call goes on to wait (`refused`).
"""

from msgspec import Struct

from antiphon import limits
from antiphon.calls.values import CallId, Send
from antiphon.errors import BadFrame, UsageError
from antiphon.service import Service
from antiphon.types import Resilience
from antiphon.wire.calls import CallKind, CallMark, CallMode, CallStatus, Roster, parse_roster


class Answers(dict[str, bytes]):
    """The answers of all members, by private name."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: tuple[str, ...] = ()
        """Members that were lost before they had answered."""
        self.errors: dict[str, str] = {}
        """What members answered with `error`."""


class Result(Struct, frozen=True):
    """A call is over."""

    id: CallId
    status: CallStatus
    payload: bytes = b""
    answerer: str = ""
    """Who answered it: private name; empty with modes ALL and DELIVERED."""
    answers: Answers | None = None
    members: tuple[str, ...] = ()
    """With modes ALL and DELIVERED: the members that it was delivered to."""


class _Waiting:
    """A call that waits."""

    __slots__ = ("answers", "messages", "missing", "roster", "send")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.messages = 1
        """How many messages with this call were given away and not refused."""
        self.roster: Roster | None = None
        self.missing: dict[str, None] = {}
        self.answers = Answers()


class Caller:
    """The calls of one session object, over all of its connections."""

    def __init__(self, caller: int) -> None:
        self.id = caller
        self._number = 0
        self._waiting: dict[int, _Waiting] = {}  # in the order of their numbers

    def __len__(self) -> int:
        return len(self._waiting)

    def call(
        self,
        group: str,
        payload: bytes,
        *,
        handler: int = 0,
        mode: CallMode = CallMode.ONE,
        timeout_ms: int = 0,
        service: Service = Service.AGREED,
        resilience: Resilience | None = None,
    ) -> tuple[CallId, Send]:
        """A new call, and the message that makes it. UsageError if too many wait."""
        if len(self._waiting) >= limits.CALLS_WAITING_MAX:
            raise UsageError(f"a session may wait for at most {limits.CALLS_WAITING_MAX:,} calls at a time")
        number = self._number + 1
        oldest = next(iter(self._waiting), number)
        mark = CallMark(CallKind.REQUEST, mode, handler, CallStatus.DONE, timeout_ms, self.id, number, oldest)
        send = Send((group,), mark, payload, service, resilience)
        self._number = number
        self._waiting[number] = _Waiting(send)
        return CallId(self.id, number), send

    def give_up(self, call: CallId) -> Roster | None:
        """The caller does not wait any more; where the call was delivered, if that was told."""
        waiting = self._waiting.pop(call.number, None)
        return None if waiting is None else waiting.roster

    def so_far(self, call: CallId) -> Answers:
        """The answers of members that have come for a call with mode ALL."""
        waiting = self._waiting.get(call.number)
        return Answers() if waiting is None else waiting.answers

    def repeat(self, call: CallId) -> Send | None:
        """The message that repeats a call, if it waits: perhaps no member was there when it was delivered."""
        waiting = self._waiting.get(call.number)
        if waiting is None:
            return None
        waiting.messages += 1
        return waiting.send

    def again(self) -> list[Send]:
        """The messages that repeat every call that waits, in their order: the connection is a new one, and
        nobody knows what became of them."""
        for waiting in self._waiting.values():
            waiting.messages += 1
        return [waiting.send for waiting in self._waiting.values()]

    def refused(self, call: CallId) -> bool:
        """A message with this call was not sent, because its group has no quorum; True if the call is over
        with that, as one that was never sent."""
        waiting = self._waiting.get(call.number)
        if waiting is None:
            return False
        waiting.messages -= 1
        if waiting.messages:
            return False
        del self._waiting[call.number]
        return True

    def take(self, mark: CallMark, sender: str, payload: bytes) -> Result | None:
        """An answer or a roster has come; the result if a call is over with that."""
        waiting = self._waiting.get(mark.number)
        if mark.caller != self.id or waiting is None:
            return None
        mode = waiting.send.mark.mode
        call = CallId(self.id, mark.number)
        if mark.kind is CallKind.ROSTER:
            try:
                self._note_roster(waiting, parse_roster(payload))
            except BadFrame:
                return None
            if mode is CallMode.DELIVERED:
                assert waiting.roster is not None
                del self._waiting[mark.number]
                return Result(call, CallStatus.DONE, members=waiting.roster.members)
        elif mark.kind is not CallKind.ANSWER:
            return None
        elif mode is not CallMode.ALL or mark.status in (CallStatus.FORGOTTEN, CallStatus.BUSY):
            del self._waiting[mark.number]
            return Result(call, mark.status, payload, sender)
        elif sender not in waiting.answers and sender not in waiting.answers.errors:
            if mark.status is CallStatus.DONE:
                waiting.answers[sender] = payload
            else:
                waiting.answers.errors[sender] = payload.decode("utf-8", "replace")
        return self._finish_all(call, waiting) if mode is CallMode.ALL else None

    def _note_roster(self, waiting: _Waiting, roster: Roster) -> None:
        """The first one tells the members; any may tell that more of them are lost."""
        if waiting.roster is None or not waiting.roster.is_held:
            waiting.roster = roster
        waiting.missing.update(dict.fromkeys(roster.missing))

    def _finish_all(self, call: CallId, waiting: _Waiting) -> Result | None:
        roster, answers = waiting.roster, waiting.answers
        if roster is None:
            return None
        came = answers.keys() | answers.errors.keys()
        if any(member not in came and member not in waiting.missing for member in roster.members):
            return None
        del self._waiting[call.number]
        answers.missing = tuple(
            member for member in roster.members if member in waiting.missing and member not in came
        )
        return Result(call, CallStatus.DONE, answers=answers, members=roster.members)
