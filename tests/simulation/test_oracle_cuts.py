"""The oracle on traces told by hand in which daemons are cut off and come back: what clients are promised."""

import pytest
from oracle_stories import ALL, DAEMONS, A, B, C, Story, assembled, broken, names

from antiphon.simulator.oracle import judge
from antiphon.trace import Identity

HOME = {A: "d0", B: "d1", C: "d2"}


def together() -> Story:
    """Three daemons in one view, each with a member of the group."""
    return assembled().connect(A, B, C).view(1, (A, B, C))


def say(
    story: Story, sender: str, *receivers: str, service: str = "agreed", held: tuple[str, ...] = (A, B, C)
) -> Identity:
    """A message that these processes and their daemons deliver, and that the daemons of `held` have."""
    message = story.send(sender, service)
    story.hold(message, *held)
    bundle = story.carry(HOME[sender], ALL, message)
    story.have(bundle, *(HOME[process] for process in held))
    for process in receivers:
        story.pass_up(bundle, HOME[process]).deliver(message, process)
    return message


def part(story: Story, signal: bool = True) -> Story:
    """C is cut off from A and B; all get the signal, unless told."""
    story.daemon_signal("d0", "d1", together=("d0", "d1")).daemon_signal("d2", together=("d2",))
    return story.signal(A, B, C) if signal else story


def parted(story: Story, together: tuple[str, ...] = (A, B)) -> Story:
    """The two sides get their views."""
    story.view(2, (A, B), together=together, cause="network", changed=(C,))
    story.view(3, (C,), together=(C,), cause="network", changed=(A, B))
    story.daemon_view(20, ("d0", "d1"), together=("d0", "d1"))
    return story.daemon_view(21, ("d2",), together=("d2",))


def merged(story: Story) -> Story:
    """They come together again, for good."""
    story.restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    story.daemon_view(30, ALL, at=("d2",), together=("d2",))
    story.view(4, (A, B, C), at=(A, B), together=(A, B), cause="merge", changed=(C,))
    return story.view(4, (A, B, C), at=(C,), together=(C,), cause="merge", changed=(A, B))


def test_a_cut_in_which_all_is_well() -> None:
    """One message is everywhere, one on C's side only, a safe one comes after the signal; then all meet."""
    story = together()
    say(story, A, A, B, C, service="safe")
    say(story, C, C, held=(C,))
    part(story)
    say(story, A, A, B, service="safe", held=(A, B))
    parted(story)
    say(story, C, C, held=(C,), service="reliable")
    merged(story)
    say(story, B, A, B, C)
    assert judge(story.trace) == []


def test_a_crash_in_which_all_is_well() -> None:
    """C's daemon crashes, starts anew and is let in again; a new process has the name of the old one."""
    story = together()
    say(story, A, A, B, C, service="safe")
    story.crash("d2", C)
    story.daemon_signal("d0", "d1", together=("d0", "d1")).signal(A, B)
    story.daemon_view(20, ("d0", "d1"), together=("d0", "d1"))
    story.view(2, (A, B), together=(A, B), cause="network", changed=(C,))
    story.start("d2", view=19).restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1")).daemon_view(30, ALL, at=("d2",))
    heir = "#c!2#d2"
    story.connect(heir).join(heir).view(3, (A, B, heir), together=(A, B), changed=(heir,))
    assert judge(story.trace) == []


def test_a_signal_needs_a_view() -> None:
    story = Story().connect(A).signal(A)
    assert broken(story) == {"2.1"}


def test_the_sides_of_a_cut_have_views_of_their_own() -> None:
    """Both sides call their view the second."""
    story = part(together()).view(2, (A, B), together=(A, B), cause="network")
    assert "2.20" in broken(story.view(2, (C,), together=(C,), cause="network"))


def test_who_comes_with_a_merge_depends_on_the_side() -> None:
    story = parted(part(together())).restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    story.daemon_view(30, ALL, at=("d2",), together=("d2",))
    story.view(4, (A, B, C), at=(A,), together=(A, B), cause="merge", changed=(C,))
    story.view(4, (A, B, C), at=(B,), together=(A, B), cause="merge", changed=(A,))
    story.view(4, (A, B, C), at=(C,), together=(C,), cause="merge", changed=(A, B))
    assert broken(story) == {"2.20"}


