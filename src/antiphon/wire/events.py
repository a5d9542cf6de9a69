"""Group events: joins, leaves and disconnects, which travel as agreed bundles like any message.

Follows: thesis 3.4.1 (light-weight groups: a join or leave is one Agreed message and no flush).
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.bundle import Draft, Flag

Kind = Literal["join", "leave", "disconnect"]


class GroupEvent(Struct, frozen=True, omit_defaults=True):
    """What a session did. The bundle's header and names identify the session, but for departures."""

    kind: Kind
    group: str = ""
    """Empty for a disconnect, which ends every membership of the session."""
    sessions: tuple[int, ...] = ()
    """With "disconnect": the sessions that are over, where several of a daemon are at the same time."""

    def departed(self, sender: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """The sessions that a disconnect ends, each with its daemon; `sender` is that of its bundle."""
        daemon = sender[0]
        return tuple((daemon, session) for session in self.sessions) if self.sessions else (sender,)


class HostedGroup(Struct, frozen=True, array_like=True):
    """The members of one group at one daemon, as it announces them (part of a GROUPS message)."""

    name: str
    view: tuple[int, int, int, int]
    """Identifier of the view that these members are in."""
    members: tuple[tuple[int, int, str], ...]
    """(place in that view, session number, private name)"""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupEvent).decode


def event_bundle(sender: str, event: GroupEvent) -> Draft:
    """An unstamped bundle that carries `event`."""
    groups = [event.group] if event.group else []
    names = bundle.names_area(sender, groups)
    return bundle.draft(names, len(groups), Service.AGREED, _encode(event), flags=Flag.EVENT)


def departures_bundle(sessions: Iterable[int]) -> Draft:
    """An unstamped bundle with which a daemon announces that many of its sessions are over.

    When thousands of clients hang up at once, a bundle for each would give every group a view for each of
    them, as long as the group is: work and output that grow with the square of their number.
    """
    return event_bundle("#", GroupEvent("disconnect", sessions=tuple(sessions)))


def parse_event(data: bytes | bytearray | memoryview, header: bundle.Header) -> GroupEvent:
    """The event in a bundle with the EVENT flag."""
    try:
        return _decode(bundle.payloads(bytes(data), header)[0])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"group event: {type(error).__name__}") from None


def late_bundle(original: bundle.Header, data: bytes | bytearray | memoryview, receiver: int) -> Draft:
    """An unstamped bundle that carries another one to a daemon whose site was left out of it. The other
    daemons of that site get it, too, but must not take it: they may have delivered what comes after it."""
    groups = len(bundle.parse_names(original.names)) - 1
    return bundle.draft(original.names, groups, Service.RELIABLE, bytes(data), flags=Flag.LATE, tag=receiver)


_decode_groups = msgspec.msgpack.Decoder(tuple[HostedGroup, ...]).decode


def groups_bundle(groups: tuple[HostedGroup, ...], is_last: bool = True) -> Draft:
    """An unstamped GROUPS bundle: a daemon's members of some groups (thesis 6.4.2), and whether those of all
    others were announced before. That stands in its tag, so that it need not be parsed to know."""
    names = bundle.names_area("#", ())
    tag = 0 if is_last else 1
    return bundle.draft(names, 0, Service.AGREED, _encode(groups), flags=Flag.GROUPS, tag=tag)


def is_last_of_groups(header: bundle.Header) -> bool:
    """Whether a bundle with the GROUPS flag is the last one of its daemon."""
    return not header.tag


def parse_groups(data: bytes | bytearray | memoryview, header: bundle.Header) -> tuple[HostedGroup, ...]:
    """The members that a bundle with the GROUPS flag announces."""
    try:
        return _decode_groups(bundle.payloads(bytes(data), header)[0])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"groups: {type(error).__name__}") from None
