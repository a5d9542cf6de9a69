"""Busy daemons, pauses, silence, names used again, sessions without views: told as they are."""

from functools import cache
from random import Random

import pytest
from stories import A, B, C, Story

from antiphon.simulator.bearers import Bearers, private_name
from antiphon.simulator.network import Path, Silence
from antiphon.simulator.oracle import judge
from antiphon.simulator.run import simulate
from antiphon.simulator.scenario import SCENARIOS, Setup
from antiphon.simulator.trace import Event, Record

SEEDS = range(60)


@cache
def setups() -> tuple[Setup, ...]:
    return tuple(SCENARIOS["mixed"](Random(f"mixed {seed}"), seed) for seed in SEEDS)


def test_every_hardship_occurs_among_few_seeds() -> None:
    """A scenario that does not get there proves nothing."""
    daemons = [daemon for setup in setups() for daemon in setup.daemons]
    habits = [habits for setup in setups() for _, habits in setup.actors]
    paths = [path for setup in setups() for path in setup.paths.values()]
    assert any(daemon.gathers_us for daemon in daemons)
    assert any(daemon.late_us for daemon in daemons)
    assert any(daemon.pauses for daemon in daemons)
    assert any(daemon.starts_us > 500_000 for daemon in daemons)
    assert any(link.rate_bytes_per_s for setup in setups() for link in setup.config.links)
    assert any(not habit.views for habit in habits)
    assert any(habit.keeps_name and habit.quits for habit in habits)
    assert any(habit.hasty for habit in habits)
    assert any(path.is_silent(setup.working_us) for setup in setups() for path in setup.paths.values())
    assert len(paths) > len(SEEDS)


def test_links_fail_and_come_back() -> None:
    """A silence of a dozen seconds and more is declared a failure; afterwards all is well again."""
    seed = next(
        seed
        for seed, setup in zip(SEEDS, setups(), strict=True)
        if any(path.is_silent(25_000_000) for path in setup.paths.values()) and setup.working_us < 15_000_000
    )
    setup, world = simulate(seed, "mixed")
    links = [
        link for node in map(world.node, range(len(setup.daemons))) if node for link in node.links.values()
    ]
    assert any(link.counters["failures"] for link in links)
    assert all(link.state.value == "open" for link in links)


def test_a_silent_path_carries_nothing() -> None:
    path = Path(10, (Silence(100, 200),), Random(1), 0.0)
    assert [bool(path.carry(b"p", 1, now_us)) for now_us in (99, 100, 199, 200)] == [True, False, False, True]
    assert path.lost == 2


def test_a_name_used_again_is_another_process() -> None:
    bearers = Bearers()
    first, second = bearers.born("#a#d0", 10), bearers.born("#a#d0", 25)
    assert (first, second) == ("#a#d0", "#a!2#d0")
    assert private_name(second) == first
    assert bearers.meant(("#a#d0",), 25) == (first,)
    assert bearers.meant(("#a#d0",), 26) == (second,)


def without_views(story: Story, process: str) -> None:
    """`process` connects as one that does not want views."""
    position = len(story.trace.records)
    record = Record(position, position * 10, Event.CONNECT, "d2", process, views_wanted=False)
    story.trace.records.append(record)


def test_who_does_not_want_views_stays_in_its_first() -> None:
    """C joined last, then A left: B knows, C is not told, and both deliver the same."""
    story = Story().connect(A, B)
    without_views(story, C)
    story.view(1, (A, B, C)).leave(A).left(A).view(2, (B, C), at=(B,), together=(B, C), cause="leave")
    message = story.send(B, "safe")
    story.hold(message, C)
    story.deliver(message, B, C)
    assert judge(story.trace) == []


def test_who_does_not_want_views_still_gets_every_message() -> None:
    story = Story().connect(A, B)
    without_views(story, C)
    story.view(1, (A, B, C)).view(2, (A, B, C), at=(A, B), together=(A, B, C))
    story.deliver(story.send(A), A, B)
    assert {violation.name.split()[0] for violation in judge(story.trace)} == {"2.10"}


@pytest.mark.parametrize("reached", [True, False])
def test_members_by_the_senders_word_are_owed_the_message(reached: bool) -> None:
    """B is in A's view although it has not read it yet."""
    story = Story().connect(A, B).join(A).join(B).view(1, (A, B), at=(A,))
    message = story.send(A, "reliable")
    story.deliver(message, A).view(1, (A, B), at=(B,))
    if reached:
        story.deliver(message, B)
    assert ("2.10" in {violation.name.split()[0] for violation in judge(story.trace)}) is not reached


def test_a_leave_that_is_under_way_excuses_until_the_next_join() -> None:
    """B asks to leave and to join again at once: what comes between the two is not for B."""
    story = Story().connect(A, B).join(B).view(1, (A, B)).leave(B).join(B)
    message = story.send(A, "reliable")
    story.deliver(message, A).left(B).view(2, (A,), together=(A,), cause="leave")
    story.view(3, (A, B), at=(A,), together=(A,)).view(3, (A, B), at=(B,))
    assert judge(story.trace) == []
