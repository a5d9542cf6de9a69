"""Plans: what a seed decides, written down, played, and made smaller."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest
from msgspec import structs

from antiphon.config import LinkConfig
from antiphon.core.groups.backpressure import Backpressure
from antiphon.errors import ConfigError, UsageError
from antiphon.service import Service
from antiphon.simulator import plan as plans
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import (
    AnyIncident,
    Crash,
    Cut,
    Flap,
    Flood,
    Heal,
    OneWay,
    Partition,
    Pause,
    Restart,
    Trigger,
    Trouble,
    Visit,
)
from antiphon.simulator.network import Loss
from antiphon.simulator.outcome import Outcome
from antiphon.simulator.plan import ClientPlan, Daemon, Plan, Route, Site
from antiphon.simulator.play import form, play
from antiphon.simulator.run import run_plan, run_seed
from antiphon.simulator.scenarios import SCENARIOS, plan_of
from antiphon.simulator.shrink import shrink
from antiphon.simulator.stage import Stage
from antiphon.trace import Event

SECOND_US = 1_000_000


def small_plan(*incidents: AnyIncident, **changes: object) -> Plan:
    """Three daemons at two sites, a client at each."""
    talks = Habits(interval_us=200_000, groups=("g",), churn=0.0, private=0.0)
    plan = Plan(
        "small",
        1,
        (Site("s0", (Daemon("d0"), Daemon("d1"))), Site("s1", (Daemon("d2"),))),
        (Route(LinkConfig(("s0", "s1")), 1_000),),
        tuple(ClientPlan(f"c{number}", f"d{number}", talks) for number in range(3)),
        4 * SECOND_US,
        incidents=incidents,
    )
    settings = structs.replace(plan.settings, membership="lan", delta_ms=20.0)
    return structs.replace(plan, settings=settings, **changes)


def played(*incidents: AnyIncident, **changes: object) -> Stage:
    """The plan, played and clean."""
    plan = small_plan(*incidents, **changes)
    outcome = run_plan(plan)
    assert outcome.is_clean, outcome.error or outcome.violations
    return play(plan)


def views_of(stage: Stage, daemon: str) -> list[tuple[str, ...]]:
    return [
        record.members
        for record in stage.world.records
        if record.event is Event.SVIEW and record.daemon == daemon
    ]


# What incidents do ----------------------------------------------------------------------------------------


def test_a_cluster_forms_before_anything_happens() -> None:
    stage = Stage(small_plan())
    form(stage.world)
    assert stage.world.has_formed([(0, 1, 2)])
    assert stage.world.now_us < 2 * SECOND_US


def test_a_partition_makes_two_views_and_its_end_one() -> None:
    stage = played(Partition(parts=(("d0", "d1"), ("d2",)), at_us=SECOND_US, for_us=2 * SECOND_US))
    assert stage.happened == Counter(partition=1)
    assert views_of(stage, "d2")[-2:] == [("d2",), ("d0", "d1", "d2")]
    assert ("d0", "d1") in views_of(stage, "d0")


def test_a_crash_ends_the_daemon_and_its_clients() -> None:
    stage = played(Crash(daemon="d1", at_us=SECOND_US), dead=("d1",))
    crash = next(record for record in stage.world.records if record.event is Event.CRASH)
    ends = [record for record in stage.world.records if record.cause == "crash"]
    assert (crash.daemon, crash.time_us) == ("d1", stage.begins_us + SECOND_US)
    assert [record.process for record in ends] == ["#c1.0#d1"]
    assert ends[0].position == crash.position - 1
    assert stage.world.alive == (0, 2)
    assert views_of(stage, "d0")[-1] == ("d0", "d2")


def test_a_restarted_daemon_is_another_one_and_clients_come_back() -> None:
    stage = played(Crash(daemon="d1", at_us=SECOND_US), Restart(daemon="d1", at_us=2 * SECOND_US, step_us=-5))
    lives = [
        record for record in stage.world.records if record.event is Event.RECOVER and record.daemon == "d1"
    ]
    assert len({record.incarnation for record in lives}) == len(lives) == 2
    assert any(
        record.event is Event.CONNECT and record.process == "#c1.1#d1" for record in stage.world.records
    )
    assert views_of(stage, "d1")[-1] == ("d0", "d1", "d2")


def test_a_machine_that_was_started_anew_has_a_young_clock() -> None:
    """The others must not take what it says for something from its life before."""
    old = Daemon("d2", clock_us=3_600 * SECOND_US)
    plan = small_plan()
    stage = played(
        Crash(daemon="d2", at_us=SECOND_US),
        Restart(daemon="d2", at_us=SECOND_US + 1_000, uptime_us=5_000),
        sites=(plan.sites[0], Site("s1", (old,))),
    )
    assert stage.world.hosts[2].clock_us < stage.world.now_us
    assert views_of(stage, "d2")[-1] == ("d0", "d1", "d2")


def test_daemons_that_do_not_end_dead_run_in_the_end() -> None:
    stage = played(Crash(daemon="d2", at_us=SECOND_US))
    assert stage.world.alive == (0, 1, 2)


def test_a_short_pause_is_borne_and_a_long_one_is_not() -> None:
    short = played(Pause(daemon="d2", at_us=SECOND_US, for_us=100_000))
    long = played(Pause(daemon="d2", at_us=SECOND_US, for_us=3 * SECOND_US))
    assert len(views_of(short, "d0")) < len(views_of(long, "d0"))
    assert ("d0", "d1") in views_of(long, "d0")


def test_a_pair_that_hears_one_way_only_is_routed_around() -> None:
    """d0 represents its site; d2 does not hear it, so the site's other daemon joins the two."""
    stage = played(damage=(OneWay(sender="d2", receiver="d0"),))
    last = [record for record in stage.world.records if record.event is Event.SVIEW][-1]
    assert last.members == ("d0", "d1", "d2")
    assert ("d0", "d2") not in last.links
    restored = next(record for record in stage.world.records if record.event is Event.RESTORED)
    assert restored.parts == (("d0", "d1", "d2"),)


