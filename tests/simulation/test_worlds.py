"""Worlds that are harder than most: uneven paths and clocks, paths that lose large packets, daemons that run
twice, crowds of clients."""

from collections import Counter

import pytest
from msgspec import structs
from test_plans import SECOND_US, played, small_plan, views_of

from antiphon.config import LinkConfig
from antiphon.core.membership.exclusions import TWINS
from antiphon.simulator.incidents import AnyIncident, Crowd, Trouble, Twin
from antiphon.simulator.network import Bandwidth, Corrupt, Delay, Mtu, Oversize
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.play import play
from antiphon.simulator.run import run_plan, run_seed
from antiphon.simulator.scenarios import SCENARIOS, plan_of
from antiphon.simulator.scenarios.weather import PLAIN_SEEDS
from antiphon.simulator.stage import Stage
from antiphon.trace import Event


def test_trouble_of_one_direction_leaves_the_other_alone() -> None:
    stage = Stage(small_plan())
    stage._happen(Trouble(fault=Delay(70_000), daemons=("d0", "d2"), is_oneway=True))
    paths = stage.world.network.paths
    assert paths[0, 2].carry(b"p", 1, 0) == [(71_000, b"p", 1)]
    assert paths[2, 0].carry(b"p", 1, 0) == [(1_000, b"p", 1)]


