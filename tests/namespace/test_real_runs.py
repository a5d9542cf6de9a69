"""The plans of the simulator on real daemons, each in a network namespace of its own, under the same oracle.

A plan here takes as long as it says: most of them are for `make test-long`.
"""

from pathlib import Path

import pytest
from real_host import read_diary
from real_run import RealOutcome, run_really
from wires import why_not

from antiphon.simulator import plan as plans
from antiphon.simulator.mutants import MUTANTS
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import Plan
from antiphon.simulator.run import run_plan
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import ORDERED_SERVICES, Event, Trace
from antiphon.trace.records import OF_EDGES, OF_LOCKS_AND_CALLS

FILES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.json"))
SHORT = "once-each"
SEEDS = [
    *((scenario, seed) for scenario in ("partition", "crash", "restart", "cascade") for seed in range(3)),
    *((scenario, seed) for scenario in ("oneway", "flap") for seed in range(2)),
    *(("swarm", seed) for seed in range(6)),
    *(("streams", seed) for seed in range(3)),
    ("mixed", 0),
    ("flood", 0),
]

PLANTED = ["safe like agreed", "last one not sent", "signal at the end", "everybody in transition"]
"""Mutants that a single run shows."""

reason = why_not()
needs_namespaces = pytest.mark.skipif(bool(reason), reason=reason or "possible here")


def judged(plan: Plan, folder: Path) -> RealOutcome:
    """A run in which everything of the plan took place and nothing that was promised was broken."""
    outcome = run_really(plan)
    assert outcome.is_clean, f"{outcome}\nits trace: {outcome.trace.write(folder)}"
    assert outcome.counts.deliveries > 0
    for incident in plan.incidents:
        assert outcome.happened[type(incident).__name__.lower()]
    return outcome


def plan_called(name: str) -> Plan:
    """The plan in one of the files."""
    return plans.read(next(file for file in FILES if file.stem == name))


def causes(trace: Trace) -> set[str]:
    """Why views were installed at clients."""
    return {record.cause for record in trace.records if record.event is Event.VIEW}


def without_a_delivery(trace: Trace, place: float) -> Trace:
    """The same, but one client does not tell of one ordered message at this place of the run."""
    deliveries = [
        record
        for record in trace.records
        if record.event is Event.DELIVER and record.service in ORDERED_SERVICES
    ]
    left_out = deliveries[int(len(deliveries) * place)]
    records = [record for record in trace.records if record is not left_out]
    return Trace(trace.scenario, trace.seed, trace.daemons, records, live=trace.live)


def is_missed(trace: Trace) -> bool:
    """Whether a delivery is missed that a client does not tell of. One by itself may be excused by a fault
    that came just then."""
    return any(judge(without_a_delivery(trace, place)) for place in (0.5, 0.3, 0.7, 0.2, 0.8))


@needs_namespaces
@pytest.mark.timeout(300)  # a cluster that does not come together is to be judged, too
def test_every_promise_is_kept_while_each_kind_of_fault_happens_once(tmp_path: Path) -> None:
    """A partition, a crash and a restart, a path that works one way only, and a pause, under load."""
    outcome = judged(plan_called(SHORT), tmp_path)
    trace = outcome.trace
    # Stops have a plan of their own.
    unseen = {
        Event.CLOCK, Event.LINK, Event.SLOW, Event.FORGED, Event.BREACH, Event.NONSENSE, Event.STEADY,
        Event.STOP,
    }  # fmt: skip
    assert frozenset(Event) - OF_LOCKS_AND_CALLS - OF_EDGES - unseen == {
        record.event for record in trace.records
    }
    assert causes(trace) >= {"join", "leave", "network", "merge"}
    assert {record.service for record in trace.records if record.event is Event.DELIVER} >= ORDERED_SERVICES
    assert (outcome.counts.crashes, outcome.counts.restarts) == (1, 1)
    assert outcome.counts.lost > 0
    assert is_missed(trace), "the judge cannot say no"


def test_the_same_promises_are_kept_in_virtual_time() -> None:
    outcome = run_plan(plan_called(SHORT))
    assert outcome.is_clean, f"{outcome.error}{outcome.violations}"


@pytest.mark.long
@pytest.mark.parametrize("file", [file for file in FILES if file.stem != SHORT], ids=lambda file: file.stem)
def test_every_promise_is_kept_in_the_scenario_in_virtual_time(file: Path) -> None:
    outcome = run_plan(plans.read(file))
    assert outcome.is_clean, f"{outcome.error}{outcome.violations}"


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", [file for file in FILES if file.stem != SHORT], ids=lambda file: file.stem)
def test_every_promise_is_kept_in_the_scenario(file: Path, tmp_path: Path) -> None:
    judged(plans.read(file), tmp_path)


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scenario", "seed"), SEEDS)
def test_every_promise_is_kept_with_the_seed(scenario: str, seed: int, tmp_path: Path) -> None:
    judged(plan_of(scenario, seed), tmp_path)


@needs_namespaces
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PLANTED)
def test_daemons_that_break_a_promise_are_found_out(name: str) -> None:
    """What the oracle catches in virtual time it catches here."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    outcome = run_really(plan_called(SHORT), (name,))
    assert mutant.breaks & {violation.name.partition(" ")[0] for violation in outcome.violations}


def test_a_line_that_was_not_finished_is_no_entry(tmp_path: Path) -> None:
    """A daemon may be killed while it writes."""
    file = tmp_path / "diary"
    file.write_text('[17,{"position":0,"time_us":0,"event":"sview","daemon":"d1"}]\n[18,{"posi')
    ((when, record),) = read_diary(file)
    assert (when, record.event, record.daemon) == (17, Event.SVIEW, "d1")
    assert read_diary(tmp_path / "of one that never began") == []
