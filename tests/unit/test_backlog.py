"""How far a session is behind, and what its daemon does then; whose turn it is among sessions."""

import sys
from collections import Counter

import pytest

from antiphon import limits
from antiphon.config import Settings
from antiphon.core.groups.backlog import Lag, lag_after, marks_of, stops_senders
from antiphon.core.groups.backpressure import Backpressure
from antiphon.core.groups.membership import Membership
from antiphon.core.groups.sessions import Pending, Session, Sessions
from antiphon.core.groups.slow import SlowSessions
from antiphon.errors import UsageError
from antiphon.types import check_priority
from antiphon.wire.events import GroupEvent, event_bundle

SOFT = 100_000


@pytest.mark.parametrize(
    ("lag", "waiting", "after"),
    [
        (Lag.NONE, SOFT, Lag.NONE),
        (Lag.NONE, SOFT + 1, Lag.BEHIND),
        (Lag.NONE, 2 * SOFT + 1, Lag.FAR_BEHIND),
        (Lag.BEHIND, SOFT, Lag.BEHIND),
        (Lag.BEHIND, SOFT // 2 + 1, Lag.BEHIND),
        (Lag.BEHIND, SOFT // 2, Lag.NONE),
        (Lag.BEHIND, 2 * SOFT + 1, Lag.FAR_BEHIND),
        (Lag.FAR_BEHIND, SOFT + 1, Lag.FAR_BEHIND),
        (Lag.FAR_BEHIND, SOFT, Lag.BEHIND),
        (Lag.FAR_BEHIND, 0, Lag.NONE),
    ],
)
def test_falling_behind_and_catching_up_have_marks_of_their_own(lag: Lag, waiting: int, after: Lag) -> None:
    assert lag_after(lag, waiting, SOFT) is after


@pytest.mark.parametrize("lag", list(Lag))
def test_between_its_marks_nothing_follows(lag: Lag) -> None:
    low, high = marks_of(lag, SOFT)
    assert lag_after(lag, low + 1, SOFT) is lag
    assert lag_after(lag, min(high, 10 * SOFT), SOFT) is lag
    assert lag is Lag.NONE or lag_after(lag, low, SOFT) is not lag
    assert high == sys.maxsize or lag_after(lag, high + 1, SOFT) is not lag


def test_who_drops_unreliable_messages_holds_the_senders_later() -> None:
    assert [stops_senders(lag, "disconnect") for lag in Lag] == [False, True, True]
    assert [stops_senders(lag, "drop-unreliable") for lag in Lag] == [False, False, True]


def test_a_slow_session_is_warned_once_and_told_when_it_is_over() -> None:
    sessions = Sessions("d1")
    sloth = sessions.add("sloth", priority=0, views=True, slow="drop-unreliable", warnings=True)
    settings = Settings(output_soft_bytes=SOFT, output_hard_bytes=10 * SOFT)
    backpressure = Backpressure(0, ("d1",), settings, Membership(lambda daemon: daemon))
    slow = SlowSessions(settings, sessions, backpressure)
    warning = slow.told(sloth, SOFT + 1, 0, 0)
    assert warning.is_wanted and warning.notice is not None
    assert (warning.notice.waiting_bytes, warning.notice.is_over) == (SOFT + 1, False)
    assert sessions.dropping == {sloth.number}
    assert slow.told(sloth, 3 * SOFT, 0, 0).notice is None
    assert slow.told(sloth, SOFT, 2 * SOFT, 0).notice is None
    sessions.drop(sloth.number, messages=7, size_bytes=700)
    relief = slow.told(sloth, 0, 3 * SOFT, 0).notice
    assert relief is not None and relief.is_over
    assert relief.dropped_messages == sloth.dropped_messages == sessions.dropped_messages == 7
    assert not sessions.dropping
    assert (sloth.warned, sessions.warned) == (1, 1)


# Turns ----------------------------------------------------------------------------------------------------


def put(sessions: Sessions, session: Session, count: int) -> None:
    for _ in range(count):
        sessions.put(session, Pending(*event_bundle(session.private_name, GroupEvent("join", "g"))))


def taken(sessions: Sessions, count: int) -> list[str]:
    found = []
    for _ in range(count):
        turn = sessions.take()
        assert turn is not None
        found.append(turn[0].name)
    return found


def test_equals_take_turns_and_higher_priorities_go_first() -> None:
    sessions = Sessions("d1")
    low, one, other = (
        sessions.add(name, priority=priority, views=True)
        for name, priority in (("low", 0), ("one", 5), ("other", 5))
    )
    for session in (low, one, other):
        put(sessions, session, 2)
    assert taken(sessions, 6) == ["one", "other", "one", "other", "low", "low"]
    assert sessions.take() is None
    assert (sessions.waiting, sessions.input_bytes) == (0, 0)


def test_no_priority_starves() -> None:
    """Each priority gets at least one turn in PRIORITY_TURNS and as many as there are priorities."""
    sessions = Sessions("d1")
    crowd = [sessions.add(f"p{number}", priority=number, views=True) for number in (9, 5, 2, 0)]
    bound = limits.PRIORITY_TURNS + len(crowd)
    for session in crowd:
        put(sessions, session, 10 * bound)
    turns = taken(sessions, 10 * bound)
    for session in crowd:
        last = -1
        for place, name in enumerate(turns):
            if name == session.name:
                assert place - last <= bound
                last = place
        assert 10 * bound - last <= bound
    counts = Counter(turns)
    assert counts["p9"] > 10 * (counts["p5"] + counts["p2"] + counts["p0"]) / 4


def test_those_who_must_leave_room_go_on_only_when_they_have_waited_too_long() -> None:
    sessions = Sessions("d1")
    low = sessions.add("low", priority=0, views=True)
    high = sessions.add("high", priority=9, views=True)
    put(sessions, low, 3)
    assert not sessions.has_turn(lowest=9) and sessions.take(lowest=9) is None
    put(sessions, high, limits.PRIORITY_TURNS)
    assert {sessions.take(lowest=9)[0].name for _ in range(limits.PRIORITY_TURNS)} == {"high"}  # type: ignore[index]
    turn = sessions.take(lowest=9)
    assert turn is not None and turn[0] is low
    assert sessions.take(lowest=9) is None  # it has had its turn
    assert taken(sessions, 2) == ["low", "low"]


def test_a_priority_is_active_for_a_while_after_a_bundle() -> None:
    sessions = Sessions("d1")
    high = sessions.add("high", priority=9, views=True)
    assert sessions.active_priority(0) == 0
    sessions.sent(high, 1_000)
    assert sessions.active_priority(1_000 + limits.PRIORITY_ACTIVE_US - 1) == 9
    assert sessions.active_priority(1_000 + limits.PRIORITY_ACTIVE_US) == 0


def test_a_session_is_found_by_its_private_name() -> None:
    sessions = Sessions("d1")
    ada = sessions.add("ada", priority=0, views=True)
    assert sessions.named("#ada#d1") is ada
    assert sessions.named("#ada#d2") is None
    assert sessions.named("#bob#d1") is None
    sessions.remove(ada)
    assert sessions.named("#ada#d1") is None


@pytest.mark.parametrize("priority", [-1, 10, "urgent", "", True, 1.0, None])
def test_a_priority_that_cannot_be_is_explained(priority: object) -> None:
    with pytest.raises(UsageError, match="low, medium, high or a whole number from 0 to 9"):
        check_priority(priority)  # type: ignore[arg-type]
