"""The oracle on traces told by hand, while daemons stay: every property accepts a good story and names what a
bad one breaks."""

import pytest
from oracle_stories import A, B, C, Story, broken, gathered, names

from antiphon.simulator.oracle import PROPERTIES, judge


def test_a_story_in_which_all_is_well() -> None:
    story = gathered()
    first, second = story.send(A), story.send(B, "safe")
    story.hold(first, B, C)
    story.hold(second, A, C)
    story.deliver(first, C, A, B).deliver(second, A, B, C)
    story.leave(C).left(C, 2).view(2, (A, B), together=(A, B), cause="leave")
    third = story.send(C, "fifo")
    story.deliver(third, A, B).buffers("d0", 10, 10).buffers("d0", 0, 10)
    assert judge(story.trace) == []


def test_violations_name_scenario_and_seed() -> None:
    story = gathered()
    message = story.send(A, "reliable")
    story.deliver(message, A, B, C, C)
    (violation,) = judge(story.trace)
    assert violation.messages == (message,)
    assert violation.processes == (C,)
    assert "broken in story, seed 7" in str(violation)


def test_property_numbers_are_unique_with_their_names() -> None:
    labels = [prop.promise.name for prop in PROPERTIES]
    assert len(set(labels)) == len(labels)


def test_initial_view_event() -> None:
    story = Story().connect(A, B, C).view(1, (A, B))
    story.deliver(story.send(A), A, B, C)
    assert broken(story) == {"2.1"}


def test_private_messages_need_no_view() -> None:
    story = Story().connect(A, B)
    story.deliver(story.send(A, groups=(B,)), B)
    assert judge(story.trace) == []


def test_self_inclusion() -> None:
    story = Story().connect(A, B).view(1, (A,), at=(A, B))
    assert "2.2" in broken(story)


def test_local_monotonicity() -> None:
    story = gathered().view(3, (A, B, C), together=(A, B, C)).view(2, (A, B, C), together=(A, B, C))
    assert "2.3" in broken(story)


@pytest.mark.parametrize("together", [(A,), (A, B, C)])
def test_transitional_set(together: tuple[str, ...]) -> None:
    """A and B come from view 1, C joins: only (A, B) is right."""
    story = Story().connect(A, B, C).view(1, (A, B)).view(2, (A, B, C), together=together)
    assert broken(story) == {"2.4"}


def test_no_duplication() -> None:
    story = gathered()
    message = story.send(A, "unreliable")
    story.deliver(message, B).deliver(message, B)
    assert broken(story) == {"2.5"}


def test_deliver_integrity_looks_at_the_payload() -> None:
    story = gathered()
    story.deliver(story.send(A), A, B, C, checksum=1)
    assert broken(story) == {"2.6"}


def test_deliver_integrity_minds_what_a_sender_does_not_want() -> None:
    story = gathered()
    story.deliver(story.send(A, self_discard=True), A, B, C)
    assert broken(story) == {"2.6"}


def test_virtual_synchrony() -> None:
    """B lacks a message of an outsider that A delivered before they moved on together."""
    story = Story().connect(A, B, C).view(1, (A, B))
    story.deliver(story.send(C, "reliable"), A)
    story.view(2, (A, B), together=(A, B))
    assert "2.7" in broken(story)


def test_sane_view_delivery() -> None:
    story = gathered().view(2, (A, B, C), at=(A,), together=(A, B, C))
    message = story.send(A)
    story.deliver(message, B).view(2, (A, B, C), at=(B, C), together=(A, B, C)).deliver(message, A, C)
    assert "2.9" in broken(story)


def test_reliable_messages() -> None:
    story = gathered()
    story.deliver(story.send(A, "reliable"), A, B)
    assert "2.10" in broken(story)


def test_reliable_excuses_those_who_leave() -> None:
    story = gathered()
    message = story.send(A, "reliable")
    story.leave(C).deliver(message, A, B).left(C, 2).view(2, (A, B), together=(A, B), cause="leave")
    assert judge(story.trace) == []


@pytest.mark.parametrize("earlier", ["reliable", "fifo", "agreed"])
def test_fifo_messages(earlier: str) -> None:
    story = gathered()
    first, second = story.send(A, earlier), story.send(A, "fifo")
    story.deliver(first, A, B).deliver(second, A, B, C).deliver(first, C)
    assert "2.11" in broken(story)


