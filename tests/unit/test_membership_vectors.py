"""Golden bytes of the membership: beats and proposals, and what daemons tell one another in bundles."""

from itertools import combinations

import msgspec
import pytest
from vectors import COUNTER, checked, head_of, head_vector, octets, prefix_of

from antiphon import limits
from antiphon.core.membership import recovery
from antiphon.core.membership.patience import LONG_STATIONS_PER_BEAT, STATIONS_PER_BEAT
from antiphon.core.ordering.state import OrderState, SourceState, encode_state, parse_state
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.errors import BadFrame, BadPacket
from antiphon.service import Service
from antiphon.wire import bundle, events, membership, packet
from antiphon.wire.events import HostedGroup
from antiphon.wire.membership import Beat, Proposal, Station
from antiphon.wire.packet import Loose, PacketKind

STATION_VECTOR = octets(
    "99                  # array of nine",
    "02                  # daemon",
    "CE0A0B0C0D          # incarnation",
    "CD0400              # serial",
    "CE00010002          # the view that works for it",
    "03                  # how many members that view has",
    "C402 0302           # mask of the daemons that it hears and that hear it: 0, 1 and 9",
    "91                  # one daemon that it leaves out",
    "93 09 CE0A0B0C0E CE000F4240 # daemon 9, its incarnation, for another 1,000,000 us",
    "91                  # one daemon that is damped",
    "93 01 07 CE001E8480 # daemon 1, its incarnation, for another 2,000,000 us at least",
    "C3                  # it was told to stop",
)
STATION = Station(
    2, 0x0A0B0C0D, 0x400, 0x00010002, 3, b"\x03\x02", ((9, 0x0A0B0C0E, 1_000_000),),
    ((1, 7, 2_000_000),), True,
)  # fmt: skip
BEAT_VECTOR = octets(
    "9C                  # array of twelve",
    "CE000F4240          # sender's clock: 1,000,000 us",
    "CE000F423F          # last clock value that the receiver sent",
    "C3                  # a question",
    "04                  # state: gather",
    "CE00010002          # the view over whose links it works",
    "CE00010003          # the newest proposal that it has accepted",
    "CE00020001          # its Lamport clock",
    "01                  # its representative",
    "C3                  # it would take the receiver into its view",
    "CE00020005          # stamp of the search that it takes part in",
    "91                  # one station",
    STATION_VECTOR.hex(),
    "C400                # no padding",
)
BEAT = Beat(1_000_000, 999_999, True, 4, 0x00010002, 0x00010003, 0x00020001, 1, True, 0x00020005, (STATION,))
PROPOSAL_VECTOR = octets(
    "94                  # array of four",
    "CE00020001          # identifier",
    "93 00 02 09         # members",
    "93 01 CE0A0B0C0D 07 # their incarnations",
    "93 C401 01 C401 01 C400 # links: of 0 and of 2 with the next member each",
)
PROPOSAL = Proposal(0x00020001, (0, 2, 9), (1, 0x0A0B0C0D, 7), (b"\x01", b"\x01", b""))


def _leaving_out(*exclusions: tuple[int, int, int]) -> Station:
    return msgspec.structs.replace(STATION, left_out=exclusions)


def _damping(*dampings: tuple[int, int, int]) -> Station:
    return msgspec.structs.replace(STATION, damped=dampings)


def loose(kind: PacketKind, body: bytes) -> bytes:
    return packet.whole(prefix_of(kind, view=0), body, counter=COUNTER)


def test_beat() -> None:
    vector = checked(head_vector("06", "0000000000000000", view="0000000000000000") + BEAT_VECTOR)
    assert loose(PacketKind.BEAT, membership.encode(BEAT)) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.BEAT, view=0), BEAT_VECTOR)
    assert membership.parse_beat(BEAT_VECTOR, daemons=10) == BEAT


def test_a_beat_without_stations() -> None:
    beat = msgspec.structs.replace(BEAT, stations=())
    vector = BEAT_VECTOR[: -len(STATION_VECTOR) - 3] + octets("90    # no station", "C400    # no padding")
    assert membership.encode(beat) == vector
    assert membership.parse_beat(vector, daemons=10) == beat


def test_a_beat_fits_a_packet() -> None:
    """With as many stations as one carries, in a cluster of 64 daemons, whatever their counters are."""
    station = Station(63, 0xFFFFFFFF, limits.COUNTER_MAX, limits.COUNTER_MAX, 64, b"\xff" * 8)
    most = limits.COUNTER_MAX
    beat = Beat(most, most, True, 6, most, most, most, 63, True, most, (station,) * STATIONS_PER_BEAT)
    assert len(loose(PacketKind.BEAT, membership.encode(beat))) <= limits.PACKET_DEFAULT_BYTES


