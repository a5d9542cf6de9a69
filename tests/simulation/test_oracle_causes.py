"""The oracle on traces told by hand: no effect without its cause."""

from oracle_stories import ALL, A, B, C, Story, assembled, broken, gathered

from antiphon.simulator.oracle import judge
from antiphon.trace import Identity

HOME = {A: "d0", B: "d1", C: "d2"}


def say(
    story: Story,
    sender: str,
    *receivers: str,
    service: str = "agreed",
    groups: tuple[str, ...] = ("g",),
    self_discard: bool = False,
    destinations: tuple[str, ...] = ALL,
) -> Identity:
    """A message that these processes and their daemons have and deliver."""
    message = story.send(sender, service, groups, self_discard)
    bundle = story.carry(HOME[sender], destinations, message)
    for process in receivers:
        if process != sender:
            story.have(bundle, HOME[process])
        story.pass_up(bundle, HOME[process])
        if process != sender or not self_discard:
            story.deliver(message, process)
    return message


def together() -> Story:
    """Three daemons in one view, each with a member of two groups."""
    return assembled().connect(A, B, C).view(1, (A, B, C)).view(1, (A, B, C), group="h")


def cut_off(story: Story) -> Story:
    """A and B go on without C, and meet it later."""
    story.daemon_signal("d0", "d1", together=("d0", "d1")).daemon_signal("d2", together=("d2",))
    for group in ("g", "h"):
        story.signal(A, B, C, group=group)
    return story


def afterwards(story: Story) -> Story:
    """The views after the cut, and after its end."""
    for group in ("g", "h"):
        story.view(2, (A, B), together=(A, B), cause="network", changed=(C,), group=group)
        story.view(3, (C,), together=(C,), cause="network", changed=(A, B), group=group)
    story.daemon_view(20, ("d0", "d1"), together=("d0", "d1")).daemon_view(21, ("d2",), together=("d2",))
    story.restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    story.daemon_view(30, ALL, at=("d2",), together=("d2",))
    for group in ("g", "h"):
        story.view(4, (A, B, C), at=(A, B), together=(A, B), cause="merge", changed=(C,), group=group)
        story.view(4, (A, B, C), at=(C,), together=(C,), cause="merge", changed=(A, B), group=group)
    return story


def test_what_follows_a_hole_is_dropped() -> None:
    """C's first message is lost with it; its second one came to A and B, who do not deliver it."""
    story = cut_off(together())
    say(story, C, C)
    say(story, C, C)
    assert judge(afterwards(story).trace) == []


def test_what_follows_a_hole_is_not_delivered() -> None:
    story = cut_off(together())
    say(story, C, C)
    say(story, C, A, B, C)
    assert broken(afterwards(story)) == {"causes"}


def test_a_lost_reliable_message_is_a_cause_too() -> None:
    story = cut_off(together())
    say(story, C, C, service="reliable")
    say(story, C, A, B, C)
    assert broken(afterwards(story)) == {"causes"}


def test_a_lost_unreliable_message_is_none() -> None:
    story = cut_off(together())
    say(story, C, C, service="unreliable")
    say(story, C, A, B, C)
    assert judge(afterwards(story).trace) == []


def test_messages_that_are_not_ordered_may_lack_their_causes() -> None:
    story = cut_off(together())
    say(story, C, C)
    say(story, C, A, B, C, service="reliable")
    assert judge(afterwards(story).trace) == []


def test_groups_are_judged_one_by_one() -> None:
    """What is lost was for another group."""
    story = cut_off(together())
    say(story, C, C, groups=("h",))
    say(story, C, A, B, C)
    assert judge(afterwards(story).trace) == []


def test_an_effect_for_several_groups_has_causes_in_each() -> None:
    story = cut_off(together())
    say(story, C, C, groups=("h",))
    say(story, C, A, B, C, groups=("g", "h"))
    assert broken(afterwards(story)) == {"causes"}


def test_an_effect_that_a_companion_has_delivered_is_passed_on() -> None:
    """The cause was not for the companion, so that it could not know."""
    story = together()
    say(story, C, C, groups=("h",), destinations=("d0", "d2"))
    message = story.send(C, "agreed", ("g", "h"))
    bundle = story.carry("d2", ALL, message)
    story.pass_up(bundle, "d2").deliver(message, C)
    story.have(bundle, "d0", "d1")
    story.pass_up(bundle, "d1").deliver(message, B)
    cut_off(story)
    story.pass_up(bundle, "d0").deliver(message, A)
    assert "causes" not in broken(afterwards(story))


