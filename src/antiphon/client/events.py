"""What a session delivers, and what it says of messages whose fate it does not know."""

from msgspec import Struct

from antiphon.calls import Call
from antiphon.service import Service
from antiphon.types import (
    Gap,
    Left,
    LockChanged,
    Message,
    Resilience,
    SlowReceiver,
    TransitionalSignal,
    View,
    ViewId,
)


class Sent(Struct, frozen=True):
    """A message that this session sent, as it was given to `send`."""

    groups: tuple[str, ...]
    payload: bytes
    service: Service
    tag: int = 0
    self_discard: bool = False
    resilience: Resilience | None = None


class Reconnected(Struct, frozen=True):
    """The connection was lost and there is a new one, on which the stream goes on. The other members see a
    new session with a new identity.

    What was delivered to the groups in between never comes. The memberships of the old session are over; a
    `View` with the cause JOIN follows for each of `groups`, at the place where the new session is a member.
    """

    old_name: str
    """The private name until now; messages to it are not delivered any more."""
    name: str
    daemon: str
    address: str
    groups: tuple[str, ...]
    """The groups that are being joined again, in the order in which they were joined first."""
    reason: str
    """Why the connection ended."""
    unknown: tuple[Sent, ...] = ()
    """The messages that may or may not have been ordered, oldest first; see `unknown_fate`."""
    unknown_fate: int = 0
    """How many messages have an unknown fate. `unknown` has the newest of them, as many as are kept."""


class NotSent(Struct, frozen=True):
    """Messages that this session sent were not sent on: a group of theirs has no quorum, or the access list
    of the daemon does not allow it. Nobody gets them."""

    group: str
    messages: tuple[Sent, ...]
    """As they were given to `send`, oldest first, as far as they are kept."""
    count: int
    """How many there are."""
    reason: str = ""
    """Why this session may not send there; empty if there is no quorum."""


class Unsure(Struct, frozen=True):
    """At an edge: messages that this session sent may or may not have been sent on, because the edge lost its
    attachment before it knew. It does not send them again; those that were sent come in their places."""

    messages: tuple[Sent, ...]
    """As they were given to `send`, oldest first, as far as they are kept."""
    count: int
    """How many there are."""
    first: int
    last: int
    """The first and last of their numbers: a session counts its messages, joins and leaves from 1."""


class LockGranted(Struct, frozen=True):
    """A view has given this session a lock that it waited for; or, after a merge, a lock that it holds has
    another fence."""

    group: str
    name: str
    fence: int
    id: ViewId
    """The view."""


class LockGone(Struct, frozen=True):
    """This session has lost a lock that it held: with a view, with its membership or with its connection."""

    group: str
    name: str
    fence: int
    """That of the grant that is over."""
    reason: str


Event = (
    Message
    | View
    | TransitionalSignal
    | Left
    | Reconnected
    | SlowReceiver
    | NotSent
    | Gap
    | Unsure
    | LockChanged
    | LockGranted
    | LockGone
    | Call
)
"""What a session delivers."""