def test_a_transitional_set_has_nobody_who_is_lost() -> None:
    story = part(together())
    assert names(parted(story, together=(A, B, C))) >= {"2.4 transitional set"}


def test_a_transitional_set_has_everybody_from_the_same_view() -> None:
    assert names(parted(part(together()), together=(A,))) >= {"2.4 transitional set"}


def test_a_transitional_set_has_nobody_from_another_view() -> None:
    """In the merged view, C counts A and B as companions."""
    story = parted(part(together())).daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    story.daemon_view(30, ALL, at=("d2",), together=("d2",))
    story.view(4, (A, B, C), at=(A, B), together=(A, B), cause="merge")
    assert "2.4" in broken(story.view(4, (A, B, C), at=(C,), together=(A, B, C), cause="merge"))


def test_companions_have_the_same_transitional_set() -> None:
    """B names one that is in both views and disconnected before it could install the second."""
    story = Story().connect(A, B, C).view(1, (A, B, C)).disconnect(C)
    story.view(2, (A, B, C), at=(A,), together=(A, B)).view(2, (A, B, C), at=(B,), together=(A, B, C))
    story.view(3, (A, B), together=(A, B), cause="disconnect")
    assert broken(story) == {"2.4"}


@pytest.mark.parametrize("service", ["reliable", "agreed"])
def test_virtual_synchrony_of_those_who_go_on_together(service: str) -> None:
    """C sent a message and was cut off; A got it and B did not."""
    story = together()
    say(story, C, C, A, service=service, held=(A, C))
    assert names(parted(part(story))) >= {"2.7 virtual synchrony", "2.7 virtual synchrony (daemons)"}


@pytest.mark.parametrize("service", ["reliable", "agreed"])
def test_virtual_synchrony_excuses_those_who_part(service: str) -> None:
    story = together()
    say(story, C, C, service=service, held=(C,))
    merged(parted(part(story)))
    assert judge(story.trace) == []


def test_a_view_has_one_signal() -> None:
    story = part(together()).signal(A)
    assert broken(merged(parted(story))) == {"2.8"}


def test_a_view_that_a_cut_ends_has_a_signal() -> None:
    assert broken(merged(parted(part(together(), signal=False)))) == {"2.8"}


def test_a_signal_names_the_view_that_ends() -> None:
    story = parted(part(together()))
    story.signal(A)
    story.trace.records[-1].views = ((0, 0, 1, 0),)
    assert "2.8" in broken(merged(story))


def test_those_who_go_on_together_have_the_signal_together() -> None:
    """A new member is in the next view; A was told that some are lost, B was not."""
    story = Story().connect(A, B, C).view(1, (A, B)).signal(A).view(2, (A, B, C), together=(A, B))
    assert broken(story) == {"2.8"}


def test_those_who_go_on_together_have_the_signal_at_the_same_place() -> None:
    """A message before the signal at A, after it at B."""
    story = together()
    story.daemon_signal("d0", "d1", together=("d0", "d1")).daemon_signal("d2", together=("d2",))
    message = story.send(A)
    bundle = story.have(story.carry("d0", ALL, message), "d1")
    story.pass_up(bundle, "d0", "d1").deliver(message, A).signal(A, B, C).deliver(message, B)
    assert broken(merged(parted(story))) == {"2.8"}


def test_a_message_is_not_delivered_in_a_view_before_its_own() -> None:
    story = together()
    story.view(2, (A, B, C), at=(A,), together=(A, B, C))
    message = story.send(A)
    story.pass_up(story.have(story.carry("d0", ALL, message), "d1", "d2"), *DAEMONS).deliver(message, B)
    story.view(2, (A, B, C), at=(B, C), together=(A, B, C)).deliver(message, A, C)
    assert "2.9" in broken(story)


@pytest.mark.parametrize("leaves", [True, False])
def test_one_who_leaves_speaks_as_an_outsider(leaves: bool) -> None:
    """B was cut off from A, asked to leave and spoke; A knows nothing of that and gets it in its old view."""
    story = Story().connect(A, B).view(1, (A,)).view(2, (A, B), at=(B,), branch=20).signal(B)
    story.view(3, (B,), together=(B,), cause="network", branch=20)
    if leaves:
        story.leave(B)
    message = story.send(B)
    assert ("2.9" in broken(story.deliver(message, A))) is not leaves


