"""The oracle on traces told by hand, below the groups: what daemons promise one another."""

from pathlib import Path

import pytest
from oracle_stories import ALL, DAEMONS, Story, assembled, names

from antiphon.simulator.oracle import judge
from antiphon.trace import Event, Record, read

PAIR = ("d0", "d1")


def parted(story: Story, signal: bool = True) -> Story:
    """The third daemon is cut off from the others."""
    if signal:
        story.daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    return story.daemon_view(20, PAIR, together=PAIR).daemon_view(21, ("d2",), together=("d2",))


def test_a_cut_in_which_all_is_well() -> None:
    story = assembled()
    everywhere = story.have(story.carry("d0", service="safe"), "d1", "d2")
    story.pass_up(everywhere, *ALL)
    lost = story.carry("d2")
    story.pass_up(lost, "d2")
    late = story.have(story.carry("d1", service="safe"), "d0")
    story.daemon_signal("d0", "d1", together=PAIR, groups=("g",)).pass_up(late, "d0", "d1")
    parted(story).restored(ALL)
    story.daemon_view(30, ALL, at=PAIR, together=PAIR).daemon_view(30, ALL, at=("d2",), together=("d2",))
    story.pass_up(story.have(story.carry("d2", ("d1", "d2")), "d1"), "d1", "d2")
    assert judge(story.trace) == []


def test_a_crash_in_which_all_is_well() -> None:
    story = assembled()
    last_word = story.have(story.carry("d2"), "d0", "d1")
    story.buffers("d2", 1, 10).crash("d2").daemon_signal("d0", "d1", together=PAIR)
    story.pass_up(last_word, "d0", "d1").daemon_view(20, PAIR, together=PAIR)
    story.start("d2", view=9).restored(ALL)
    story.daemon_view(30, ALL, at=PAIR, together=PAIR).daemon_view(30, ALL, at=("d2",))
    assert judge(story.trace) == []


@pytest.mark.parametrize("event", [Event.SDELIVER, Event.STRANSSIG, Event.SVIEW])
def test_initial_view_event(event: Event) -> None:
    """The daemon has crashed, and something happens at it all the same."""
    story = assembled().crash("d2")
    records = story.trace.records
    records.append(
        Record(
            len(records),
            10,
            event,
            "d2",
            bundle=(10, 0, 1),
            daemon_view=40,
            members=("d2",),
            incarnations=(1,),
        )
    )
    assert "2.1 initial view event (daemons)" in names(story)


def test_self_inclusion() -> None:
    assert "2.2 self inclusion (daemons)" in names(assembled().daemon_view(20, PAIR, at=("d2",)))


def test_self_inclusion_of_the_present_incarnation() -> None:
    story = assembled().daemon_view(20, ALL, together=ALL, incarnations=(1, 1, 9))
    assert "2.2 self inclusion (daemons)" in names(story)


def test_local_monotonicity() -> None:
    assert names(assembled().daemon_view(9, ALL, together=ALL)) == {"2.3 local monotonicity (daemons)"}


def test_local_monotonicity_begins_anew_with_each_life() -> None:
    """The wall clock was set back while the daemon was down."""
    story = Story().start("d0", view=5).crash("d0").start("d0", view=2)
    assert judge(story.trace) == []


def test_a_daemon_begins_alone() -> None:
    story = Story().start("d0")
    first = story.trace.records[1]
    first.members, first.incarnations = PAIR, (1, 1)
    assert "2.4 transitional set (daemons)" in names(story)


def test_a_daemon_begins_with_nobody_from_before() -> None:
    story = Story().start("d0")
    story.trace.records[1].transitional = ("d0",)
    assert names(story) == {"2.4 transitional set (daemons)"}


@pytest.mark.parametrize(
    "together",
    [
        pytest.param(("d0",), id="one is missing"),
        pytest.param((*PAIR, "d2"), id="one is not in both views"),
    ],
)
def test_transitional_set(together: tuple[str, ...]) -> None:
    story = assembled().daemon_signal("d0", "d1", together=ALL).daemon_signal("d2", together=ALL)
    story.daemon_view(20, PAIR, together=together).daemon_view(21, ("d2",), together=("d2",))
    assert names(story) == {"2.4 transitional set (daemons)"}


