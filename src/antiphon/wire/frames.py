"""The client connection: frames on a unix or TCP stream.

Every frame begins with its length (4 bytes, the length field included) and its kind (1 byte). A bundle
frame is a bundle as in `bundle`; a control frame carries one of the values below as MessagePack.

A conversation: the client may say who it is (Credential); it sends Connect, the daemon answers Welcome or
Refuse. After that the client sends
bundles, Join, Leave, AskLock, Unlock, AskStatus, AskTime and Disconnect in any order; the daemon sends
bundles, View, Signal, Lock, NotSent, Denied, Left, Status, Time, Problem and, to sessions that want it, Slow;
an edge also Gap and Unsure. Goodbye is the daemon's last frame and has the reason.

The papers leave the connection of a client open; what it is told of views and signals follows thesis 2.2.4.
"""

from enum import IntEnum, StrEnum
from struct import Struct as Layout
from typing import Annotated

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.types import Gap, Left, LockChanged, SlowReceiver, TransitionalSignal, View
from antiphon.wire import edges
from antiphon.wire.bundle import FRAME_KIND_BUNDLE
from antiphon.wire.decoding import NOT_A_VALUE

PROTOCOL_VERSION = 5

STOPPING = "stopping"
"""The code of a Goodbye or Refuse because the daemon stops: another daemon may take the client."""
STOPPING_REASON = "the daemon is stopping"

AT_AN_EDGE = 0xFFFF
"""The number in the Welcome of an edge: that of no daemon."""

HEAD = Layout("!IB")
HEAD_BYTES = HEAD.size


class FrameKind(IntEnum):
    """The fifth byte of every frame."""

    BUNDLE = FRAME_KIND_BUNDLE
    CONTROL = 2


KIND_CONTROL = int(FrameKind.CONTROL)
"""A plain number for the test that every frame goes through."""


class Connect(Struct, frozen=True, tag="connect"):
    """The first frame of a client. An empty name lets the daemon choose one."""

    version: int
    name: str = ""
    priority: int = 0
    """From 0 to 9; bundles of sessions with a higher priority are taken first when there is a queue."""
    views: bool = True
    """Whether this session wants views."""
    accepts: bool = False
    """Whether this session wants to be told which of its messages are safe from a crash of its daemon."""
    slow: str = ""
    """What to do if it does not keep up (`types.SLOW_POLICIES`); empty leaves it to the daemon."""
    warnings: bool = False
    """Whether this session wants to be told when it does not keep up."""
    refusals: bool = False
    """Whether this session is told what is not sent because a group has no quorum; otherwise that waits."""


class Join(Struct, frozen=True, tag="join", omit_defaults=True):
    """The session wants to be a member of `group`."""

    group: str
    minimum: int = 0
    """The least size of a part of the group that may go on: `types.MAJORITY`, `types.ALL`, a number, or 0."""
    delivery: int = 0
    """The service with which it wants messages at the most (`types.DELIVERIES`), or 0: as they are sent."""


class Credential(Struct, frozen=True, tag="credential"):
    """Who the client is, before anything else; answered only by a Refuse. It is never written down."""

    token: Annotated[str, msgspec.Meta(max_length=limits.TOKEN_MAX_CHARACTERS)]

    def __repr__(self) -> str:
        return "Credential()"


class ReloadAccess(Struct, frozen=True, tag="reload-access"):
    """Read the access list again; allowed before Connect. Answered by Reloaded."""


class Leave(Struct, frozen=True, tag="leave"):
    """The session no longer wants to be a member of `group`; answered by Left."""

    group: str


class AskLock(Struct, frozen=True, tag="lock"):
    """The session wants a lock of a group of which it is a member; answered by LockChanged."""

    group: str
    name: str
    wait: bool = True
    """Whether it waits while another one has it."""


class Unlock(Struct, frozen=True, tag="unlock"):
    """The session gives a lock back, or no longer waits for it; answered by LockChanged."""

    group: str
    name: str


class Disconnect(Struct, frozen=True, tag="disconnect"):
    """A client's last frame: everything sent before it is ordered, then the session leaves its groups."""


_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=limits.COUNTER_MAX)]


