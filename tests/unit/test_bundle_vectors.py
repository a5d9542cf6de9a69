"""Golden bytes of a bundle, and what is refused of one; see test_wire_vectors.py."""

import msgspec
import pytest
from vectors import octets

from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.types import Envelope, Message
from antiphon.wire import bundle
from antiphon.wire.bundle import Start
from antiphon.wire.packet import Fragment

BUNDLE_HEAD = (
    "0000007F            # length",
    "01                  # kind: bundle",
    "04                  # service: agreed",
    "0001                # flags: self-discard",
    "0014                # names_bytes",
    "0003                # message_count",
    "FFF9                # tag: -7",
)
BUNDLE_STAMP = (
    "0002                # daemon",
    "00000003            # session",
    "0A0B0C0D            # incarnation",
    "0000000000000064    # sequence",
    "0000000000000005    # number",
    "0000000000000004    # previous",
    "0000000000000037    # lts",
    "0000000000000030    # aru",
    "8000000000000001    # destinations: sites 0 and 63",
)
BUNDLE_REST = (
    "00000000000F4240    # sent_us: 1,000,000",
    "90000090            # marks",
    "0002                # group_count",
    "0000                # extensions_bytes",
    "09 23616E6E2365617374     # sender: #ann#east",
    "04 6E657773         # first group: news",
    "04 63686174         # second group: chat",
    "00000005            # length of the first message",
    "00000000            # of the second",
    "00000002            # of the third",
    "48454C4C4F          # HELLO",
    "4849                # HI",
)
UNSTAMPED = octets(*BUNDLE_HEAD, "00" * 58, *BUNDLE_REST)
STAMPED = octets(*BUNDLE_HEAD, *BUNDLE_STAMP, *BUNDLE_REST)


def test_a_bundle_as_the_client_writes_it() -> None:
    names = bundle.names_area("#ann#east", ["news", "chat"])
    buffers = bundle.encode(
        names,
        2,
        Service.AGREED,
        [b"HELLO", b"", b"HI"],
        flags=bundle.Flag.SELF_DISCARD,
        tag=-7,
        sent_us=1_000_000,
        marks=0x9000_0090,
    )
    assert b"".join(buffers) == UNSTAMPED
    assert bundle.parse_from_client(UNSTAMPED).names == names


def test_a_bundle_as_its_daemon_stamps_it() -> None:
    data = bytearray(UNSTAMPED)
    bundle.stamp(
        data,
        msgspec.structs.replace(
            bundle.parse(data),
            daemon=2,
            session=3,
            incarnation=0x0A0B0C0D,
            sequence=100,
            number=5,
            previous=4,
            lts=55,
            aru=48,
            destinations=(1 << 63) | 1,
        ),
    )
    assert bytes(data) == STAMPED


def test_a_bundle_as_every_daemon_reads_it() -> None:
    header = bundle.parse(STAMPED)
    assert header == bundle.Header(
        length=len(STAMPED),
        service=Service.AGREED,
        flags=bundle.Flag.SELF_DISCARD,
        names=b"\x09#ann#east\x04news\x04chat",
        message_count=3,
        tag=-7,
        daemon=2,
        session=3,
        incarnation=0x0A0B0C0D,
        sequence=100,
        number=5,
        previous=4,
        lts=55,
        aru=48,
        destinations=(1 << 63) | 1,
        sent_us=1_000_000,
        marks=0x9000_0090,
    )
    assert bundle.parse_names(header.names) == ("#ann#east", "news", "chat")


def test_the_start_of_a_bundle_as_daemons_on_its_way_read_it() -> None:
    start = STAMPED[: bundle.HEADER_BYTES]
    assert bundle.look(start, len(STAMPED)) == Start(lts=55, aru=48, is_urgent=True, header=None)
    assert bundle.look(STAMPED, len(STAMPED)) == Start(55, 48, True, bundle.parse(STAMPED))
    with pytest.raises(BadFrame, match="bundle: shorter than its header"):
        bundle.look(start[:-1], len(STAMPED))


