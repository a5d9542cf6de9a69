"""Paths and faults."""

from itertools import pairwise
from random import Random

from antiphon.simulator.network import (
    AnyFault,
    Bandwidth,
    BurstLoss,
    Corrupt,
    Delay,
    Duplicate,
    Jitter,
    Loss,
    Network,
    Path,
    Reorder,
)

PACKET = b"p" * 100


def path(*faults: AnyFault, coalesce: float = 0.0) -> Path:
    return Path(1_000, faults, Random(1), coalesce)


def times(path: Path, count: int, every_us: int = 10) -> list[int]:
    return [arrival[0] for turn in range(count) for arrival in path.carry(PACKET, 100, turn * every_us)]


def test_a_faultless_path_only_delays() -> None:
    assert path().carry(PACKET, 100, 5) == [(1_005, PACKET, 100)]


def test_loss_is_counted_and_near_its_rate() -> None:
    lossy = path(Loss(0.2))
    arrived = len(times(lossy, 5_000))
    assert lossy.sent == 5_000
    assert lossy.lost == 5_000 - arrived
    assert 800 < lossy.lost < 1_200


def test_bursts_take_neighbours() -> None:
    arrivals = times(path(BurstLoss(enter=0.01, leave=0.1)), 20_000, every_us=1)
    gaps = [later - earlier - 1 for earlier, later in pairwise(arrivals)]
    runs = [gap for gap in gaps if gap]
    assert 5 < sum(runs) / len(runs) < 20


def test_jitter_keeps_the_order() -> None:
    arrivals = times(path(Jitter(500)), 1_000)
    assert arrivals == sorted(arrivals)
    assert len({arrival - turn * 10 for turn, arrival in enumerate(arrivals)}) > 10


def test_reordering_does_not() -> None:
    arrivals = times(path(Reorder(0.1, 500)), 1_000)
    assert len(arrivals) == 1_000
    assert arrivals != sorted(arrivals)


def test_duplicates_are_counted() -> None:
    doubling = path(Duplicate(0.5))
    assert len(times(doubling, 1_000)) == 1_000 + doubling.duplicated
    assert 400 < doubling.duplicated < 600


def test_a_damaged_packet_differs_in_one_bit() -> None:
    damaging = path(Corrupt(0.5))
    flips = [
        (int.from_bytes(data) ^ int.from_bytes(PACKET)).bit_count()
        for turn in range(1_000)
        for _, data, _ in damaging.carry(PACKET, 100, turn * 10)
    ]
    assert len(flips) == 1_000
    assert sum(flips) == damaging.corrupted
    assert set(flips) == {0, 1}
    assert 400 < damaging.corrupted < 600


def test_bandwidth_delays_and_then_drops() -> None:
    narrow = path(Bandwidth(bytes_per_s=100_000, queue_bytes=1_000))
    arrivals = times(narrow, 50, every_us=0)
    assert arrivals == [1_000 + 1_000 * place for place in range(1, len(arrivals) + 1)]
    assert 10 <= len(arrivals) <= 12
    assert narrow.lost == 50 - len(arrivals)


def test_each_packet_of_a_train_has_its_own_fate() -> None:
    lossy = path(Loss(0.5))
    train = bytes(range(64)) * 10
    arrivals = lossy.carry(train, 10, 0)
    assert lossy.sent == 64
    assert 15 < len(arrivals) < 50
    assert all(size == 10 and len(data) == 10 for _, data, size in arrivals)


def test_what_arrives_together_may_be_read_as_one_train() -> None:
    train = b"a" * 10 + b"b" * 10 + b"c" * 4
    assert path(coalesce=1.0).carry(train, 10, 0) == [(1_000, train, 10)]
    assert path(coalesce=0.0).carry(train, 10, 0) == [
        (1_000, b"a" * 10, 10),
        (1_000, b"b" * 10, 10),
        (1_000, b"c" * 4, 4),
    ]


def test_a_short_packet_ends_a_train() -> None:
    """A duplicate of a short last packet cannot follow it in the same train."""
    doubling = path(Duplicate(1.0, within_us=1), coalesce=1.0)
    arrivals = doubling.carry(b"a" * 10 + b"c" * 4, 10, 0)
    assert [(data, size) for _, data, size in arrivals] == [(b"a" * 20 + b"c" * 4, 10), (b"c" * 4, 4)]


def test_a_delay_holds_packets_back_until_it_is_over() -> None:
    slow = path()
    spike = Delay(5_000)
    slow.suffer(spike)
    assert slow.carry(PACKET, 100, 0) == [(6_000, PACKET, 100)]
    slow.recover(spike)
    assert slow.carry(PACKET, 100, 10) == [(6_000, PACKET, 100)], "what comes later does not overtake it"
    assert slow.carry(PACKET, 100, 9_000) == [(10_000, PACKET, 100)]


def test_a_passing_fault_takes_the_place_of_a_lasting_one_of_its_kind() -> None:
    lossy = path(Loss(0.0), Jitter(5))
    lossy.suffer(Loss(1.0))
    assert times(lossy, 50) == []
    lossy.recover_all()
    assert len(times(lossy, 50)) == 50


# Cuts and partitions --------------------------------------------------------------------------------------


def network(daemons: int) -> Network:
    """Everybody has a path to everybody."""
    return Network(
        {(one, other): path() for one in range(daemons) for other in range(daemons) if one != other}
    )


def works(some: Network, one: int, other: int) -> bool:
    return bool(some.carry((one, other), PACKET, 100, 0))


def test_a_block_is_one_way() -> None:
    some = network(2)
    some.block((0, 1))
    assert (works(some, 0, 1), works(some, 1, 0)) == (False, True)
    assert some.paths[0, 1].lost == 1


def test_two_blocks_are_two() -> None:
    some = network(2)
    some.block((0, 1))
    some.block((0, 1))
    some.unblock((0, 1))
    assert not works(some, 0, 1)
    some.unblock((0, 1))
    assert works(some, 0, 1)


def test_a_partition_has_parts_and_the_rest() -> None:
    some = network(5)
    some.split([(0, 1), (2,)])
    assert some.components(range(5)) == [(0, 1), (2,), (3, 4)]
    some.split([(0, 3)])
    assert some.components(range(5)) == [(0, 3), (1, 2, 4)]
    some.unite()
    assert some.components(range(5)) == [(0, 1, 2, 3, 4)]


def test_healing_ends_everything() -> None:
    some = network(3)
    some.split([(0,), (1, 2)])
    some.block((1, 2))
    some.paths[0, 1].suffer(Loss(1.0))
    some.heal()
    assert all(works(some, one, other) for one, other in some.paths)


def test_components_are_of_pairs_that_work_both_ways() -> None:
    some = network(4)
    for pair in ((0, 1), (2, 0), (1, 2), (3, 0)):
        some.block(pair)
    assert some.components(range(4)) == [(0,), (1, 2, 3)], "1 and 2 reach each other through 3"
    assert some.components((0, 1, 2)) == [(0,), (1,), (2,)]


def test_a_packet_without_a_path_goes_astray() -> None:
    some = Network({(0, 1): path()})
    assert some.carry((1, 0), PACKET * 3, 100, 0) == []
    assert some.astray == 3
