"""Another daemon as one hears it: evidence in both directions, round trips and probing."""

from itertools import pairwise

import pytest
from msgspec import structs

from antiphon.config.timing import PRESETS
from antiphon.core.membership.peers import FULL_RUN, PROOF_EVERY_US, PROOF_LASTS_US, Peer
from antiphon.wire.membership import Beat

LAN = PRESETS["lan"]
NOW_US = 50_000_000
BREAK_US = LAN.suspect_us - LAN.hello_us
BEAT = Beat(
    clock_us=7_000_000, echo_us=0, question=True, state=1, engaged=5, promised=6, lts=9, representative=3
)


def peer_that_said(*beats: Beat, incarnation: int = 11, now_us: int = NOW_US) -> Peer:
    peer = Peer(4, 0)
    for beat in beats:
        if beat.echo_us:
            assert peer.is_next_full(LAN, beat.echo_us)
        peer.hear(incarnation, beat, now_us, LAN)
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
    peer.hear(12, structs.replace(BEAT, clock_us=5), NOW_US + 10, LAN)
    assert (peer.incarnation, peer.clock_us) == (12, 5)
    assert not peer.is_live(0, NOW_US + 10), "the new one has not heard us yet"


def test_round_trips_are_measured_by_answers_only() -> None:
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US - 3_000))
    assert peer.rtt_us == 0, "a question may have waited for its turn"
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US - 2_000, question=False), NOW_US, LAN)
    assert (peer.rtt_us, peer.rtt_variance_us) == (2_000, 1_000)
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US - 1_200, question=False), NOW_US, LAN)
    assert (peer.rtt_us, peer.rtt_variance_us) == (1_900, 950)


# Full packets -----------------------------------------------------------------------------------------------


def test_an_answer_to_a_small_question_does_not_prove_that_full_packets_get_through() -> None:
    peer = Peer(4, 0)
    assert all(peer.is_next_full(LAN, NOW_US - before) for before in reversed(range(FULL_RUN)))
    assert peer.is_next_full(LAN, NOW_US + 1)
    assert not peer.is_next_full(LAN, NOW_US + 10)
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US + 10), NOW_US + 20, LAN)
    assert not peer.is_live(0, NOW_US + 20)
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US), NOW_US + 30, LAN)
    assert peer.is_live(0, NOW_US + 30)
    assert not peer.is_live(0, NOW_US + 31 + PROOF_LASTS_US), "a path does not stay as it was"


def test_a_full_beat_that_comes_late_casts_no_doubt_on_a_link_that_works() -> None:
    """Otherwise the other daemon would have to prove at the next change of view what the link shows."""
    peer = Peer(4, 0)
    peer.must_prove = False
    late = structs.replace(BEAT, echo_us=NOW_US - 100, padding=b"0")
    peer.hear(11, late, NOW_US, LAN, is_linked=True)  # it is new, and must prove everything
    peer.must_prove = False
    peer.hear(11, structs.replace(late, clock_us=late.clock_us + 1), NOW_US, LAN, is_linked=True)
    assert peer.is_live(0, NOW_US)
    peer.hear(11, structs.replace(late, clock_us=late.clock_us + 2), NOW_US, LAN)
    assert not peer.is_live(0, NOW_US)


def test_all_beats_of_one_instant_have_one_size() -> None:
    """An echo names the instant only: it must not be of a small beat beside a full one."""
    peer = Peer(4, 0)
    for at in range(FULL_RUN + 1):
        assert peer.is_next_full(LAN, NOW_US + at) and peer.is_next_full(LAN, NOW_US + at)
    assert not peer.is_next_full(LAN, NOW_US + FULL_RUN + 1)
    assert not peer.is_next_full(LAN, NOW_US + FULL_RUN + 1)


def test_the_first_beats_are_full() -> None:
    """An answer echoes the newest beat that has come, and a small one right after a full one hides it."""
    peer = Peer(4, 0)
    assert peer.is_next_full(LAN, NOW_US) and peer.is_next_full(LAN, NOW_US + 10)
    peer.hear(11, structs.replace(BEAT, echo_us=NOW_US + 10), NOW_US + 20, LAN)
    assert peer.is_live(0, NOW_US + 20)
    assert not peer.is_next_full(LAN, NOW_US + 30), "that was the proof"


