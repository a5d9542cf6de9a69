"""What a bundle says of passive sources: golden bytes of the extension AFTER, and what is refused of it."""

import pytest
from vectors import octets

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.after import After, Loose, after_of, extension
from antiphon.wire.extensions import AFTER, HISTORY, SEQUENCER, Extension

LTS = 0x0000_0F00_0000_1402
VECTOR = octets(
    "97                     # seven integers",
    "01                     # the bundle itself is loose",
    "02                     # source 2",
    "09                     # up to its bundle 9",
    "CF 00000F0000001402    # which has this lts",
    "CD 01FF                # source 511, the greatest that there may be",
    "CD 012C                # up to 300",
    "CD 0403                # which has this lts",
)
MEANING = After(True, (Loose(2, 9, LTS), Loose(511, 300, 0x403)))
MOST = limits.COUNTER_MAX


def header(*fields: Extension) -> bundle.Header:
    return bundle.Header(
        0, Service.FIFO, 0, b"", 1, 0, 1, 4, 7, 12, 12, 0, LTS, 0, 0b111, 0, extensions=fields
    )


def written(*integers: int) -> bytes:
    """The value as any peer could write it."""
    return bytes((0x90 | len(integers),)) + b"".join(b"\xcf" + one.to_bytes(8) for one in integers)


def read(value: bytes) -> After | None:
    return after_of(header(Extension(AFTER, value)))


# What daemons write ---------------------------------------------------------------------------------------


def test_what_comes_first_on_the_wire() -> None:
    told = extension(MEANING)
    assert told.type == AFTER == 0x11
    assert told.value == VECTOR
    assert read(VECTOR) == MEANING


@pytest.mark.parametrize(
    ("after", "value"),
    [
        (After(True, ()), "91 01"),
        (After(False, (Loose(0, 1, 1),)), "94 00 00 01 01"),
        (After(True, (Loose(7, 1, 1),)), "94 01 07 01 01"),
        (After(False, (Loose(0, MOST, MOST),)), "94 00 00 CF3FFFFFFFFFFFFFFF CF3FFFFFFFFFFFFFFF"),
    ],
)
def test_what_is_written_is_read(after: After, value: str) -> None:
    assert extension(after).value == bytes.fromhex(value)
    assert read(bytes.fromhex(value)) == after


def test_a_bundle_says_nothing_if_it_has_no_such_extension() -> None:
    assert after_of(header()) is None
    assert after_of(header(Extension(SEQUENCER, bytes(6)), Extension(HISTORY, b"\x92\x00\x00"))) is None


def test_it_is_found_between_the_other_extensions() -> None:
    fields = (Extension(SEQUENCER, bytes(6)), extension(MEANING), Extension(HISTORY, b"\x92\x00\x00"))
    assert after_of(header(*fields)) == MEANING


def test_a_bundle_carries_it_to_other_daemons() -> None:
    names = bundle.names_area("#ann#d", ["news"])
    data = bytearray(b"".join(bundle.encode(names, 1, Service.FIFO, [b"HI"], sent_us=9)))
    extended, told = bundle.extend(data, bundle.parse(data), extension(MEANING))
    assert octets("0011 0016") + VECTOR in extended
    assert after_of(bundle.parse_from_daemon(bytes(extended))) == MEANING
    assert bundle.payloads(bytes(extended), told) == [b"HI"]


def test_who_does_not_know_it_may_not_skip_it() -> None:
    """Who skipped it would deliver what comes after a bundle before that bundle."""
    assert not AFTER & 0x8000


def test_a_client_may_not_write_it() -> None:
    names = bundle.names_area("#ann#d", ["news"])
    data = bundle.encode(names, 1, Service.FIFO, [b"HI"], sent_us=9, extensions=(extension(MEANING),))
    with pytest.raises(BadFrame, match="a client may not write"):
        bundle.parse_from_client(b"".join(data))


# What no daemon can have written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "DecodeError"),
        ("C1", "DecodeError"),
        ("94 00 00 01", "DecodeError"),  # cut short
        ("91 01 00", "DecodeError"),  # something behind it
        ("C0", "ValidationError"),
        ("01", "ValidationError"),
        ("81 00 01", "ValidationError"),
        ("A2 FFFF", "ValidationError"),
        ("91 C3", "ValidationError"),  # true is no integer
        ("91 CB3FF0000000000000", "ValidationError"),  # nor is 1.0
        ("91 A101", "ValidationError"),
        ("94 01 91 00 01 01", "ValidationError"),
    ],
)
def test_what_is_no_array_of_integers_is_refused(value: str, reason: str) -> None:
    with pytest.raises(BadFrame, match=f"after: {reason}$"):
        read(bytes.fromhex(value))


@pytest.mark.parametrize("count", [0, 2, 3, 5, 6, 8])
def test_three_integers_stand_for_each_source_behind_the_first_one(count: int) -> None:
    with pytest.raises(BadFrame, match=r"after: impossible$"):
        read(written(*[1] * count))


@pytest.mark.parametrize("value", ["91 02", "91 FF", "91 D0FF", "91 CF3FFFFFFFFFFFFFFF", "94 02 00 01 01"])
def test_a_bundle_is_loose_or_it_is_not(value: str) -> None:
    with pytest.raises(BadFrame, match=r"after: impossible$"):
        read(bytes.fromhex(value))


@pytest.mark.parametrize(
    "value",
    [
        written(1, limits.DAEMONS_MAX, 1, 1),
        bytes.fromhex("94 01 FF 01 01"),  # source -1
        written(1, 0, 0, 1),  # numbers count from 1
        bytes.fromhex("94 01 00 FF 01"),
        written(1, 0, MOST + 1, 1),
        written(1, 0, 1, 0),  # so do stamps
        bytes.fromhex("94 01 00 01 FF"),
        written(1, 0, 1, MOST + 1),
        written(1, 0, 1, (1 << 64) - 1),
        written(1, 0, 1, 1, 0, 2, 0),  # not the first source, either
    ],
)
def test_a_source_that_cannot_be_is_refused(value: bytes) -> None:
    with pytest.raises(BadFrame, match=r"after: impossible source$"):
        read(value)


def test_the_greatest_values_are_not_refused() -> None:
    """The bounds of the tests above are exact."""
    assert read(written(1, limits.DAEMONS_MAX - 1, MOST, MOST)) == After(
        True, (Loose(limits.DAEMONS_MAX - 1, MOST, MOST),)
    )


def test_nothing_else_than_a_bad_frame_comes_of_any_bytes() -> None:
    """All values of one and two bytes, and every change of one byte in the golden ones."""
    values = [bytes((one,)) for one in range(256)]
    values += [bytes((one, two)) for one in range(256) for two in range(256)]
    for at in range(len(VECTOR)):
        values += [VECTOR[:at] + bytes((one,)) + VECTOR[at + 1 :] for one in range(256)]
    understood = 0
    for value in values:
        try:
            after = read(value)
        except BadFrame:
            continue
        understood += 1
        assert after is not None
        assert read(extension(after).value) == after
    assert 0 < understood < len(values)
