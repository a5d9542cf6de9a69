"""The oracle's rule of resilience on traces told by hand, and seeds in which it is kept."""

import pytest
from oracle_stories import ALL, Story, assembled, names

from antiphon.simulator.oracle import judge
from antiphon.simulator.run import run_seed
from antiphon.trace import Bundle

PAIR = ("d0", "d1")
BROKEN = "resilience resilient messages (daemons)"


def carry(story: Story, resilience: str, *holders: str, to: tuple[str, ...] = ALL) -> Bundle:
    """d0 sends a bundle, and these have it, too."""
    return story.have(story.carry("d0", to, resilience=resilience), *holders)


def pass_up(story: Story, bundle: Bundle, resilience: str, *daemons: str) -> Story:
    return story.pass_up(bundle, *daemons, resilience=resilience)


@pytest.mark.parametrize(
    ("resilience", "holders"),
    [("1", 1), ("2", 2), ("3", 3), ("9", 3), ("majority", 2), ("total", 3)],
)
def test_as_many_as_were_asked_for_must_have_it(resilience: str, holders: int) -> None:
    """More than there are is all of them."""
    for count in range(max(1, holders - 1), holders + 1):
        story = assembled()
        bundle = carry(story, resilience, *ALL[1:count])
        pass_up(story, bundle, resilience, "d0")
        story.have(bundle, *ALL[count:])
        pass_up(story, bundle, resilience, "d1", "d2")
        assert names(story) == (set() if count == holders else {BROKEN})


def test_it_counts_daemons_of_its_destinations() -> None:
    story = assembled()
    bundle = carry(story, "3", "d1", to=PAIR)
    assert judge(pass_up(story, bundle, "3", *PAIR).trace) == []


def test_a_daemon_holds_it_once() -> None:
    story = assembled()
    bundle = carry(story, "2", "d0")
    pass_up(story, bundle, "2", "d0")
    pass_up(story, story.have(bundle, "d1", "d2"), "2", "d1", "d2")
    assert names(story) == {BROKEN}


def parted(story: Story) -> Story:
    story.daemon_signal("d0", together=("d0",)).daemon_signal("d1", "d2", together=("d1", "d2"))
    story.daemon_view(20, ("d0",), together=("d0",))
    return story.daemon_view(21, ("d1", "d2"), together=("d1", "d2"))


def test_after_the_signal_it_promises_no_more_than_agreed() -> None:
    story = assembled()
    bundle = carry(story, "total")
    story.daemon_signal("d0", together=("d0",))
    pass_up(story, bundle, "total", "d0")
    story.daemon_signal("d1", "d2", together=("d1", "d2"))
    story.daemon_view(20, ("d0",), together=("d0",)).daemon_view(21, ("d1", "d2"), together=("d1", "d2"))
    assert judge(story.trace) == []


def test_who_has_it_must_deliver_it() -> None:
    """One who holds a bundle and drops it at the end of the view is of no use to anybody."""
    story = assembled()
    bundle = carry(story, "2", "d1")
    assert names(parted(pass_up(story, bundle, "2", "d0"))) == {BROKEN}


def test_who_crashes_is_excused() -> None:
    story = assembled()
    bundle = carry(story, "2", "d1")
    pass_up(story, bundle, "2", "d0").crash("d1")
    story.daemon_signal("d0", "d2", together=("d0", "d2"))
    story.daemon_view(20, ("d0", "d2"), together=("d0", "d2"))
    assert BROKEN not in names(story)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_it_is_kept_where_daemons_crash_and_are_cut_off(seed: int) -> None:
    outcome = run_seed(seed, "resilient")
    assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))


def test_plans_of_any_scenario_can_have_resilient_messages() -> None:
    outcome = run_seed(2, "crash", order="adaptive", causal=True, resilience=True)
    assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))
    assert outcome.digest != run_seed(2, "crash", order="adaptive", causal=True).digest


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_it_is_kept_in_many_runs() -> None:
    for seed in range(60):
        outcome = run_seed(seed, "resilient")
        assert outcome.is_clean, outcome.error + "\n".join(map(str, outcome.violations))