def test_a_beat_fits_a_packet_if_daemons_are_left_out_and_damped() -> None:
    out = ((63, 0xFFFFFFFF, limits.EXCLUDED_MAX_US),) * limits.EXCLUSIONS_TOLD_MAX
    most = limits.COUNTER_MAX
    damped = ((63, 0xFFFFFFFF, limits.DAMPED_MAX_US),) * limits.DAMPED_TOLD_MAX
    station = Station(63, 0xFFFFFFFF, most, most, 64, b"\xff" * 8, out, damped)
    beat = Beat(most, most, True, 6, most, most, most, 63, True, most, (station,) * LONG_STATIONS_PER_BEAT)
    assert len(loose(PacketKind.BEAT, membership.encode(beat))) <= limits.PACKET_DEFAULT_BYTES


def test_proposal() -> None:
    vector = checked(head_vector("07", "0000000000000000", view="0000000000000000") + PROPOSAL_VECTOR)
    assert loose(PacketKind.PROPOSAL, membership.encode(PROPOSAL)) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.PROPOSAL, view=0), PROPOSAL_VECTOR)
    assert membership.parse_proposal(PROPOSAL_VECTOR, daemons=10) == PROPOSAL
    assert PROPOSAL.pairs == ((0, 2), (2, 9))
    assert Proposal.of(PROPOSAL.id, PROPOSAL.members, PROPOSAL.incarnations, PROPOSAL.pairs) == PROPOSAL


@pytest.mark.parametrize("sites", [1, limits.DAEMONS_MAX // limits.DAEMONS_PER_SITE_MAX])
def test_a_proposal_takes_no_more_than_a_packet_a_site(sites: int) -> None:
    """Full sites, in which everybody is linked with everybody; their representatives are, too."""
    size = limits.DAEMONS_PER_SITE_MAX
    members = tuple(range(size * sites))
    pairs = [
        (one, other)
        for one, other in combinations(members, 2)
        if one // size == other // size or one % size == other % size == 0
    ]
    incarnations = (0xFFFFFFFF,) * len(members)
    proposal = Proposal.of(limits.COUNTER_MAX, members, incarnations, pairs)
    body = membership.encode(proposal)
    assert len(loose(PacketKind.PROPOSAL, body)) <= sites * limits.PACKET_DEFAULT_BYTES
    assert membership.parse_proposal(body, limits.DAEMONS_MAX).pairs == tuple(pairs)


@pytest.mark.parametrize(
    ("changes", "daemons", "reason"),
    [
        ({"clock_us": -1}, 10, "beat: impossible counter"),
        ({"lts": 1 << 62}, 10, "beat: impossible counter"),
        ({"engaged": 1 << 62}, 10, "beat: impossible counter"),
        ({"promised": -5}, 10, "beat: impossible counter"),
        ({"round": 1 << 62}, 10, "beat: impossible counter"),
        ({"representative": 10}, 10, "beat: no such daemon"),
        ({"representative": -1}, 10, "beat: no such daemon"),
        ({"stations": (STATION, STATION, STATION)}, 2, "beat: no such daemon"),
        ({"stations": (msgspec.structs.replace(STATION, daemon=10),)}, 10, "beat: no such daemon"),
        ({"stations": (msgspec.structs.replace(STATION, live=bytes(65)),)}, 10, "beat: no such daemon"),
        ({"stations": (msgspec.structs.replace(STATION, serial=-1),)}, 10, "beat: impossible counter"),
        ({"stations": (_leaving_out((10, 1, 1)),)}, 10, "beat: no such daemon"),
        ({"stations": (_leaving_out((-1, 1, 1)),)}, 10, "beat: no such daemon"),
        ({"stations": (_leaving_out((1, 1, -1)),)}, 10, "beat: impossible time"),
        ({"stations": (_leaving_out((1, 1, limits.EXCLUDED_MAX_US + 1)),)}, 10, "beat: impossible time"),
        ({"stations": (_leaving_out(*[(1, 1, 1)] * 17),)}, 10, "beat: too many daemons are left out"),
        ({"stations": (_damping((10, 1, 1)),)}, 10, "beat: no such daemon"),
        ({"stations": (_damping((1, 1, -1)),)}, 10, "beat: impossible time"),
        ({"stations": (_damping((1, 1, limits.DAMPED_MAX_US + 1)),)}, 10, "beat: impossible time"),
        ({"stations": (_damping(*[(1, 1, 1)] * 9),)}, 10, "beat: too many daemons are damped"),
        ({"stations": (msgspec.structs.replace(STATION, view=1 << 62),)}, 10, "beat: impossible counter"),
    ],
)
def test_an_impossible_beat_has_its_reason(changes: dict[str, object], daemons: int, reason: str) -> None:
    body = membership.encode(msgspec.structs.replace(BEAT, **changes))
    with pytest.raises(BadPacket, match=reason):
        membership.parse_beat(body, daemons)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"id": 0}, "proposal: impossible counter"),
        ({"id": 1 << 62}, "proposal: impossible counter"),
        ({"members": (), "incarnations": ()}, "proposal: wrong number of members"),
        ({"incarnations": (1, 2)}, "proposal: wrong number of members"),
        ({"members": tuple(range(11)), "incarnations": (1,) * 11}, "proposal: wrong number of members"),
        ({"members": (0, 2, 10)}, "proposal: no such daemon"),
        ({"members": (-1, 2, 9)}, "proposal: no such daemon"),
        ({"members": (2, 0, 9)}, "proposal: no such daemon"),
        ({"members": (0, 2, 2)}, "proposal: no such daemon"),
        ({"links": (b"\x01", b"\x01")}, "proposal: wrong number of members"),
        ({"links": (b"\x01", b"\x01", b"", b"")}, "proposal: wrong number of members"),
        ({"links": (b"\x01", b"", b"")}, "proposal: links do not connect the members"),
        ({"links": (b"", b"\x01", b"")}, "proposal: links do not connect the members"),
        ({"links": (b"\x01", b"\x03", b"")}, "proposal: links do not connect the members"),
        ({"links": (b"\x01", b"\x01", b"\x01")}, "proposal: links do not connect the members"),
        ({"links": (b"\x01\x01", b"\x01", b"")}, "proposal: links do not connect the members"),
        ({"links": (b"\x01", b"\x01", bytes(65))}, "proposal: links do not connect the members"),
    ],
)
def test_an_impossible_proposal_has_its_reason(changes: dict[str, object], reason: str) -> None:
    body = membership.encode(msgspec.structs.replace(PROPOSAL, **changes))
    with pytest.raises(BadPacket, match=reason):
        membership.parse_proposal(body, 10)


