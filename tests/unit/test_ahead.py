"""Places ahead of a sequencer's clock: how far, and who keeps clear of them."""

from antiphon import limits
from antiphon.core.ordering.ahead import Reservations, Tempo

SECOND_US = 1_000_000


def test_the_clock_goes_as_fast_as_the_busiest_active_source_sends() -> None:
    tempo = Tempo()
    tempo.look({0: 0, 1: 0, 2: 0}, {0, 1}, SECOND_US)
    for number in range(1, 30):
        sent = {0: 100 * number, 1: 5 * number, 2: 9_000 * number}  # source 2 is passive
        tempo.look(sent, {0, 1}, SECOND_US + number * SECOND_US // 10)
    assert 990 <= tempo.bundles_per_s <= 1_000
    assert 98 <= tempo.rounds_in(SECOND_US // 10) <= 100
    assert tempo.rounds_in(10**12) == limits.PLACES_AHEAD_MAX // 2


def test_a_clock_that_stands_still_gives_no_places_ahead() -> None:
    tempo = Tempo()
    for number in range(60):
        tempo.look({0: 1_000}, {0}, number * SECOND_US)
    assert tempo.rounds_in(SECOND_US) == 0


def test_looks_in_quick_succession_do_not_count() -> None:
    tempo = Tempo()
    tempo.look({0: 0}, {0}, SECOND_US)
    tempo.look({0: 50}, {0}, SECOND_US + 10)
    assert tempo.bundles_per_s == 0


def test_what_is_reserved_is_given_once_and_passed_over() -> None:
    reserved = Reservations()
    assert reserved.take(10, 3) == 10
    assert reserved.take(4, 2) == 4
    assert reserved.take(5, 4) == 6  # 6 to 9
    assert reserved.take(11, 2) == 13
    assert [reserved.free_from(number) for number in (1, 2, 3)] == [1, 2, 3]
    assert reserved.free_from(4) == 15
    assert reserved.free_from(16) == 16


def test_a_clock_that_has_jumped_beyond_what_is_reserved_forgets_it() -> None:
    reserved = Reservations()
    reserved.take(5, 2)
    assert reserved.free_from(100) == 100
    assert reserved.take(5, 2) == 5
