"""Packets that are retransmitted in pieces."""

import pytest

from antiphon import limits
from antiphon.core.effects import DatagramCounter
from antiphon.core.links.packing import Packer
from antiphon.core.links.pieces import Pieces
from antiphon.errors import BadPacket
from antiphon.wire import packet
from antiphon.wire.packet import Data, Fragment, PacketKind, Piece

STEP = 1_136


def prefix_of(kind: PacketKind) -> bytes:
    return packet.prefix(kind, digest=7, sender=0, receiver=1, incarnation=3, view=9)


def large_packet(number: int, size_bytes: int = 9_000) -> bytes:
    packer = Packer(size_bytes, prefix_of(PacketKind.DATA), DatagramCounter())
    body = bytes(index % 251 for index in range(size_bytes - 100))
    packer.add(Fragment(0, 1, 1, len(body), 0, body))
    return packer.train(number, 1).packet(number)


def pieces_of(sent: bytes) -> list[Piece]:
    cut = packet.pieces(prefix_of(PacketKind.PIECE), sent, STEP, DatagramCounter().take)
    assert max(map(len, cut)) <= limits.PACKET_BASE_BYTES
    found = [packet.parse(memoryview(data)) for data in cut]
    assert all(isinstance(piece, Piece) for piece in found)
    return found  # type: ignore[return-value]


def test_the_pieces_of_a_packet_are_that_packet_in_any_order() -> None:
    sent = large_packet(4)
    whole = packet.parse(memoryview(sent))
    pieces = Pieces(STEP)
    *first, last = reversed(pieces_of(sent))
    assert [pieces.take(piece) for piece in first] == [None] * len(first)
    items = pieces.take(last)
    assert items is not None
    again = packet.joined(last.head, items)
    assert isinstance(whole, Data)
    assert (again.items, again.head.number, again.size_bytes) == (whole.items, 4, whole.size_bytes)
    assert not pieces and pieces.size_bytes == 0


def test_pieces_of_several_retransmissions_complete_one_another() -> None:
    pieces = Pieces(STEP)
    once, again = pieces_of(large_packet(4)), pieces_of(large_packet(4))
    taken = [pieces.take(piece) for piece in (*once[::2], *once[::2], *again[1::2])]
    assert [items is not None for items in taken] == [False] * (len(taken) - 1) + [True]


def test_what_came_by_other_ways_is_forgotten() -> None:
    pieces = Pieces(STEP)
    for number in (4, 5):
        pieces.take(pieces_of(large_packet(number))[0])
    pieces.forget(4)
    assert pieces.size_bytes == STEP
    pieces.forget(5)
    assert not pieces and pieces.size_bytes == 0


def test_the_memory_is_bounded_and_the_oldest_packets_come_first() -> None:
    pieces = Pieces(STEP)
    for number in range(200, 0, -1):
        for piece in pieces_of(large_packet(number, 60_000))[:-1]:
            pieces.take(piece)
        assert pieces.size_bytes <= limits.LINK_PIECES_MAX_BYTES
    assert pieces.take(pieces_of(large_packet(1, 60_000))[-1]) is not None


@pytest.mark.parametrize(
    ("total", "offset", "size", "reason"),
    [
        (3_000, 1, STEP, "not cut as agreed"),
        (3_000, 0, STEP - 1, "not cut as agreed"),
        (9_000, STEP, STEP, "of another packet"),
    ],
)
def test_pieces_that_no_sender_makes_are_refused(total: int, offset: int, size: int, reason: str) -> None:
    pieces = Pieces(STEP)
    head = pieces_of(large_packet(4))[0].head
    pieces.take(Piece(head, 3_000, 0, bytes(STEP)))
    with pytest.raises(BadPacket, match=reason):
        pieces.take(Piece(head, total, offset, bytes(size)))


@pytest.mark.parametrize(("total", "offset", "size"), [(100, 50, 51), (61_441, 0, 10), (10, 1 << 31, 1)])
def test_a_piece_outside_its_packet_is_refused(total: int, offset: int, size: int) -> None:
    data = packet.whole(
        prefix_of(PacketKind.PIECE), packet.piece_body(total, offset, bytes(size)), 4, counter=1
    )
    with pytest.raises(BadPacket, match="outside its packet"):
        packet.parse(memoryview(data))
