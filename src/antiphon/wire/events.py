"""Group events: joins, leaves, disconnects, locks and what daemons listen to, which travel as agreed bundles
like any message.

Follows: thesis 3.4.1 (light-weight groups: a join or leave is one Agreed message and no flush), RMP 4.3
(locks).
Deviation: what decides about the quorum of a group is safe (`core.groups.quorum`).
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct, structs

from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.bundle import Draft, Flag
from antiphon.wire.decoding import NOT_A_VALUE

Kind = Literal["join", "leave", "disconnect", "lock", "unlock", "quorum", "listen", "unlisten"]


class GroupEvent(Struct, frozen=True, omit_defaults=True):
    """What a session did. The bundle's header and names identify the session, but for departures."""

    kind: Kind
    group: str = ""
    """Empty for a disconnect, which ends every membership of the session."""
    sessions: tuple[int, ...] = ()
    """With "disconnect": the sessions that are over, where several of a daemon are at the same time."""
    minimum: int = 0
    """With "join": the least size of a part of the group that may go on, as in `types.check_minimum`."""
    delivery: int = 0
    """With "join": the service with which the session wants messages at the most, or 0: as they are sent."""
    lock: str = ""
    """With "lock" and "unlock": its name."""
    wait: bool = True
    """With "lock": whether the session waits while another one has it."""
    listened: tuple[tuple[str, int], ...] = ()
    """With "listen" and "unlisten", which have no `group`: the groups, each with the number of sessions at
    edges behind the daemon that get what is sent to it."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Those that it names."""
        return tuple(name for name, _ in self.listened) if self.listened else (self.group,)

    @property
    def brings_messages(self) -> bool:
        """Whether messages to the group go to the daemon from here on that did not before."""
        return self.kind in ("join", "listen")

    def departed(self, sender: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """The sessions that a disconnect ends, each with its daemon; `sender` is that of its bundle."""
        daemon = sender[0]
        return tuple((daemon, session) for session in self.sessions) if self.sessions else (sender,)


HostedLock = tuple[str, int, int, tuple[tuple[int, int], ...]]
"""What a daemon announces of a lock: its name; the session that holds it, and the number of the grant, both 0
unless that is one of its own; its sessions that wait, each with its place in the queue."""
HostedMember = tuple[int, int, int, int]
"""A member of a group with a quorum: daemon, session, the place at which the group took notice of it, and its
wish."""


HostedBase = tuple[tuple[HostedMember, ...], tuple[tuple[int, int], ...], bool]
"""Members; by lineage, where in the order they were decided on, or after which decision it was attempted; and
whether all of them are needed for a quorum, and not only more than half."""


class HostedQuorum(Struct, frozen=True, array_like=True):
    """The quorum of a group, as the first daemon that has members of it announces it."""

    has_quorum: bool
    bases: tuple[HostedBase, ...]
    """The members of whom it was decided last."""
    attempts: tuple[HostedBase, ...]
    """Those of whom it may have been decided since."""
    members: tuple[HostedMember, ...]
    """The members now."""


class HostedGroup(Struct, frozen=True, array_like=True):
    """The members of one group at one daemon, as it announces them (part of a GROUPS message)."""

    name: str
    view: tuple[int, int, int, int]
    """Identifier of the view that these members are in."""
    members: tuple[tuple[int, int, str], ...]
    """(place in that view, session number, private name)"""
    locks: tuple[HostedLock, ...] = ()
    """The locks that its members hold or wait for."""
    quorum: HostedQuorum | None = None
    """The quorum of the group, from the first daemon that has members of it."""
    receivers: int | None = None
    """If the daemon listens to the group: how many sessions at edges behind it get what is sent there."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupEvent).decode


def event_bundle(sender: str, event: GroupEvent) -> Draft:
    """An unstamped bundle that carries `event`."""
    groups = [event.group] if event.group else []
    names = bundle.names_area(sender, groups)
    service = Service.SAFE if event.kind == "quorum" else Service.AGREED
    return bundle.draft(names, len(groups), service, _encode(event), flags=Flag.EVENT)


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
    except NOT_A_VALUE as error:
        raise BadFrame(f"group event: {type(error).__name__}") from None


def late_bundle(original: bundle.Header, data: bytes | bytearray | memoryview, receiver: int) -> Draft:
    """An unstamped bundle that carries another one to a daemon whose site was left out of it. The other
    daemons of that site get it, too, but must not take it: they may have delivered what comes after it."""
    groups = len(bundle.parse_names(original.names)) - 1
    return bundle.draft(original.names, groups, Service.RELIABLE, bytes(data), flags=Flag.LATE, tag=receiver)


_decode_groups = msgspec.msgpack.Decoder(tuple[HostedGroup, ...]).decode


def _told_fields(group: HostedGroup) -> int:
    """How many fields of it are told: most groups have members and nothing else."""
    if group.receivers is not None:
        return 6
    return 5 if group.locks or group.quorum is not None else 3


def groups_bundle(groups: tuple[HostedGroup, ...], is_last: bool = True) -> Draft:
    """An unstamped GROUPS bundle: a daemon's members of some groups (thesis 6.4.2), and whether those of all
    others were announced before. That stands in its tag, so that it need not be parsed to know."""
    names = bundle.names_area("#", ())
    tag = 0 if is_last else 1
    told = [structs.astuple(one)[: _told_fields(one)] for one in groups]
    return bundle.draft(names, 0, Service.AGREED, _encode(told), flags=Flag.GROUPS, tag=tag)


def is_last_of_groups(header: bundle.Header) -> bool:
    """Whether a bundle with the GROUPS flag is the last one of its daemon."""
    return not header.tag


def parse_groups(data: bytes | bytearray | memoryview, header: bundle.Header) -> tuple[HostedGroup, ...]:
    """The members that a bundle with the GROUPS flag announces."""
    try:
        return _decode_groups(bundle.payloads(bytes(data), header)[0])
    except NOT_A_VALUE as error:
        raise BadFrame(f"groups: {type(error).__name__}") from None
