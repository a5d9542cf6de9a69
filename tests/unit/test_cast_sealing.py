"""Packets of casts on their way: whoever has no key of the cast reads none, makes none and changes none."""

from random import Random

import pytest
from vectors import octets

from antiphon.core.sealing import casts as sealing
from antiphon.core.sealing.casts import PACKET_MAX_BYTES, CastSealing
from antiphon.errors import BadPacket
from antiphon.wire import casts, edges
from antiphon.wire.casts import HEAD_BYTES, News, Piece

CAST = edges.Cast("lan", 9, bytes(range(32)))
PIECE = Piece(CAST.stream, 7, b"two lumps of sugar")


def process(number: int) -> CastSealing:
    return CastSealing(Random(number).randbytes)


def test_a_sealed_packet_to_the_byte() -> None:
    salt = bytes(range(16, 32))
    one = CastSealing(lambda size: salt[:size]).seal(CAST)
    data = one.encode(Piece(9, 7, b"tea"))
    clear = octets("AC 01 01 00", "0000000000000009  # stream") + salt + octets("0000000000000001  # counter")
    assert data == clear + octets("A34998A9FAFA98E7841D7373ED2C3B36503D3DF3507FD283DB57BE")


def test_whoever_has_the_key_reads_what_another_process_has_sealed() -> None:
    coordinator, child = process(1).seal(CAST), process(2).seal(CAST)
    data = coordinator.encode(PIECE)
    assert child.decode(data) == child.decode(memoryview(data)) == PIECE
    assert coordinator.decode(child.encode(News(9, 1, 2, 3))) == News(9, 1, 2, 3)
    assert b"sugar" not in data


def test_every_bit_counts() -> None:
    child = process(2).seal(CAST)
    data = process(1).seal(CAST).encode(PIECE)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(BadPacket):
            child.decode(bytes(changed))
    for size in (*range(len(data)), PACKET_MAX_BYTES + 1):
        with pytest.raises(BadPacket):
            child.decode(data[:size].ljust(size, b"\0"))


def test_a_cast_with_the_same_number_and_another_key_is_another_one() -> None:
    other = edges.Cast(CAST.place, CAST.stream, bytes(32))
    with pytest.raises(BadPacket, match="not genuine"):
        process(1).seal(CAST).decode(process(2).seal(other).encode(PIECE))


def test_no_nonce_is_used_twice_even_if_a_cast_is_heard_again() -> None:
    child = process(2)
    assert child.seal(CAST).encode(PIECE) != child.seal(CAST).encode(PIECE)


def test_coordinators_of_one_name_announce_casts_of_their_own() -> None:
    told = [process(number).announce("lan") for number in range(20)]
    assert len({cast.stream for cast in told}) == len({cast.key for cast in told}) == 20


def test_a_key_is_not_shown() -> None:
    assert repr(CAST) == "Cast('lan', 9)"


def test_strangers_with_ever_new_salts_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SENDERS_MAX", 3)
    child = process(2).seal(CAST)
    head = casts.encode(PIECE)[:HEAD_BYTES]
    for number in range(10):
        with pytest.raises(BadPacket, match="not genuine"):
            child.decode(head + Random(number).randbytes(80))
    assert not child._openers
    for number in range(10, 20):
        assert child.decode(process(number).seal(CAST).encode(PIECE)) == PIECE
    assert len(child._openers) == 3