def test_transitional_sets_of_companions_are_the_same() -> None:
    """They differ in one that crashed before it could install the view."""
    story = assembled().crash("d2")
    story.daemon_signal("d0", "d1", together=ALL)
    story._lives["d2"] = 1
    story.daemon_view(20, ALL, at=("d0",), together=PAIR).daemon_view(20, ALL, at=("d1",), together=ALL)
    assert names(story) == {"2.4 transitional set (daemons)"}


def test_a_new_life_did_not_come_along() -> None:
    """A daemon restarts between two views; its name is in both."""
    story = assembled().crash("d2").start("d2", view=12)
    story.daemon_signal("d0", "d1", together=ALL)
    story.daemon_view(20, ALL, at=PAIR, together=ALL).daemon_view(20, ALL, at=("d2",))
    assert "2.4 transitional set (daemons)" in names(story)


def test_no_duplication() -> None:
    story = assembled()
    bundle = story.carry("d0", service="reliable")
    story.pass_up(bundle, *ALL).pass_up(bundle, "d1")
    assert names(story) == {"2.5 no duplication (daemons)"}


def test_deliver_integrity_of_what_was_never_sent() -> None:
    story = assembled()
    bundle = story.carry("d0", service="reliable")
    story.pass_up(bundle, *ALL).pass_up(bundle, *ALL)
    for record in story.trace.records[-3:]:
        record.bundle = (10, 0, 99)
    assert names(story) == {"2.6 deliver integrity (daemons)"}


@pytest.mark.parametrize("change", [{"lts": 2}, {"service": "fifo"}, {"groups": ("h",)}, {"count": 2}])
def test_deliver_integrity_of_contents(change: dict[str, object]) -> None:
    story = assembled()
    bundle = story.carry("d0")
    story.have(bundle, "d1", "d2")
    story.pass_up(bundle, *ALL)
    for name, value in change.items():
        setattr(story.trace.records[-1], name, value)
    assert names(story) == {"2.6 deliver integrity (daemons)"}


def test_deliver_integrity_of_the_source() -> None:
    story = assembled()
    bundle = story.carry("d0")
    story.pass_up(bundle, *ALL)
    next(record for record in story.trace.records if record.event is Event.SSEND).daemon = "d1"
    assert "2.6 deliver integrity (daemons)" in names(story)


def test_virtual_synchrony() -> None:
    story = assembled()
    story.pass_up(story.carry("d2", service="reliable"), "d2", "d0")
    assert names(parted(story)) == {"2.7 virtual synchrony (daemons)"}


def test_virtual_synchrony_minds_destinations() -> None:
    story = assembled()
    story.pass_up(story.carry("d2", ("d0", "d2"), service="reliable"), "d2", "d0")
    assert judge(parted(story).trace) == []


def test_a_daemon_view_has_one_general_signal() -> None:
    story = assembled().daemon_signal("d0", together=PAIR)
    assert names(parted(story)) == {"2.8 transitional signals (daemons)"}


def test_a_group_has_one_early_signal() -> None:
    story = assembled().daemon_signal("d0", together=PAIR, groups=("g", "h"))
    story.daemon_signal("d0", together=PAIR, groups=("h",))
    assert names(parted(story)) == {"2.8 transitional signals (daemons)"}


def test_early_signals_are_not_late() -> None:
    story = assembled().daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    story.daemon_signal("d0", together=PAIR, groups=("g",))
    assert names(parted(story, signal=False)) == {"2.8 transitional signals (daemons)"}


def test_a_daemon_view_that_loses_members_has_a_signal() -> None:
    assert names(parted(assembled(), signal=False)) == {"2.8 transitional signals (daemons)"}


def test_a_daemon_view_that_only_grows_needs_none() -> None:
    story = Story().start(*DAEMONS).daemon_view(10, PAIR).daemon_view(20, ALL, at=PAIR, together=PAIR)
    story.daemon_view(20, ALL, at=("d2",))
    assert judge(story.trace) == []


