"""Golden bytes of the packets of casts, and what nobody can have made."""

import pytest
from vectors import octets

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import casts
from antiphon.wire.casts import News, Packet, Piece, Request

STREAM = 0x1112131415161718
VECTORS: dict[str, tuple[Packet, str, str, bytes]] = {
    "piece": (Piece(STREAM, 7, b"tea"), "01", "00", octets("0000000000000007  # number", "746561  # tea")),
    "repair": (Piece(STREAM, 7, b"tea", is_repair=True), "02", "00", octets("0000000000000007 746561")),
    "news": (
        News(STREAM, 5, 9, 3, asks=True),
        "03",
        "01",
        octets("00000005  # serial", "0000000000000009  # the next piece", "0003  # edges"),
    ),
    "request": (
        Request(STREAM, 1_500, ((7, 2), (11, 1))),
        "04",
        "00",
        octets("000005DC  # 1,500 us away", "02  # ranges", "0000000000000007 0002", "000000000000000B 0001"),
    ),
}


def whole(kind: str, flags: str, body: bytes, magic: str = "AC", version: str = "01") -> bytes:
    return octets(f"{magic} {version} {kind} {flags}") + STREAM.to_bytes(8, "big") + body


@pytest.mark.parametrize(("packet", "kind", "flags", "body"), VECTORS.values(), ids=VECTORS)
def test_packets(packet: Packet, kind: str, flags: str, body: bytes) -> None:
    data = whole(kind, flags, body)
    assert casts.encode(packet) == data
    assert casts.decode(data) == packet
    assert casts.decode(memoryview(data)) == packet


REFUSED: dict[str, bytes] = {
    "cast: impossible length": whole("01", "00", octets("0000000000000007")),
    "cast: of another kind or version": whole("01", "00", octets("0000000000000007 01"), version="02"),
    "cast: unknown kind": whole("05", "00", b""),
    "cast: unknown flags": whole("01", "01", octets("0000000000000007 01")),
    "cast: impossible number": whole("01", "00", octets("0000000000000000 01")),
    "cast: impossible range": whole("04", "00", octets("00000000 01 0000000000000007 0000")),
    "cast: impossible distance": whole("04", "00", octets("FFFFFFFF 01 0000000000000007 0001")),
    "cast: too much asked for": whole("04", "00", octets("00000000 01 0000000000000007 FFFF")),
}


@pytest.mark.parametrize(("reason", "data"), REFUSED.items(), ids=REFUSED)
def test_what_is_no_packet_has_a_reason(reason: str, data: bytes) -> None:
    with pytest.raises(BadPacket) as caught:
        casts.decode(data)
    assert caught.value.reason == reason


def test_a_request_has_as_many_ranges_and_pieces_as_fit() -> None:
    assert len(casts.ranges_of(range(1, 1_000, 2))) == limits.CAST_REQUEST_RANGES
    assert casts.ranges_of(range(5, 5_000)) == ((5, limits.CAST_REQUEST_PACKETS),)
    assert casts.ranges_of([]) == ()
