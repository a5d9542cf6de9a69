"""Golden bytes of the token site: acknowledgements, requests, confirmations and repairs."""

import pytest
from vectors import COUNTER, checked, head_of, head_vector, octets, prefix_of

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import packet, token_site
from antiphon.wire.packet import EVERYBODY, Data, Head, Loose, PacketKind, Skip, Update
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack

ACK_VECTOR = octets(
    "0000000000000101    # serial",
    "0000000000000009    # number of the segment's newest bundle",
    "00000F0000001402    # its next bundle is later than this",
    "0005                # the token site from now on",
    "0001                # the token is passed on once more",
    "0000000000000002    # the second member has asked for the token",
    "0002                # two members",
    "0000000000000064    # packets of the first",
    "00000F0000001000    # its aru",
    "0000000000000003    # packets of the second",
    "00000F0000000400    # its aru",
)
ACK = SiteAck(
    serial=0x101,
    number=9,
    lts=0x00000F0000001402,
    next=5,
    to_go=1,
    wanted=2,
    sent=(100, 3),
    arus=(0x00000F0000001000, 0x00000F0000000400),
)
NACK_VECTOR = octets(
    "FFFF                # all are to answer",
    "0001                # one range",
    "0005                # of packets of daemon 5",
    "0000000000000061    # from this one on",
    "00000002            # so many",
)
NACK = SiteNack(EVERYBODY, ((5, 97, 2),))


def whole(kind: PacketKind, body: bytes, number: int = 0) -> bytes:
    return packet.whole(prefix_of(kind), body, number, counter=COUNTER)


def test_an_acknowledgement() -> None:
    vector = checked(head_vector("0F", "0000000000000000") + ACK_VECTOR)
    assert whole(PacketKind.SITE_ACK, token_site.encode_ack(ACK)) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.SITE_ACK), ACK_VECTOR)
    assert token_site.parse_ack(ACK_VECTOR) == ACK


def test_a_request() -> None:
    vector = checked(head_vector("10", "0000000000000000") + NACK_VECTOR)
    assert whole(PacketKind.SITE_NACK, token_site.encode_nack(NACK)) == vector
    assert token_site.parse_nack(NACK_VECTOR) == NACK


def test_a_confirmation() -> None:
    body = octets("0000000000000101    # serial", "0005    # the token site")
    vector = checked(head_vector("11", "0000000000000000") + body)
    assert whole(PacketKind.CONFIRM, token_site.encode_confirm(Confirm(0x101, 5))) == vector
    assert token_site.parse_confirm(body) == Confirm(0x101, 5)


def test_a_repair_brings_the_packet_of_another() -> None:
    items = [Update(2, 3, 4, 5, 6), Skip(2, 5, 6, 7, 8)]
    sent = Data(Head(PacketKind.DATA, 0, 5, EVERYBODY, 0, 0, 0, 97), 1, items, 99)
    vector = whole(PacketKind.REPAIR, token_site.encode_repair(sent), 97)
    assert vector[40:42] == octets("0005    # who sent it first")
    found = packet.parse(memoryview(vector))
    assert isinstance(found, Loose)
    repaired = token_site.parse_repair(found.head, found.body)
    assert (repaired.head.sender, repaired.head.number, repaired.head.kind) == (5, 97, PacketKind.DATA)
    assert repaired.items == items


@pytest.mark.parametrize("size", range(len(ACK_VECTOR)))
def test_an_acknowledgement_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(BadPacket, match=r"site ack: (cut short|wrong size)"):
        token_site.parse_ack(ACK_VECTOR[:size])


@pytest.mark.parametrize("size", range(len(NACK_VECTOR)))
def test_a_request_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(BadPacket, match=r"site nack: (cut short|wrong size)"):
        token_site.parse_nack(NACK_VECTOR[:size])


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x05"])
def test_a_repair_without_items_is_refused(body: bytes) -> None:
    with pytest.raises(BadPacket, match="repair: cut short"):
        token_site.parse_repair(head_of(PacketKind.REPAIR), body)


@pytest.mark.parametrize("size", [0, 9, 11])
def test_a_confirmation_has_one_size(size: int) -> None:
    with pytest.raises(BadPacket, match="confirm: wrong size"):
        token_site.parse_confirm(bytes(size))


@pytest.mark.parametrize("at", [0, 8, 16, 38, 46])
def test_counters_that_nobody_reaches_are_refused(at: int) -> None:
    damaged = bytearray(ACK_VECTOR)
    damaged[at : at + 8] = (limits.COUNTER_MAX + 1).to_bytes(8)
    with pytest.raises(BadPacket, match="site ack: impossible counter"):
        token_site.parse_ack(bytes(damaged))


@pytest.mark.parametrize(("at", "value"), [(26, b"\x00\x03"), (28, b"\x00" * 7 + b"\x04")])
def test_members_that_do_not_exist_are_refused(at: int, value: bytes) -> None:
    damaged = bytearray(ACK_VECTOR)
    damaged[at : at + len(value)] = value
    with pytest.raises(BadPacket, match="site ack: more members than there are"):
        token_site.parse_ack(bytes(damaged))


def test_a_site_has_so_many_members_at_most() -> None:
    count = limits.DAEMONS_PER_SITE_MAX + 1
    many = SiteAck(1, 1, 1, 1, 0, 0, (0,) * count, (0,) * count)
    with pytest.raises(BadPacket, match="site ack: wrong size"):
        token_site.parse_ack(token_site.encode_ack(many))
