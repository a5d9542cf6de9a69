"""What is kept of a cast, and who repairs what when."""

import pytest

from antiphon import limits
from antiphon.core.feeds.repairs import Draws, Repairs, distance

MS = 1_000
FAR_US = 10 * MS


@pytest.fixture
def repairs() -> Repairs:
    made = Repairs(Draws("e1"))
    made.distance_us, made.members = FAR_US, 4
    for number in range(1, 6):
        made.keep(number, b"piece %d" % number, 0)
    return made


def test_draws_are_between_their_bounds_and_follow_from_the_name() -> None:
    draws, again, other = Draws("e1"), Draws("e1"), Draws("e2")
    found = [draws.between(10, 20) for _ in range(100)]
    assert set(found) <= set(range(10, 21)) and len(set(found)) > 5
    assert found == [again.between(10, 20) for _ in range(100)]
    assert found != [other.between(10, 20) for _ in range(100)]


def test_a_repair_waits_for_a_time_that_follows_from_both_distances(repairs: Repairs) -> None:
    repairs.requested(((2, 2),), 30 * MS, 0)
    due_us = repairs.next_deadline_us()
    assert due_us is not None and 40 * MS <= due_us <= 3 * 40 * MS
    assert repairs.take_due(due_us - 1) == []
    assert repairs.take_due(due_us) == [(2, b"piece 2"), (3, b"piece 3")]
    assert repairs.next_deadline_us() is None
    assert repairs.sent == 2


def test_who_hears_a_repair_is_silent(repairs: Repairs) -> None:
    repairs.requested(((2, 2),), FAR_US, 0)
    repairs.repaired(2, 5 * MS)
    assert [number for number, _ in repairs.take_due(1_000 * MS)] == [3]
    assert (repairs.sent, repairs.spared) == (1, 1)


def test_what_was_repaired_is_left_alone_for_a_while(repairs: Repairs) -> None:
    repairs.repaired(2, 0)
    repairs.requested(((2, 1),), FAR_US, 3 * FAR_US - 1)
    assert repairs.next_deadline_us() is None
    repairs.requested(((2, 1),), FAR_US, 3 * FAR_US)
    assert repairs.next_deadline_us() is not None


def test_a_second_request_changes_nothing(repairs: Repairs) -> None:
    repairs.requested(((2, 1),), FAR_US, 0)
    due_us = repairs.next_deadline_us()
    repairs.requested(((2, 1),), FAR_US, 1)
    assert repairs.next_deadline_us() == due_us


def test_nobody_repairs_what_it_does_not_have(repairs: Repairs) -> None:
    repairs.requested(((6, 1_000),), FAR_US, 0)
    assert repairs.next_deadline_us() is None


def test_old_pieces_are_forgotten(repairs: Repairs) -> None:
    repairs.keep(6, b"new", limits.CAST_KEEP_US)
    repairs.drop_old(limits.CAST_KEEP_US + 1)
    assert [number for number in range(1, 7) if number in repairs] == [6]
    assert repairs.size_bytes == 3


def test_no_more_is_kept_than_may_be(repairs: Repairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CAST_KEEP_BYTES", 20)
    repairs.keep(6, bytes(10), 0)
    assert repairs.size_bytes == 17
    assert [number for number in range(1, 7) if number in repairs] == [5, 6]


def test_repairs_come_a_few_at_a_time(repairs: Repairs) -> None:
    for number in range(6, 100):
        repairs.keep(number, b"x", 0)
    repairs.requested(((1, 99),), FAR_US, 0)
    due_us = repairs.next_deadline_us()
    assert due_us is not None
    sent = []
    while due_us is not None:
        found = repairs.take_due(due_us)
        assert len(found) <= limits.CAST_REPAIRS_TURN
        sent += found
        due_us = repairs.next_deadline_us()
    assert [number for number, _ in sent] == list(range(1, 100))


def test_distances_are_bounded() -> None:
    assert distance(0) == limits.CAST_DISTANCE_MIN_US
    assert distance(1 << 60) == limits.CAST_DISTANCE_MAX_US