def test_what_is_no_beat_or_proposal_has_its_reason() -> None:
    for parse in (membership.parse_beat, membership.parse_proposal):
        with pytest.raises(BadPacket, match="DecodeError in a beat or proposal"):
            parse(b"", 10)
        with pytest.raises(BadPacket, match="ValidationError in a beat or proposal"):
            parse(b"\x90", 10)


# What travels in bundles of the daemons themselves --------------------------------------------------------

SOURCE_VECTOR = octets(
    "97                  # array of seven",
    "02                  # source",
    "05                  # everything up to this number has come",
    "CD0402              # lts up to which it is complete",
    "09                  # the greatest number known to exist",
    "91 93 07 08 CD0403  # beyond a gap: 7 and 8, and the lts of 8",
    "91 92 04 08         # at hand: 4 to 8",
    "91 92 06 06         # delivered ahead of its place: 6",
)
STATE_VECTOR = octets(
    "95                  # array of five",
    "CE00010002          # the view that ends",
    "92 00 02            # daemons whose messages it has promised to deliver",
    "CE00010401          # and everything up to this place",
    "91 92 A46E657773 CE00010405     # a join of its own that has not taken effect: news, lts",
    "94                  # array of four: what the symmetric order tells",
    "CE00010800          # Lamport clock",
    "CE00010402          # delivered in the agreed order up to here",
    "CE00010400          # stable line",
    "91                  # one source",
    SOURCE_VECTOR.hex(),
)
ORDER_STATE = OrderState(
    clock=0x00010800,
    delivered=0x00010402,
    stable=0x00010400,
    sources=(SourceState(2, 5, 0x402, 9, ((7, 8, 0x403),), ((4, 8),), ((6, 6),)),),
)
STATE = recovery.MemberState(
    view=0x00010002,
    committed=(0, 2),
    committed_line=0x00010401,
    joining=(("news", 0x00010405),),
    order=msgspec.Raw(encode_state(ORDER_STATE)),
)
ORDER = SymmetricOrder(3, 0)