class AskStatus(Struct, frozen=True, tag="ask-status", omit_defaults=True):
    """Ask the daemon about itself; allowed before Connect, too.

    The answer has as many groups and sessions as fit one page; `next` in it is null or what the question for
    the following page gives as `after`. Of several questions one is answered at a time.
    """

    after: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Where the page begins; empty for the first one, which has everything else, too."""
    groups: _Count | None = None
    members: _Count | None = None
    """No more than so many members of each group are wanted; None: all that fit."""
    sessions: _Count | None = None
    """No more than so many sessions are wanted; None: all that fit."""


class AskTime(Struct, frozen=True, tag="ask-time"):
    """Ask for the time; answered by Time, which may overtake other frames."""

    number: _Time = 0
    """Of the question; the answer has the same."""


class Welcome(Struct, frozen=True, tag="welcome"):
    """The daemon accepts the session, and names it and itself."""

    version: int
    session: int
    name: str
    """The private name, `#session#daemon`."""
    daemon: str
    daemon_number: int
    message_max_bytes: int


class Refuse(Struct, frozen=True, tag="refuse"):
    """The daemon does not accept this session."""

    code: str
    reason: str


class ViewFrame(Struct, frozen=True, tag="view"):
    """A view, at its place among the bundles."""

    view: View


class SignalFrame(Struct, frozen=True, tag="signal"):
    """A transitional signal, at its place among the bundles."""

    signal: TransitionalSignal


class LockFrame(Struct, frozen=True, tag="lock-changed"):
    """A change of a lock, at its place among the bundles."""

    change: LockChanged


class NotSent(Struct, frozen=True, tag="not-sent", omit_defaults=True):
    """Messages of the session were not sent, because a group has no quorum, or because the session may not
    send there: those from `sequence` on."""

    group: str
    sequence: int
    count: int
    session: int = 0
    """To an edge: the sponsored session."""
    reason: str = ""
    """Why the session may not send there; empty if there is no quorum."""


class Denied(Struct, frozen=True, tag="denied", omit_defaults=True):
    """The session may not join this group, or not use this lock of it."""

    verb: str
    """"join" or "lock"."""
    group: str
    code: str
    reason: str
    lock: str = ""


class RightsChanged(Struct, frozen=True, tag="rights-changed"):
    """The daemon has read its access list again: what was refused may be allowed now."""


class GapFrame(Struct, frozen=True, tag="gap-told"):
    """An edge cannot tell whether messages to a group are missing here, at its place among the bundles."""

    gap: Gap


class Unsure(Struct, frozen=True, tag="unsure", omit_defaults=True):
    """An edge lost its attachment before it knew what became of what the session had sent: `count` numbers
    from `sequence` on. Accepted of later ones says nothing about these."""

    sequence: int
    count: int
    session: int = 0
    """To an edge: the sponsored session."""


class LeftFrame(Struct, frozen=True, tag="left"):
    """The end of a membership, at its place among the bundles."""

    left: Left


class Accepted(Struct, frozen=True, tag="accepted", omit_defaults=True):
    """Everything that the session sent up to `sequence` is at every daemon that must have it; joins and
    leaves count, too."""

    sequence: int
    session: int = 0
    """To an edge: the sponsored session."""


class Status(Struct, frozen=True, tag="status"):
    """The daemon's state as JSON text."""

    json: bytes


class TimeBasis(StrEnum):
    """Whose time it is."""

    UNKNOWN = "unknown"
    REFERENCE = "reference"
    """The time of the world, by a daemon whose system clock is disciplined."""
    INTERNAL = "internal"
    """The time on which the daemons of one view agree, by the clock of one of them."""


class Time(Struct, frozen=True, tag="time", omit_defaults=True):
    """The time when the daemon wrote this, and by how much it may be wrong."""

    basis: TimeBasis = TimeBasis.UNKNOWN
    root: str = ""
    """The reference, or the daemon whose clock is the internal time."""
    time_us: _Time = 0
    """Since 1970."""
    error_us: _Time = 0
    number: _Time = 0
    """Of the question."""


class SlowFrame(Struct, frozen=True, tag="slow"):
    """Too much output waits for this session, or no longer; it may overtake other frames."""

    slow: SlowReceiver


class Problem(Struct, frozen=True, tag="problem", omit_defaults=True):
    """A request that could not be carried out; the session goes on."""

    code: str
    reason: str
    session: int = 0
    """To an edge: the sponsored session, or 0 for the edge itself."""
    client: int = 0
    """To an edge: the client that is not sponsored."""


