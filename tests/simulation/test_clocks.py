"""How well daemons know the time, in virtual time; `pytest -s` prints the tables. (NAVTECH 3)"""

from statistics import quantiles

import pytest
from msgspec import structs

from antiphon.config import LinkConfig
from antiphon.simulator.host import TRUE_US
from antiphon.simulator.incidents import Cut
from antiphon.simulator.network import AnyFault, Delay, Jitter
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import Daemon, Plan, Route, Site
from antiphon.simulator.play import play
from antiphon.trace import Event, Record, Trace

SECONDS = 60
WARM_US = 15_000_000
JITTER_US = 50
DRIFTS_PPM = (100, -100, 60, -80, 0, 100)


def site(name: str, first: int, count: int, *, reference_us: int | None, tight: bool = False) -> Site:
    """Daemons with drifting clocks; the last one may be a reference with this error."""
    return Site(
        name,
        tuple(
            Daemon(
                f"d{number}",
                clock_us=number * 10**9,
                wall_us=TRUE_US + (0 if number == first + count - 1 else 3_600_000_000),
                drift_ppm=DRIFTS_PPM[number % len(DRIFTS_PPM)],
                time_error_us=reference_us if number == first + count - 1 else None,
            )
            for number in range(first, first + count)
        ),
        latency_us=100,
        faults=(Jitter(JITTER_US),),
        tight_us=JITTER_US if tight else None,
    )


def plan_of(sites: tuple[Site, ...], routes: tuple[Route, ...] = ()) -> Plan:
    return Plan("clocks", 7, sites, routes, (), SECONDS * 1_000_000, asks_time_us=50_000)


def route(one: str, other: str, latency_us: int, asymmetry_us: int) -> Route:
    there: tuple[AnyFault, ...] = (Delay(asymmetry_us),) if asymmetry_us else ()
    return Route(LinkConfig(sites=(one, other)), latency_us, there=there)


def said(plan: Plan) -> list[Record]:
    """What daemons say when they have had time to learn."""
    stage = play(plan)
    trace = Trace("clocks", 7, tuple(d.name for d in plan.daemons()), stage.world.records)
    assert not judge(trace)
    began_us = stage.begins_us + WARM_US
    return [one for one in trace.records if one.event is Event.CLOCK and one.time_us >= began_us]


def wrong_us(record: Record) -> int:
    return abs(record.clock["time_us"] - record.true_us)


def row(title: str, records: list[Record]) -> tuple[int, int]:
    """Print a line of the table; the greatest error and the greatest bound."""
    errors = [wrong_us(record) for record in records]
    bounds = [record.clock["error_us"] for record in records]
    print(
        f"{title:<44} {quantiles(errors, n=2)[0]:>8.0f} {max(errors):>8}"
        f" {quantiles(bounds, n=2)[0]:>8.0f} {max(bounds):>8}"
    )
    return max(errors), max(bounds)


HEAD = f"{'us':<44} {'median':>8} {'greatest':>8} {'bound':>8} {'greatest':>8}"


@pytest.mark.parametrize("tight", [False, True])
def test_inside_a_site_within_a_hundred_microseconds(tight: bool) -> None:
    """50 us of jitter, 100 ppm of drift, one reference whose own clock is right."""
    how = "tight arrival" if tight else "exchange"
    print(f"\n{HEAD}")
    records = said(plan_of((site("s0", 0, 5, reference_us=0, tight=tight),)))
    greatest_us, bound_us = row(f"one site of five, {how}", [one for one in records if one.daemon != "d4"])
    assert greatest_us <= 100
    assert bound_us <= 500, "a round trip of 300, and what a clock may drift until the next round"
    assert {record.peer for record in records} == {"d4"}


@pytest.mark.parametrize("asymmetry_us", [0, 4_000, 20_000])
def test_across_sites_within_half_the_asymmetry(asymmetry_us: int) -> None:
    """One site has a reference that is right but for 1 ms; the other one reads it over 20 ms."""
    print(f"\n{HEAD}")
    sites = (site("s0", 0, 3, reference_us=1_000), site("s1", 3, 3, reference_us=None))
    records = said(plan_of(sites, (route("s0", "s1", 20_000, asymmetry_us),)))
    far = [one for one in records if one.daemon in ("d3", "d4", "d5")]
    greatest_us, bound_us = row(f"two sites, 20 ms, asymmetry {asymmetry_us} us", far)
    assert greatest_us <= 1_000 + asymmetry_us // 2 + 200
    assert bound_us <= 1_000 + (40_000 + asymmetry_us) // 2 + asymmetry_us // 2 + 2_000
    assert {record.state for record in far} == {"reference"}


