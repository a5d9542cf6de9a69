"""What daemons announce for the membership: beats and proposals, as MessagePack in packets without a link.

Follows: Spread thesis 6.1.2, which leaves the layout open. A beat without stations is its ALIVE, one with
stations its JOIN, a proposal its NEWMEMB.
Deviations: REFER is a field (every beat names its sender's representative); a beat carries clock values, so
that each side knows whether the other receives it and how long a round trip takes; stations announce which
daemons reach which, not only which are alive.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from antiphon import limits
from antiphon.errors import Nonsense
from antiphon.wire.decoding import NOT_A_VALUE

Exclusion = tuple[int, int, int]
"""A daemon that is left out of views, its incarnation, and for how much longer in microseconds; 0: it is not
left out, but a view stood still because of it lately."""


class Station(Struct, frozen=True, array_like=True):
    """What one daemon announces of itself while views are gathered; others pass it on."""

    daemon: int
    incarnation: int
    serial: int
    """Of two stations of one daemon, the one with the greater serial is the newer."""
    view: int
    """The daemon view that works for it, 0 if it has lost its view."""
    company: int
    """How many members that view has."""
    live: bytes
    """Mask of the daemons that it hears and that hear it, little end first."""
    left_out: tuple[Exclusion, ...] = ()
    """The daemons that it leaves out of views by its own decision, because views with them stood still."""
    damped: tuple[Exclusion, ...] = ()
    """The daemons that it keeps out by its own experience, because they were lost again and again, and for
    how much longer at least."""
    leaving: bool = False
    """Whether it was told to stop: views are to be formed without it."""


class Beat(Struct, frozen=True, array_like=True):
    """A sign of life, and the state of its sender."""

    clock_us: int
    """The sender's monotonic clock."""
    echo_us: int
    """The newest such value that it had from the receiver; 0: none."""
    question: bool
    """Whether the sender requests an answer."""
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
    padding: bytes = b""
    """Makes the packet as large as those of a link, where it is in doubt whether such ones get through."""


