"""Emulated paths: what is held, what is lost, and that a seed decides it."""

from pathlib import Path

import pytest

from antiphon.config import Emulation
from antiphon.core.effects import Datagram
from antiphon.runtime import shaper
from antiphon.runtime.local import local_config
from antiphon.runtime.shaper import Shaper, emulated_paths


def train(count: int, receiver: int = 1) -> Datagram:
    """`count` packets of 10 bytes, the last one 5, each filled with its number."""
    buffers: list[bytes | memoryview] = [bytes([n]) * (10 if n < count - 1 else 5) for n in range(count)]
    return Datagram(receiver, buffers, 10, 10 * count - 5)


def packets(datagram: Datagram) -> list[bytes]:
    data = b"".join(datagram.buffers)
    assert len(data) == datagram.size_bytes
    return [data[at : at + datagram.stride_bytes] for at in range(0, len(data), datagram.stride_bytes)]


def fate(path: Emulation, seed: str, count: int = 200) -> list[tuple[int, list[bytes]]]:
    """When which packets come out, for a train of `count` sent at time 0."""
    shaping = Shaper({1: path}, seed)
    assert shaping.take(train(count), 0)
    out = []
    while (due_us := shaping.next_due_us()) is not None:
        out += [(due_us, packets(datagram)) for datagram in shaping.due(due_us)]
    return out


def test_a_path_without_emulation_is_left_alone() -> None:
    shaping = Shaper({1: Emulation(delay_ms=10)}, "seed")
    assert not shaping.take(train(3, receiver=2), 0)
    assert shaping.next_due_us() is None


def test_the_delay_is_kept_and_a_train_stays_a_train() -> None:
    shaping = Shaper({1: Emulation(delay_ms=12.5)}, "seed")
    shaping.take(train(4), 1_000)
    shaping.take(train(2), 1_001)
    assert shaping.next_due_us() == 13_500
    assert shaping.due(13_499) == []
    (first,) = shaping.due(13_500)
    assert packets(first) == packets(train(4))
    (second,) = shaping.due(20_000)
    assert packets(second) == packets(train(2))
    assert shaping.next_due_us() is None


def test_packets_are_lost_one_by_one_and_the_rest_is_a_train() -> None:
    ((due_us, survivors),) = fate(Emulation(delay_ms=1, loss=0.3), "seed")
    assert due_us == 1_000
    assert 100 < len(survivors) < 180
    assert survivors == [packet for packet in packets(train(200)) if packet in survivors]


def test_losses_are_counted() -> None:
    shaping = Shaper({1: Emulation(loss=0.5)}, "seed")
    shaping.take(train(100), 0)
    (survivors,) = shaping.due(0)
    assert shaping.lost == 100 - len(packets(survivors))


def test_jitter_lets_packets_overtake_one_another() -> None:
    out = fate(Emulation(delay_ms=10, jitter_ms=5), "seed")
    times = [due_us for due_us, _ in out]
    numbers = [packet[0] for _, (packet,) in out]
    assert times == sorted(times)
    assert 10_000 <= times[0] < times[-1] <= 15_000
    assert numbers != sorted(numbers)
    assert sorted(numbers) == list(range(200))


@pytest.mark.parametrize("path", [Emulation(loss=0.2), Emulation(delay_ms=3, jitter_ms=2, loss=0.2)])
def test_the_seed_decides(path: Emulation) -> None:
    assert fate(path, "seed") == fate(path, "seed")
    assert fate(path, "seed") != fate(path, "another seed")


def test_a_full_path_loses_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaper, "DELAYED_MAX_BYTES", 100)
    shaping = Shaper({1: Emulation(delay_ms=1)}, "seed")
    shaping.take(train(9), 0)
    shaping.take(train(3), 0)
    assert shaping.overflowed == 3
    assert [packets(datagram) for datagram in shaping.due(1_000)] == [packets(train(9))]
    shaping.take(train(3), 2_000)
    assert shaping.overflowed == 3


def test_paths_come_from_the_links_of_the_daemons_site(tmp_path: Path) -> None:
    config = local_config(3, tmp_path, delay_ms=7, chain=True)
    path = Emulation(delay_ms=7)
    assert emulated_paths(config, "d1") == {1: path}
    assert emulated_paths(config, "d2") == {0: path, 2: path}
    assert emulated_paths(local_config(3, tmp_path), "d2") == {}


def test_paths_lead_to_every_daemon_of_a_linked_site_and_not_to_those_of_the_own(tmp_path: Path) -> None:
    config = local_config(3, tmp_path, daemons=2, delay_ms=7, chain=True)
    path = Emulation(delay_ms=7)
    assert emulated_paths(config, "d1") == emulated_paths(config, "d2") == {2: path, 3: path}
    assert emulated_paths(config, "d4") == {0: path, 1: path, 4: path, 5: path}
