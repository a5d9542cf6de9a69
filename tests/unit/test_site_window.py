"""The window of a member of a token-site segment (RMP 4.6)."""

from antiphon import limits
from antiphon.core.links.site_window import SiteWindow

START = limits.SITE_WINDOW_START_PACKETS


def full() -> SiteWindow:
    window = SiteWindow()
    window.sent = window.room
    return window


def test_what_is_sent_takes_room_until_it_is_acknowledged():
    window = full()
    assert window.room == 0
    window.acknowledge(3)
    assert window.in_flight == START - 3


def test_it_grows_by_a_packet_for_each_that_is_acknowledged():
    window = full()
    window.acknowledge(START)
    assert window.packets == 2 * START


def test_it_does_not_grow_while_it_is_not_used():
    window = SiteWindow()
    window.sent = 2
    window.acknowledge(2)
    assert window.packets == START


def test_it_grows_by_one_a_window_beyond_the_threshold():
    window = full()
    assert window.lost(1)
    window.acknowledge(START)
    assert window.packets == START / 2 + START / (START / 2)


def test_one_loss_halves_it_once():
    window = full()
    assert window.lost(5) and not window.lost(5) and not window.lost(START)
    assert window.packets == START / 2 and window.halvings == 1
    window.sent += 1
    assert window.lost(window.sent)
    assert window.packets == START / 4


def test_it_has_bounds():
    window = full()
    for _ in range(20):
        window.sent += 1
        window.lost(window.sent)
    assert window.packets == limits.SITE_WINDOW_MIN_PACKETS
    for _ in range(20_000):
        window.sent += window.room
        window.acknowledge(window.sent)
    assert window.packets == limits.SITE_WINDOW_MAX_PACKETS


def test_an_old_acknowledgement_changes_nothing():
    window = full()
    window.acknowledge(9)
    before = window.packets
    window.acknowledge(4)
    assert (window.acknowledged, window.packets) == (9, before)
