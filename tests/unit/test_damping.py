"""What is lost again and again is kept out until it has answered for a term without a break."""

import pytest

from antiphon.config.timing import PRESETS
from antiphon.core.membership.damping import FORGIVEN_AFTER_US, TRIED_AFTER_TERMS, Damping

LAN = PRESETS["lan"]
NOW_US = 50_000_000
BREAK_US = LAN.suspect_us


def lost(times: int, now_us: int = NOW_US) -> Damping:
    damping = Damping()
    for _ in range(times):
        damping.lost(LAN, now_us)
    return damping


def answering(damping: Damping, from_us: int, until_us: int) -> None:
    """It answers from one time to another, often enough."""
    for now_us in (*range(from_us, until_us, BREAK_US), until_us):
        damping.answered(now_us, BREAK_US)


def test_the_first_loss_is_no_habit() -> None:
    assert lost(1).is_trusted(NOW_US)


def test_a_loss_that_interrupts_the_forming_of_a_view_counts_at_once() -> None:
    damping = Damping()
    damping.lost(LAN, NOW_US, is_forming=True)
    assert damping.remaining_us(NOW_US) == LAN.damp_us


@pytest.mark.parametrize(
    ("losses", "term_us"),
    [(2, 2_000_000), (3, 4_000_000), (4, 8_000_000), (5, 16_000_000), (6, 30_000_000), (40, 30_000_000)],
)
def test_each_further_loss_keeps_it_out_for_longer(losses: int, term_us: int) -> None:
    damping = lost(losses)
    answering(damping, NOW_US + 1_000, NOW_US + 1_000 + term_us - 1)
    assert damping.remaining_us(NOW_US + 1_000 + term_us - 1) == 1
    assert damping.is_trusted(NOW_US + 1_000 + term_us)


def test_time_in_which_it_does_not_answer_proves_nothing() -> None:
    damping = lost(3)
    assert damping.remaining_us(NOW_US + 10_000_000) == 4_000_000
    answering(damping, NOW_US + 10_000_000, NOW_US + 13_000_000)
    assert damping.remaining_us(NOW_US + 13_000_000) == 1_000_000
    again_us = NOW_US + 13_000_000 + BREAK_US + 1
    assert damping.remaining_us(again_us) == 4_000_000, "a break begins it anew"
    answering(damping, again_us, again_us + 1_000_000)
    assert damping.remaining_us(again_us + 1_000_000) == 3_000_000


def test_a_pause_of_ones_own_is_no_break() -> None:
    damping = lost(3)
    answering(damping, NOW_US, NOW_US + 1_000_000)
    damping.excuse(5_000_000)
    assert damping.whole_us(NOW_US + 6_000_000) == 6_000_000


def test_what_never_holds_for_its_term_is_tried_all_the_same() -> None:
    """Otherwise two daemons with nothing but a bad path between them would never work together."""
    damping = lost(6)
    tried_us = NOW_US + TRIED_AFTER_TERMS * LAN.damp_max_us
    assert not damping.is_trusted(tried_us - 1)
    assert damping.is_trusted(tried_us)


def test_when_another_trial_of_it_is_over_ours_may_end_a_quarter_earlier() -> None:
    """So that it comes back with all of its links, and not in several views."""
    damping = lost(3)
    answering(damping, NOW_US, NOW_US + 3_000_000)
    assert not damping.is_trusted(NOW_US + 3_000_000)
    assert damping.is_trusted(NOW_US + 3_000_000, nearly=True)
    assert not damping.is_trusted(NOW_US + 2_999_999, nearly=True)


def test_a_minute_in_one_view_forgives() -> None:
    damping = lost(5)
    damping.installed(True, NOW_US + 20_000_000)
    damping.installed(True, NOW_US + 50_000_000)
    damping.lost(LAN, NOW_US + 20_000_000 + FORGIVEN_AFTER_US + 1)
    assert damping.losses == 1


def test_time_in_which_it_was_away_forgives_nothing() -> None:
    damping = lost(5)
    back_us = NOW_US + 10 * FORGIVEN_AFTER_US
    damping.installed(False, NOW_US + 1)
    damping.installed(True, back_us)
    damping.lost(LAN, back_us + FORGIVEN_AFTER_US)
    assert damping.losses == 6


def test_the_word_of_others_counts_for_as_long_as_they_say() -> None:
    damping = Damping()
    damping.follow(5_000_000, NOW_US)
    assert not damping.is_trusted(NOW_US + 4_999_999)
    assert damping.own_us(NOW_US) == 0, "it is not told on"
    assert damping.is_trusted(NOW_US + 5_000_000)


def test_who_has_passed_is_asked_often_until_a_view_has_it() -> None:
    """Once, it was asked seldom then, and that counted as a break of its own."""
    damping = lost(3)
    assert damping.is_watched(NOW_US)
    answering(damping, NOW_US, NOW_US + 5_000_000)
    assert damping.is_trusted(NOW_US + 5_000_000)
    assert damping.is_watched(NOW_US + 5_000_000)
    assert not damping.is_watched(NOW_US + TRIED_AFTER_TERMS * 4_000_000), "it is taken in all the same"
    damping.installed(is_with_us=True, now_us=NOW_US + 5_000_000)
    assert not damping.is_watched(NOW_US + 5_000_000)
    assert not lost(1).is_watched(NOW_US), "the first loss is no habit"
