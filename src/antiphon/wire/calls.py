"""The mark of a call: the extension of a bundle's header that says what its one message is for (`calls`).

    offset size  field
     0     1    kind           see CallKind
     1     1    mode           see CallMode; 0 in MEMORY and ASK
     2     1    handler        whose holder is to answer
     3     1    status         of an answer, see CallStatus; otherwise 0
     4     4    timeout_ms     of a request: how long its caller waits
     8     8    caller         random, one for each session object: it survives reconnections
    16     8    number         place among the caller's calls, from 1
    24     8    oldest         of a request: the caller waits for no call before this one

A bundle that has the mark has one message. The type of the extension may be skipped: programs that know
nothing of calls see plain messages. The payloads of requests and answers are the application's; those of
rosters and memories are the MessagePack of `Roster` and `Memory`.

Follows: RMP 4.5, whose Non Member Data packets carry a handler, a sequence number and two flags.
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct as Layout

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.wire.decoding import NOT_A_VALUE
from antiphon.wire.extensions import CALL, Extension

_MARK = Layout("!BBBBIQQQ")
MARK_BYTES = _MARK.size


class CallKind(IntEnum):
    """What the message is."""

    REQUEST = 1
    """A call."""
    ANSWER = 2
    """What a member answers."""
    ROSTER = 3
    """Which members a call was delivered to, and which of them are lost."""
    ASK = 4
    """A member that does not know which calls were answered before it came asks the others."""
    MEMORY = 5
    """What a member remembers of calls."""


class CallMode(IntEnum):
    """Which answers the caller wants."""

    ONE = 0
    """That of the member that holds the handler."""
    ALL = 1
    """Those of all members of the view in which the call was delivered."""
    DELIVERED = 2
    """None: only the fact that it was delivered."""


class CallStatus(IntEnum):
    """What an answer says."""

    DONE = 0
    ERROR = 1
    """The application's error; the payload is its text."""
    FORGOTTEN = 2
    """The call was answered, or may have been, and the answer is not known any more."""
    BUSY = 3
    """Too many calls wait for their answers."""


_KINDS = {int(kind): kind for kind in CallKind}
_MODES = {int(mode): mode for mode in CallMode}
_STATUSES = {int(status): status for status in CallStatus}


class CallMark(Struct, frozen=True, gc=False):
    """The mark, parsed."""

    kind: CallKind
    mode: CallMode = CallMode.ONE
    handler: int = 0
    status: CallStatus = CallStatus.DONE
    timeout_ms: int = 0
    caller: int = 0
    number: int = 0
    oldest: int = 0


def encode_mark(mark: CallMark) -> bytes:
    """The value of the extension."""
    return _MARK.pack(
        mark.kind,
        mark.mode,
        mark.handler,
        mark.status,
        mark.timeout_ms,
        mark.caller,
        mark.number,
        mark.oldest,
    )


def parse_mark(value: bytes) -> CallMark:
    """The mark in the value of an extension; BadFrame with a reason otherwise."""
    if len(value) != MARK_BYTES:
        raise BadFrame("bundle: the mark of a call has another size")
    kind, mode, handler, status, timeout_ms, caller, number, oldest = _MARK.unpack(value)
    if kind not in _KINDS or mode not in _MODES or status not in _STATUSES:
        raise BadFrame("bundle: not the mark of a call")
    if number > limits.COUNTER_MAX or oldest > limits.COUNTER_MAX:
        raise BadFrame("bundle: impossible number of a call")
    return CallMark(
        _KINDS[kind], _MODES[mode], handler, _STATUSES[status], timeout_ms, caller, number, oldest
    )


def mark_of(extensions: Iterable[Extension]) -> CallMark | None:
    """The mark among the extensions of a bundle, if it is a call; BadFrame if it is malformed."""
    return next((parse_mark(one.value) for one in extensions if one.type == CALL), None)


class Roster(Struct, frozen=True, array_like=True):
    """Where a call was delivered."""

    members: tuple[str, ...]
    """Private names of the members of that view."""
    missing: tuple[str, ...] = ()
    """Those of them that were lost before they had answered."""
    is_held: bool = True
    """Whether somebody holds the handler."""


class Answered(Struct, frozen=True, array_like=True):
    """A call that was answered."""

    caller: int
    number: int
    mode: int
    status: int
    payload: bytes | None
    """None: the answer is not known any more."""


class Unanswered(Struct, frozen=True, array_like=True):
    """A call that still waits for its answer, with the message that it came in."""

    caller: int
    number: int
    mode: int
    handler: int
    assignee: str
    left_ms: int
    """How long its caller waits from now on."""
    sender: str
    groups: tuple[str, ...]
    service: int
    tag: int
    daemon: int
    incarnation: int
    session: int
    sequence: int
    lts: int
    sent_us: int
    payload: bytes


class Owed(Struct, frozen=True, array_like=True):
    """A call that was answered and repeated, whose caller must be told once more."""

    caller: int
    number: int
    handler: int
    sender: str


class Memory(Struct, frozen=True, array_like=True):
    """What a member remembers of the calls of its group."""

    is_whole: bool
    """Whether it knows all that any member of its part of the group knew."""
    view: tuple[int, int, int, int]
    """The identifier of the view in which this was so."""
    floors: tuple[tuple[int, int], ...]
    """By caller, the number before which calls are forgotten."""
    answered: tuple[Answered, ...]
    unanswered: tuple[Unanswered, ...]
    owed: tuple[Owed, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_rosters: msgspec.msgpack.Decoder[Roster] = msgspec.msgpack.Decoder(Roster)
_memories: msgspec.msgpack.Decoder[Memory] = msgspec.msgpack.Decoder(Memory)


def encode_body(value: Roster | Memory) -> bytes:
    """The payload of a roster or a memory."""
    return _encode(value)


def parse_roster(payload: bytes) -> Roster:
    """The roster in a payload; BadFrame otherwise."""
    try:
        return _rosters.decode(payload)
    except NOT_A_VALUE:
        raise BadFrame("call: not a roster") from None


def parse_memory(payload: bytes) -> Memory:
    """The memory in a payload; BadFrame otherwise."""
    try:
        return _memories.decode(payload)
    except NOT_A_VALUE:
        raise BadFrame("call: not a memory") from None