@pytest.mark.parametrize("service", ["reliable", "agreed"])
def test_what_was_sent_before_a_join_comes_before_it(service: str) -> None:
    """C sends as an outsider, then joins; B gets the message in the view that has C."""
    story = Story().connect(A, B, C).view(1, (A, B))
    message = story.send(C, service)
    story.join(C).deliver(message, A).view(2, (A, B, C), together=(A, B)).deliver(message, B)
    assert "2.9" in broken(story)


@pytest.mark.parametrize(("branch", "wrong"), [(22, False), (21, True)])
def test_views_on_two_sides_of_a_cut_are_neither_earlier_nor_later(branch: int, wrong: bool) -> None:
    """C sends as an outsider, then joins on its side of the cut. B gets the message on its own side, in a
    view that a leave of A made there; on the same side, that would have been too late."""
    story = Story().connect(A, B, C).view(1, (A, B))
    message = story.send(C)
    story.join(C).view(5, (A, B, C), at=(C,), branch=21)
    story.signal(A, B).leave(A).left(A, 6).view(6, (B,), together=(B,), branch=branch).deliver(message, B)
    assert ("2.9" in broken(story)) is wrong


def test_what_an_earlier_life_sent_comes_before_the_later_one() -> None:
    """C is gone, another process has its name and joins; B gets C's last word afterwards."""
    story = Story().connect(A, B, C).view(1, (A, B))
    message = story.send(C)
    story.disconnect(C).deliver(message, A)
    heir = "#c!2#d2"
    story.connect(heir).join(heir).view(2, (A, B, heir), together=(A, B)).deliver(message, B)
    assert "2.9" in broken(story)


def test_reliable_messages_reach_those_who_go_on_with_the_sender() -> None:
    story = together()
    say(story, A, A, service="reliable", held=(A,))
    assert names(parted(part(story))) >= {"2.10 reliable messages", "2.10 reliable messages (daemons)"}


def test_reliable_messages_of_one_side_are_for_that_side() -> None:
    story = parted(part(together()))
    say(story, A, A, B, service="reliable", held=(A, B))
    assert "2.10" not in broken(merged(story))


def test_before_the_signal_there_are_no_gaps() -> None:
    """C's side delivers two messages in the view, A's side the second alone, before its signal."""
    story = together()
    say(story, C, C, held=(C,))
    say(story, C, C, A, B)
    assert names(merged(parted(part(story)))) >= {"2.13 agreed messages", "2.13 agreed messages (daemons)"}


def gap_after_the_signal(sender: str) -> Story:
    """C and then `sender` sent a message; C's side delivered both, A's side has only the second, after its
    signal."""
    story = together()
    say(story, C, C, held=(C,))
    second = story.send(sender)
    story.hold(second, A, B, C)
    bundle = story.have(story.carry(HOME[sender], ALL, second), "d0", "d1", "d2")
    story.pass_up(bundle, "d2").deliver(second, C)
    part(story).pass_up(bundle, "d0", "d1").deliver(second, A, B)
    return merged(parted(story))


def test_after_the_signal_lost_messages_of_the_lost_may_leave_gaps() -> None:
    assert judge(gap_after_the_signal(B).trace) == []


def test_after_the_signal_a_gap_is_no_missing_cause() -> None:
    """The thesis lets the second message of C come without the first; we do not."""
    assert broken(gap_after_the_signal(C)) == {"causes"}


def test_after_the_signal_messages_of_companions_leave_no_gaps() -> None:
    """C has a message of A, which A and B lack, although both of them deliver a later one."""
    story = together()
    say(story, A, C)
    second = story.send(C)
    bundle = story.have(story.carry("d2", ALL, second), "d0", "d1")
    story.pass_up(bundle, "d2").deliver(second, C)
    part(story).pass_up(bundle, "d0", "d1").deliver(second, A, B)
    found = names(merged(parted(story)))
    assert found >= {"2.13 agreed messages", "2.13 agreed messages (daemons)", "2.15 self delivery"}


def test_those_who_part_may_have_different_last_messages() -> None:
    """One who is cut off need not have what the others delivered last, nor they what it had."""
    story = together()
    say(story, A, A, B, C)
    say(story, C, C, held=(C,))
    part(story)
    say(story, A, A, B, held=(A, B))
    merged(parted(story))
    assert judge(story.trace) == []


