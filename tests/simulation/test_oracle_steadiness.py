"""Daemons that are well while others flap: what the oracle asks of them, and where the bounds come from."""

import pytest
from oracle_stories import ALL, Story, assembled, broken

from antiphon.config.timing import PRESETS
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import Plan
from antiphon.simulator.scenarios import plan_of
from antiphon.simulator.steadiness import episodes, steady

PAIR = ("d0", "d1")
LAN = PRESETS["lan"]
MINUTE_US = 60_000_000


def flapped(*, views: int = 2, silent_us: int = 1_000) -> Story:
    """The third daemon goes and comes back while the others are held to these bounds."""
    story = assembled().steady("d0", "d1", views=views, silent_us=silent_us)
    story.state("seg", *PAIR).daemon_signal(*PAIR, together=PAIR).daemon_view(20, PAIR, together=PAIR)
    story.state("op", *PAIR).daemon_signal("d2", together=("d2",)).daemon_view(21, ("d2",), together=("d2",))
    story.daemon_view(30, ALL, at=PAIR, together=PAIR).daemon_view(30, ALL, at=("d2",), together=("d2",))
    return story.restored(ALL)


def test_as_many_views_as_are_allowed() -> None:
    assert judge(flapped().trace) == []


def test_one_view_too_many() -> None:
    assert broken(flapped(views=1)) == {"steadiness"}
    assert {violation.processes for violation in judge(flapped(views=1).trace)} == {("d0",), ("d1",)}


def test_a_silence_that_is_too_long() -> None:
    """In a story, an event takes ten microseconds: two for the loss, two signals, two views, and one more."""
    assert judge(flapped(silent_us=60).trace) == []
    assert broken(flapped(silent_us=59)) == {"steadiness"}


def test_a_search_in_a_view_that_works_is_no_silence() -> None:
    story = assembled().steady(*PAIR, views=0, silent_us=0)
    story.state("gather", *PAIR).state("op", *PAIR).restored(ALL)
    assert judge(story.trace) == []


def test_a_silence_without_an_end() -> None:
    story = assembled().steady(*PAIR, views=0, silent_us=20).state("seg", "d0")
    assert judge(story.state("gather", "d0").restored(ALL).trace) == []
    story = assembled().steady(*PAIR, views=0, silent_us=19).state("seg", "d0")
    assert broken(story.state("gather", "d0").restored(ALL)) == {"steadiness"}


def test_what_comes_after_the_faults_is_not_judged() -> None:
    story = assembled().steady(*ALL, views=0, silent_us=0).restored(ALL)
    story.state("seg", *ALL).daemon_view(30, ALL, together=ALL).state("op", *ALL)
    assert "steadiness" not in broken(story)


# The bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holds_us", "minutes", "expected"),
    [
        (100_000, 1, 4),  # lost at 0, at once again, after 16 and 48 s
        (100_000, 10, 7),  # 112, 240, 480 s
        (100_000, 60, 19),  # then one every 240 s
        (10**15, 10, 24),  # 2, 6, 14, 30, 60, 90 s
    ],
)
def test_episodes_follow_the_terms_of_the_damping(holds_us: int, minutes: int, expected: int) -> None:
    assert episodes(LAN, holds_us, minutes * MINUTE_US) == expected


def test_what_never_works_is_lost_once() -> None:
    bounds = steady(LAN, PAIR, [0], 1_000, MINUTE_US, 5 * MINUTE_US)
    assert (bounds.daemons, bounds.from_us, bounds.views) == (PAIR, MINUTE_US, 3)


def test_no_more_than_a_sixth_of_the_time_is_silent() -> None:
    bounds = steady(LAN, PAIR, [10**15, 10**15], 1_000_000, 0, MINUTE_US)
    assert bounds.silent_us == MINUTE_US // 6


def lasting_plans() -> list[Plan]:
    return [plan_of("lasting", seed) for seed in range(200)]


def test_the_scenario_lasts() -> None:
    plans = lasting_plans()
    assert all(120_000_000 <= plan.working_us <= 600_000_000 for plan in plans)
    assert max(plan.working_us for plan in plans) > 400_000_000
    kinds = {type(incident).__name__ for plan in plans for incident in plan.incidents}
    assert kinds == {"Flap", "OneWay", "Trouble"}
    for plan in plans:
        assert plan.steady is not None
        assert set(plan.steady.daemons) < {*(daemon.name for daemon in plan.daemons()), ""}
        assert not plan.damage, "all is healed at the end"


def test_a_plan_without_a_daemon_does_not_ask_anything_of_it() -> None:
    plan = plan_of("lasting", 10)
    assert plan.steady is not None
    gone = plan.steady.daemons[0]
    smaller = plan.without(gone)
    assert smaller.steady is not None
    assert smaller.steady.daemons == plan.steady.daemons[1:]
