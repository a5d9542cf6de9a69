"""Golden bytes of what stands on a connection between two daemons, and what is refused there."""

import random

import pytest

from antiphon import limits
from antiphon.errors import BadPacket
from antiphon.wire import streams
from antiphon.wire.streams import Answer, Greeting
from antiphon.wire.versions import GREETING_MAX_BYTES, OtherVersion

GREETING = Greeting(digest=0xD1E57001, sender=2, receiver=0x0103, incarnation=0x0A0B0C0D)
GREETING_BYTES = bytes.fromhex("00000010 A8 01 00 00 D1E57001 0002 0103 0A0B0C0D")


def test_a_greeting_has_these_bytes() -> None:
    assert streams.greeting(GREETING) == GREETING_BYTES
    assert streams.parse_greeting(memoryview(GREETING_BYTES[4:])) == GREETING


@pytest.mark.parametrize("answer", Answer)
def test_a_refusal_says_why(answer: Answer) -> None:
    said = Greeting(1, 2, 3, 4, answer)
    assert streams.parse_greeting(memoryview(streams.greeting(said)[4:])) == said
    assert said.answer.words


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0xA7, "greeting: not ours"),
        (1, 2, "greeting: unknown version"),
        (2, 4, "greeting: unknown answer"),
        (2, 255, "greeting: unknown answer"),
    ],
)
def test_what_is_no_greeting_is_refused(at: int, value: int, reason: str) -> None:
    body = bytearray(GREETING_BYTES[4:])
    body[at] = value
    with pytest.raises(BadPacket, match=reason):
        streams.parse_greeting(memoryview(body))


@pytest.mark.parametrize("size", [0, 15, 17, 1_000])
def test_a_greeting_has_one_size(size: int) -> None:
    with pytest.raises(BadPacket, match="wrong size"):
        streams.parse_greeting(memoryview(bytes(size)))


@pytest.mark.parametrize("size", [16, 40, GREETING_MAX_BYTES])
def test_a_greeting_of_another_version_says_whose_it_is(size: int) -> None:
    """Whatever else it has, it begins as ours."""
    body = bytearray(GREETING_BYTES[4:].ljust(size, b"\xff"))
    body[1] = 9
    with pytest.raises(OtherVersion, match="greeting: unknown version") as raised:
        streams.parse_greeting(memoryview(body))
    found = raised.value
    assert (found.what, found.version, found.ours) == ("greeting", 9, 1)
    assert (found.digest, found.sender, found.receiver) == (0xD1E57001, 2, 0x0103)


def test_frames_are_found_wherever_they_are_cut() -> None:
    bodies = [b"one", b"", b"x" * 5_000, b"", b"last"]
    data = b"".join(streams.length(len(body)) + body for body in bodies)
    for cut in (0, 1, 3, 4, 5, 8, 4_000, len(data) - 1, len(data)):
        first, used = streams.split(memoryview(data[:cut]))
        rest, used_then = streams.split(memoryview(data[used:]))
        assert [bytes(body) for body in (*first, *rest)] == [b"one", b"x" * 5_000, b"last"]
        assert used + used_then == len(data)


def test_a_sign_of_life_is_an_empty_frame() -> None:
    assert streams.length(0) == streams.SIGN_OF_LIFE
    assert streams.split(memoryview(streams.SIGN_OF_LIFE * 3)) == ([], 12)


def test_a_length_that_no_packet_has_is_refused_before_anything_is_kept() -> None:
    """Whatever else is there."""
    whole = streams.length(3) + b"one"
    with pytest.raises(BadPacket, match="too long"):
        streams.split(memoryview(whole + streams.length(limits.PACKET_MAX_BYTES + 1)))
    streams.split(memoryview(streams.length(limits.PACKET_MAX_BYTES)))


def test_no_bytes_raise_anything_else() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        data = memoryview(chance.randbytes(chance.randrange(40)))
        for read in (streams.split, streams.parse_greeting):
            try:
                read(data)
            except BadPacket as error:
                assert error.reason
