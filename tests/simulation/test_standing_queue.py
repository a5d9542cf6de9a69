"""What a flood costs in latency, in virtual time (`bench/standing_queue.py`). (ours)"""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "bench" / "standing_queue.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("standing_queue", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "case",
    [
        "three sites, 50 ms, 20 MB/s",
        pytest.param("three sites, paused", marks=pytest.mark.long),
        pytest.param("three sites, lossy", marks=pytest.mark.long),
        pytest.param("three sites, idle", marks=pytest.mark.long),
    ],
)
def test_half_of_a_flood_takes_four_round_trips_at_most(bench: ModuleType, case: str) -> None:
    """With a fixed limit of 16 MiB it took seventeen."""
    row = bench.measure(case, bench.CASES[case], 1.0)
    assert row["round_trips"] <= 4.0
    assert row["mb_per_s"] >= (14.0 if "paused" in case else 17.0), "the path carries 20"


def test_a_flood_over_a_slow_path_costs_others_a_second_at_most(bench: ModuleType) -> None:
    """With a fixed limit of 16 MiB it cost them 18."""
    case = "two sites, 50 ms, 1 MB/s"
    row = bench.measure(case, bench.CASES[case], 2.0)
    assert row["ping_max_ms"] <= 1_200
    assert row["mb_per_s"] >= 0.9


def test_what_a_lan_carries_is_not_limited(bench: ModuleType) -> None:
    case = "two sites, near"
    assert bench.measure(case, bench.CASES[case], 0.3)["mb_per_s"] >= 95
