"""Golden bytes: what stands on the wire, field by field. A change here is a change of the protocol.

Each vector is written out in hexadecimal, a field a line. Encoding the value gives the vector, and decoding
the vector gives the value. The layouts are described in docs/reference/wire.md.
"""

import pytest
from vectors import COUNTER, checked, head_of, head_vector, octets, prefix_of

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import packet, trains, versions
from antiphon.wire.packet import Ack, Data, Fragment, Hello, Nack, PacketKind, Piece, Pressure, Skip, Update
from antiphon.wire.versions import OtherVersion

# Packets --------------------------------------------------------------------------------------------------


def test_hello() -> None:
    vector = head_vector("01", "0000000000000000") + octets(
        "00000000000F4240    # sender's clock: 1,000,000 us",
        "00000000000F423F    # last clock value that the receiver sent",
        "12834EA3            # checksum",
    )
    assert packet.hello(prefix_of(PacketKind.HELLO), 1_000_000, 999_999, counter=COUNTER) == vector
    assert packet.parse(memoryview(vector)) == Hello(
        head_of(PacketKind.HELLO), clock_us=1_000_000, echo_us=999_999
    )


def test_ack() -> None:
    vector = head_vector("04", "0000000000000000") + octets(
        "0000000000000064    # aru",
        "0000000100000000    # highest number sent",
        "000003E8            # the newest packet came 1,000 us ago",
        "0000000000000070    # its number",
        "000000000000006E    # how many have come",
        "C5EA6C05            # checksum",
    )
    written = packet.ack(
        prefix_of(PacketKind.ACK), 100, 1 << 32, 1_000, newest=112, arrived=110, counter=COUNTER
    )
    assert written == vector
    assert packet.parse(memoryview(vector)) == Ack(
        head_of(PacketKind.ACK), aru=100, highest_sent=1 << 32, delay_us=1_000, newest=112, arrived=110
    )


def test_an_ack_that_asks_for_an_answer() -> None:
    vector = head_vector("04", "0000000000000001") + octets(
        "0000000000000064    # aru",
        "0000000000000065    # highest number sent",
        "00000000            # the newest packet came just now",
        "0000000000000064    # its number",
        "0000000000000064    # how many have come",
        "DA9DF061            # checksum",
    )
    written = packet.ack(
        prefix_of(PacketKind.ACK), 100, 101, 0, question=True, newest=100, arrived=100, counter=COUNTER
    )
    assert written == vector
    assert packet.parse(memoryview(vector)) == Ack(
        head_of(PacketKind.ACK, number=1), aru=100, highest_sent=101, delay_us=0, newest=100, arrived=100
    )


def test_nack() -> None:
    vector = head_vector("05", "0000000000000000") + octets(
        "0000000000000064    # aru",
        "0002                # count",
        "0000000000000065    # first number of the first range",
        "00000001            # how many",
        "0000000000000070    # first number of the second range",
        "00000010            # how many",
        "2A1F98A8            # checksum",
    )
    assert packet.nack(prefix_of(PacketKind.NACK), 100, [(101, 1), (112, 16)], counter=COUNTER) == vector
    assert packet.parse(memoryview(vector)) == Nack(
        head_of(PacketKind.NACK), aru=100, ranges=[(101, 1), (112, 16)]
    )


FRAGMENT_VECTOR = octets(
    "01                  # type: fragment",
    "00                  # flags",
    "0021                # length of what follows: 28 and the bytes",
    "00000003            # offset",
    "0005                # source daemon",
    "0000                # zero",
    "00000100            # bundle bytes in all",
    "0000000000000009    # bundle number",
    "8000000000000001    # destinations: sites 0 and 63",
    "48454C4C4F          # bytes: HELLO",
)
FRAGMENT = Fragment(source=5, number=9, destinations=(1 << 63) | 1, total=256, offset=3, body=b"HELLO")

UPDATE_VECTOR = octets(
    "02                  # type: update",
    "00                  # flags",
    "0020                # length of what follows",
    "0005                # source daemon",
    "0000                # zero",
    "00000007            # serial",
    "0000000000000009    # number",
    "000000000000000A    # lts",
    "000000000000000B    # aru",
)
UPDATE = Update(source=5, serial=7, number=9, lts=10, aru=11)

SKIP_VECTOR = octets(
    "03                  # type: skip",
    "00                  # flags",
    "0024                # length of what follows",
    "0005                # source daemon",
    "0000                # zero",
    "0000000000000009    # first number",
    "000000000000000C    # last number",
    "000000000000000D    # lts",
    "000000000000000E    # aru",
)
SKIP = Skip(source=5, first=9, last=12, lts=13, aru=14)


def test_items() -> None:
    assert b"".join(packet.fragment_item(FRAGMENT, 0, 5)) == FRAGMENT_VECTOR
    assert packet.update_item(UPDATE) == UPDATE_VECTOR
    assert packet.skip_item(SKIP) == SKIP_VECTOR
    assert len(UPDATE_VECTOR) == packet.UPDATE_ITEM_BYTES
    assert len(SKIP_VECTOR) == packet.SKIP_ITEM_BYTES
    assert len(FRAGMENT_VECTOR) - len(FRAGMENT.body) == packet.FRAGMENT_ITEM_BYTES


