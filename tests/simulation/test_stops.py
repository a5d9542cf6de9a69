"""Planned stops in simulated clusters, and the property that judges them."""

from collections import Counter

import pytest
from msgspec import structs

from antiphon.config import LinkConfig
from antiphon.core.links.flow import ACK_DELAY_MAX_US
from antiphon.simulator.habits import Habits
from antiphon.simulator.incidents import Heal, Stop, Trigger
from antiphon.simulator.network import Jitter
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import ClientPlan, Plan, Route
from antiphon.simulator.play import play
from antiphon.simulator.run import run_plan, run_seed
from antiphon.simulator.scenarios import SCENARIOS, plan_of, stops
from antiphon.simulator.scenarios.stops import FIRST_SEED, WITH_STOPS
from antiphon.trace import Event, Record, Trace

BOUND_US = 60_000


def stops_of(plan: Plan) -> list[Stop]:
    triggered = [trigger.incident for trigger in plan.triggers]
    return [incident for incident in (*plan.incidents, *triggered) if isinstance(incident, Stop)]


# Runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [0, 3, 67, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 4, 5, 30, 81))]
)
def test_stops_on_a_network_without_faults_are_not_felt(seed: int) -> None:
    outcome = run_seed(seed, "stops")
    assert outcome.is_clean, outcome.faults
    assert outcome.counts.signals == 0
    assert outcome.rounds["leaving"]


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(name, marks=[pytest.mark.long] if name == "sites" else []) for name in sorted(WITH_STOPS)],
)
def test_daemons_are_told_to_stop_amid_other_faults(scenario: str) -> None:
    seed = next(seed for seed in range(FIRST_SEED, 100) if stops_of(plan_of(scenario, seed)))
    outcome = run_seed(seed, scenario)
    assert outcome.is_clean, outcome.faults


@pytest.mark.parametrize("scenario", sorted(WITH_STOPS))
def test_runs_that_tests_name_have_none(scenario: str) -> None:
    assert not any(stops_of(plan_of(scenario, seed)) for seed in range(FIRST_SEED))
    has_some = [bool(stops_of(plan_of(scenario, seed))) for seed in range(FIRST_SEED, FIRST_SEED + 40)]
    assert 10 < sum(has_some) < 30


def test_other_scenarios_have_none() -> None:
    others = set(SCENARIOS) - WITH_STOPS - {"stops", "hundred", "edges", "rim", "casts"}
    assert not any(stops_of(plan_of(scenario, FIRST_SEED)) for scenario in others)


def of_three(*incidents: Stop, triggers: tuple[Trigger, ...] = ()) -> Plan:
    """A calm run of three daemons or more to which only these things happen."""
    plan = next(plan for seed in range(50) if len((plan := plan_of("stops", seed)).daemons()) >= 3)
    return structs.replace(plan, incidents=incidents, triggers=triggers)


def lives_of(plan: Plan) -> tuple[Counter[Event], Counter[str]]:
    """Starts, stops and ends in a run of the plan, and what happened in it."""
    stage = play(plan)
    life = (Event.RECOVER, Event.STOP, Event.CRASH)
    return Counter(record.event for record in stage.world.records if record.event in life), stage.happened


def test_a_daemon_that_is_told_to_stop_ends_and_may_come_back() -> None:
    plan = of_three(Stop(daemon="d1", at_us=1_000_000, back_us=200_000))
    daemons = len(plan.daemons())
    lives, happened = lives_of(plan)
    assert (lives[Event.STOP], lives[Event.CRASH], lives[Event.RECOVER]) == (1, 1, daemons + 1)
    assert happened["stop"] == 1


def test_a_daemon_that_is_told_twice_or_does_not_run_stops_once() -> None:
    plan = of_three(*(Stop(daemon="d0", at_us=at_us) for at_us in (1_000_000, 1_000_100, 4_000_000)))
    lives, _ = lives_of(plan)
    assert (lives[Event.STOP], lives[Event.CRASH]) == (1, 1)


def test_a_stop_may_wait_for_its_cue() -> None:
    cue = Trigger("statetrans", Stop(daemon="d2", at_us=1_000_000), after_us=100)
    plan = of_three(Stop(daemon="d1", at_us=1_000_000), triggers=(cue,))
    lives, happened = lives_of(plan)
    assert (lives[Event.STOP], happened["stop"]) == (2, 2)
    assert run_plan(plan).is_clean


def test_a_plan_with_stops_can_be_written_down(tmp_path) -> None:
    from antiphon.simulator import plan as plans

    plan = plan_of("stops", 2)
    (tmp_path / "plan.json").write_text(plan.text())
    assert plans.read(tmp_path / "plan.json") == plan
    assert plan.stop_bound_us > 0


