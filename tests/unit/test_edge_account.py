"""The account of what a session sent through an edge: numbers here and there, and what became of them."""

import pytest

from antiphon.core.edge.account import Account
from antiphon.errors import BadFrame


def account() -> Account:
    """Messages 1 to 3, 5 to 6 (unreliable) and 7 to 10 of the client, which are 1 to 9 there."""
    made = Account()
    made.sent(1, 3, True)
    made.sent(5, 2, False)
    made.sent(7, 2, True)
    made.sent(9, 2, True)
    return made


def test_accepted_is_translated_to_the_first_number_that_is_open() -> None:
    made = account()
    assert [made.accepted(there) for there in (0, 1, 3, 4, 5, 8)] == [1, 2, 5, 6, 7, 10]
    assert made.accepted(3) == 10
    assert made.accepted(9) is None
    assert not made


def test_refused_ranges_are_translated_piece_by_piece() -> None:
    made = account()
    assert made.refused(3, 4) == [(3, 1), (5, 2), (7, 1)]
    assert made.doubtful() == [(1, 2), (8, 3)]
    assert made.accepted(2) == 8


def test_what_was_not_sent_cannot_be_answered() -> None:
    for there in (-1, 10):
        with pytest.raises(BadFrame):
            account().accepted(there)
    for first, count in ((0, 1), (1, 0), (9, 2), (-5, 3)):
        with pytest.raises(BadFrame):
            account().refused(first, count)


def test_what_came_back_is_not_doubtful_nor_what_was_never_promised() -> None:
    made = account()
    assert made.doubtful() == [(1, 3), (7, 4)]
    made.came_back(2, 1)
    assert made.doubtful() == [(1, 1), (3, 1), (7, 4)]
    made.came_back(7, 2)
    made.came_back(6, 1)
    assert made.doubtful() == [(1, 1), (3, 1), (10, 1)]
    assert made.seen_here == 9
    made.came_back(9, 1)
    made.came_back(3, 1)
    made.came_back(1, 1)
    assert made.doubtful() == []


def test_what_came_back_and_cannot_be_ours_is_nothing() -> None:
    made = account()
    made.came_back(0, 1)
    made.came_back(10, 1)
    assert made.doubtful() == [(1, 3), (7, 4)]
    assert made.seen_here == 0


def test_what_came_back_is_forgotten_when_it_is_accepted() -> None:
    made = account()
    made.came_back(1, 3)
    made.accepted(8)
    made.came_back(1, 3)
    assert made.doubtful() == [(10, 1)]


def test_what_is_open_counts_until_it_is_answered_for() -> None:
    made = Account()
    made.sent(1, 1, False, 10)  # nobody answers for it
    assert not made.open
    made.sent(2, 2, True, 20)
    made.sent(4, 1, False, 40)
    made.sent(5, 1, True, 80)
    assert made.open.size_bytes == 140
    made.accepted(2)
    assert made.open.size_bytes == 140
    made.accepted(3)
    assert made.open.size_bytes == 80
    made.sent(6, 1, False, 160)
    made.accepted(5)
    assert (made.open.size_bytes, bool(made.open)) == (0, False)


def test_what_was_not_sent_is_not_open() -> None:
    made = Account()
    for number in range(1, 5):
        made.sent(number, 1, True, 10**number)
    made.refused(2, 2)
    assert made.open.size_bytes == 10_010
    made.refused(1, 1)
    assert made.open.size_bytes == 10_000
    made.refused(4, 1)
    assert (made.open.size_bytes, bool(made.open)) == (0, False)