class Proposal(Struct, frozen=True, array_like=True):
    """A daemon view that is to be formed."""

    id: int
    members: tuple[int, ...]
    """Ascending."""
    incarnations: tuple[int, ...]
    links: tuple[bytes, ...]
    """For each member a mask of the later ones to which it has a link, little end first; bit 0 is the next
    member. In a site each two daemons have a link: as pairs, the links of 64 daemons would take 6 KB and
    those of eight such sites more than fits a datagram."""

    @classmethod
    def of(
        cls,
        id: int,
        members: tuple[int, ...],
        incarnations: tuple[int, ...],
        pairs: Iterable[tuple[int, int]],
    ) -> "Proposal":
        """A proposal whose links are these pairs of members, in each the smaller one first."""
        places = {member: place for place, member in enumerate(members)}
        later: list[set[int]] = [set() for _ in members]
        for one, other in pairs:
            later[places[one]].add(places[other] - places[one] - 1)
        return cls(id, members, incarnations, tuple(map(mask_bytes, later)))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The links as pairs of members, sorted."""
        return tuple(
            (member, other)
            for place, (member, link) in enumerate(zip(self.members, self.links, strict=True))
            if (mask := int.from_bytes(link, "little"))
            for offset, other in enumerate(self.members[place + 1 :][: mask.bit_length()])
            if mask >> offset & 1
        )


_Value = TypeVar("_Value")
_encode = msgspec.msgpack.Encoder().encode
_beat: msgspec.msgpack.Decoder[Beat] = msgspec.msgpack.Decoder(Beat)
_proposal: msgspec.msgpack.Decoder[Proposal] = msgspec.msgpack.Decoder(Proposal)
_MASK_MAX_BYTES = limits.DAEMONS_MAX // 8


def mask_bytes(numbers: Iterable[int]) -> bytes:
    """A set of small numbers as it stands in stations and proposals.

    >>> mask_bytes({0, 9}).hex()
    '0102'
    """
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def encode(value: Beat | Proposal) -> bytes:
    """The body of a BEAT or PROPOSAL packet."""
    return _encode(value)


def encode_full(beat: Beat, size_bytes: int) -> bytes:
    """The body of a BEAT packet, padded to `size_bytes` if it is smaller."""
    missing = size_bytes - len(_encode(beat)) - 1  # a longer string of bytes has a head of three, not of two
    return _encode(structs.replace(beat, padding=bytes(missing))) if missing > 0xFF else _encode(beat)


def parse_beat(body: bytes, daemons: int) -> Beat:
    """The beat in a packet's body, if it can come from a cluster of so many daemons; BadPacket otherwise."""
    beat = _decode(_beat, body)
    counters = (beat.engaged, beat.promised, beat.lts, beat.clock_us, beat.echo_us, beat.round)
    if not min(counters) >= 0 or max(counters) > limits.COUNTER_MAX:
        raise Nonsense("beat: impossible counter")
    if not 0 <= beat.representative < daemons or len(beat.stations) > daemons:
        raise Nonsense("beat: no such daemon")
    for station in beat.stations:
        if not 0 <= station.daemon < daemons or len(station.live) > _MASK_MAX_BYTES:
            raise Nonsense("beat: no such daemon")
        if not 0 <= station.serial <= limits.COUNTER_MAX or not 0 <= station.view <= limits.COUNTER_MAX:
            raise Nonsense("beat: impossible counter")
        if len(station.left_out) > limits.EXCLUSIONS_TOLD_MAX:
            raise Nonsense("beat: too many daemons are left out")
        for daemon, _, remaining_us in station.left_out:
            if not 0 <= daemon < daemons:
                raise Nonsense("beat: no such daemon")
            if not 0 <= remaining_us <= limits.EXCLUDED_MAX_US:
                raise Nonsense("beat: impossible time")
        if len(station.damped) > limits.DAMPED_TOLD_MAX:
            raise Nonsense("beat: too many daemons are damped")
        for daemon, _, remaining_us in station.damped:
            if not 0 <= daemon < daemons:
                raise Nonsense("beat: no such daemon")
            if not 0 <= remaining_us <= limits.DAMPED_MAX_US:
                raise Nonsense("beat: impossible time")
    return beat


def parse_proposal(body: bytes, daemons: int) -> Proposal:
    """The proposal in a packet's body, if its parts fit one another; BadPacket otherwise."""
    proposal = _decode(_proposal, body)
    members = proposal.members
    if not 0 < proposal.id <= limits.COUNTER_MAX:
        raise Nonsense("proposal: impossible counter")
    if not members or len(members) > daemons:
        raise Nonsense("proposal: wrong number of members")
    if not len(members) == len(proposal.incarnations) == len(proposal.links):
        raise Nonsense("proposal: wrong number of members")
    if list(members) != sorted(set(members)) or not 0 <= members[0] <= members[-1] < daemons:
        raise Nonsense("proposal: no such daemon")
    if not _are_connected(proposal.links):
        raise Nonsense("proposal: links do not connect the members")
    return proposal


def _are_connected(links: tuple[bytes, ...]) -> bool:
    """Whether the masks of a proposal name members only, and their links reach all of these."""
    stars: list[int] = []  # of each member, itself and the later ones to which it has a link
    for place, link in enumerate(links):
        stars.append((int.from_bytes(link, "little") << 1 | 1) << place)
        if len(link) > _MASK_MAX_BYTES or stars[-1] >> len(links):
            return False
    reached, before = 1, 0
    while reached != before:
        before = reached
        for star in stars:
            if star & reached:
                reached |= star
    return reached == (1 << len(links)) - 1


def _decode(decoder: msgspec.msgpack.Decoder[_Value], body: bytes) -> _Value:
    try:
        return decoder.decode(body)
    except NOT_A_VALUE as error:
        raise Nonsense(f"{type(error).__name__} in a beat or proposal") from None
