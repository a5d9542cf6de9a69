"""Paths and faults."""

from itertools import pairwise
from random import Random

from antiphon.simulator.network import Bandwidth, BurstLoss, Duplicate, Fault, Jitter, Loss, Path, Reorder

PACKET = b"p" * 100


def path(*faults: Fault, coalesce: float = 0.0) -> Path:
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
