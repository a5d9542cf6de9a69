"""Who has the better right to a number."""

from antiphon.core.discovery.roster import Entry, Roster
from antiphon.core.discovery.waits import Waits
from antiphon.wire.discovery import State

NOW_US = 10**12
WAITS = Waits()


def entry(
    process: int,
    *,
    claim_us: int,
    state: State = State.BEARS,
    silent_us: int = 0,
    name: str = "",
    number: int = 3,
) -> Entry:
    return Entry(
        number, process, claim_us, name or f"d{process}", "10.0.0.1", 4_000, state, NOW_US - silent_us
    )


def winner(one: Entry, other: Entry) -> int:
    """Which of two processes stands in a roster, in whatever order they come."""
    found = set()
    for first, second in ((one, other), (other, one)):
        roster = Roster(WAITS)
        roster.take(first, NOW_US)
        roster.take(second, NOW_US)
        found.add(roster.entries[3].process)
    assert len(found) == 1
    return found.pop()


def test_of_two_that_bear_it_the_older_claim_keeps_it() -> None:
    assert winner(entry(1, claim_us=10), entry(2, claim_us=20)) == 1


def test_one_that_bears_it_keeps_it_against_a_claim() -> None:
    assert winner(entry(1, claim_us=10, state=State.CLAIMS), entry(2, claim_us=20)) == 2


def test_the_number_of_an_absent_daemon_is_kept_against_a_claim() -> None:
    absent = entry(1, claim_us=10, silent_us=WAITS.silent_us)
    assert winner(absent, entry(2, claim_us=5, state=State.CLAIMS)) == 1


def test_the_next_process_of_an_absent_daemon_inherits_its_number() -> None:
    absent = entry(1, claim_us=10, silent_us=WAITS.silent_us, name="oslo")
    assert winner(absent, entry(2, claim_us=20, state=State.CLAIMS, name="oslo")) == 2


def test_the_next_process_of_a_daemon_waits_while_the_former_is_heard() -> None:
    assert winner(entry(1, claim_us=10, name="o"), entry(2, claim_us=20, state=State.CLAIMS, name="o")) == 1


def test_one_that_is_heard_has_it_before_an_absent_one() -> None:
    assert winner(entry(1, claim_us=10, silent_us=WAITS.silent_us), entry(2, claim_us=20)) == 2


def test_of_two_claims_the_older_one_counts() -> None:
    claims = [entry(process, claim_us=7, state=State.CLAIMS) for process in (1, 2)]
    assert winner(*claims) == 1


def test_an_inherited_number_is_kept_though_the_heir_ends_early() -> None:
    roster = Roster(WAITS)
    roster.take(entry(1, claim_us=10, silent_us=WAITS.silent_us, name="o"), NOW_US)
    roster.take(entry(2, claim_us=20, state=State.CLAIMS, name="o"), NOW_US)
    roster.expire(NOW_US + WAITS.hold_us - 1)
    assert 3 in roster.entries
    roster.expire(NOW_US + WAITS.hold_us)
    assert not roster.entries


def test_a_claim_lapses_with_its_process() -> None:
    roster = Roster(WAITS)
    roster.take(entry(1, claim_us=10, state=State.CLAIMS), NOW_US)
    roster.expire(NOW_US + WAITS.silent_us)
    assert not roster.entries


def test_who_claims_another_number_gives_up_the_first() -> None:
    roster = Roster(WAITS)
    roster.take(entry(1, claim_us=10), NOW_US)
    roster.take(entry(1, claim_us=20, number=4), NOW_US)
    assert list(roster.entries) == [4]
    assert not roster.take(entry(1, claim_us=10), NOW_US)