def test_without_a_reference_daemons_agree_on_an_internal_time() -> None:
    print(f"\n{HEAD}")
    plan = plan_of((site("s0", 0, 5, reference_us=None),))
    records = said(plan)
    assert {(record.state, record.peer) for record in records} == {("internal", "d0")}
    moments: dict[int, list[int]] = {}
    for record in records:
        moments.setdefault(record.time_us, []).append(record.clock["time_us"])
    apart = [max(times) - min(times) for times in moments.values() if len(times) == 5]
    print(f"{'one site of five, internal: distance':<44} {quantiles(apart, n=2)[0]:>8.0f} {max(apart):>8}")
    assert max(apart) <= 200


def test_internal_time_crosses_sites() -> None:
    """Once, a daemon that was asked before it had followed its view took its own clock for that of the view,
    and asked no other site."""
    sites = (site("s0", 0, 2, reference_us=None), site("s1", 2, 2, reference_us=None))
    records = said(plan_of(sites, (route("s0", "s1", 20_000, 0),)))
    assert {(record.state, record.peer) for record in records} == {("internal", "d0")}


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("reference_us", [None, 100])
def test_time_crosses_sites_over_the_link_of_any_daemon(tight: bool, reference_us: int | None) -> None:
    """The only way to the first site is through the last daemon of the second one, which neither holds the
    time of its site nor begins its rounds."""
    sites = (site("s0", 0, 1, reference_us=reference_us), site("s1", 1, 3, reference_us=None, tight=tight))
    cuts = tuple(Cut(daemons=("d0", other), at_us=1, for_us=SECONDS * 1_000_000) for other in ("d1", "d2"))
    plan = plan_of(sites, (route("s0", "s1", 2_000, 0),))
    records = said(structs.replace(plan, incidents=cuts))
    state = "internal" if reference_us is None else "reference"
    assert {(record.state, record.peer) for record in records} == {(state, "d0")}
    assert {record.daemon for record in records} == {"d0", "d1", "d2", "d3"}
    latest = {record.daemon: record.clock["error_us"] for record in records}
    assert max(latest.values()) < 10_000


def test_a_reference_that_is_lost_leaves_a_bound_that_grows() -> None:
    """And no daemon says less than what it may be wrong by, however long that lasts."""
    lone = plan_of((site("s0", 0, 2, reference_us=10),))
    lost = structs.replace(lone, dead=("d1",))
    stage = play(lost)
    host = stage.world.hosts[0]
    assert host.node is not None
    first = host.node.time.say(host.clock_us)
    true_us = TRUE_US + stage.world.now_us
    stage.world.run(stage.world.now_us + 600_000_000)
    later = host.node.time.say(host.clock_us)
    assert first is not None and later is not None
    assert abs(first.time_us - true_us) <= first.error_us
    assert abs(later.time_us - (TRUE_US + stage.world.now_us)) <= later.error_us
    assert later.error_us >= first.error_us + 600 * 190


def idle_packets(plan: Plan, asks: bool) -> float:
    stage = play(structs.replace(plan, asks_time_us=500_000 if asks else 0, working_us=1_000_000))
    world = stage.world
    paths = world.network.paths.values()
    before = sum(path.sent for path in paths)
    world.run(world.now_us + 60_000_000)
    return (sum(path.sent for path in paths) - before) / 60


def test_what_it_costs_in_packets() -> None:
    """Copies for several receivers count each: the simulated network has no multicast."""
    without = (site("s0", 0, 3, reference_us=None), site("s1", 3, 3, reference_us=None))
    with_one = (site("s0", 0, 3, reference_us=1_000), site("s1", 3, 3, reference_us=None))
    routes = (route("s0", "s1", 20_000, 0),)
    idle = idle_packets(plan_of(without, routes), asks=False)
    busy = idle_packets(plan_of(with_one, routes), asks=False)
    print(f"\npackets per second, idle, two sites of three: {idle:.1f}; with a reference {busy:.1f}")
    assert busy <= idle + 11, "a round of three has five copies, a question and an answer are two packets"
    tight = tuple(structs.replace(one, tight_us=JITTER_US) for one in with_one)
    tighter = idle_packets(plan_of(tight, routes), asks=False)
    print(f"where arrival is tight {tighter:.1f}")
    assert tighter < busy
