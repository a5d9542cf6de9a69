"""What a session delivers, and what it says of messages whose fate it does not know."""

from msgspec import Struct

from antiphon.service import Service
from antiphon.types import Left, Message, SlowReceiver, TransitionalSignal, View


class Sent(Struct, frozen=True):
    """A message that this session sent, as it was given to `send`."""

    groups: tuple[str, ...]
    payload: bytes
    service: Service
    tag: int = 0
    self_discard: bool = False


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
    """Messages that this session sent were not sent on: a group of theirs has no quorum. Nobody gets them."""

    group: str
    messages: tuple[Sent, ...]
    """As they were given to `send`, oldest first, as far as they are kept."""
    count: int
    """How many there are."""


Event = Message | View | TransitionalSignal | Left | Reconnected | SlowReceiver | NotSent
"""What a session delivers."""