def test_one_order_on_both_sides_of_a_cut() -> None:
    """Two messages of the view that ended: one order on A's side, the other on C's, after the signal."""
    story = together()
    first, second = story.send(A), story.send(C)
    one, two = story.carry("d0", ALL, first), story.carry("d2", ALL, second)
    story.have(one, "d1", "d2"), story.have(two, "d0", "d1")
    part(story).pass_up(one, "d0", "d1").pass_up(two, "d0", "d1").deliver(first, A, B).deliver(second, A, B)
    story.pass_up(two, "d2").pass_up(one, "d2").deliver(second, C).deliver(first, C)
    assert names(merged(parted(story))) == {"2.13 one order", "2.13 one order (daemons)"}


def test_safe_before_the_signal_needs_every_daemon() -> None:
    story = together()
    say(story, A, A, B, C, service="safe", held=(A, B))
    assert names(merged(parted(part(story)))) == {"2.14 safe messages", "2.14 safe messages (daemons)"}


def test_safe_before_the_signal_is_delivered_by_every_member() -> None:
    """C's daemon had the message, and C's side moved on without it."""
    story = together()
    say(story, A, A, B, service="safe")
    assert names(merged(parted(part(story)))) == {"2.14 safe messages", "2.14 safe messages (daemons)"}


def test_safe_excuses_a_crash() -> None:
    story = together()
    say(story, A, A, B, service="safe")
    story.crash("d2", C).daemon_signal("d0", "d1", together=("d0", "d1")).signal(A, B)
    story.daemon_view(20, ("d0", "d1"), together=("d0", "d1"))
    story.view(2, (A, B), together=(A, B), cause="network", changed=(C,))
    assert judge(story.trace) == []


def test_safe_after_the_signal_is_for_those_who_come_along() -> None:
    story = part(together())
    say(story, A, A, B, service="safe", held=(A, B))
    merged(parted(story))
    assert judge(story.trace) == []


def test_safe_after_the_signal_is_delivered_by_all_who_come_along() -> None:
    story = part(together())
    say(story, A, A, service="safe", held=(A, B))
    assert names(merged(parted(story))) >= {"2.14 safe messages", "2.14 safe messages (daemons)"}


def test_a_new_life_does_not_vouch_for_the_old_one() -> None:
    """The daemon of C crashed without the message; its next incarnation has it, which helps nobody."""
    story = together()
    message = story.send(A, "safe")
    story.hold(message, B)
    story.crash("d2", C).start("d2", view=19)
    story.hold(message, C)
    story.deliver(message, A)
    assert "2.14" in broken(story)


def test_self_delivery_across_a_cut() -> None:
    """C sent as a member, was cut off and stayed alive."""
    story = together()
    say(story, C, held=(C,))
    assert names(merged(parted(part(story)))) >= {"2.15 self delivery", "2.15 self delivery (daemons)"}


def test_termination_after_a_merge() -> None:
    """The daemons are together again; the members of the group are not told."""
    story = parted(part(together())).restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    assert broken(story.daemon_view(30, ALL, at=("d2",), together=("d2",))) == {"2.17"}


def test_termination_of_sides_that_stay_apart() -> None:
    story = parted(part(together())).restored(("d0", "d1"), ("d2",))
    assert judge(story.trace) == []


def test_termination_in_one_common_view() -> None:
    """Both are in a view of the same members, and not in the same."""
    story = Story().connect(A, B).view(1, (A, B)).view(2, (A, B), at=(A,), together=(A, B))
    assert broken(story) == {"2.17"}


def test_termination_of_a_signal() -> None:
    story = Story().connect(A, B).view(1, (A, B)).signal(A, B)
    assert broken(story) == {"2.17"}


def test_termination_of_what_a_daemon_took() -> None:
    """The message is not under way: no bundle ever carried it."""
    story = together()
    story.send(C, "reliable", ("#nobody#d0",))
    assert broken(story) == {"2.17"}


def test_termination_in_the_last_view() -> None:
    """B has left and joined again, so 2.10 does not speak of it; but nobody has moved since the send."""
    story = Story().connect(A, B).join(B).view(1, (A, B)).leave(B).left(B, 2).view(2, (A,), together=(A,))
    story.join(B).view(3, (A, B), at=(A,), together=(A,))
    message = story.send(A, "reliable")
    story.deliver(message, A).view(3, (A, B), at=(B,))
    assert broken(story) >= {"2.17"}
