"""Calls of a group that are not answered yet, as one member knows them; bounded."""

from collections.abc import Iterator
from itertools import takewhile

from msgspec import Struct

from antiphon import limits
from antiphon.calls.values import CallId
from antiphon.service import Service
from antiphon.types import HANDLERS_MAX, Envelope, Message
from antiphon.wire.calls import CallMode, CallStatus, Unanswered


class Prepared(Struct, frozen=True):
    """An answer of the application."""

    status: CallStatus
    payload: bytes


class OpenCall:
    """One call that waits for its answer, or for those of all members."""

    __slots__ = (
        "answered", "assignee", "deadline_us", "handler", "id", "is_handed", "is_mine", "is_sent", "message",
        "missing", "mode", "prepared", "roster", "sender",
    )  # fmt: skip

    def __init__(
        self, call: CallId, mode: CallMode, handler: int, message: Message, deadline_us: int
    ) -> None:
        self.id = call
        self.mode = mode
        self.handler = handler
        self.message = message
        self.deadline_us = deadline_us
        """When its caller stops waiting, by the clock of this member."""
        self.sender = message.sender
        """Where the answer goes: the caller's name now."""
        self.assignee = ""
        """Mode ONE: the member that is to answer; empty while nobody holds the handler."""
        self.is_handed = False
        """Whether the application has got it."""
        self.is_mine = False
        """Whether the application has got it as one that it is to answer."""
        self.is_sent = False
        """Whether this member has sent its answer."""
        self.prepared: Prepared | None = None
        self.roster: tuple[str, ...] = ()
        """Modes ALL and DELIVERED: the members of the view in which it was delivered."""
        self.answered: set[str] = set()
        self.missing: list[str] = []

    @property
    def is_complete(self) -> bool:
        """Mode ALL: whether every member has answered or is lost."""
        return all(member in self.answered or member in self.missing for member in self.roster)

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""
        prepared = self.prepared
        return len(self.message.payload) + (0 if prepared is None else len(prepared.payload))

    def told(self, now_us: int) -> Unanswered:
        """For a member that has not been here."""
        message, envelope = self.message, self.message.envelope
        left_ms = max(0, self.deadline_us - now_us) // 1_000
        return Unanswered(
            self.id.caller, self.id.number, self.mode, self.handler, self.assignee, left_ms, self.sender,
            envelope.groups, envelope.service, envelope.tag, envelope.daemon, envelope.incarnation,
            envelope.session, envelope.sequence, envelope.lts, envelope.sent_us, message.payload,
        )  # fmt: skip


def learned(told: Unanswered, now_us: int) -> OpenCall | None:
    """The call that another member has told; None if it cannot be."""
    try:
        service, mode = Service(told.service), CallMode(told.mode)
    except ValueError:
        return None
    if (
        not told.groups
        or not 0 <= told.handler < HANDLERS_MAX
        or not 0 <= told.number <= limits.COUNTER_MAX
        or not 0 <= told.left_ms < 1 << 32
    ):
        return None
    envelope = Envelope(
        told.sender, told.groups, service, told.tag, told.daemon, told.incarnation, told.session,
        told.sequence, told.lts, told.sent_us,
    )  # fmt: skip
    message = Message(told.payload, envelope, 0)
    call = OpenCall(
        CallId(told.caller, told.number), mode, told.handler, message, now_us + told.left_ms * 1_000
    )
    call.assignee = told.assignee
    return call


class OpenCalls:
    """All of them, in the order in which they were delivered."""

    def __init__(self) -> None:
        self._calls: dict[CallId, OpenCall] = {}
        self._numbers: dict[int, dict[int, None]] = {}  # by caller
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[OpenCall]:
        return iter([*self._calls.values()])

    def get(self, call: CallId) -> OpenCall | None:
        return self._calls.get(call)

    def has_room(self, size_bytes: int) -> bool:
        """Whether a call with a payload of so many bytes may be kept; one alone always may."""
        return not self._calls or (
            len(self._calls) < limits.CALLS_OPEN_MAX
            and self._bytes + size_bytes <= limits.CALLS_OPEN_MAX_BYTES
        )

    def add(self, call: OpenCall) -> None:
        self._calls[call.id] = call
        self._numbers.setdefault(call.id.caller, {})[call.id.number] = None
        self._bytes += call.size_bytes

    def remove(self, call: CallId) -> OpenCall | None:
        found = self._calls.pop(call, None)
        if found is not None:
            self._bytes -= found.size_bytes
            numbers = self._numbers[call.caller]
            del numbers[call.number]
            if not numbers:
                del self._numbers[call.caller]
        return found

    def prepare(self, call: OpenCall, prepared: Prepared) -> None:
        """Keep the application's answer with the call."""
        if call.id in self._calls:
            self._bytes += len(prepared.payload)
        call.prepared = prepared

    def done_before(self, caller: int, oldest: int) -> list[CallId]:
        """Calls of `caller` that it does not wait for any more."""
        numbers = self._numbers.get(caller)
        if numbers is None:
            return []
        return [CallId(caller, number) for number in takewhile(lambda number: number < oldest, numbers)]
