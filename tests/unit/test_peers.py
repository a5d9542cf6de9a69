"""Another daemon as one hears it: evidence in both directions, round trips, probing and damping."""

import pytest
from msgspec import structs

from antiphon.config.timing import PRESETS
from antiphon.core.membership.peers import FORGIVEN_AFTER_US, Peer
from antiphon.wire.membership import Beat

LAN = PRESETS["lan"]
NOW_US = 50_000_000
BREAK_US = 3_000_000
BEAT = Beat(
    clock_us=7_000_000, echo_us=0, question=True, state=1, engaged=5, promised=6, lts=9, representative=3
)


def peer_that_said(*beats: Beat, incarnation: int = 11, now_us: int = NOW_US) -> Peer:
    peer = Peer(4, 0)
    for beat in beats:
        peer.hear(incarnation, beat, now_us, BREAK_US)
    return peer


def test_a_peer_that_was_never_heard() -> None:
    peer = Peer(4, NOW_US)
    assert peer.incarnation == 0
    assert not peer.is_live(0, NOW_US)
    assert peer.probe_us == NOW_US


def test_hearing_is_not_enough() -> None:
    """A link that works in one direction only must not count."""
    peer = peer_that_said(BEAT)
    assert (peer.heard_us, peer.state, peer.engaged, peer.promised, peer.representative) == (
        NOW_US,
        1,
        5,
        6,
        3,
    )
    assert not peer.is_live(0, NOW_US)


@pytest.mark.parametrize(
    ("since_us", "is_live"), [(0, True), (NOW_US - 3_000, True), (NOW_US - 2_999, False)]
)
def test_being_heard_is(since_us: int, is_live: bool) -> None:
    """What it has heard of us must be new enough."""
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US - 3_000))
    assert peer.is_live(since_us, NOW_US) is is_live


def test_an_echo_from_the_future_is_of_a_former_life() -> None:
    assert not peer_that_said(structs.replace(BEAT, echo_us=NOW_US + 1)).is_live(0, NOW_US)


def test_a_beat_that_was_overtaken_is_ignored() -> None:
    newer = structs.replace(BEAT, clock_us=7_000_100, state=4)
    peer = peer_that_said(newer, BEAT)
    assert (peer.state, peer.clock_us) == (4, 7_000_100)


def test_another_process_starts_from_nothing() -> None:
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US - 3_000))
    peer.hear(12, structs.replace(BEAT, clock_us=5), NOW_US + 10, BREAK_US)
    assert (peer.incarnation, peer.clock_us) == (12, 5)
    assert not peer.is_live(0, NOW_US + 10), "the new one has not heard us yet"


def test_round_trips_are_measured_by_answers_only() -> None:
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US - 3_000))
    assert peer.rtt_us == 0, "a question may have waited for its turn"
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US - 2_000, question=False), NOW_US, BREAK_US)
    assert (peer.rtt_us, peer.rtt_variance_us) == (2_000, 1_000)
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US - 1_200, question=False), NOW_US, BREAK_US)
    assert (peer.rtt_us, peer.rtt_variance_us) == (1_900, 950)


def test_a_long_silence_begins_the_hearing_anew() -> None:
    peer = peer_that_said(BEAT)
    assert peer.heard_since_us == NOW_US
    for clock_us, now_us, since_us in (
        (7_000_001, NOW_US + BREAK_US, NOW_US),
        (7_000_002, NOW_US + 2 * BREAK_US, NOW_US),
        (7_000_003, NOW_US + 3 * BREAK_US + 1, NOW_US + 3 * BREAK_US + 1),
    ):
        peer.hear(11, structs.replace(BEAT, clock_us=clock_us), now_us, BREAK_US)
        assert peer.heard_since_us == since_us


# Probing --------------------------------------------------------------------------------------------------


def test_probes_come_ever_later_up_to_a_limit() -> None:
    peer = Peer(4, 0)
    peer.ask_soon(LAN.probe_us, NOW_US)
    assert peer.probe_us == NOW_US
    waits = []
    now_us = NOW_US
    for _ in range(8):
        peer.asked(LAN, now_us)
        waits.append(peer.probe_us - now_us)
        now_us = peer.probe_us
    assert waits == [250_000, 375_000, 562_500, 843_750, 1_000_000, 1_000_000, 1_000_000, 1_000_000]
    peer.ask_soon(LAN.probe_us, now_us)
    assert peer.probe_us == now_us
    peer.asked(LAN, now_us)
    assert peer.probe_us - now_us == LAN.probe_us


# Damping --------------------------------------------------------------------------------------------------


def known_peer() -> Peer:
    return peer_that_said(BEAT, now_us=NOW_US - 1)


def heard_now(peer: Peer, now_us: int) -> bool:
    """Whether a peer that has just heard us counts as live."""
    peer.hear(11, structs.replace(BEAT, clock_us=now_us, echo_us=now_us - 10), now_us, BREAK_US)
    return peer.is_live(now_us - 1_000, now_us)


def test_the_first_loss_is_no_habit() -> None:
    peer = known_peer()
    peer.lost(LAN, NOW_US)
    assert heard_now(peer, NOW_US + 1)


@pytest.mark.parametrize(
    ("losses", "damped_us"),
    [(2, 2_000_000), (3, 4_000_000), (4, 8_000_000), (5, 16_000_000), (6, 30_000_000), (40, 30_000_000)],
)
def test_each_further_loss_keeps_it_out_for_longer(losses: int, damped_us: int) -> None:
    peer = known_peer()
    for _ in range(losses):
        peer.lost(LAN, NOW_US)
    assert not heard_now(peer, NOW_US + damped_us - 1)
    assert heard_now(peer, NOW_US + damped_us)


def test_a_link_that_holds_is_forgiven() -> None:
    peer = known_peer()
    for _ in range(5):
        peer.lost(LAN, NOW_US)
    later_us = NOW_US + FORGIVEN_AFTER_US + 1
    peer.lost(LAN, later_us)
    assert peer.losses == 1
    assert heard_now(peer, later_us + 1)


def test_another_process_has_no_bad_habits_yet() -> None:
    peer = known_peer()
    for _ in range(5):
        peer.lost(LAN, NOW_US)
    peer.hear(12, structs.replace(BEAT, echo_us=NOW_US), NOW_US + 10, BREAK_US)
    assert peer.losses == 0
    assert peer.is_live(0, NOW_US + 10)


def test_an_invitation_is_remembered() -> None:
    """Whether it would take us in, as far as we know."""
    peer = peer_that_said(structs.replace(BEAT, welcome=True))
    assert peer.welcome
    peer.hear(11, structs.replace(BEAT, clock_us=8_000_000), NOW_US + 10, BREAK_US)
    assert not peer.welcome