def test_full_questions_that_are_not_answered_come_ever_later() -> None:
    """A path of 64 kbit/s is busy with one of them for 175 ms."""
    peer = Peer(4, NOW_US)
    asked = [NOW_US + at for at in range(0, 4_000_000, 5_000) if peer.is_next_full(LAN, NOW_US + at)]
    assert [later - sooner for sooner, later in pairwise(asked)][FULL_RUN : FULL_RUN + 5] == [
        30_000, 60_000, 120_000, 240_000, 480_000
    ]  # fmt: skip
    assert asked[-1] - asked[-2] == LAN.probe_max_us


def test_after_a_proof_questions_are_small_for_a_while() -> None:
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US))
    assert not peer.is_next_full(LAN, NOW_US + PROOF_EVERY_US - 1)
    assert peer.is_next_full(LAN, NOW_US + PROOF_EVERY_US)


def test_a_link_that_failed_makes_the_last_proof_void() -> None:
    peer = peer_that_said(structs.replace(BEAT, echo_us=NOW_US))
    peer.must_prove = False  # there was a link
    peer.doubt(NOW_US + 1)
    assert not peer.is_live(0, NOW_US + 1)
    assert peer.is_next_full(LAN, NOW_US + 1)


def answering(peer: Peer, from_us: int, until_us: int, every_us: int) -> None:
    """It hears us and says so, again and again."""
    for now_us in range(from_us, until_us + 1, every_us):
        peer.hear(11, structs.replace(BEAT, clock_us=now_us, echo_us=now_us - 10), now_us, LAN)


def test_a_silence_that_could_cost_a_link_is_a_break() -> None:
    """A link that is missing is added when the path has worked for 30 s without one. On a link the last sign
    of life may have come a while before the path fails."""
    peer = Peer(4, 0)
    answering(peer, NOW_US, NOW_US + 20_000_000, BREAK_US)
    assert peer.damping.whole_us(NOW_US + 20_000_000) == 20_000_000
    again_us = NOW_US + 20_000_000 + BREAK_US + 1
    assert peer.damping.whole_us(again_us) == 0
    answering(peer, again_us, again_us + 30_000_000, BREAK_US)
    assert not peer.is_steady(0, again_us + 30_000_000)
    assert peer.is_steady(0, again_us + 30_000_001)
    assert not peer.is_steady(again_us + 1, again_us + 30_000_001), "the view has not lasted for so long"


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


def test_a_peer_that_is_missed_and_answers_is_asked_as_a_link_would_be() -> None:
    """Otherwise a break would not be noticed."""
    peer = Peer(4, 0)
    peer.is_missed = True
    peer.ask_soon(LAN.probe_max_us, NOW_US)
    peer.asked(LAN, NOW_US)
    assert peer.probe_us == NOW_US + LAN.probe_max_us, "it does not answer"
    answering(peer, NOW_US + 10, NOW_US + 10, 1)
    usual_us = LAN.hello_us // 2
    assert peer.probe_us == NOW_US + 10 + usual_us
    peer.asked(LAN, peer.probe_us)
    assert peer.probe_us == NOW_US + 10 + 2 * usual_us
    peer.asked(LAN, peer.probe_us)
    assert peer.probe_us == NOW_US + 10 + 2 * usual_us + LAN.ask_us, "an answer is late"


def test_another_process_has_no_bad_habits_yet() -> None:
    peer = peer_that_said(BEAT, now_us=NOW_US - 1)
    assert peer.is_next_full(LAN, NOW_US)
    for _ in range(5):
        peer.damping.lost(LAN, NOW_US)
    peer.hear(11, structs.replace(BEAT, clock_us=8_000_000, echo_us=NOW_US), NOW_US + 10, LAN)
    assert not peer.is_live(0, NOW_US + 10)
    assert peer.is_next_full(LAN, NOW_US + 10 + PROOF_EVERY_US)
    peer.hear(
        12, structs.replace(BEAT, echo_us=NOW_US + 10 + PROOF_EVERY_US), NOW_US + 10 + PROOF_EVERY_US, LAN
    )
    assert peer.damping.losses == 0
    assert peer.is_live(0, NOW_US + 10 + PROOF_EVERY_US)


def test_an_invitation_is_remembered() -> None:
    """Whether it would take us in, as far as we know."""
    peer = peer_that_said(structs.replace(BEAT, welcome=True))
    assert peer.welcome
    peer.hear(11, structs.replace(BEAT, clock_us=8_000_000), NOW_US + 10, LAN)
    assert not peer.welcome
