"""Golden bytes of the ring: the token, the words around it, and what no ring can have made."""

import pytest
from vectors import COUNTER, checked, head_of, head_vector, octets, prefix_of

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import packet, token
from antiphon.wire.packet import Loose, PacketKind
from antiphon.wire.token import NOBODY, Token

TOKEN_VECTOR = octets(
    "0000000000000101    # serial",
    "0000000000000064    # number of the newest packet",
    "0000000000000060    # everybody has the packets up to this one",
    "0005                # who lowered that",
    "FFFF                # nobody lowered the aru of the segment",
    "00000003            # packets sent in the last round",
    "0000000000000009    # number of the segment's newest bundle",
    "00000F0000001402    # its next bundle is later than this",
    "00000F0000001000    # everybody has every bundle up to this",
    "0001                # one request",
    "0005                # by daemon 5",
    "0000000000000061    # from this packet on",
    "00000002            # so many",
)
TOKEN = Token(
    serial=0x101,
    link_sequence=100,
    link_aru=96,
    link_modifier=5,
    site_modifier=NOBODY,
    flow=3,
    site_sequence=9,
    site_lts=0x00000F0000001402,
    site_aru=0x00000F0000001000,
    requests=((5, 97, 2),),
)
REQUESTS_AT = 56


def loose(kind: PacketKind, body: bytes) -> bytes:
    return packet.whole(prefix_of(kind), body, counter=COUNTER)


def test_token() -> None:
    vector = checked(head_vector("08", "0000000000000000") + TOKEN_VECTOR)
    assert loose(PacketKind.TOKEN, token.encode_token(TOKEN)) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.TOKEN), TOKEN_VECTOR)
    assert token.parse_token(TOKEN_VECTOR) == TOKEN


def test_the_first_token_of_a_ring() -> None:
    """Nothing was sent, and no member asks for anything."""
    vector = octets("00" * 24, "FFFF FFFF", "00" * 12, "0000000000001402" * 2, "0000")
    first = Token(0, 0, 0, NOBODY, NOBODY, 0, 0, 0x1402, 0x1402)
    assert token.encode_token(first) == vector
    assert token.parse_token(vector) == first


def test_hurry() -> None:
    vector = checked(head_vector("09", "0000000000000000"))
    assert loose(PacketKind.HURRY, b"") == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.HURRY), b"")


def test_held() -> None:
    body = octets("0000000000000101    # serial of the token")
    vector = checked(head_vector("0A", "0000000000000000") + body)
    assert loose(PacketKind.HELD, token.encode_held(0x101)) == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(PacketKind.HELD), body)
    assert token.parse_held(body) == 0x101


@pytest.mark.parametrize(("kind", "byte"), [(PacketKind.PROBE, "0B"), (PacketKind.PROBED, "0C")])
def test_a_probe_and_its_answer_are_empty(kind: PacketKind, byte: str) -> None:
    vector = checked(head_vector(byte, "0000000000000000"))
    assert loose(kind, b"") == vector
    assert packet.parse(memoryview(vector)) == Loose(head_of(kind), b"")


@pytest.mark.parametrize("size", [0, 7, 9])
def test_held_has_one_size(size: int) -> None:
    with pytest.raises(BadPacket, match="held: wrong size"):
        token.parse_held(bytes(size))


@pytest.mark.parametrize("size", range(len(TOKEN_VECTOR)))
def test_a_token_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(BadPacket, match=r"token: (cut short|wrong size)"):
        token.parse_token(TOKEN_VECTOR[:size])


def test_a_token_with_something_behind_it_is_refused() -> None:
    with pytest.raises(BadPacket, match="token: wrong size"):
        token.parse_token(TOKEN_VECTOR + b"\x00")


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (REQUESTS_AT, "0000", "wrong size"),
        (REQUESTS_AT, "0002", "wrong size"),
        (0, "FFFFFFFFFFFFFFFF", "impossible counter"),
        (8, "FFFFFFFFFFFFFFFF", "impossible counter"),
        (16, "0000000000000065", "impossible counter"),
        (32, "FFFFFFFFFFFFFFFF", "impossible counter"),
        (40, "FFFFFFFFFFFFFFFF", "impossible counter"),
        (48, "FFFFFFFFFFFFFFFF", "impossible counter"),
    ],
)
def test_a_wrong_field_in_a_token_has_its_reason(at: int, value: str, reason: str) -> None:
    damaged = bytearray(TOKEN_VECTOR)
    damaged[at : at + len(value) // 2] = bytes.fromhex(value)
    with pytest.raises(BadPacket, match=f"token: {reason}"):
        token.parse_token(bytes(damaged))


def test_more_requests_than_a_token_may_carry_are_refused() -> None:
    many = tuple((5, number, 1) for number in range(1, limits.RING_REQUESTS_MAX + 1))
    full = Token(1, 100, 0, NOBODY, NOBODY, 0, 0, 0, 0, many)
    assert token.parse_token(token.encode_token(full)) == full
    full.requests += ((5, 99, 1),)
    with pytest.raises(BadPacket, match="token: wrong size"):
        token.parse_token(token.encode_token(full))
