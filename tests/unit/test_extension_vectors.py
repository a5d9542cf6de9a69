"""Golden bytes of the extensions of a bundle's header, and what is refused of them."""

import pytest
from vectors import octets

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.spreadwire.to_spread import ToSpread
from antiphon.types import BatchStamp
from antiphon.wire import bundle, extensions
from antiphon.wire.extensions import SKIPPABLE, Extension

VECTOR = octets(
    "00000077            # length",
    "01                  # kind: bundle",
    "04                  # service: agreed",
    "0000                # flags",
    "000C                # names_bytes",
    "0001                # message_count",
    "0000                # tag",
    "00" * 58 + "        # daemon to destinations: stamped later",
    "0000000000000009    # sent_us",
    "00000000            # marks",
    "0001                # group_count",
    "000D                # extensions_bytes",
    "06 23616E6E2364     # sender: #ann#d",
    "04 6E657773         # group: news",
    "8001                # first extension: skippable",
    "0000                # of no bytes",
    "8002                # second",
    "0005                # of five bytes",
    "0102030405          # its value",
    "00000002            # length of the message",
    "4849                # HI",
)
FIELDS = (Extension(0x8001, b""), Extension(0x8002, bytes((1, 2, 3, 4, 5))))
NAMES = bundle.names_area("#ann#d", ["news"])


def extended(*fields: Extension, payloads: tuple[bytes, ...] = (b"HI",), flags: int = 0) -> bytes:
    return b"".join(
        bundle.encode(NAMES, 1, Service.AGREED, payloads, flags=flags, sent_us=9, extensions=fields)
    )


def with_area(area: bytes) -> bytes:
    """The bundle with any bytes as its extensions."""
    plain = extended()
    at = bundle.HEADER_BYTES + len(NAMES)
    data = bytearray(plain[:at] + area + plain[at:])
    data[:4] = len(data).to_bytes(4)
    data[86:88] = len(area).to_bytes(2)
    return bytes(data)


def test_a_bundle_with_extensions() -> None:
    assert extended(*FIELDS) == VECTOR == with_area(extensions.encode(FIELDS))
    header = bundle.parse(VECTOR)
    assert (header.extensions, header.names) == (FIELDS, NAMES)
    assert bundle.parse_from_daemon(VECTOR) == header
    assert bundle.payloads(VECTOR, header) == [b"HI"]
    assert extensions.size_bytes(FIELDS) == 13


def test_the_receiving_client_gets_the_same_messages() -> None:
    (message,) = bundle.decode(VECTOR)
    (plain,) = bundle.decode(extended())
    assert message == plain


def test_a_batch_behind_extensions() -> None:
    stamp = BatchStamp("q", 3, 1, 2, 0)
    payloads = (str(stamp).encode(), b"HI")
    data = extended(*FIELDS, payloads=payloads, flags=bundle.Flag.BATCH)
    bundle.parse_from_daemon(data)
    (message,) = bundle.decode(data)
    assert (message.payload, message.envelope.batch) == (b"HI", stamp)


def test_a_spread_client_gets_the_same_messages() -> None:
    assert ToSpread(["d"]).translate(VECTOR) == ToSpread(["d"]).translate(extended())


def test_a_client_may_not_write_those_of_daemons() -> None:
    bundle.parse_from_client(extended())
    with pytest.raises(BadFrame, match="bundle: extensions that a client may not write"):
        bundle.parse_from_client(VECTOR)


def test_daemons_write_three_types_and_clients_two() -> None:
    assert {0x10, 0x11, 0x12, 0x8010, 0x8013} == extensions.KNOWN_TYPES
    assert {0x12, 0x8013} == extensions.CLIENT_TYPES


@pytest.mark.parametrize("type_", [0, 1, SKIPPABLE - 1])
def test_what_is_not_known_and_may_not_be_skipped_is_refused(type_: int) -> None:
    with pytest.raises(BadFrame, match="bundle: unknown extension"):
        bundle.parse_from_daemon(extended(Extension(type_, b"x")))


def test_what_is_known_need_not_be_skippable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "KNOWN_TYPES", frozenset((7,)))
    fields = (Extension(7, b"x"), Extension(0x8007, b"y"))
    assert bundle.parse(extended(*fields)).extensions == fields


@pytest.mark.parametrize("order", [(0x8002, 0x8001), (0x8001, 0x8001)])
def test_types_ascend_and_stand_there_once(order: tuple[int, ...]) -> None:
    with pytest.raises(BadFrame, match="bundle: extensions out of order"):
        bundle.parse(extended(*(Extension(type_, b"") for type_ in order)))


@pytest.mark.parametrize(
    ("area", "reason"),
    [
        ("80", "an extension is cut short"),
        ("800100", "an extension is cut short"),
        ("8001 0001", "an extension does not fit"),
        ("8001 FFFF", "an extension does not fit"),
        ("8001 0001 00 80", "an extension is cut short"),
        ("8001 0000 8002 0002 00", "an extension does not fit"),
    ],
)
def test_lengths_that_do_not_fit_have_their_reason(area: str, reason: str) -> None:
    with pytest.raises(BadFrame, match=f"bundle: {reason}"):
        bundle.parse(with_area(bytes.fromhex(area)))


def test_the_area_has_a_bound() -> None:
    most = limits.EXTENSIONS_MAX_BYTES - extensions.HEAD_BYTES
    assert len(bundle.parse(extended(Extension(0x8001, bytes(most)))).extensions[0].value) == most
    with pytest.raises(BadFrame, match="bundle: too many extensions"):
        bundle.parse(extended(Extension(0x8001, bytes(most + 1))))


def test_the_largest_message_still_has_room_for_them() -> None:
    names = (1 + limits.GROUPS_PER_MESSAGE_MAX) * (1 + limits.GROUP_NAME_MAX_BYTES)
    beside_bytes = bundle.HEADER_BYTES + names + limits.EXTENSIONS_MAX_BYTES + 4
    assert limits.MESSAGE_MAX_BYTES + beside_bytes <= limits.FRAME_MAX_BYTES