@pytest.mark.parametrize("service", list(Service))
@pytest.mark.parametrize("flags", [0, 1, 2, 128, 129])
def test_what_waits_for_every_source_is_urgent(service: Service, flags: int) -> None:
    names = bundle.names_area("#ann#east", ["news"])
    stamp = b"q/1/0/1/0"
    data = b"".join(bundle.encode(names, 1, service, [stamp, b"x"], flags=flags))
    found = bundle.look(data[:100], len(data))
    assert found.is_urgent == bundle.is_urgent(service, flags) == (service >= Service.CAUSAL or flags == 2)
    whole = bundle.look(data, len(data))
    assert msgspec.structs.replace(whole, header=None) == found


def test_a_whole_bundle_that_is_no_good_still_has_lines() -> None:
    """Daemons on its way pass it on as any other; whoever it is for finds out what is wrong with it."""
    damaged = bytearray(STAMPED)
    damaged[11] = 0
    assert bundle.look(damaged, len(damaged)) == Start(55, 48, True, None)


def test_a_fragment_is_looked_at_once() -> None:
    fragment = Fragment(5, 9, 1, len(STAMPED), 0, STAMPED)
    assert fragment.look() is fragment.look()
    assert fragment == Fragment(5, 9, 1, len(STAMPED), 0, STAMPED)
    changed = msgspec.structs.replace(fragment, body=STAMPED[:100])
    assert changed.look().header is None


def test_a_bundle_as_the_receiving_client_reads_it() -> None:
    envelope = Envelope(
        "#ann#east", ("news", "chat"), Service.AGREED, -7, 2, 0x0A0B0C0D, 3, 100, 55, 1_000_000
    )
    assert bundle.decode(STAMPED) == [
        Message(b"HELLO", envelope, 0),
        Message(b"", envelope, 1),
        Message(b"HI", envelope, 2),
    ]


def test_flags_of_bundles() -> None:
    flags = bundle.Flag
    assert (flags.SELF_DISCARD, flags.EVENT, flags.LATE) == (1, 2, 4)
    assert (flags.STATE, flags.RECOVERED, flags.PHASE, flags.GROUPS) == (8, 16, 32, 64)


@pytest.mark.parametrize(
    ("offset", "byte", "reason"),
    [
        (3, 0x7A, "wrong length or kind"),
        (4, 0x02, "wrong length or kind"),
        (5, 0x06, "unknown service"),
        (6, 0x02, "unknown flags"),
        (6, 0x80, "unknown flags"),
        (8, 0x10, "too many names"),
        (9, 0x13, "a name does not fit"),
        (10, 0x01, "longer than its frame"),
        (11, 0x00, "no message"),
        (85, 0x01, "wrong number of names"),
        (86, 0x01, "longer than its frame"),
        (87, 0x01, "an extension is cut short"),
        (88, 0x00, "a name does not fit"),
        (88, 0x20, "a name does not fit"),
        (90, 0xE9, "a name is not ASCII"),
    ],
)
def test_one_wrong_byte_in_a_bundle_has_its_reason(offset: int, byte: int, reason: str) -> None:
    damaged = bytearray(STAMPED)
    damaged[offset] = byte
    with pytest.raises(BadFrame, match=f"bundle: {reason}"):
        bundle.parse(damaged)


@pytest.mark.parametrize(
    ("offset", "byte", "reason"),
    [
        (7, 0x02, "flags that a client may not set"),
        (7, 0x04, "flags that a client may not set"),
        (7, 0x08, "flags that a client may not set"),
        (7, 0x10, "flags that a client may not set"),
        (7, 0x20, "flags that a client may not set"),
        (7, 0x40, "flags that a client may not set"),
        (111, 0x06, "payloads do not fill it"),
    ],
)
def test_what_a_client_may_not_write_has_its_reason(offset: int, byte: int, reason: str) -> None:
    damaged = bytearray(UNSTAMPED)
    damaged[offset] = byte
    with pytest.raises(BadFrame, match=f"bundle: {reason}"):
        bundle.parse_from_client(damaged)


def test_a_bundle_to_nobody_is_not_what_a_client_may_send() -> None:
    names = bundle.names_area("#ann#east", [])
    with pytest.raises(BadFrame, match="too many or too few groups"):
        bundle.parse_from_client(b"".join(bundle.encode(names, 0, Service.AGREED, [b"x"])))