def alone_with_an_answer(*, to_a: str = "", committed: tuple[str, ...] = ()) -> Story:
    """C's first message is lost. B has its second, an unreliable one, answers and is lost as well: A does not
    go on together with B and lacks the first. C has a third one, of the service `to_a`, that A has, too."""
    story = together()
    say(story, C, C)
    say(story, C, B, C, service="unreliable")
    if to_a:
        say(story, C, A, C, service=to_a)
    story.daemon_signal("d0", together=("d0",), committed=committed).signal(A).signal(A, group="h")
    say(story, B, A)
    for group in ("g", "h"):
        story.view(2, (A,), together=(A,), cause="network", changed=(B, C), group=group)
    return story.daemon_view(20, ("d0",), together=("d0",))


def test_causes_of_causes_count() -> None:
    assert "causes" in broken(alone_with_an_answer(to_a="reliable"))


def test_a_cause_of_which_nobody_who_comes_along_knows_is_a_hole_too() -> None:
    assert "causes" in broken(alone_with_an_answer())


def test_a_promise_to_the_sender_counts_more_than_a_hole() -> None:
    assert "causes" not in broken(alone_with_an_answer(to_a="reliable", committed=("d0", "d1")))
    assert "causes" in broken(alone_with_an_answer(to_a="reliable", committed=("d0", "d2")))


def test_before_the_signal_every_cause_counts() -> None:
    """Nothing was delivered of C but what lies before: A need not know of the cause to be wrong."""
    story = together()
    say(story, C, C)
    say(story, C, B, C, service="unreliable")
    say(story, B, A)
    story.crash("d1", B)
    assert "causes" in broken(story)


def test_those_who_come_along_deliver_what_they_sent() -> None:
    """B answered the second message of C, the first of which is lost: B delivers its own, and so does A."""
    story = together()
    say(story, C, C, service="reliable")
    say(story, C, A, B, C, service="unreliable")
    cut_off(story)
    say(story, B, A, B)
    assert judge(afterwards(story).trace) == []


def test_what_was_sent_in_another_daemon_view_is_no_cause() -> None:
    """C was away and sent something; the others are not owed it when C is back."""
    story = cut_off(together())
    for group in ("g", "h"):
        story.view(2, (A, B), together=(A, B), cause="network", changed=(C,), group=group)
        story.view(3, (C,), together=(C,), cause="network", changed=(A, B), group=group)
    story.daemon_view(20, ("d0", "d1"), together=("d0", "d1")).daemon_view(21, ("d2",), together=("d2",))
    say(story, C, C)
    story.restored(ALL)
    story.daemon_view(30, ALL, at=("d0", "d1"), together=("d0", "d1"))
    story.daemon_view(30, ALL, at=("d2",), together=("d2",))
    for group in ("g", "h"):
        story.view(4, (A, B, C), at=(A, B), together=(A, B), cause="merge", changed=(C,), group=group)
        story.view(4, (A, B, C), at=(C,), together=(C,), cause="merge", changed=(A, B), group=group)
    say(story, C, A, B, C)
    story.crash("d2", C)
    assert "causes" not in broken(story)


def test_who_joined_later_is_not_owed_the_cause() -> None:
    story = assembled().connect(A, B, C).view(1, (A, C))
    say(story, C, A, C)
    story.join(B).view(2, (A, B, C), together=(A, C), changed=(B,))
    say(story, C, A, B, C)
    story.crash("d2", C)
    assert "causes" not in broken(story)


def test_what_its_sender_did_not_want_back_is_no_cause_for_it() -> None:
    """C's daemon crashes in the end, so that C's own deliveries are judged."""
    story = together()
    say(story, C, A, B, C, self_discard=True)
    say(story, C, A, B, C)
    story.crash("d2", C)
    assert "causes" not in broken(story)


def test_without_word_of_daemons_nothing_is_known_of_holes() -> None:
    """A trace of clients alone: the daemons of both messages may have been in different views."""
    story = gathered()
    lost, got = story.send(C, "reliable"), story.send(C)
    story.deliver(lost, C).deliver(got, A, B, C)
    assert "causes" not in broken(story)