def test_state() -> None:
    data = recovery.state_bundle(STATE).data
    header = bundle.parse(data)
    assert (header.flags, header.service, header.names) == (bundle.Flag.STATE, Service.FIFO, b"\x01#")
    assert bundle.payloads(bytes(data), header) == [STATE_VECTOR]
    told = recovery.parse_state(STATE_VECTOR, ORDER)
    assert told == msgspec.structs.replace(STATE, order=told.order)
    assert parse_state(bytes(told.order)) == ORDER_STATE


def with_order(order: OrderState) -> bytes:
    return msgspec.msgpack.encode(msgspec.structs.replace(STATE, order=msgspec.Raw(encode_state(order))))


@pytest.mark.parametrize("name", ["clock", "delivered", "stable", "committed_line"])
def test_an_impossible_state_has_its_reason(name: str) -> None:
    if name == "committed_line":
        impossible = msgspec.msgpack.encode(msgspec.structs.replace(STATE, committed_line=1 << 62))
    else:
        impossible = with_order(msgspec.structs.replace(ORDER_STATE, **{name: 1 << 62}))
    with pytest.raises(BadFrame, match="state: impossible counter"):
        recovery.parse_state(impossible, ORDER)
    with pytest.raises(BadFrame, match="state: DecodeError"):
        recovery.parse_state(STATE_VECTOR[:-1], ORDER)
    with pytest.raises(BadFrame, match="state: ValidationError"):
        recovery.parse_state(
            msgspec.msgpack.encode(msgspec.structs.replace(STATE, order=msgspec.Raw(b"\x01"))), ORDER
        )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"contiguous": -1}, "impossible numbers"),
        ({"contiguous": 10}, "impossible numbers"),
        ({"known": 5 + limits.OUTSTANDING_MAX + 1}, "impossible numbers"),
        ({"known": 1 << 62, "contiguous": 1 << 62}, "impossible counter"),
        ({"lts": -1}, "impossible counter"),
        ({"lts": 1 << 62}, "impossible counter"),
        ({"ahead": ((8, 7, 1),)}, "impossible numbers"),
        ({"ahead": ((0, 7, 1),)}, "impossible numbers"),
        ({"ahead": ((7, 8, 1), (8, 9, 1))}, "impossible numbers"),
        ({"ahead": ((7, 8, -1),)}, "impossible counter"),
        ({"ahead": ((7, 8, 1 << 62),)}, "impossible counter"),
        ({"retained": ((4, 10),)}, "impossible numbers"),
    ],
)
def test_impossible_numbers_in_a_state_have_their_reason(changes: dict[str, object], reason: str) -> None:
    """Whoever compares states works through these numbers one by one."""
    source = msgspec.structs.replace(ORDER_STATE.sources[0], **changes)
    impossible = with_order(msgspec.structs.replace(ORDER_STATE, sources=(source,)))
    with pytest.raises(BadFrame, match=f"state: {reason}"):
        recovery.parse_state(impossible, ORDER)


GROUPS_VECTOR = octets(
    "91                  # one group",
    "93                  # array of three",
    "A46E657773          # news",
    "94 01 00 37 02      # its view: epoch, branch, lts, daemon",
    "92                  # two members",
    "93 00 03 A923616E6E2365617374    # first in the view, session 3, #ann#east",
    "93 02 04 A923626F622365617374    # third in the view, session 4, #bob#east",
)
GROUPS = (HostedGroup("news", (1, 0, 55, 2), ((0, 3, "#ann#east"), (2, 4, "#bob#east"))),)


def test_groups() -> None:
    data = events.groups_bundle(GROUPS).data
    header = bundle.parse(data)
    assert (header.flags, header.service, header.names) == (bundle.Flag.GROUPS, Service.AGREED, b"\x01#")
    assert bundle.payloads(bytes(data), header) == [GROUPS_VECTOR]
    assert events.parse_groups(data, header) == GROUPS


@pytest.mark.parametrize("size_bytes", [10, 400, 1_352, 59_000])
def test_a_full_beat_is_as_large_as_it_must_be(size_bytes: int) -> None:
    """One that has more to say, or hardly less, stays as it is."""
    body = membership.encode_full(BEAT, size_bytes)
    assert len(body) == max(size_bytes, len(BEAT_VECTOR))
    beat = membership.parse_beat(body, daemons=10)
    assert msgspec.structs.replace(beat, padding=b"") == BEAT
    assert bool(beat.padding) is (size_bytes > len(BEAT_VECTOR))


def test_a_beat_of_a_daemon_that_knows_no_padding_is_read() -> None:
    vector = b"\x9b" + BEAT_VECTOR[1:-2]
    assert membership.parse_beat(vector, daemons=10) == BEAT