def test_damage_that_stays_decides_what_can_form() -> None:
    stage = played(damage=(Cut(daemons=("d0", "d2")), OneWay(sender="d1", receiver="d2")))
    restored = next(record for record in stage.world.records if record.event is Event.RESTORED)
    assert restored.parts == (("d0", "d1"), ("d2",))
    assert restored.bound_us > 30 * SECOND_US


def test_a_flapping_pair_and_troubled_paths() -> None:
    stage = played(
        Flap(daemons=("d0", "d2"), down_us=900_000, up_us=100_000, times=3, at_us=500_000),
        Trouble(fault=Loss(1.0), daemons=("d1", "d2"), at_us=500_000, for_us=SECOND_US),
    )
    assert ("d2",) in views_of(stage, "d2")[1:]
    assert stage.world.has_formed([(0, 1, 2)])


def test_healing_comes_before_the_time_of_an_end() -> None:
    """A cut that was healed and came again is not ended by the end of the first."""
    stage = Stage(
        small_plan(
            Cut(daemons=("d0", "d2"), at_us=0, for_us=SECOND_US),
            Heal(at_us=100_000),
            Cut(daemons=("d0", "d2"), at_us=200_000, for_us=2 * SECOND_US),
            waits=False,
        )
    )
    stage.begin()
    path = stage.world.network.paths[0, 2]
    seen = []
    for time_us in (50_000, 150_000, 250_000, 1_500_000, 2_500_000):
        stage.world.run(time_us)
        seen.append(path.is_open)
    assert seen == [False, True, False, False, True]


def test_clients_flood_and_visit() -> None:
    stage = played(
        Flood(daemon="d0", groups=("g",), bundles=7, services=(Service.SAFE,), at_us=2 * SECOND_US),
        Visit(daemon="d2", group="g", service=Service.AGREED, at_us=2 * SECOND_US, for_us=20),
    )
    at_us = stage.begins_us + 2 * SECOND_US
    sent = [
        record for record in stage.world.records if record.event is Event.SEND and record.time_us == at_us
    ]
    assert sum(record.service == "safe" and record.daemon == "d0" for record in sent) >= 7
    visit = [record.event for record in stage.world.records if record.process == "#v1#d2"]
    assert visit[:3] == [Event.CONNECT, Event.JOIN, Event.SEND]
    assert Event.DISCONNECT in visit


def test_a_trigger_waits_for_the_membership() -> None:
    """While the daemons agree on a view without d2, d1 crashes, too."""
    stage = played(
        Crash(daemon="d2", at_us=SECOND_US),
        triggers=(Trigger("gather", Crash(daemon="d1", at_us=SECOND_US), after_us=10_000),),
    )
    cue = next(
        record
        for record in stage.world.records
        if record.event is Event.STATE
        and record.state == "gather"
        and record.time_us > stage.begins_us + SECOND_US
    )
    crashes = [record for record in stage.world.records if record.event is Event.CRASH]
    assert [(record.daemon, record.time_us) for record in crashes][1] == ("d1", cue.time_us + 10_000)


# Plans as texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_plan_can_be_written_and_read(scenario: str, tmp_path: Path) -> None:
    for seed in range(10):
        plan = plan_of(scenario, seed)
        file = tmp_path / f"{seed}.json"
        file.write_text(plan.text())
        assert plans.read(file) == plan


def test_a_plan_that_was_read_is_the_same_run(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan_of("cascade", 1).text())
    assert run_plan(plans.read(file)).digest == run_seed(1, "cascade").digest


@pytest.mark.parametrize("text", ["", "[]", '{"scenario": "small"}', '{"incidents": [{"kind": "wonder"}]}'])
def test_what_is_no_plan_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="not a plan"):
        plans.read(file)
    with pytest.raises(UsageError, match="No such file"):
        plans.read(tmp_path / "nothing.json")


