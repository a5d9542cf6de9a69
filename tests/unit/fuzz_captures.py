"""A genuine packet of every kind that daemons send, for the tests of the fuzzer."""

from antiphon.service import Service
from antiphon.wire import bundle, clock, membership, packet, token, token_site
from antiphon.wire.bundle import Header
from antiphon.wire.clock import Arrival, ClockPacket
from antiphon.wire.membership import Beat, Proposal, Station
from antiphon.wire.packet import Fragment, PacketKind, Pressure, Skip, Update
from antiphon.wire.token import Token
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack

DAEMONS = 5


def prefix_of(kind: PacketKind) -> bytes:
    return packet.prefix(kind, digest=77, sender=0, receiver=1, incarnation=7, view=99)


def whole_packet(kind: PacketKind, body: bytes = b"", number: int = 0) -> bytes:
    return packet.whole(prefix_of(kind), body, number, counter=1)


def genuine_bundle() -> bytes:
    names = bundle.names_area("#ann#d1", ["chat", "news"])
    written = bytearray().join(bundle.encode(names, 2, Service.AGREED, [b"one", b"two"], tag=-2, sent_us=9))
    parsed = bundle.parse(written)
    bundle.stamp(
        written,
        Header(
            parsed.length, parsed.service, parsed.flags, parsed.names, parsed.message_count, parsed.tag,
            0, 3, 7, 11, 12, 13, 14, 15, 3, parsed.sent_us,
        ),
    )  # fmt: skip
    return bytes(written)


def item(fragment: Fragment) -> bytes:
    return b"".join(packet.fragment_item(fragment, 0, len(fragment.body)))


def captures() -> dict[str, bytes]:
    """By kind."""
    whole = genuine_bundle()
    carried = item(Fragment(0, 12, 3, len(whole), 0, whole))
    beat = Beat(1, 2, True, 0, 99, 98, 5, 0, stations=(Station(0, 7, 1, 99, 2, b"\x03"),))
    proposal = Proposal.of(99, (0, 1), (7, 8), [(0, 1)])
    passed = Token(9, 8, 7, 0, 1, 3, 12, 14, 13, ((1, 3, 2),))
    told = ClockPacket(4, 6, 5, clock.INTERNAL, clock.ROUND, 1, 7, 2, 30, (Arrival(1, 8, 9, 10),))
    return {
        "bundle": whole_packet(PacketKind.DATA, carried, 4),
        "part": whole_packet(PacketKind.DATA, item(Fragment(0, 13, 3, 9_000, 1_320, b"x" * 1_320)), 5),
        "update": whole_packet(PacketKind.DATA, packet.update_item(Update(0, 3, 12, 14, 13)), 6),
        "skip": whole_packet(PacketKind.DATA, packet.skip_item(Skip(0, 10, 12, 14, 13)), 7),
        "pressure": whole_packet(PacketKind.DATA, packet.pressure_item(Pressure(0, 0, 3, ((5, "ann"),))), 8),
        "unreliable": whole_packet(PacketKind.UNRELIABLE, carried),
        "hello": packet.hello(prefix_of(PacketKind.HELLO), 5, 6, counter=1),
        "ack": packet.ack(prefix_of(PacketKind.ACK), 4, 5, 6, counter=1),
        "nack": packet.nack(prefix_of(PacketKind.NACK), 4, [(5, 1), (8, 2)], counter=1),
        "beat": whole_packet(PacketKind.BEAT, membership.encode(beat)),
        "proposal": whole_packet(PacketKind.PROPOSAL, membership.encode(proposal)),
        "token": whole_packet(PacketKind.TOKEN, token.encode_token(passed)),
        "hurry": whole_packet(PacketKind.HURRY),
        "held": whole_packet(PacketKind.HELD, token.encode_held(9)),
        "probe": whole_packet(PacketKind.PROBE),
        "probed": whole_packet(PacketKind.PROBED),
        "piece": whole_packet(PacketKind.PIECE, packet.piece_body(3_000, 1_136, b"x" * 1_136), 4),
        "clock": whole_packet(PacketKind.CLOCK, clock.encode(told)),
    }


def site_captures() -> dict[str, bytes]:
    """By kind, what only a site with the token-site protocol sends."""
    ack = SiteAck(9, 12, 14, 2, 1, 0b101, (4, 5, 6), (13, 14, 13))
    whole = genuine_bundle()
    carried = item(Fragment(0, 12, 3, len(whole), 0, whole))
    return {
        "site-ack": whole_packet(PacketKind.SITE_ACK, token_site.encode_ack(ack)),
        "site-nack": whole_packet(
            PacketKind.SITE_NACK, token_site.encode_nack(SiteNack(1, ((0, 3, 2), (2, 9, 1))))
        ),
        "confirm": whole_packet(PacketKind.CONFIRM, token_site.encode_confirm(Confirm(9, 2))),
        "repair": whole_packet(PacketKind.REPAIR, token_site.repair_start(2) + carried, 4),
    }