def test_a_signal_is_for_the_present_view() -> None:
    story = assembled().daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    story.trace.records[-1].daemon_view = 9
    assert names(parted(story, signal=False)) == {"2.8 transitional signals (daemons)"}


def test_a_signal_names_those_who_come_along() -> None:
    story = assembled().daemon_signal("d0", "d1", together=("d0",)).daemon_signal("d2", together=("d2",))
    assert names(parted(story, signal=False)) == {"2.8 transitional signals (daemons)"}


def test_reliable_messages() -> None:
    """d0 sends, delivers nothing and moves on together with d1."""
    story = assembled()
    story.carry("d0", ("d1",), service="reliable")
    assert names(parted(story)) == {"2.10 reliable messages (daemons)"}


def test_reliable_messages_of_one_who_crashes_may_be_lost() -> None:
    story = assembled()
    story.carry("d2", PAIR, service="reliable")
    story.crash("d2").daemon_signal("d0", "d1", together=PAIR).daemon_view(20, PAIR, together=PAIR)
    assert judge(story.trace) == []


def fifo(first: str, second: str) -> Story:
    """Two bundles of one session; d1 delivers the second first."""
    story = assembled().connect("#a#d0")
    one = story.carry("d0", PAIR, story.send("#a#d0", first, ("h",)))
    two = story.carry("d0", PAIR, story.send("#a#d0", second, ("h",)))
    return story.pass_up(one, "d0").pass_up(two, "d0").pass_up(two, "d1").pass_up(one, "d1")


@pytest.mark.parametrize("first", ["reliable", "fifo"])
def test_fifo_messages(first: str) -> None:
    assert names(fifo(first, "fifo")) == {"2.11 FIFO messages (daemons)"}


def test_reliable_messages_may_overtake() -> None:
    assert names(fifo("fifo", "reliable")) == set()


@pytest.mark.parametrize("cause", ["sent", "delivered"])
def test_causal_messages(cause: str) -> None:
    story = assembled()
    bundle = story.carry("d0" if cause == "sent" else "d1", service="reliable")
    story.pass_up(bundle, *ALL)
    later = story.carry("d0", service="reliable", lts=0)
    assert names(story.pass_up(later, *ALL)) == {"2.12 causal messages (daemons)"}


@pytest.mark.parametrize("service", ["reliable", "agreed"])
def test_before_the_signal_nothing_earlier_is_missing(service: str) -> None:
    """The others, who stay apart, delivered something before it."""
    story = assembled()
    missing = story.carry("d2", service=service)
    later = story.have(story.carry("d2"), "d0", "d1")
    story.pass_up(missing, "d2").pass_up(later, *ALL)
    assert names(parted(story)) == {"2.13 agreed messages (daemons)"}


def test_after_the_signal_something_of_the_lost_may_be_missing() -> None:
    story = assembled()
    missing = story.carry("d2")
    later = story.have(story.carry("d2"), "d0", "d1")
    story.pass_up(missing, "d2").pass_up(later, "d2")
    story.daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    story.pass_up(later, "d0", "d1")
    assert judge(parted(story, signal=False).trace) == []


def test_an_early_signal_is_for_its_groups_alone() -> None:
    """Something for g is missing: what comes later for g is after the early signal, and for h it is not. But
    if it had been for h, that would have been too late."""
    story = assembled()
    missing = story.carry("d2", groups=("g",))
    for_g, for_h = story.carry("d2", groups=("g",)), story.carry("d2", groups=("h",))
    story.pass_up(missing, "d2").pass_up(for_g, "d2").pass_up(for_h, "d2")
    story.daemon_signal("d0", "d1", together=PAIR, groups=("g",))
    story.pass_up(for_g, "d0", "d1").pass_up(for_h, "d0", "d1")
    assert judge(parted(story).trace) == []


def test_an_early_signal_does_not_cover_other_groups() -> None:
    story = assembled()
    missing = story.carry("d2", groups=("h",))
    for_h = story.carry("d2", groups=("h",))
    story.pass_up(missing, "d2").pass_up(for_h, "d2")
    story.daemon_signal("d0", "d1", together=PAIR, groups=("g",)).pass_up(for_h, "d0", "d1")
    assert names(parted(story)) == {"2.13 agreed messages (daemons)"}


