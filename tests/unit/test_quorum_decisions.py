"""Decisions about a quorum that others may have taken, and what parts know when they merge."""

from antiphon import limits
from antiphon.core.groups import quorum
from antiphon.core.groups.quorum import Quorum
from antiphon.types import MAJORITY

A, B, C, D, E = ((daemon, 1) for daemon in range(5))


def begun(*members: tuple[int, int], place: int = 10) -> Quorum:
    """Members of whom the first wishes a majority."""
    told = Quorum()
    told.came(members[:1], place, MAJORITY)
    told.came(members, place)
    told.begin(place)
    return told


def copy(told: Quorum) -> Quorum:
    """The same quorum at another daemon."""
    return quorum.announced(told.hosted(), set(told._members))


def test_a_loss_wants_a_decision():
    told = begun(A, B, C)
    assert told.has and not told.wants_decision
    told.lost((C,))
    assert (told.has, told.is_deciding, told.wants_decision) == (False, True, True)
    told.decide(20, is_certain=True)
    assert (told.has, told.is_deciding, told.wants_decision) == (True, False, False)
    told.lost((B,))
    assert not told.is_deciding


def test_what_was_decided_after_the_signal_may_have_been_decided():
    """Of A, B and C, A and B may have gone on without C. B, which is not sure, needs A then."""
    mine = begun(A, B, C)
    mine.lost((C,))
    mine.decide(20, is_certain=False)
    mine.lost((A,))
    mine.came((C,), 10)
    assert not mine.is_deciding
    sure = begun(A, B, C)
    sure.lost((A,))
    assert sure.is_deciding


def test_it_may_not_have_been_decided_either():
    """Many have joined after the signal: they do not outvote those who never heard of it."""
    mine = begun(A, B, C)
    mine.came(((9, number) for number in range(5)), 15)
    mine.look(is_certain=False)
    mine.decide(20, is_certain=False)
    mine.lost((B, C))
    assert not mine.is_deciding


def test_attempts_are_bounded():
    """Of more than are kept, the first two need all of their members."""
    told = begun(A, B, C, D, E)
    for place in range(limits.QUORUM_ATTEMPTS_MAX + 3):
        told.decide(20 + place, is_certain=False)
    assert told.is_deciding
    told.lost((E,))
    assert not told.is_deciding
    assert len(told._attempts) <= limits.QUORUM_ATTEMPTS_MAX


def test_parts_go_by_the_newest_decision():
    """A and B have gone on without C, then B was cut off from A, and finds C, which knows of nothing."""
    old = begun(A, B, C)
    newer = copy(old)
    old.lost((A, B))
    newer.lost((C,))
    newer.decide(20, is_certain=True)
    newer.lost((A,))
    merged = quorum.merged([old, newer], [B, C], 30)
    assert not merged.has and not merged.is_deciding


def test_a_part_that_has_just_begun_gives_no_other_its_quorum():
    """A and B go on without C. C meets D, which knows nothing of them and has a quorum of its own."""
    minority = begun(A, B, C)
    minority.lost((A, B))
    merged = quorum.merged([minority, begun(D, place=50)], [C, D], 60)
    assert not merged.has and not merged.is_deciding
    majority = begun(A, B, C)
    majority.lost((C,))
    majority.decide(20, is_certain=True)
    merged = quorum.merged([majority, merged], [A, B, C, D], 70)
    assert merged.is_deciding and merged.wants_decision  # D had lost its quorum to the minority
    merged.decide(80, is_certain=True)
    merged.lost((A, B))
    assert not merged.is_deciding


def test_two_parts_that_have_begun_apart_go_on_together():
    merged = quorum.merged([begun(A, B), begun(C, place=50)], [A, B, C], 60)
    assert merged.has
    merged.lost((C,))
    assert not merged.is_deciding  # one of the two lineages may go on without these


def test_parts_that_know_the_same_decision_leave_out_who_has_left_either():
    one = begun(A, B, C, D)
    other = copy(one)
    one.left((B,))
    one.lost((C, D))
    other.left((C,))
    other.lost((A, B))
    merged = quorum.merged([one, other], [A, D], 30)
    assert merged.is_deciding


def test_a_part_with_quorum_keeps_it_in_a_merge():
    leading, other = begun(A, B, C), begun(A, B, C)
    leading.lost((C,))
    leading.decide(20, is_certain=True)
    other.lost((A, B))
    merged = quorum.merged([leading, other], [A, B, C], 30)
    assert merged.has and merged.wants_decision


def test_nobody_wishes_any_more():
    told = begun(A, B)
    told.left((A,))
    assert told.is_needless