class Reloaded(Struct, frozen=True, tag="reloaded"):
    """What became of reading the access list again."""

    is_changed: bool
    """False: it has a fault, and nothing has changed."""
    told: str
    """What counts now, or the fault."""

    def __str__(self) -> str:
        return f"{'read again' if self.is_changed else 'the access list stays as it was'}: {self.told}"


class Goodbye(Struct, frozen=True, tag="goodbye"):
    """The daemon ends the session."""

    code: str
    reason: str


FromClient = (
    Connect | Join | Leave | AskLock | Unlock | Disconnect | AskStatus | AskTime | Credential | ReloadAccess
)
FromDaemon = (
    Welcome
    | Refuse
    | ViewFrame
    | SignalFrame
    | LeftFrame
    | LockFrame
    | GapFrame
    | NotSent
    | Denied
    | RightsChanged
    | Reloaded
    | Unsure
    | Accepted
    | Status
    | Time
    | SlowFrame
    | Problem
    | Goodbye
)

ToEdge = FromDaemon | edges.OnlyToEdge

_encode = msgspec.msgpack.Encoder().encode
_from_client: msgspec.msgpack.Decoder[FromClient | edges.FromEdge] = msgspec.msgpack.Decoder(
    FromClient | edges.FromEdge
)
_from_daemon: msgspec.msgpack.Decoder[FromDaemon] = msgspec.msgpack.Decoder(FromDaemon)
_to_edge: msgspec.msgpack.Decoder[ToEdge] = msgspec.msgpack.Decoder(ToEdge)

_REASON_MAX_CHARACTERS = 200


def encode_control(value: FromClient | edges.FromEdge | ToEdge) -> bytes:
    """`value` as a whole frame."""
    body = _encode(value)
    return HEAD.pack(HEAD_BYTES + len(body), FrameKind.CONTROL) + body


def decode_from_client(frame: bytes | bytearray | memoryview) -> FromClient | edges.FromEdge:
    """The control value in a whole frame that a client, or an edge, sent."""
    try:
        return _from_client.decode(frame[HEAD_BYTES:])
    except NOT_A_VALUE as error:
        raise _bad_control(error) from None


def decode_from_daemon(frame: bytes | bytearray | memoryview) -> FromDaemon:
    """The control value in a whole frame that a daemon sent."""
    try:
        return _from_daemon.decode(frame[HEAD_BYTES:])
    except NOT_A_VALUE as error:
        raise _bad_control(error) from None


def decode_to_edge(frame: bytes | bytearray | memoryview) -> ToEdge:
    """The control value in a whole frame that an edge got from its attachment."""
    try:
        return _to_edge.decode(frame[HEAD_BYTES:])
    except NOT_A_VALUE as error:
        raise _bad_control(error) from None


def _bad_control(error: Exception) -> BadFrame:
    """Cut short and made printable, because the decoder may quote what was sent."""
    quoted = str(error)[:_REASON_MAX_CHARACTERS].encode("unicode_escape").decode()
    return BadFrame(f"control frame: {quoted}"[:_REASON_MAX_CHARACTERS])


def split(buffer: memoryview) -> tuple[list[tuple[int, memoryview]], int, int]:
    """Whole frames at the start of `buffer`.

    Returns the frames as (kind, view of the whole frame), how many bytes they take, and how many bytes the
    next, unfinished frame needs in all (0 if not even its length has come). BadFrame for a length or kind
    that cannot be: after that nothing on this connection can be trusted.
    """
    frames: list[tuple[int, memoryview]] = []
    at = 0
    end = len(buffer)
    head, most = HEAD.unpack_from, limits.FRAME_MAX_BYTES  # a client may send each message by itself
    while end - at >= HEAD_BYTES:
        length, kind = head(buffer, at)
        if kind == FRAME_KIND_BUNDLE:
            if not HEAD_BYTES <= length <= most:
                raise BadFrame("frame: bundle with an impossible length")
        elif kind == KIND_CONTROL:
            if not HEAD_BYTES <= length <= limits.CONTROL_FRAME_MAX_BYTES:
                raise BadFrame("frame: control with an impossible length")
        else:
            raise BadFrame("frame: unknown kind")
        if at + length > end:
            return frames, at, length
        frames.append((kind, buffer[at : at + length]))
        at += length
    return frames, at, 0