@pytest.mark.parametrize("drift_ppm", [50_000, -50_000, 7, -7])
def test_a_clock_runs_fast_or_slow_and_deadlines_are_still_met(drift_ppm: int) -> None:
    sites = (Site("s0", (Daemon("d0"), Daemon("d1", drift_ppm=drift_ppm))), Site("s1", (Daemon("d2"),)))
    stage = played(sites=sites)
    host = stage.world.hosts[1]
    now_us = stage.world.now_us
    assert host.clock_us == now_us + now_us * drift_ppm // 1_000_000
    for clock_us in range(10_000, 10_050):
        world_us = host._world_us(clock_us)
        shown = [time_us + time_us * drift_ppm // 1_000_000 for time_us in (world_us - 1, world_us)]
        assert shown[0] < clock_us <= shown[1]


def test_large_packets_get_lost_and_small_ones_do_not() -> None:
    stage = Stage(small_plan())
    path = stage.world.network.paths[0, 2]
    assert path.is_whole
    path.suffer(Oversize(400))
    assert not path.is_whole
    assert len(path.carry(b"s" * 400, 400, 0)) == 1
    assert path.carry(b"l" * 401, 401, 0) == []
    path.recover(Oversize(400))
    path.suffer(Oversize(400, rate=0.5))
    assert path.is_whole


@pytest.mark.parametrize("latency_us", [1_000, 100_000])
@pytest.mark.parametrize("bytes_per_s", [4_000, 8_000, 16_000])
def test_daemons_find_each_other_over_a_thin_path(bytes_per_s: int, latency_us: int) -> None:
    """A path of 64 kbit/s carries a full packet in 175 ms, and must have room for small beats beside them."""
    thin = (Bandwidth(bytes_per_s, bytes_per_s // 2),)
    sites = tuple(Site(f"s{number}", (Daemon(f"d{number}"),)) for number in range(2))
    stage = Stage(Plan("thin", 0, sites, (Route(LinkConfig(("s0", "s1")), latency_us, thin, thin),), (), 0))
    world = stage.world
    world.run(10 * SECOND_US)
    assert world.has_formed([(0, 1)])
    view = world.hosts[0].node.view
    world.run(40 * SECOND_US)
    assert world.hosts[0].node.view is view, "and stay together"


def test_what_must_not_be_cut_is_lost_on_a_narrow_path() -> None:
    path = Stage(small_plan()).world.network.paths[0, 2]
    path.suffer(Mtu(1_472))
    assert path.is_whole
    assert len(path.carry(b"s" * 1_472, 1_472, 0, is_whole=True)) == 1
    assert path.carry(b"l" * 1_473, 1_473, 0, is_whole=True) == []
    assert len(path.carry(b"f" * 9_000, 9_000, 0)) == 1  # in IP fragments


@pytest.mark.long
@pytest.mark.parametrize("is_oneway", [True, False])
def test_a_path_without_large_packets_costs_one_change_of_view(is_oneway: bool) -> None:
    """d2 is heard all the time, and does not come back into the view before full packets get through."""
    hole: tuple[AnyIncident, ...] = tuple(
        Trouble(fault=Oversize(400), daemons=("d2", other), is_oneway=is_oneway) for other in ("d0", "d1")
    )
    talks = [
        structs.replace(client, habits=structs.replace(client.habits, size_max_bytes=8_000, starts_us=0))
        for client in small_plan().clients
    ]
    stage = played(
        *(structs.replace(trouble, at_us=SECOND_US) for trouble in hole),
        damage=hole,
        clients=tuple(talks),
        working_us=60 * SECOND_US,
    )
    assert views_of(stage, "d2")[-1] == ("d2",)
    assert len(views_of(stage, "d2")) <= 4  # alone, with all, with all over the other pair, alone
    passing = played(
        *(structs.replace(trouble, at_us=SECOND_US, for_us=20 * SECOND_US) for trouble in hole),
        clients=tuple(talks),
        working_us=60 * SECOND_US,
    )
    assert views_of(passing, "d2")[-1] == ("d0", "d1", "d2")


def test_a_daemon_that_runs_twice_is_left_out_and_taken_in_again() -> None:
    twin = Twin(daemon="d2", reached_by=("d0", "d1"), at_us=SECOND_US, for_us=20 * SECOND_US)
    plan = small_plan(twin, working_us=21 * SECOND_US)
    stage = Stage(plan)
    world = stage.world
    world.run(3 * SECOND_US)
    stage.begin()
    world.run(stage.begins_us + 15 * SECOND_US)
    for number in (0, 1):
        node = world.node(number)
        assert node is not None
        assert node.view.members == (0, 1)
        assert node.membership.exclusions.current(world.hosts[number].clock_us)[2][0] == TWINS
        assert len(node.membership.rounds.past) <= 8
    done = played(twin, working_us=21 * SECOND_US)
    assert views_of(done, "d0")[-1] == ("d0", "d1", "d2")


def test_a_daemon_that_runs_twice_for_good_stays_out() -> None:
    twin = Twin(daemon="d2", reached_by=("d0",))
    stage = played(damage=(twin,), peace_us=60 * SECOND_US)
    assert views_of(stage, "d0")[-1] == ("d0", "d1")


def test_a_crowd_comes_and_goes_at_once() -> None:
    crowd = Crowd(daemon="d1", groups=("g", "h"), count=50, at_us=SECOND_US, for_us=SECOND_US)
    stage = played(crowd)
    ends = Counter(record.time_us for record in stage.world.records if record.cause == "broken")
    assert ends == {stage.begins_us + 2 * SECOND_US: 50}
    leaves = played(structs.replace(crowd, leaves=True))
    left = [record for record in leaves.world.records if record.event is Event.LEAVE]
    assert len(left) >= 50


def test_weather_spares_the_first_seeds_and_comes_to_others() -> None:
    flips = drifts = 0
    for seed in range(PLAIN_SEEDS, PLAIN_SEEDS + 150):
        plan = plan_of("partition", seed)
        flips += any(
            isinstance(incident, Trouble) and isinstance(incident.fault, Corrupt)
            for incident in plan.incidents
        )
        drifts += any(daemon.drift_ppm for daemon in plan.daemons())
    assert flips >= 10 and drifts >= 3
    spared = [plan_of("partition", seed) for seed in range(PLAIN_SEEDS)]
    assert not any(daemon.drift_ppm for plan in spared for daemon in plan.daemons())


@pytest.mark.long
def test_a_hundred_daemons_in_upheaval() -> None:
    outcome = run_seed(0, "upheaval")
    assert outcome.is_clean, outcome.faults
    assert outcome.counts.crashes and "upheaval" in SCENARIOS


@pytest.mark.long
def test_messages_of_megabytes_are_under_way_when_daemons_are_lost() -> None:
    stage = play(plan_of("heavy", 7))
    assert {"flood", "partition"} <= set(stage.happened)
    sizes = [host.node.order.largest_bytes for host in stage.world.hosts if host.node is not None]
    assert max(sizes) > 1_000_000
    assert run_plan(stage.plan).is_clean