def bound_us(packet_bytes: int, large_bytes: int, jitter_us: int = 0) -> int:
    """The bound of a plan with one path of 10 ms, and clients that send such messages now and then."""
    link = LinkConfig(("s0", "s1"), packet_bytes=packet_bytes)
    route = Route(link, 10_000, there=(Jitter(jitter_us),))
    habits = Habits(
        1_000, ("g",), size_max_bytes=200, large=0.02 if large_bytes else 0.0, large_bytes=large_bytes
    )
    return stops._bound_us((route,), (ClientPlan("c0", "d0", habits),))


def test_the_bound_counts_delays_and_the_windows_of_a_large_bundle() -> None:
    few_us = stops.PAUSE_US + stops.DELAYS_MAX * 10_000
    assert bound_us(512, 0) == bound_us(1_400, 0) == few_us
    assert bound_us(512, 0, jitter_us=1_000) == stops.PAUSE_US + stops.DELAYS_MAX * 11_000
    round_us = 2 * 10_000 + ACK_DELAY_MAX_US
    # 16 packets of 512 bytes are the first window: three of them carry 57 KB, headers included, four more.
    assert bound_us(512, 45_000) == few_us + 2 * round_us + 10_000
    assert bound_us(512, 60_000) == few_us + 3 * round_us + 10_000
    assert bound_us(1_400, 10_000) == few_us


def test_a_daemon_on_its_way_out_when_all_is_restored_is_back_at_the_end() -> None:
    plan = of_three()
    late = Stop(daemon="d1", at_us=plan.working_us - 1_000)
    outcome = run_plan(structs.replace(plan, incidents=(late, Heal(at_us=1)), stop_bound_us=0))
    assert outcome.is_clean, outcome.faults


# The property -----------------------------------------------------------------------------------------------


def broken(*records: Record) -> list[str]:
    """What the property says of a story."""
    for position, record in enumerate(records):
        record.position = position
    trace = Trace("story", 0, ("d0", "d1", "d2"), list(records))
    return [violation.what for violation in judge(trace) if violation.name.startswith("stop ")]


def told(daemon: str, bound_us: int = BOUND_US, time_us: int = 0) -> Record:
    return Record(0, time_us, Event.STOP, daemon, bound_us=bound_us)


def entered(daemon: str, state: str, time_us: int, reason: str = "proposed") -> Record:
    return Record(0, time_us, Event.STATE, daemon, state=state, reason=reason)


def seen(event: Event, **fields: object) -> Record:
    return Record(0, 50, event, "d0", "#a#d0", ("g",), ((1, 0, 2, 0),), **fields)  # type: ignore[arg-type]


def test_a_signal_is_one_too_many() -> None:
    assert broken(seen(Event.TRANSSIG), told("d1")) == []
    assert broken(told("d1", bound_us=0), seen(Event.TRANSSIG)) == []
    assert len(broken(told("d1"), seen(Event.TRANSSIG))) == 1


@pytest.mark.parametrize(("cause", "count"), [("network", 1), ("merge", 0), ("disconnect", 0)])
def test_a_view_that_the_network_made_is(cause: str, count: int) -> None:
    assert len(broken(told("d1"), seen(Event.VIEW, cause=cause, members=("#a#d0",)))) == count


@pytest.mark.parametrize(("pause_us", "count"), [(BOUND_US, 0), (BOUND_US + 1, 1)])
def test_the_others_are_not_without_a_view_for_long(pause_us: int, count: int) -> None:
    story = [told("d1"), entered("d0", "statetrans", 100), entered("d0", "evs", 200)]
    assert (
        len(broken(entered("d0", "op", 0), *story, entered("d0", "op", 100 + pause_us, "installed"))) == count
    )


def test_gathering_is_no_pause() -> None:
    story = [entered("d0", "gather", 0, "leaving"), entered("d0", "statetrans", 10 * BOUND_US)]
    assert (
        broken(
            entered("d0", "op", 0), told("d1"), *story, entered("d0", "op", 10 * BOUND_US + 1, "installed")
        )
        == []
    )


def test_those_who_have_just_started_or_stop_themselves_do_not_count() -> None:
    started = [Record(0, 0, Event.RECOVER, "d2"), entered("d2", "seg", 0, "started")]
    started += [entered("d2", "rep", 1, "represented"), entered("d2", "seg", 2, "silence")]
    assert broken(told("d1"), *started, entered("d2", "op", 10 * BOUND_US, "installed")) == []
    leaving = [entered("d1", "statetrans", 0), entered("d1", "op", 10 * BOUND_US, "installed")]
    assert broken(entered("d1", "op", 0), told("d1"), *leaving) == []
    assert len(broken(entered("d1", "op", 0), told("d2"), *leaving)) == 1