def test_a_part_of_a_fragment_has_its_own_offset() -> None:
    whole = Fragment(source=5, number=9, destinations=(1 << 63) | 1, total=256, offset=1, body=b"..HELLO..")
    assert b"".join(packet.fragment_item(whole, 2, 7)) == FRAGMENT_VECTOR


@pytest.mark.parametrize(
    ("kind", "byte", "number", "check"),
    [(PacketKind.DATA, "02", 0x0102030405060708, "485996D4"), (PacketKind.UNRELIABLE, "03", 0, "9BCF272D")],
)
def test_data_carries_items(kind: PacketKind, byte: str, number: int, check: str) -> None:
    carried = FRAGMENT_VECTOR + UPDATE_VECTOR + SKIP_VECTOR
    vector = head_vector(byte, f"{number:016X}") + carried + octets(check)
    assert packet.head(prefix_of(kind), number, counter=COUNTER) == vector[: packet.HEAD_BYTES]
    assert packet.parse(memoryview(vector)) == Data(
        head_of(kind, number), count=1, items=[FRAGMENT, UPDATE, SKIP], size_bytes=len(vector)
    )


@pytest.mark.parametrize("padding", [1, 3, 4, 100])
def test_zeros_behind_the_items_are_padding(padding: int) -> None:
    vector = checked(head_vector("02", "0000000000000001") + UPDATE_VECTOR + bytes(padding))
    read = packet.parse(memoryview(vector))
    assert isinstance(read, Data)
    assert (read.items, read.size_bytes) == ([UPDATE], len(vector))
    spoilt = checked(head_vector("02", "0000000000000001") + UPDATE_VECTOR + bytes(padding) + b"\x09")
    with pytest.raises(BadPacket, match="item"):
        packet.parse(memoryview(spoilt))


PIECE_VECTOR = octets(
    "00000BB8            # size of the items in all",
    "00000470            # offset",
    "48454C4C4F          # HELLO",
)


def test_a_piece_of_a_data_packet() -> None:
    vector = checked(head_vector("0D", "0000000000000009") + PIECE_VECTOR)
    assert packet.parse(memoryview(vector)) == Piece(
        head_of(PacketKind.PIECE, 9), total=3_000, offset=1_136, body=b"HELLO"
    )
    body = packet.piece_body(3_000, 1_136, b"HELLO")
    assert packet.whole(prefix_of(PacketKind.PIECE), body, 9, counter=COUNTER) == vector


def test_a_padded_hello_and_its_answer() -> None:
    """The size of both is told with the room for the tag of a seal."""
    times = octets("0000000000000005", "0000000000000000")
    vector = checked(head_vector("01", "0000000000000000") + times + bytes(1_400 - packet.HELLO_BYTES))
    data = packet.hello(prefix_of(PacketKind.HELLO), 5, 0, size_bytes=1_400, counter=COUNTER)
    assert data == vector
    assert len(data) == 1_400 - packet.SEAL_TAG_BYTES + packet.CHECK_BYTES
    read = packet.parse(memoryview(data))
    assert isinstance(read, Hello)
    assert (read.clock_us, read.echo_us, read.size_bytes) == (5, 0, 1_400)
    times = octets("0000000000000006", "0000000000000005")
    answer = packet.hello(prefix_of(PacketKind.HELLO), 6, 5, answered_bytes=1_400, counter=COUNTER)
    assert answer == checked(head_vector("01", "0000000000000578") + times)


PRESSURE_VECTOR = octets(
    "04                  # type: pressure",
    "00                  # flags",
    "001C                # length of what follows",
    "0005                # source",
    "0006                # daemon",
    "00000007            # serial",
    "0002                # two slow sessions",
    "00000001 05         # the first: its number, the length of its name",
    "736C6F7468          # sloth",
    "00000102 03         # the second",
    "616461              # ada",
)
PRESSURE = Pressure(source=5, daemon=6, serial=7, sessions=((1, "sloth"), (0x102, "ada")))


def test_a_list_of_slow_sessions() -> None:
    assert packet.pressure_item(PRESSURE) == PRESSURE_VECTOR
    read = packet.parse(memoryview(checked(head_vector("02", "0000000000000001") + PRESSURE_VECTOR)))
    assert isinstance(read, Data)
    assert read.items == [PRESSURE]


def test_the_longest_list_of_slow_sessions_fits_the_smallest_packet() -> None:
    name = "x" * limits.SESSION_NAME_MAX_BYTES
    longest = Pressure(1, 2, 3, tuple((number, name) for number in range(limits.PRESSURE_SESSIONS_MAX)))
    assert len(packet.pressure_item(longest)) <= packet.capacity(limits.PACKET_MIN_BYTES)


