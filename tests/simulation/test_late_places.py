"""An order that gives places late keeps every promise: the rest of a daemon asks for places."""

from collections.abc import Iterator

import pytest
from fixed_sequencer import SHIFT, FixedSequencer, ReadsLts

from antiphon.core.membership import engine
from antiphon.simulator.play import play
from antiphon.simulator.run import run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import ORDERED_SERVICES, Event

SEEDS = 5
LONG_SEEDS = 200
SCENARIOS = ("mixed", "swarm")
FOUND = (("swarm", 115),)
"""Seeds that have found a bug once."""


@pytest.fixture
def sequencer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(FixedSequencer, "late", 0)
    monkeypatch.setitem(engine.ORDERS, "symmetric", FixedSequencer)
    yield
    assert FixedSequencer.late, "no place was given late"


@pytest.mark.usefixtures("sequencer")
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, SEEDS))])
def test_places_may_come_late(scenario: str, seed: int) -> None:
    outcome = run_seed(seed, scenario)
    assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))


@pytest.mark.usefixtures("sequencer")
@pytest.mark.parametrize(("scenario", "seed"), FOUND)
def test_places_that_come_late_once_broke_a_promise(scenario: str, seed: int) -> None:
    outcome = run_seed(seed, scenario)
    assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("sequencer")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_places_may_come_late_in_many_runs(scenario: str) -> None:
    for seed in range(SEEDS, LONG_SEEDS):
        outcome = run_seed(seed, scenario)
        assert outcome.is_clean, f"seed {seed}\n" + outcome.error + "\n".join(map(str, outcome.violations))


@pytest.mark.usefixtures("sequencer")
def test_traces_and_clients_know_the_place() -> None:
    records = play(plan_of("swarm", 2)).world.records
    delivered = [record for record in records if record.event is Event.SDELIVER]
    assert delivered and all(record.place == record.lts + SHIFT for record in delivered)
    places = {record.place for record in delivered}
    ordered = [
        record for record in records if record.event is Event.DELIVER and record.service in ORDERED_SERVICES
    ]
    assert ordered and all(record.lts in places for record in ordered)


@pytest.mark.long
def test_whoever_reads_the_lts_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.ORDERS, "symmetric", ReadsLts)
    assert any(not run_seed(seed, "swarm").is_clean for seed in range(SEEDS))