def test_after_the_signal_nothing_of_a_companion_is_missing() -> None:
    """d2 has a bundle of d0, which d0 and d1 lack when they deliver a later one."""
    story = assembled()
    missing = story.carry("d0", ("d1", "d2"))
    later = story.have(story.carry("d2"), "d0", "d1")
    story.pass_up(missing, "d2").pass_up(later, "d2")
    story.daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    story.pass_up(later, "d0", "d1")
    assert "2.13 agreed messages (daemons)" in names(parted(story, signal=False))


def test_one_order() -> None:
    story = assembled()
    one, two = story.carry("d0"), story.carry("d2")
    story.pass_up(one, "d0", "d1").pass_up(two, "d0", "d1").pass_up(two, "d2").pass_up(one, "d2")
    assert names(story) == {"2.13 one order (daemons)"}


def test_one_order_through_all_views_of_a_life() -> None:
    """In its next view a daemon delivers something with an earlier timestamp."""
    story = assembled()
    story.pass_up(story.have(story.carry("d0", lts=50), "d1", "d2"), *ALL)
    parted(story).pass_up(story.have(story.carry("d1", PAIR), "d0"), *PAIR)
    assert names(story) >= {"2.13 one order (daemons)"}


@pytest.mark.parametrize("service", ["reliable", "fifo"])
def test_an_agreed_bundle_shuts_the_door_behind_it(service: str) -> None:
    story = assembled()
    early, agreed = story.carry("d0", service=service), story.carry("d0")
    story.pass_up(agreed, *ALL).pass_up(early, *ALL)
    assert names(story) == {"2.13 one order (daemons)"}


def test_safe_needs_all_destinations_to_have_it() -> None:
    story = assembled()
    bundle = story.have(story.carry("d0", service="safe"), "d1")
    story.pass_up(bundle, "d0")
    story.have(bundle, "d2")
    story.pass_up(bundle, "d1", "d2")
    assert names(story) == {"2.14 safe messages (daemons)"}


def test_safe_needs_only_the_destinations() -> None:
    story = assembled()
    bundle = story.have(story.carry("d0", PAIR, service="safe"), "d1")
    assert judge(story.pass_up(bundle, *PAIR).trace) == []


def test_safe_is_delivered_by_all_of_the_view() -> None:
    story = assembled()
    bundle = story.have(story.carry("d0", service="safe"), "d1", "d2")
    assert names(parted(story.pass_up(bundle, *PAIR))) == {"2.14 safe messages (daemons)"}


def test_safe_after_the_signal() -> None:
    """Only those who come along count; and of these, all."""
    story = assembled()
    bundle = story.have(story.carry("d2", service="safe"), "d0", "d1")
    story.daemon_signal("d0", "d1", together=PAIR).daemon_signal("d2", together=("d2",))
    story.pass_up(bundle, "d0", "d2")
    found = names(parted(story, signal=False))
    assert found == {"2.7 virtual synchrony (daemons)", "2.14 safe messages (daemons)"}


def test_safe_after_an_early_signal() -> None:
    """d2 lacks the bundle, and its group was told."""
    story = assembled()
    bundle = story.have(story.carry("d0", service="safe"), "d1")
    story.daemon_signal("d0", "d1", together=PAIR, groups=("g",)).pass_up(bundle, "d0", "d1")
    assert judge(parted(story).trace) == []


def test_self_delivery() -> None:
    story = assembled()
    story.carry("d2", ("d2",))
    assert names(parted(story)) == {"2.10 reliable messages (daemons)", "2.15 self delivery (daemons)"}


@pytest.mark.parametrize(
    ("parts", "bound_us"),
    [
        pytest.param((PAIR, ("d2",)), 1_000, id="too many are together"),
        pytest.param((ALL,), 30, id="too late"),
        pytest.param((PAIR,), 1_000, id="one lives that should not"),
    ],
)
def test_membership_precision(parts: tuple[tuple[str, ...], ...], bound_us: int) -> None:
    story = Story().start(*DAEMONS).restored(*parts, bound_us=bound_us).daemon_view(10, ALL)
    if bound_us == 30:
        assert judge(story.trace) == []
        story = Story().start(*DAEMONS).restored(*parts, bound_us=20).daemon_view(10, ALL)
    assert names(story) == {"2.16 membership precision (daemons)"}