@pytest.mark.parametrize(
    ("at", "octet", "reason"),
    [
        (13, 0x03, "cut short"),
        (13, 0x01, "wrong size"),
        (13, limits.PRESSURE_SESSIONS_MAX + 1, "too many sessions"),
        (18, 0x00, "impossible name"),
        (18, limits.SESSION_NAME_MAX_BYTES + 1, "impossible name"),
        (19, 0xFF, "impossible name"),
    ],
)
def test_a_bad_list_of_slow_sessions_is_refused(at: int, octet: int, reason: str) -> None:
    vector = bytearray(PRESSURE_VECTOR)
    vector[at] = octet
    with pytest.raises(BadPacket, match=f"pressure: {reason}"):
        packet.parse(memoryview(checked(head_vector("02", "0000000000000001") + bytes(vector))))


def test_a_train_is_packets_back_to_back() -> None:
    first = head_vector("02", "0000000000000007") + FRAGMENT_VECTOR + octets("3A1FDFE3    # checksum")
    second = (
        head_vector("02", "0000000000000008", counter=COUNTER + 1)
        + FRAGMENT_VECTOR[:4]
        + octets("00000008    # offset")
        + FRAGMENT_VECTOR[8:32]
        + octets("20574F524C    # bytes")
        + octets("170E8446      # checksum")
    )
    vector = first + second
    fragment = Fragment(
        source=5, number=9, destinations=(1 << 63) | 1, total=256, offset=3, body=b"HELLO WORL"
    )
    train = trains.fragment_train(prefix_of(PacketKind.DATA), 7, fragment, 0, 5, 2, counter=COUNTER)
    assert b"".join(train) == vector
    assert list(trains.parse_train(memoryview(vector), len(first))) == [
        Data(head_of(PacketKind.DATA, 7), count=2, items=[fragment], size_bytes=len(vector))
    ]


def test_room_is_left_for_the_seal() -> None:
    assert packet.capacity(1_400) == 1_400 - 40 - 16


@pytest.mark.parametrize(
    ("offset", "byte", "reason"),
    [
        (0, 0xA8, "packet: not ours"),
        (1, 0x01, "packet: unknown version"),
        (1, 0x02, "packet: unknown version"),
        (1, 0x03, "packet: unknown version"),
        (1, 0x04, "packet: unknown version"),
        (1, 0x05, "packet: unknown version"),
        (1, 0x06, "packet: unknown version"),
        (1, 0x07, "packet: unknown version"),
        (2, 0x00, "packet: unknown kind or wrong size"),
        (2, 0x0F, "packet: unknown kind or wrong size"),
        (3, 0x01, "packet: sealed"),
        (40, 0x00, "item: unknown type or wrong size"),
        (40, 0x02, "item: unknown type or wrong size"),
        (42, 0x01, "item: longer than its packet"),
        (43, 0x1C, "fragment: empty"),
        (43, 0x1F, "item: cut short"),
        (44, 0x01, "fragment: outside its bundle"),
        (52, 0xFF, "fragment: outside its bundle"),
        (54, 0x00, "fragment: outside its bundle"),
        (63, 0x00, "fragment: impossible number"),
    ],
)
def test_one_wrong_byte_has_its_reason(offset: int, byte: int, reason: str) -> None:
    damaged = bytearray(head_vector("02", "0000000000000001") + FRAGMENT_VECTOR)
    damaged[offset] = byte
    with pytest.raises(BadPacket, match=reason):
        packet.parse(memoryview(checked(bytes(damaged))))


# Other versions -------------------------------------------------------------------------------------------

BEGINNING = octets(
    "A7          # magic",
    "FE          # version",
    "06          # kind",
    "00          # key number",
    "D1E57001    # digest",
    "0002        # sender",
    "0103        # receiver",
    "0A0B0C0D    # incarnation",
)
"""What stays where it is in every version."""


@pytest.mark.parametrize("rest", [0, 1, 20, 24, 28, 60, 1_384])
def test_packets_of_other_versions_say_whose_they_are(rest: int) -> None:
    """Whatever follows their beginning, also if it is less than our head."""
    with pytest.raises(OtherVersion, match="packet: unknown version") as raised:
        packet.parse(memoryview(BEGINNING + b"?" * rest))
    found = raised.value
    assert (found.what, found.version, found.ours) == ("packet", 0xFE, packet.VERSION)
    assert (found.digest, found.sender, found.receiver) == (0xD1E57001, 2, 0x0103)
    assert (versions.kind_of(BEGINNING), versions.sender_of(BEGINNING)) == (PacketKind.BEAT, 2)


def test_our_own_packets_begin_as_all_do() -> None:
    ours = head_vector("06", "0000000000000000")
    assert ours[2:16] == BEGINNING[2:]
    assert (versions.kind_of(ours), versions.sender_of(ours)) == (PacketKind.BEAT, 2)


def test_what_is_cut_short_says_nothing() -> None:
    for size in range(versions.BEGINNING_BYTES):
        with pytest.raises(BadPacket, match="packet: too short"):
            packet.parse(memoryview(BEGINNING[:size]))
        assert versions.sender_of(BEGINNING[:size]) is None
