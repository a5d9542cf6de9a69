"""Whole runs: the shipping core under every scenario, judged by the oracle."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from antiphon import trace as traces
from antiphon.errors import UsageError
from antiphon.simulator.oracle import judge
from antiphon.simulator.outcome import counted
from antiphon.simulator.run import Outcome, run_seed, run_seeds, simulate
from antiphon.simulator.scenarios import SCENARIOS
from antiphon.simulator.scenarios.steady import CHAIN_DELTAS_MS, CHAIN_SERVICES
from antiphon.simulator.stage import Stage
from antiphon.trace import Trace

DIAMETER_US = 90_000
REPEATED = ("mixed", "swarm", "streams")
"""Links that lose, daemons that come and go, connections; `make test-long` repeats the other scenarios."""


@cache
def ran(seed: int, scenario: str) -> Outcome:
    """The outcome of a seed, which several tests look at."""
    return run_seed(seed, scenario)


def judged(seed: int, scenario: str) -> Stage:
    """A run that was found clean, for a test that looks at more than its outcome."""
    stage = simulate(seed, scenario)
    daemons = tuple(daemon.name for daemon in stage.plan.daemons())
    sites = tuple(site.name for site in stage.plan.sites for _ in site.daemons)
    trace = Trace(scenario, seed, daemons, stage.world.records, sites=sites)
    assert judge(trace) == []
    counts = counted(trace, stage)
    assert counts.messages > 0 and counts.deliveries > 0
    return stage


def complaint(outcome: Outcome) -> str:
    return "\n".join([outcome.error, *map(str, outcome.violations)])


SEEDS = {
    "mixed": (3, 60),
    "swarm": (3, 10),
    "sites": (2, 10),
    "pruned": (2, 16),
    "large": (1, 6),
    "streams": (1, 3),
    "poisoned": (1, 15),
    "apart": (1, 10),
    "slices": (1, 20),
    "uneven": (1, 3),
    "holes": (1, 10),
    "heavy": (1, 4),
    "far": (1, 15),
    "crowds": (1, 4),
    "twins": (1, 15),
    "users": (1, 10),
    **dict.fromkeys(
        ("partition", "crash", "restart", "cascade", "oneway", "flap", "merge", "promises"), (1, 3)
    ),
}
"""How many seeds of a scenario are run, and how many `make test-long` runs."""


@pytest.mark.parametrize(
    ("scenario", "first", "count"),
    [
        *((name, 0, few) for name, (few, _) in SEEDS.items()),
        *(pytest.param(name, few, many - few, marks=pytest.mark.long) for name, (few, many) in SEEDS.items()),
        ("slow", 36, 1),  # see docs/track-record.md
        ("streams", 136, 1),
        ("twins", 44, 1),
        ("refusals", 9, 2),
        pytest.param("refusals", 11, 50, marks=pytest.mark.long),
    ],
)
def test_seeds_are_clean(scenario: str, first: int, count: int) -> None:
    for seed in range(first, first + count):
        outcome = ran(seed, scenario)
        assert outcome.is_clean, complaint(outcome)
        assert outcome.counts.messages > 0
        assert outcome.counts.deliveries > 0


@pytest.mark.long
def test_mixed_seeds_are_large_and_lossy_often_enough() -> None:
    """At least a third of the seeds have ten sites or more, and losses are real."""
    outcomes = [ran(seed, "mixed") for seed in range(10)]
    assert sum(outcome.sites >= 10 for outcome in outcomes) * 3 >= len(outcomes)
    assert max(outcome.counts.lost / outcome.counts.packets for outcome in outcomes) > 0.05
    assert any(outcome.counts.duplicated for outcome in outcomes)


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 10, 20, 30])
def test_swarms_are_clean_and_change_views(first: int) -> None:
    """A seed installs ten daemon views and delivers 500 messages on average, most of them after a change."""
    outcomes = [ran(seed, "swarm") for seed in range(first, first + 10)]
    for outcome in outcomes:
        assert outcome.is_clean, complaint(outcome)
    assert sum(outcome.counts.installations for outcome in outcomes) >= 10 * len(outcomes)
    assert sum(outcome.counts.deliveries for outcome in outcomes) >= 500 * len(outcomes)
    assert sum(outcome.counts.deliveries_after_change for outcome in outcomes) >= 250 * len(outcomes)
    assert sum(outcome.counts.signals for outcome in outcomes) >= len(outcomes)


@pytest.mark.long
def test_every_state_meets_what_it_can_meet() -> None:
    """The states of the membership see packets of every kind, and clients come in all of them."""
    outcomes = [ran(seed, "swarm") for seed in (*range(10), 13)]
    events = {cell for outcome in outcomes for cell in outcome.events}
    for state in ("op", "seg", "rep", "gather", "statetrans", "evs"):
        for event in ("beat", "timeout"):
            assert (state, event) in events
    for state in ("op", "seg", "gather", "statetrans", "evs"):
        for event in ("data", "connect"):
            assert (state, event) in events
    reasons = {reason for outcome in outcomes for reason in outcome.rounds}
    assert {"started", "silence", "restarted", "abandoned", "found"} <= reasons


@pytest.mark.parametrize("seeds", [range(2, 4), pytest.param(range(4, 12), marks=pytest.mark.long)])
def test_floods_are_clean_and_reach_every_limit(seeds: range) -> None:
    """A scenario that does not get there proves nothing about back-pressure."""
    full = slow = 0
    for seed in seeds:
        stage = judged(seed, "flood")
        records = stage.world.records
        limit_bytes = stage.plan.settings.unstable_bytes
        full += any(record.buffers.get("own_unstable", (0, 0))[0] >= limit_bytes for record in records)
        slow += any(record.cause == "slow-receiver" for record in records)
    assert full >= len(seeds) // 2
    assert slow >= 1


@pytest.mark.long
def test_slow_receivers_are_clean_and_meet_every_policy() -> None:
    """Some are warned, some go without unreliable messages, all wait for some, and some are cut off."""
    warned = dropped = held = cut = 0
    for seed in range(6):
        stage = judged(seed, "slow")
        for host in stage.world.hosts:
            assert host.node is not None
            warned += host.node.sessions.warned
            dropped += host.node.sessions.dropped_messages
        records = stage.world.records
        held += any(record.buffers.get("session_output", (0, 0))[0] for record in records)
        cut += any(record.cause == "slow-receiver" for record in records)
    assert warned and dropped and held and cut


@pytest.mark.parametrize("seed", range(len(CHAIN_SERVICES) * len(CHAIN_DELTAS_MS)))
def test_latency_on_the_chain_of_the_thesis(seed: int) -> None:
    """Reliable and FIFO about D, agreed <= 2D + delta, safe <= 3D + 2 delta (thesis 5.2, table 5.1); causal
    about D, too (NAVTECH 4)."""
    outcome = run_seed(seed, "chain")
    assert outcome.is_clean, complaint(outcome)
    service = CHAIN_SERVICES[seed % len(CHAIN_SERVICES)].name.lower()
    latency = outcome.latencies[service]
    delta_us = int(CHAIN_DELTAS_MS[seed // len(CHAIN_SERVICES)] * 1_000)
    bounds_us = {
        "reliable": DIAMETER_US + 3_000,
        "fifo": DIAMETER_US + 3_000,
        "causal": DIAMETER_US + 3_000,
        "agreed": 2 * DIAMETER_US + delta_us,
        "safe": 3 * DIAMETER_US + 2 * delta_us,
    }
    assert latency.deliveries > 300
    assert DIAMETER_US <= latency.max_us <= bounds_us[service]


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(name, marks=[] if name in REPEATED else [pytest.mark.long])
        for name in SCENARIOS
        if name not in ("hundred", "upheaval")
    ],
)
def test_the_same_seed_gives_the_same_run(scenario: str) -> None:
    first, second = ran(2, scenario), run_seed(2, scenario)
    assert first.digest == second.digest
    assert first.counts == second.counts
    assert first.digest != ran(0, scenario).digest


@pytest.mark.parametrize(
    ("scenario", "hash_seed"), [("mixed", "1"), ("swarm", "2"), ("cascade", "3"), ("streams", "4")]
)
def test_a_run_does_not_depend_on_how_strings_are_hashed(scenario: str, hash_seed: str) -> None:
    code = f"from antiphon.simulator.run import run_seed; print(run_seed(2, '{scenario}').digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == ran(2, scenario).digest


def test_a_trace_file_says_what_the_run_said(tmp_path: Path) -> None:
    outcome = run_seed(2, "mixed", tmp_path)
    trace = traces.read(tmp_path / "mixed-2.jsonl")
    assert trace.digest() == outcome.digest
    assert (trace.scenario, trace.seed, len(trace.daemons)) == ("mixed", 2, outcome.sites)
    assert judge(trace) == []


def test_files_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    for text in ("", "{}", '{"format":"other","version":1,"run":"a-1","scenario":"a","seed":1,"daemons":[]}'):
        wrong.write_text(text)
        with pytest.raises(UsageError, match="not a trace"):
            traces.read(wrong)


def test_several_jobs_give_the_same_summary(tmp_path: Path) -> None:
    heard: list[int] = []
    alone = run_seeds(range(2, 5), "mixed", progress=lambda outcome: heard.append(outcome.seed))
    together = run_seeds(range(2, 5), "mixed", jobs=2, trace_dir=tmp_path)
    assert heard == [2, 3, 4]
    assert alone.is_clean and together.is_clean
    assert (alone.seeds, alone.counts, alone.reasons) == (together.seeds, together.counts, together.reasons)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"mixed-{seed}.jsonl" for seed in (2, 3, 4)]


def test_an_unknown_scenario_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="known: mixed, chain"):
        run_seed(0, "no such thing")


def test_an_exception_inside_a_run_is_part_of_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setitem(SCENARIOS, "mixed", fails)
    outcome = run_seed(5, "mixed")
    assert not outcome.is_clean
    assert "on purpose" in outcome.error
    (failure,) = run_seeds(range(5, 6), "mixed").failures
    assert (failure.seed, failure.error) == (5, outcome.error)


@pytest.mark.long
def test_a_hundred_daemons_part_and_come_together() -> None:
    outcome = run_seed(0, "hundred")
    assert outcome.is_clean, complaint(outcome)
    assert outcome.daemons == 100
    assert outcome.counts.installations >= 300