def test_a_plan_without_a_daemon_has_nothing_of_it() -> None:
    plan = small_plan(
        Crash(daemon="d2"),
        Partition(parts=(("d0", "d2"), ("d1",))),
        OneWay(sender="d2", receiver="d0"),
        triggers=(Trigger("evs", Crash(daemon="d2")), Trigger("evs", Crash(daemon="d0"), daemon="d2")),
        dead=("d2",),
    ).without("d2")
    assert [site.name for site in plan.sites] == ["s0"]
    assert plan.routes == ()
    assert plan.incidents == (Partition(parts=(("d0",), ("d1",))),)
    assert (plan.triggers, plan.dead, len(plan.clients)) == ((), (), 2)


# Swarm ----------------------------------------------------------------------------------------------------


def test_a_swarm_has_everything_but_not_in_one_run() -> None:
    kinds: Counter[str] = Counter()
    lonely = cascades = several = large = dead = 0
    for seed in range(200):
        plan = plan_of("swarm", seed)
        plan.config()
        faults = {type(incident).__name__ for incident in plan.incidents} - {"Flood", "Visit", "Heal"}
        kinds.update(faults)
        kinds.update(f"lasting {type(incident).__name__}" for incident in plan.damage)
        lonely += len(faults) == 1
        cascades += bool(plan.triggers)
        several += any(len(site.daemons) > 1 for site in plan.sites)
        large += len(plan.daemons()) >= 10
        dead += bool(plan.dead)
    everything = {"Crash", "Restart", "Pause", "Partition", "Cut", "OneWay", "Flap", "Trouble"}
    assert everything <= kinds.keys()
    assert {"lasting Cut", "lasting OneWay", "lasting Trouble"} <= kinds.keys()
    assert min(kinds[kind] for kind in everything) >= 20
    assert max(kinds[kind] for kind in everything) < 150
    assert min(lonely, cascades, several) >= 25
    assert min(large, dead) >= 5


# Hardships ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["swarm", pytest.param("partition", marks=pytest.mark.long), "crash"])
def test_daemons_are_lost_while_senders_wait_for_their_readers(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that ends while senders wait for a slow reader: one seed of ten shows it at least."""
    held: list[bool] = []
    begin_view = Backpressure.begin_view

    def watched(backpressure: Backpressure, together: Collection[int], now_us: int) -> None:
        held.append(bool(backpressure.other_names))
        begin_view(backpressure, together, now_us)

    monkeypatch.setattr(Backpressure, "begin_view", watched)
    seeds = [
        seed
        for seed in range(10)
        if any(client.habits.read_bytes_per_s for client in plan_of(scenario, seed).clients)
    ]
    assert 1 <= len(seeds) <= 5
    for seed in reversed(seeds):
        assert run_seed(seed, scenario).is_clean
        if any(held):
            return
    pytest.fail("no view ended while senders waited")


@pytest.mark.long
def test_packets_of_the_view_before_come_into_a_merge() -> None:
    """The load is high, the paths are long, and data of the old view comes over links of the new one."""
    stage = play(plan_of("merge", 4))
    assert sum(record.event is Event.SEND for record in stage.world.records) > 1_000
    late = [host.node.counters["packet: of another view"] for host in stage.world.hosts if host.node]
    assert sum(late) > 10


# Shrinking ------------------------------------------------------------------------------------------------


def test_shrinking_leaves_what_matters() -> None:
    """A run that fails whenever d1 crashes and d2 is there shrinks to just that."""
    plan = plan_of("swarm", 3)
    plan = structs.replace(plan, incidents=(*plan.incidents, Crash(daemon="d1", at_us=5)))

    def run(tried: Plan) -> Outcome:
        names = {daemon.name for daemon in tried.daemons()}
        crashes = any(isinstance(incident, Crash) and incident.daemon == "d1" for incident in tried.incidents)
        failed = crashes and "d2" in names
        return Outcome(tried.seed, tried.scenario, error="Broken: again" if failed else "")

    found = shrink(plan, run=run)
    assert found is not None
    assert found.fault == "Broken"
    assert [daemon.name for daemon in found.plan.daemons()] == ["d1", "d2"]
    assert len(found.plan.incidents) == 1
    assert (found.plan.clients, found.plan.triggers, found.plan.damage, found.plan.dead) == ((), (), (), ())


def test_what_does_not_fail_cannot_shrink() -> None:
    assert shrink(small_plan(), run=lambda plan: Outcome(1, "small")) is None


def test_a_plan_that_falls_apart_is_not_tried() -> None:
    """Without its middle a chain is no configuration."""
    plan = plan_of("chain", 0)
    with pytest.raises(ConfigError):
        plan.without("d1").config()
    tried: list[Plan] = []

    def run(smaller: Plan) -> Outcome:
        tried.append(smaller)
        return Outcome(0, "chain", error="Broken: always")

    assert shrink(plan, run=run) is not None
    for smaller in tried:
        smaller.config()
