"""The parts that links and rings share: what is open, and what of a train is new."""

from msgspec import structs

from antiphon.core.effects import DatagramCounter
from antiphon.core.links.open_trains import OpenTrains
from antiphon.core.links.packing import Packer, Train
from antiphon.core.links.receiving import Reception
from antiphon.wire import packet, trains
from antiphon.wire.packet import Data, Fragment, PacketKind

PREFIX = packet.prefix(PacketKind.DATA, digest=7, sender=0, receiver=1, incarnation=3, view=9)
PACKET_BYTES = 200


def train(first: int, packets: int) -> Train:
    """Full packets, numbered from `first`."""
    packer = Packer(PACKET_BYTES, PREFIX, DatagramCounter())
    step = packet.capacity(PACKET_BYTES) - packet.FRAGMENT_ITEM_BYTES
    body = bytes(index % 251 for index in range(packets * step))
    packer.add(Fragment(0, 1, 1, len(body), 0, body))
    made = packer.train(first, packets)
    assert (made.first, made.count) == (first, packets)
    return made


def as_received(sent: Train) -> Data:
    (data,) = trains.parse_train(memoryview(b"".join(sent.buffers)), sent.stride_bytes)
    assert isinstance(data, Data) and data.count == sent.count
    return data


def test_a_train_is_open_until_all_of_it_is_acknowledged() -> None:
    kept = OpenTrains((train(1, 4), train(5, 2)))
    whole_bytes = kept.size_bytes
    kept.acknowledged(3)
    assert (kept.packets, kept.size_bytes) == (6, whole_bytes)
    kept.acknowledged(4)
    assert [open_train.first for open_train in kept] == [5]
    kept.acknowledged(9)
    assert (kept.packets, kept.size_bytes) == (0, 0)


def test_only_what_is_open_is_sent_again() -> None:
    """On a ring the numbers between two trains of one member belong to others."""
    kept = OpenTrains((train(2, 3), train(8, 2)))
    counter = DatagramCounter()
    for number in (2, 4, 8, 9):
        again = kept.packet(number, counter)
        assert again is not None
        parsed = packet.parse(memoryview(again))
        assert isinstance(parsed, Data) and parsed.head.number == number
    assert [number for number in range(12) if kept.packet(number, counter) is not None] == [2, 3, 4, 8, 9]


def test_what_is_sent_again_is_a_new_datagram() -> None:
    """Its head has another counter, and nothing else is different."""
    sent = train(1, 4)
    counter = DatagramCounter()
    counter.take(100)
    first = packet.parse(memoryview(sent.packet(2)))
    kept = OpenTrains((sent,))
    for expected in (101, 102):
        again = kept.packet(2, counter)
        assert again is not None
        parsed = packet.parse(memoryview(again))
        assert isinstance(parsed, Data) and isinstance(first, Data)
        assert parsed.head == structs.replace(first.head, counter=expected)
        assert (parsed.items, parsed.size_bytes) == (first.items, first.size_bytes)


def test_the_counters_of_a_train_are_taken_at_once() -> None:
    counter = DatagramCounter()
    assert (counter.take(), counter.take(5), counter.take()) == (1, 2, 7)
    packer = Packer(PACKET_BYTES, PREFIX, counter)
    packer.add(Fragment(0, 1, 1, 1_000, 0, bytes(1_000)))
    made = packer.train(1, 64)
    joined = memoryview(b"".join(made.buffers))
    heads = [
        found.head
        for at in range(0, made.size_bytes, made.stride_bytes)
        if isinstance(found := packet.parse(joined[at : at + made.stride_bytes]), Data)
    ]
    assert [head.counter for head in heads] == list(range(8, 8 + made.count))
    assert [head.number for head in heads] == list(range(1, 1 + made.count))
    assert counter.take() == 8 + made.count


def test_a_train_of_which_nothing_came_before_is_taken_as_a_whole() -> None:
    reception = Reception()
    data = as_received(train(1, 4))
    assert reception.take(data, 0) == ([data], 0)
    assert reception.take(data, 0) == ([], 4)
    assert reception.aru == 4


def test_of_a_train_that_came_in_part_only_the_rest_is_new() -> None:
    reception = Reception()
    data = as_received(train(1, 4))
    second = trains.split(data)[1]
    assert reception.take(second, 0) == ([second], 0)
    news, duplicates = reception.take(data, 0)
    assert ([part.head.number for part in news], duplicates) == ([1, 3, 4], 1)
    assert (reception.aru, reception.missing) == (4, 0)
