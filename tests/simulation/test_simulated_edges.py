"""Edges in the simulated world: whole runs, and what happens in them."""

from functools import cache
from pathlib import Path

import pytest
from msgspec import structs

from antiphon import trace as traces
from antiphon.simulator.incidents import Crash
from antiphon.simulator.mutants.edges import EDGES
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import ClientPlan, Daemon, Edge
from antiphon.simulator.play import play
from antiphon.simulator.run import Outcome, run_seed
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import Event, Record, Trace
from antiphon.trace.unsent import take_back


@cache
def told(seed: int) -> Trace:
    """The trace of a run that is clean."""
    plan = plan_of("edges", seed)
    stage = play(plan)
    take_back(stage.world.records)
    trace = Trace(
        "edges", seed, tuple(daemon.name for daemon in plan.daemons()), stage.world.records,
        order=plan.settings.order, edges=tuple(edge.name for edge in plan.edges),
    )  # fmt: skip
    assert judge(trace) == []
    return trace


def complaint(outcome: Outcome) -> str:
    return "\n".join([outcome.error, *map(str, outcome.violations)])


@pytest.mark.parametrize("seed", (2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (3, 4, 5, 7))))
def test_members_at_edges_have_an_image_of_the_one_order(seed: int) -> None:
    outcome = run_seed(seed, "edges")
    assert outcome.is_clean, complaint(outcome)


@pytest.mark.long
@pytest.mark.parametrize("first", range(8, 108, 10))
def test_many_runs_with_edges(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = run_seed(seed, "edges")
        assert outcome.is_clean, complaint(outcome)


def resumed(seed: int) -> list[Record]:
    """The times at which an edge went on from where it stood, at another attachment."""
    return [record for record in told(seed).of(Event.ATTACH) if record.daemon_view]


def gaps(seed: int) -> list[Record]:
    """What members were told of gaps."""
    return [record for record in told(seed).of(Event.GAP) if record.process]


RULES = {
    "any branch will do": "only others delivered it",
    "signals missed": "has no signal",
    "signals passed by": "has no signal",
    "gaps on the way ignored": "never got it",
    "torn groups go on": "a member of none of its groups",
    "unreliable ones again": "delivered twice",
}


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_a_planted_bug_is_found_by_the_rule_that_is_meant_for_it(name: str) -> None:
    (mutant,) = (mutant for mutant in EDGES if mutant.name == name)
    with mutant.active():
        outcome = run_seed(mutant.shown_by, mutant.scenario)
    assert any(RULES[name] in violation.what for violation in outcome.violations), complaint(outcome)


def test_edges_go_on_at_other_attachments_without_a_gap() -> None:
    assert len(resumed(6)) + len(resumed(8)) >= 5
    assert not gaps(6) + gaps(8)


def test_gaps_are_told_where_attachments_remember_little() -> None:
    assert resumed(0) and gaps(0)


def test_clients_of_edges_send_and_get_much() -> None:
    for seed in (0, 6, 8):
        trace = told(seed)
        at_edges = [record for record in trace.of(Event.DELIVER) if record.daemon in trace.edges]
        assert len(at_edges) > len(trace.of(Event.DELIVER)) // 4
        assert len([record for record in trace.of(Event.SEND) if record.peer]) > 50


def test_other_properties_speak_of_the_core_alone() -> None:
    trace = told(0)
    core = trace.core
    assert not any(record.process and record.daemon in trace.edges for record in core.records)
    assert [record.position for record in core.records] == [record.position for record in trace.records]
    assert core.core is core
    assert all(record.daemon in trace.daemons for record in core.of(Event.DELIVER))


def test_an_edge_goes_with_its_last_attachment() -> None:
    machines = [Daemon(f"e{number}") for number in range(3)]
    edges = (Edge(machines[0], ("d0",)), Edge(machines[1], ("e0",)), Edge(machines[2], ("e1", "d1")))
    plan = plan_of("edges", 0)
    clients = tuple(ClientPlan(f"c{at}", f"e{at}", plan.clients[0].habits) for at in range(3))
    plan = structs.replace(
        plan, edges=edges, clients=clients, incidents=(Crash(daemon="e1"), Crash(daemon="e2"))
    )
    less = plan.without("d0")
    assert [(edge.name, edge.attachments) for edge in less.edges] == [("e2", ("d1",))]
    assert [client.daemon for client in less.clients] == ["e2"]
    assert less.incidents == (Crash(daemon="e2"),)


def test_a_trace_with_edges_can_be_written_and_read(tmp_path: Path) -> None:
    trace = told(0)
    again = traces.read(trace.write(tmp_path))
    assert again.edges == trace.edges
    assert again.digest() == trace.digest()


def test_a_run_without_edges_has_none_in_its_header(tmp_path: Path) -> None:
    path = Trace("none", 0, ("d0",)).write(tmp_path)
    assert "edges" not in path.read_text()
