"""What daemons say about who is there: beats and proposals, as MessagePack in packets that belong to no link.

A beat without stations is the ALIVE of thesis 6.1.2, one with stations its JOIN. Deviations: REFER is a field
(every beat names its sender's representative); a beat carries clock values, so that each side knows whether
it is heard by the other and how long a round trip takes; stations tell which daemons work with which, not
only who is there.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadPacket


class Station(Struct, frozen=True, array_like=True):
    """What one daemon says of itself while views are gathered; others pass it on."""

    daemon: int
    incarnation: int
    serial: int
    """Of two words of one daemon, the one with the greater serial is the newer."""
    view: int
    """The daemon view that works for it, 0 if it has lost its view."""
    company: int
    """How many members that view has."""
    live: bytes
    """Mask of the daemons that it hears and that hear it, little end first."""


class Beat(Struct, frozen=True, array_like=True):
    """A sign of life, and where its sender stands."""

    clock_us: int
    """Of the sender, monotonic."""
    echo_us: int
    """The newest such value that it had from the receiver; 0: none."""
    question: bool
    """Whether an answer is wanted."""
    state: int
    """Place of the sender's membership state in thesis 6.1.1."""
    engaged: int
    """The daemon view over whose links it works, installed or being formed; 0: none."""
    promised: int
    """The newest proposal that it has accepted."""
    lts: int
    """Its Lamport clock."""
    representative: int
    """Daemon number."""
    welcome: bool = False
    """Whether the sender would take the receiver into its view: it is heard by it, and no damping is on."""
    round: int = 0
    """Stamp of the search for others that the sender takes part in while its view works; 0: none."""
    stations: tuple[Station, ...] = ()


class Proposal(Struct, frozen=True, array_like=True):
    """A daemon view that is to be formed."""

    id: int
    members: tuple[int, ...]
    """Ascending."""
    incarnations: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    """Pairs of members, the smaller one first."""


_Value = TypeVar("_Value")
_encode = msgspec.msgpack.Encoder().encode
_beat: msgspec.msgpack.Decoder[Beat] = msgspec.msgpack.Decoder(Beat)
_proposal: msgspec.msgpack.Decoder[Proposal] = msgspec.msgpack.Decoder(Proposal)
_MASK_MAX_BYTES = limits.DAEMONS_MAX // 8


def encode(value: Beat | Proposal) -> bytes:
    """The body of a BEAT or PROPOSAL packet."""
    return _encode(value)


def parse_beat(body: bytes, daemons: int) -> Beat:
    """The beat in a packet's body, if it can come from a cluster of so many daemons; BadPacket otherwise."""
    beat = _decode(_beat, body)
    counters = (beat.engaged, beat.promised, beat.lts, beat.clock_us, beat.echo_us, beat.round)
    if not min(counters) >= 0 or max(counters) > limits.COUNTER_MAX:
        raise BadPacket("beat: impossible counter")
    if not 0 <= beat.representative < daemons or len(beat.stations) > daemons:
        raise BadPacket("beat: no such daemon")
    for station in beat.stations:
        if not 0 <= station.daemon < daemons or len(station.live) > _MASK_MAX_BYTES:
            raise BadPacket("beat: no such daemon")
        if not 0 <= station.serial <= limits.COUNTER_MAX or not 0 <= station.view <= limits.COUNTER_MAX:
            raise BadPacket("beat: impossible counter")
    return beat


def parse_proposal(body: bytes, daemons: int) -> Proposal:
    """The proposal in a packet's body, if its parts fit one another; BadPacket otherwise."""
    proposal = _decode(_proposal, body)
    members = proposal.members
    if not 0 < proposal.id <= limits.COUNTER_MAX:
        raise BadPacket("proposal: impossible counter")
    if not members or len(members) > daemons or len(members) != len(proposal.incarnations):
        raise BadPacket("proposal: wrong number of members")
    if list(members) != sorted(set(members)) or not 0 <= members[0] <= members[-1] < daemons:
        raise BadPacket("proposal: no such daemon")
    known = set(members)
    if len(proposal.links) > daemons * daemons or not _are_connected(known, proposal.links):
        raise BadPacket("proposal: links do not connect the members")
    return proposal


def _are_connected(members: set[int], links: tuple[tuple[int, int], ...]) -> bool:
    """Whether the links are pairs of members and reach all of them."""
    neighbours: dict[int, list[int]] = {member: [] for member in members}
    for one, other in links:
        if one not in members or other not in members or one >= other:
            return False
        neighbours[one].append(other)
        neighbours[other].append(one)
    start = next(iter(members))
    reached = {start}
    edge = [start]
    while edge:
        for other in neighbours[edge.pop()]:
            if other not in reached:
                reached.add(other)
                edge.append(other)
    return reached == members


def _decode(decoder: msgspec.msgpack.Decoder[_Value], body: bytes) -> _Value:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadPacket(f"{type(error).__name__} in a beat or proposal") from None