def test_membership_precision_of_those_who_stay_apart() -> None:
    story = assembled().restored(ALL)
    assert "2.16 membership precision (daemons)" in names(parted(story))


def test_membership_precision_in_one_common_view() -> None:
    """All have the same members, and not the same view."""
    story = assembled().restored(ALL).daemon_view(20, ALL, at=PAIR, together=ALL)
    assert "2.16 membership precision (daemons)" in names(story)


def test_membership_precision_of_a_daemon_that_is_dead() -> None:
    assert names(assembled().crash("d2").restored(ALL)) == {"2.16 membership precision (daemons)"}


def test_termination_of_a_bundle() -> None:
    """Nobody has moved, and not all have it: the receiver is stuck in an earlier view."""
    story = Story().start(*DAEMONS).daemon_view(10, ALL, at=PAIR)
    bundle = story.carry("d0")
    assert "2.17 termination (daemons)" in names(story.pass_up(bundle, *PAIR))


def test_termination_of_a_signal() -> None:
    assert names(assembled().daemon_signal("d0", together=PAIR)) == {"2.17 termination (daemons)"}


def test_termination_of_a_start() -> None:
    story = Story().start("d0")
    del story.trace.records[1]
    assert names(story) == {"2.17 termination (daemons)"}


def test_same_view_delivery() -> None:
    """d2 delivers in its next view what the others delivered in the view before."""
    story = assembled()
    bundle = story.have(story.carry("d0"), "d1", "d2")
    parted(story.pass_up(bundle, *PAIR)).pass_up(bundle, "d2")
    assert "2.18 same view delivery (daemons)" in names(story)


def test_sane_view_of_sending() -> None:
    story = assembled()
    story.pass_up(story.carry("d0", bundle=(9, 0, 1)), *ALL)
    assert "2.19 sane view delivery (daemons)" in names(story)


def test_sane_view_of_delivery() -> None:
    """d2 delivers a bundle of a view that it has not installed yet."""
    story = assembled().daemon_view(20, ALL, at=PAIR, together=ALL)
    story.pass_up(story.carry("d0"), *ALL).daemon_view(20, ALL, at=("d2",), together=ALL)
    assert "2.19 sane view delivery (daemons)" in names(story)


def test_sane_view_of_an_earlier_life() -> None:
    """d2 restarts; what it sent before is delivered in the view that has its new incarnation."""
    story = assembled()
    bundle = story.carry("d2", PAIR, service="reliable")
    story.crash("d2").start("d2", view=12).daemon_signal("d0", "d1", together=PAIR)
    story.daemon_view(20, ALL, at=PAIR, together=PAIR).daemon_view(20, ALL, at=("d2",))
    story.pass_up(bundle, *PAIR)
    assert names(story) == {"2.18 same view delivery (daemons)", "2.19 sane view delivery (daemons)"}


@pytest.mark.parametrize("change", [{"members": PAIR}, {"incarnations": (1, 1, 2)}, {"links": (PAIR,)}])
def test_membership_agreement(change: dict[str, object]) -> None:
    story = assembled()
    for name, value in change.items():
        setattr(story.trace.records[-2], name, value)
    assert "2.20 membership agreement (daemons)" in names(story)


def test_buffers_of_the_dead_do_not_count() -> None:
    story = assembled().buffers("d2", 5, 10).crash("d2")
    assert judge(story.trace) == []


def test_a_file_tells_the_same_as_its_trace(tmp_path: Path) -> None:
    story = parted(assembled()).restored(PAIR, ("d2",))
    story.pass_up(story.carry("d0", PAIR, groups=("g", "h")), *PAIR).buffers("d0", 0, 10).crash("d2")
    again = read(story.trace.write(tmp_path))
    assert again.records == story.trace.records
    assert again.digest() == story.trace.digest()