def test_reliable_messages_may_overtake() -> None:
    story = gathered()
    first, second = story.send(A, "fifo"), story.send(A, "reliable")
    story.deliver(first, A, B).deliver(second, A, B, C).deliver(first, C)
    assert judge(story.trace) == []


def test_causal_messages() -> None:
    """B answers A's message; C gets the answer first."""
    story = gathered()
    question = story.send(A, "reliable")
    story.deliver(question, A, B)
    answer = story.send(B, "causal")
    story.deliver(answer, A, B, C).deliver(question, C)
    assert "2.12" in broken(story)


def test_causality_goes_through_a_third_process_and_another_group() -> None:
    story = gathered().view(1, (B, C), group="h")
    question = story.send(A, "reliable")
    story.deliver(question, A, B)
    story.deliver(story.send(B, "fifo", groups=("h",)), B, C)
    conclusion = story.send(C, "causal")
    story.deliver(conclusion, A, B, C).deliver(question, C)
    assert "2.12" in broken(story)


def test_agreed_messages_in_one_group() -> None:
    story = gathered()
    first, second = story.send(A), story.send(B)
    story.deliver(first, A, B).deliver(second, A, B, C).deliver(first, C)
    assert names(story) == {"2.13 agreed messages", "2.13 one order"}


def test_agreed_messages_without_gaps() -> None:
    """C lacks the first message although it stays to the end."""
    story = gathered()
    first, second = story.send(A), story.send(B)
    story.deliver(first, A, B).deliver(second, A, B, C)
    assert "2.13" in broken(story)


def test_one_order_across_groups() -> None:
    """A and B are in both groups; within each group there is only one message, yet they disagree."""
    story = Story().connect(A, B, C).view(1, (A, B), group="g").view(2, (A, B), group="h")
    in_g, in_h = story.send(A, groups=("g",)), story.send(C, groups=("h",))
    story.deliver(in_g, A).deliver(in_h, A).deliver(in_h, B).deliver(in_g, B)
    assert names(story) == {"2.13 one order"}


def test_views_have_their_place_in_the_order() -> None:
    """The join of C to h comes before the message at A and after it at B."""
    story = Story().connect(A, B, C).view(1, (A, B), group="g").view(2, (A, B), group="h")
    message = story.send(A)
    story.view(3, (A, B, C), at=(A,), group="h", together=(A, B)).deliver(message, A, B)
    story.view(3, (A, B, C), at=(B, C), group="h", together=(A, B))
    assert names(story) == {"2.13 one order"}


def test_an_agreed_message_shuts_the_door_behind_it() -> None:
    """A reliable message in the past of an agreed one may not come after it."""
    story = gathered()
    early = story.send(A, "reliable")
    agreed = story.send(A, "agreed")
    story.deliver(agreed, A, B, C).deliver(early, A, B, C)
    assert "2.13" in broken(story)


def test_safe_messages() -> None:
    """C's daemon gets the message only after A delivered it."""
    story = gathered()
    message = story.send(A, "safe")
    story.hold(message, B)
    story.deliver(message, A)
    story.hold(message, C)
    story.deliver(message, B, C)
    assert broken(story) == {"2.14"}


def test_safe_needs_only_the_daemons_of_members() -> None:
    story = Story().connect(A, B, C).view(1, (A, B))
    message = story.send(C, "safe")
    story.hold(message, A, B)
    story.deliver(message, A, B)
    assert judge(story.trace) == []


def test_self_delivery() -> None:
    story = gathered()
    story.deliver(story.send(A, "reliable"), B, C)
    assert "2.15" in broken(story)


def test_termination_of_a_join() -> None:
    assert broken(Story().connect(A).join(A)) == {"2.17"}


def test_termination_of_a_disconnect() -> None:
    assert broken(gathered().disconnect(C)) == {"2.17"}


def test_membership_agreement() -> None:
    story = Story().connect(A, B).view(1, (A, B), at=(A,)).view(1, (B, A), at=(B,))
    assert broken(story) == {"2.20"}


def test_buffers_stay_within_their_limits() -> None:
    assert broken(gathered().buffers("d0", 11, 10).buffers("d0", 0, 10)) == {"bounded"}


def test_buffers_are_empty_at_the_end() -> None:
    assert broken(gathered().buffers("d0", 1, 10)) == {"bounded"}
