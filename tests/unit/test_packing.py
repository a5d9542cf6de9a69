"""How bundles become packets and trains."""

from random import Random

import pytest

from antiphon import limits
from antiphon.core.effects import DatagramCounter
from antiphon.core.links.packing import Packer, Train
from antiphon.wire import packet, trains
from antiphon.wire.packet import Data, Fragment, PacketKind, Update

PREFIX = packet.prefix(PacketKind.DATA, digest=7, sender=0, receiver=1, incarnation=3, view=9)


def queue(sizes: list[int], packet_bytes: int = 1_400) -> Packer:
    packer = Packer(packet_bytes, PREFIX, DatagramCounter())
    for number, size in enumerate(sizes, start=1):
        packer.add(Fragment(0, number, 1, size, 0, bytes([number % 251]) * size))
    return packer


def sent(packer: Packer, packets_max: int = 64) -> list[Train]:
    made, first = [], 1
    while packer:
        made.append(packer.train(first, packets_max))
        first += made[-1].count
    return made


def carried(made: list[Train]) -> list[Fragment]:
    """The fragments as they arrive, in order."""
    found: list[Fragment] = []
    for train in made:
        data = memoryview(b"".join(train.buffers))
        assert len(data) == train.size_bytes <= limits.TRAIN_MAX_BYTES
        numbers = []
        for incoming in trains.parse_train(data, train.stride_bytes):
            assert isinstance(incoming, Data)
            numbers += range(incoming.head.number, incoming.head.number + incoming.count)
            found += [item for item in incoming.items if isinstance(item, Fragment)]
        assert numbers == list(range(train.first, train.first + train.count))
    return found


def whole_again(fragments: list[Fragment], sizes: list[int]) -> bool:
    """Whether every byte of the bundles has come, once and in order."""
    joined = b"".join(bytes(fragment.body) for fragment in fragments)
    return joined == b"".join(bytes([number % 251]) * size for number, size in enumerate(sizes, start=1))


@pytest.mark.parametrize("packet_bytes", [1_200, 1_400, 8_952, 61_440])
@pytest.mark.parametrize("size", [50, 190, 700, 1_112])
def test_bundles_that_fit_a_packet_are_not_cut(packet_bytes: int, size: int) -> None:
    sizes = [size] * 500
    fragments = carried(sent(queue(sizes, packet_bytes)))
    assert [len(fragment.body) for fragment in fragments] == sizes


@pytest.mark.parametrize("size", [190, 700, 1_112])
def test_bundles_of_one_size_travel_in_full_trains(size: int) -> None:
    """No padding is needed: each packet of a train has as many of them as the first."""
    made = sent(queue([size] * 2_000))
    packets = sum(train.count for train in made)
    assert len(made) <= -(-packets // 40)
    each = (packet.capacity(1_400)) // (size + packet.FRAGMENT_ITEM_BYTES)
    assert packets == -(-2_000 // each)
    assert sum(train.size_bytes for train in made) == packets * 44 + 2_000 * (
        size + packet.FRAGMENT_ITEM_BYTES
    )


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_sizes_everything_arrives(seed: int) -> None:
    random = Random(seed)
    packet_bytes = random.choice((512, 1_200, 1_400, 9_000, 61_440))
    sizes = [int(10 * 10 ** (4 * random.random() ** 2)) for _ in range(300)]
    packer = queue(sizes, packet_bytes)
    for source in range(random.choice((0, 3))):
        packer.add_update(Update(source, 1, 1, 1, 1))
    fragments = carried(sent(packer, random.choice((1, 3, 64))))
    assert whole_again(fragments, sizes)
    step = packet.capacity(packet_bytes) - packet.FRAGMENT_ITEM_BYTES
    cut = {fragment.number for fragment in fragments if len(fragment.body) < fragment.total}
    assert all(sizes[number - 1] > step for number in cut)


def test_padding_makes_packets_that_lack_little_part_of_a_train() -> None:
    sizes = list(Random(5).choices(range(80, 160), k=800))
    made = sent(queue(sizes))
    used = sum(sizes) + len(sizes) * packet.FRAGMENT_ITEM_BYTES
    packets = sum(train.count for train in made)
    assert packets / len(made) > 5
    assert sum(train.size_bytes for train in made) - packets * 44 - used < used // 8
    assert whole_again(carried(made), sizes)


def test_packets_may_change_their_size_in_the_middle_of_a_bundle() -> None:
    sizes = [20_000, 300, 5_000, 40_000]
    packer = queue(sizes, 1_400)
    made, first = [], 1
    for packet_bytes in (1_400, 8_952, 1_200, 61_440):
        packer.resize(packet_bytes)
        made.append(packer.train(first, 2))
        first += made[-1].count
        assert made[-1].stride_bytes <= packet_bytes
    made += list(sent(packer))
    fragments = [fragment for train in made for fragment in carried_of(train)]
    assert whole_again(fragments, sizes)


def carried_of(train: Train) -> list[Fragment]:
    data = memoryview(b"".join(train.buffers))
    return [
        item
        for incoming in trains.parse_train(data, train.stride_bytes)
        if isinstance(incoming, Data)
        for item in incoming.items
        if isinstance(item, Fragment)
    ]
