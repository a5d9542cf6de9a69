"""What the machines of calls speak of: calls, their identities, and what they want done."""

from msgspec import Struct

from antiphon.service import Service
from antiphon.types import Message, MessageId, Resilience
from antiphon.wire.calls import CallMark, CallMode


class CallId(Struct, frozen=True, order=True):
    """The identity of a call; it is the same when the call is repeated over another connection."""

    caller: int
    """A random number of 64 bits that the caller's session object keeps for its life."""
    number: int

    def __str__(self) -> str:
        return f"{self.caller:016x}/{self.number}"


class Call(Struct, frozen=True):
    """A call, delivered to a member of the group at its place in the stream.

    Every member gets it. The one whose `is_mine` is True is to answer (`session.answer`); the answers of
    others are kept by their libraries, and one of them is sent if that member is lost before it has answered.
    """

    message: Message
    id: CallId
    handler: int
    mode: CallMode
    is_mine: bool
    """Whether this member is to answer it."""
    is_again: bool = False
    """This member got the call before, as one that others were to answer, and has not answered it. Now it is
    the one to do so."""

    @property
    def payload(self) -> bytes:
        return self.message.payload

    @property
    def sender(self) -> str:
        """The private name that the caller's session had when it called."""
        return self.message.sender

    @property
    def group(self) -> str:
        """The group that was called."""
        return self.message.group

    @property
    def service(self) -> Service:
        return self.message.service

    @property
    def message_id(self) -> MessageId:
        """The identity of the message that it came in: another one when the call is repeated."""
        return self.message.id


class Send(Struct, frozen=True):
    """A message to send."""

    groups: tuple[str, ...]
    mark: CallMark
    payload: bytes
    service: Service = Service.AGREED
    resilience: Resilience | None = None


class Hand(Struct, frozen=True):
    """A call to give to the application, in its place in the stream."""

    call: Call


Effect = Send | Hand
