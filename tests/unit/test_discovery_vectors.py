"""Golden bytes of discovery packets, and what no daemon can have made."""

from zlib import crc32

import pytest
from vectors import octets

from antiphon.errors import BadPacket
from antiphon.wire import discovery
from antiphon.wire.discovery import Answer, Beacon, Packet, Question, State, Told

HEAD = ("A9 01", "{kind}", "00   # not sealed", "{checksum}", "03 746561   # tea")
BEACON = Beacon(
    cluster="tea",
    process=0x0102030405060708,
    serial=9,
    state=State.CLAIMS,
    number=5,
    claim_us=0x00060A24181E4000,
    host="192.0.2.7",
    port=0xC001,
    name="oslo",
    asks=True,
    listed=((0x0102030405060708, 5), (0x1112131415161718, 0)),
    told=(
        Told(
            0, State.BEARS, 0x1112131415161718, 0x00060A24181E0000, 1_500, "192.0.2.8", 0xC002, "lima", True
        ),
    ),
)
VECTORS: dict[str, tuple[Packet, int, bytes]] = {
    "beacon": (
        BEACON,
        1,
        octets(
            "0102030405060708   # process",
            "00000009           # serial",
            "01                 # asks",
            "01                 # claims",
            "05                 # this number",
            "00060A24181E4000   # since",
            "C0000207 C001      # address",
            "04 6F736C6F        # oslo",
            "02                 # lists two",
            "0102030405060708 05",
            "1112131415161718 00",
            "01                 # tells of one",
            "00 82              # number 0, bears it, has left",
            "1112131415161718 00060A24181E0000",
            "000005DC           # silent for 1,500 ms",
            "C0000208 C002 04 6C696D61",
        ),
    ),
    "question": (Question("tea", 0x2122232425262728), 2, octets("2122232425262728")),
    "answer": (
        Answer("tea", 0x2122232425262728, 5, "oslo", ("tcp:192.0.2.7:4811",)),
        3,
        octets("2122232425262728 05 04 6F736C6F 01 12") + b"tcp:192.0.2.7:4811",
    ),
}


def whole(kind: int, body: bytes, version: int = 1, key: int = 0) -> bytes:
    start, end = bytes((0xA9, version, kind, key)), b"\x03tea" + body
    return start + crc32(start + bytes(4) + end).to_bytes(4, "big") + end


@pytest.mark.parametrize("name", VECTORS)
def test_a_packet_is_these_bytes(name: str) -> None:
    packet, kind, body = VECTORS[name]
    assert discovery.encode(packet) == whole(kind, body)
    assert discovery.parse(whole(kind, body)) == packet


BODY = VECTORS["beacon"][2]
BAD = {
    "discovery: too short": whole(1, BODY[:40]),
    "discovery: too long": whole(1, BODY + b"\0"),
    "discovery: bad magic": b"\xa8" + whole(1, BODY)[1:],
    "discovery: unknown version": whole(1, BODY, version=2),
    "discovery: sealed with a key that is not ours": whole(1, BODY, key=1),
    "discovery: bad checksum": whole(1, BODY)[:-1] + b"?",
    "discovery: unknown kind": whole(4, BODY),
    "discovery: unknown flags": whole(1, BODY[:12] + b"\x04" + BODY[13:]),
    "discovery: unknown state": whole(1, BODY[:13] + b"\x03" + BODY[14:]),
    "discovery: number out of range": whole(1, BODY[:14] + b"\x40" + BODY[15:]),
    "discovery: number and state contradict each other": whole(1, BODY[:14] + b"\xff" + BODY[15:]),
    "discovery: no port": whole(1, BODY[:27] + b"\0\0" + BODY[29:]),
    "discovery: bad name": whole(1, BODY[:30] + b"#" + BODY[31:]),
    "discovery: bad text": whole(1, BODY[:29] + b"\x20" + BODY[30:]),
    "discovery: too many parts": whole(1, BODY[:34] + b"\x61" + BODY[35:]),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_no_daemon_made_is_refused_by_its_reason(reason: str) -> None:
    with pytest.raises(BadPacket) as caught:
        discovery.parse(BAD[reason])
    assert caught.value.reason == reason


def test_the_largest_beacon_fits_a_packet() -> None:
    told = Told(63, State.BEARS, 1, 1, 1, "255.255.255.255", 1, "x" * 19)
    beacon = Beacon(
        "c" * 31, 1, 1, State.BEARS, 63, 1, "255.255.255.255", 1, "x" * 19,
        listed=((1, 1),) * discovery.LISTED_MAX, told=(told,) * discovery.TOLD_MAX,
    )  # fmt: skip
    assert discovery.parse(discovery.encode(beacon)) == beacon


def test_a_name_leads_to_an_address_and_a_port() -> None:
    """A hash turns the name into a multicast address with 24 free bits and 15 bits of a port, whose high bit
    is set. (RMP 3.1)"""
    found = [discovery.group_of(f"cluster-{number}") for number in range(200)]
    assert all(host.startswith("239.") and 0x8000 <= port <= 0xFFFF for host, port in found)
    assert len(set(found)) == 200
    assert discovery.group_of("tea") == ("239.50.156.114", 58056)
