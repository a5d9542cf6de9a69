"""Busy daemons, pauses, silence, names used again, sessions without views: told as they are."""

from functools import cache

import pytest
from oracle_stories import A, B, C, Story

from antiphon.simulator.incidents import Cut, OneWay, Pause, Trouble
from antiphon.simulator.network import Corrupt
from antiphon.simulator.oracle import judge
from antiphon.simulator.plan import Plan
from antiphon.simulator.run import run_plan, simulate
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import Event, Record
from antiphon.trace.bearers import Bearers, private_name
from antiphon.types import Cause, View, ViewId

SEEDS = range(60)


@cache
def plans() -> tuple[Plan, ...]:
    return tuple(plan_of("mixed", seed) for seed in SEEDS)


def test_every_hardship_occurs_among_few_seeds() -> None:
    """A scenario that does not get there proves nothing."""
    daemons = [daemon for plan in plans() for daemon in plan.daemons()]
    habits = [client.habits for plan in plans() for client in plan.clients]
    incidents = [incident for plan in plans() for incident in plan.incidents]
    assert any(daemon.gathers_us for daemon in daemons)
    assert any(daemon.late_us for daemon in daemons)
    assert any(daemon.starts_us > 500_000 for daemon in daemons)
    assert any(route.link.rate_bytes_per_s for plan in plans() for route in plan.routes)
    assert any(not habit.views for habit in habits)
    assert any(habit.keeps_name and habit.quits for habit in habits)
    assert any(habit.hasty for habit in habits)
    for kind in (Pause, Cut, OneWay):
        assert any(isinstance(incident, kind) for incident in incidents)


def test_links_fail_and_come_back() -> None:
    """A silence of a dozen seconds is noticed, and routed around if it can be; afterwards all is well."""
    seed = next(
        seed
        for seed, plan in zip(SEEDS, plans(), strict=True)
        if any(isinstance(incident, Cut) and incident.for_us > 12_000_000 for incident in plan.incidents)
    )
    stage = simulate(seed, "mixed")
    states = [record.reason for record in stage.world.records if record.event is Event.STATE]
    assert "silence" in states
    assert stage.world.has_formed([stage.world.alive])
    assert len(stage.world.alive) == len(stage.plan.daemons())


def test_packets_that_were_damaged_on_their_way_are_lost_and_nothing_else() -> None:
    damaging = [
        seed
        for seed in SEEDS
        for incident in plan_of("swarm", seed).incidents
        if isinstance(incident, Trouble) and isinstance(incident.fault, Corrupt)
    ]
    assert len(damaging) >= 5
    stage = simulate(damaging[0], "swarm")
    world = stage.world
    counters = [node.counters for daemon in world.alive if (node := world.node(daemon)) is not None]
    assert sum(path.corrupted for path in world.network.paths.values()) >= 10
    assert sum(counter["packet: checksum"] for counter in counters) >= 10
    reasons = {reason for counter in counters for reason in counter}
    assert not any(reason.startswith(("beat:", "bundle:", "item:")) for reason in reasons), reasons
    assert run_plan(stage.plan).is_clean


@pytest.mark.long
def test_groups_are_left_apart_often_enough() -> None:
    """Daemons that all come from one view have groups to put together, since the last merge was cut short."""
    entered = [
        {(record.state, record.reason) for record in simulate(seed, "apart").world.records}
        for seed in range(6)
    ]
    assert sum(("ggather", "apart") in states for states in entered) >= 3


def test_a_name_used_again_is_another_process() -> None:
    bearers = Bearers()
    first, second = bearers.born("#a#d0", (0, 7, 1)), bearers.born("#a#d0", (0, 7, 2))
    assert (first, second) == ("#a#d0", "#a!2#d0")
    assert private_name(second) == first


def test_a_view_means_who_bore_the_name_where_it_was_made() -> None:
    """Daemon d1 is cut off from d0, where a session ends and another takes its name. When d1 has noticed, its
    view without d0 names the one whom it has lost; no clock would have told, since d1's is ahead."""
    bearers = Bearers()
    first, second = bearers.born("#a#d0", (0, 7, 1)), bearers.born("#a#d0", (0, 7, 2))
    bearers.born("#b#d1", (1, 9, 1))
    joined = View("g", ViewId(3, 0, 20, 0), ("#a#d0",), (), Cause.JOIN, ("#a#d0",))
    lost = View("g", ViewId(3, 5, 99, 1), ("#b#d1",), ("#b#d1",), Cause.NETWORK, ("#a#d0",))
    bearers.saw("d0", joined, [(0, 7, 2)])
    bearers.saw("d1", lost, [(1, 9, 1), (0, 7, 1)])
    assert bearers.meant("d0", joined, joined.members) == (second,)
    assert bearers.meant("d1", lost, lost.changed) == (first,)
    assert bearers.meant("d1", lost, lost.members) == ("#b#d1",)


def without_views(story: Story, process: str) -> None:
    """`process` connects as one that does not want views."""
    position = len(story.trace.records)
    record = Record(position, position * 10, Event.CONNECT, "d2", process, views_wanted=False)
    story.trace.records.append(record)


def test_who_does_not_want_views_stays_in_its_first() -> None:
    """C joined last, then A left: B knows, C is not told, and both deliver the same."""
    story = Story().connect(A, B)
    without_views(story, C)
    story.view(1, (A, B, C)).leave(A).left(A, 2).view(2, (B, C), at=(B,), together=(B, C), cause="leave")
    message = story.send(B, "safe")
    story.hold(message, C)
    story.deliver(message, B, C)
    assert judge(story.trace) == []


def test_who_does_not_want_views_still_gets_every_message() -> None:
    story = Story().connect(A, B)
    without_views(story, C)
    story.view(1, (A, B, C)).view(2, (A, B, C), at=(A, B), together=(A, B, C))
    story.deliver(story.send(A), A, B)
    assert "2.10" in {violation.name.split()[0] for violation in judge(story.trace)}


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
    story.deliver(message, A).left(B, 2).view(2, (A,), together=(A,), cause="leave")
    story.view(3, (A, B), at=(A,), together=(A,)).view(3, (A, B), at=(B,))
    assert judge(story.trace) == []
