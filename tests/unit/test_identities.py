"""Two processes of one daemon: what shows that both run at the same time, and what does not."""

from antiphon import limits
from antiphon.core.membership.exclusions import ALL_PROCESSES, TWINS, Exclusions
from antiphon.core.membership.identities import Identities
from antiphon.core.view import DaemonView
from antiphon.wire.membership import Beat, Proposal

ME, OTHER = 0, 1
FIRST, SECOND, THIRD = 101, 201, 301
NOW_US = 50_000_000
SECOND_US = 1_000_000


def beat(clock_us: int, echo_us: int = 0) -> Beat:
    return Beat(clock_us, echo_us, False, 1, 0, 0, 0, OTHER)


def test_who_answers_after_the_other_has_answered_runs_beside_it() -> None:
    found = Identities()
    assert not found.hear(OTHER, FIRST, 10, 0, NOW_US)
    assert not found.hear(OTHER, SECOND, 900, 0, NOW_US + 10)
    assert not found.hear(OTHER, SECOND, 901, NOW_US + 11, NOW_US + 20)
    assert found.hear(OTHER, FIRST, 11, NOW_US + 21, NOW_US + 30)


def test_late_packets_of_a_life_that_is_over_prove_nothing() -> None:
    """They answer what was sent before the next life had answered."""
    found = Identities()
    found.hear(OTHER, FIRST, 10, 0, NOW_US)
    found.hear(OTHER, SECOND, 900, 0, NOW_US + 10)
    found.hear(OTHER, SECOND, 901, NOW_US + 11, NOW_US + 20)
    for late in range(20):
        assert not found.hear(OTHER, FIRST, 20 + late, NOW_US + 15, NOW_US + 30 + 2 * late)
        assert not found.hear(OTHER, SECOND, 910 + late, NOW_US + 31 + 2 * late, NOW_US + 31 + 2 * late)


def test_copies_are_no_news() -> None:
    found = Identities()
    found.hear(OTHER, FIRST, 10, 0, NOW_US)
    for turn in range(20):
        now_us = NOW_US + turn * SECOND_US
        assert not found.hear(OTHER, SECOND, 900 + turn, 0, now_us)
        assert not found.hear(OTHER, FIRST, 10, 0, now_us)


def test_restart_after_restart_is_no_twin() -> None:
    found = Identities()
    for life in range(1, 20):
        now_us = NOW_US + life * SECOND_US
        assert not found.hear(OTHER, life, 10, now_us - 1, now_us)
        assert not found.hear(OTHER, life, 11, now_us, now_us + 1)


def test_two_that_are_heard_in_turns_for_long_run_at_the_same_time() -> None:
    """Although neither of them hears us."""
    found = Identities()
    heard = []
    for turn in range(20):
        now_us = NOW_US + turn * limits.TWIN_AFTER_US // 10
        heard.append(found.hear(OTHER, (FIRST, SECOND)[turn % 2], 1_000 + turn, 0, now_us))
    assert not any(heard[:10])
    assert all(heard[14:])


def shown(found: Exclusions, now_us: int, working_view: DaemonView | None = None) -> bool:
    """Both processes answer, one after the other."""
    found.hear(OTHER, FIRST, beat(now_us), working_view, now_us)
    found.hear(OTHER, SECOND, beat(now_us), working_view, now_us + 1)
    found.hear(OTHER, SECOND, beat(now_us + 1, now_us + 2), working_view, now_us + 3)
    return found.hear(OTHER, FIRST, beat(now_us + 1, now_us + 4), working_view, now_us + 5)


def test_twins_are_left_out_whichever_process_it_is_and_taken_in_again() -> None:
    found = Exclusions(ME, 100)
    view = DaemonView(5, (ME, OTHER), (100, FIRST), ((ME, OTHER),))
    assert shown(found, NOW_US, view)
    for incarnation in (FIRST, SECOND, THIRD):
        assert found.is_out(OTHER, incarnation, NOW_US + 5)
        assert not found.is_out(OTHER, incarnation, NOW_US + 5 + limits.TWIN_OUT_US)
    assert found.current(NOW_US + 5) == {OTHER: (TWINS, limits.TWIN_OUT_US)}


def test_whoever_is_told_of_twins_leaves_them_out_too() -> None:
    one, other = Exclusions(ME, 100), Exclusions(2, 102)
    shown(one, NOW_US)
    told = one.told(NOW_US + 5)
    assert told == ((OTHER, ALL_PROCESSES, limits.TWIN_OUT_US),)
    assert other.adopt(told, NOW_US)
    assert not other.adopt(told, NOW_US)
    assert other.is_out(OTHER, THIRD, NOW_US)
    assert other.told(NOW_US) != ()


def test_two_views_with_one_identifier_were_proposed_by_two_processes() -> None:
    found = Exclusions(ME, 100)
    identifier = 4_711 << 10 | OTHER
    view = DaemonView(identifier, (ME, OTHER), (100, FIRST), ((ME, OTHER),))
    same = Proposal.of(identifier, (ME, OTHER), (100, FIRST), ((ME, OTHER),))
    different = Proposal.of(identifier, (ME, OTHER), (100, SECOND), ((ME, OTHER),))
    assert found.contradicted(None, different, NOW_US) is None
    assert found.contradicted(view, same, NOW_US) is None
    assert found.contradicted(view, different, NOW_US) == OTHER
    assert found.is_out(OTHER, FIRST, NOW_US)
