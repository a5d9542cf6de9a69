"""Which clocks of others are believed at once, which after a proof, and which never."""

import pytest
from msgspec import structs

from antiphon import limits
from antiphon.core.membership.credence import AHEAD, CLOCK, PROPOSED, Credence
from antiphon.core.membership.peers import Peer
from antiphon.core.ordering.stability import stamp_after
from antiphon.errors import BadPacket
from antiphon.wire.membership import Beat, Station

DAY_US = 86_400_000_000
YEAR_US = 365 * DAY_US
NOW_US = 50_000_000
START = stamp_after(56 * YEAR_US << 10, 0)
BEAT = Beat(
    clock_us=7_000_000, echo_us=0, question=True, state=1, engaged=0, promised=0, lts=START, representative=3
)


class Doubter:
    """A daemon that hears beats of one other daemon, and asks it when it should."""

    def __init__(self) -> None:
        self.credence = Credence(START, NOW_US)
        self.peer = Peer(4, 0)
        self.now_us = NOW_US

    def hear(self, incarnation: int = 11, **fields: object) -> str:
        """Why a beat is refused, or nothing."""
        beat = structs.replace(BEAT, **{"clock_us": 7_000_000 + self.now_us - NOW_US, **fields})
        try:
            self.credence.hear(self.peer, incarnation, beat, self.now_us)
        except BadPacket as error:
            return error.reason
        return ""

    def asks(self) -> bool:
        return self.credence.question(4, self.now_us) is not None

    def exchange(self, **fields: object) -> list[str]:
        """The same beat again and again, each an answer to our question, until it is believed."""
        reasons = [self.hear(**fields)]
        while reasons[-1] and len(reasons) < 10:
            assert self.asks(), reasons
            asked_us = self.now_us
            self.now_us += 1_000
            clock_us = fields.get("clock_us")
            moved = {} if clock_us is None else {"clock_us": clock_us + self.now_us - NOW_US}
            reasons.append(self.hear(**{**fields, **moved, "echo_us": asked_us}))
        return reasons


def test_a_stamp_within_a_day_is_believed_at_once() -> None:
    doubter = Doubter()
    assert doubter.hear(lts=START + limits.LTS_LEAD) == ""
    assert doubter.hear(lts=START + limits.LTS_LEAD + 1) == AHEAD


def test_what_is_plausible_grows_with_time_and_not_with_what_was_heard() -> None:
    """Many small jumps lead no further than one."""
    doubter = Doubter()
    assert doubter.hear(lts=START + limits.LTS_LEAD) == ""
    assert doubter.hear(lts=START + 2 * limits.LTS_LEAD) == AHEAD
    doubter.now_us += DAY_US
    assert doubter.hear(lts=START + 2 * limits.LTS_LEAD) == ""


@pytest.mark.parametrize("years", [1, 10, 30])
def test_a_daemon_that_is_years_ahead_and_stands_by_it_is_believed(years: int) -> None:
    doubter = Doubter()
    ahead = START + (years * YEAR_US << 10)
    assert doubter.exchange(lts=ahead) == [AHEAD] * limits.PROOF_ROUNDS + [""]
    assert doubter.hear(lts=ahead + limits.LTS_LEAD) == ""


@pytest.mark.parametrize("round_trip_us", [limits.PROOF_RETRY_US, 350_000, 2_000_000])
def test_an_answer_counts_that_was_under_way_when_the_question_was_repeated(round_trip_us: int) -> None:
    """Over a long path every answer is."""
    doubter = Doubter()
    ahead = START + (YEAR_US << 10)
    questions: list[int] = []
    for at_us in range(NOW_US, NOW_US + 3 * round_trip_us, 50_000):  # a beat that asks comes so often
        doubter.now_us = at_us
        echo_us = max((asked_us for asked_us in questions if asked_us <= at_us - round_trip_us), default=0)
        if not doubter.hear(lts=ahead, echo_us=echo_us):
            assert at_us - NOW_US <= 2 * round_trip_us + 100_000
            return
        if doubter.asks():
            questions.append(at_us)
    raise AssertionError(f"never believed, asked {len(questions)} times")


def test_one_packet_is_not_believed_however_often_it_comes() -> None:
    """It does not echo what we asked since."""
    doubter = Doubter()
    for _ in range(50):
        assert doubter.hear(lts=START + (YEAR_US << 10), echo_us=NOW_US - 1) == AHEAD
        doubter.asks()
        doubter.now_us += 10_000


def test_a_true_beat_in_between_ends_the_proof() -> None:
    """Somebody else spoke in the daemon's name."""
    doubter = Doubter()
    for _ in range(5):
        assert doubter.hear(lts=START + (YEAR_US << 10), echo_us=doubter.now_us - 1) == AHEAD
        doubter.asks()
        doubter.now_us += 200_000
        assert doubter.hear(lts=START + (YEAR_US << 10), echo_us=doubter.now_us - 1) == AHEAD
        assert doubter.hear() == ""


def test_a_claim_that_changes_is_another_claim() -> None:
    doubter = Doubter()
    for years in range(1, 8):
        assert doubter.hear(lts=START + (years * YEAR_US << 10), echo_us=doubter.now_us) == AHEAD
        doubter.asks()
        doubter.now_us += 200_000


def test_no_proof_leads_beyond_the_ceiling_and_time_goes_on_above_it() -> None:
    doubter = Doubter()
    assert doubter.hear(lts=limits.LTS_CEILING + 1) == "beat: stamp that no clock can have reached"
    assert doubter.exchange(lts=limits.LTS_CEILING)[-1] == ""
    doubter.now_us += DAY_US
    assert doubter.hear(lts=limits.LTS_CEILING + limits.LTS_LEAD) == ""
    assert doubter.hear(lts=limits.LTS_CEILING + 3 * limits.LTS_LEAD) != ""
    assert doubter.hear(lts=limits.COUNTER_MAX) != ""


def test_above_the_ceiling_is_room_for_centuries() -> None:
    bundles_per_year = 10_000 * 365 * 86_400
    assert (limits.COUNTER_MAX - limits.LTS_CEILING >> 10) / bundles_per_year > 1_000
    assert limits.LTS_START_MAX_US << 10 < limits.LTS_CEILING


@pytest.mark.parametrize("field", ["promised", "engaged", "round"])
def test_other_stamps_of_a_beat_are_not_far_ahead_of_its_clock(field: str) -> None:
    doubter = Doubter()
    assert doubter.hear(**{field: START + limits.LTS_LEAD}) == ""
    assert doubter.hear(**{field: START + limits.LTS_LEAD + 1}) == "beat: stamps ahead of its own clock"


@pytest.mark.parametrize("field", ["serial", "view"])
def test_nor_are_those_of_its_stations(field: str) -> None:
    doubter = Doubter()
    station = Station(2, 9, START, START, 1, b"")
    far = structs.replace(station, **{field: limits.COUNTER_MAX})
    assert doubter.hear(stations=(station,)) == ""
    assert doubter.hear(stations=(station, far)) == "beat: stamps ahead of its own clock"


def test_a_clock_that_goes_with_ours_is_plausible_after_any_pause() -> None:
    doubter = Doubter()
    for pause_us in (1, 3_600_000_000, 300 * DAY_US):
        assert doubter.hear() == ""
        doubter.now_us += pause_us
        assert doubter.hear(clock_us=7_000_000 + doubter.now_us - NOW_US + limits.CLOCK_LEAD_US) == ""


def test_clocks_that_drift_apart_stay_plausible() -> None:
    """One second in an hour is ten times what clocks do."""
    for drift in (-3_600, 3_600):
        doubter = Doubter()
        for _ in range(2_000):
            elapsed_us = doubter.now_us - NOW_US
            assert doubter.hear(clock_us=7_000_000 + elapsed_us + elapsed_us // drift) == ""
            doubter.now_us += 3_600_000_000


def test_late_beats_are_plausible_and_so_is_the_prompt_one_after_them() -> None:
    """They waited for us while we were stopped."""
    doubter = Doubter()
    assert doubter.hear() == ""
    doubter.now_us += 600_000_000
    for place in range(1, 50):
        assert doubter.hear(clock_us=7_000_000 + place * 1_000_000) == ""
    assert doubter.hear() == ""


@pytest.mark.parametrize("jump_us", [YEAR_US, 3_600_000_000])
def test_a_clock_that_jumps_ahead_needs_a_proof(jump_us: int) -> None:
    """A beat that was believed would make all later ones look as if they had been overtaken."""
    doubter = Doubter()
    assert doubter.hear() == ""
    assert doubter.hear(clock_us=7_000_000 + jump_us) == CLOCK
    assert doubter.hear() == ""
    assert doubter.exchange(clock_us=7_000_000 + jump_us) == [CLOCK] * limits.PROOF_ROUNDS + [""]


def test_a_machine_that_was_set_back_to_a_snapshot_is_believed_again() -> None:
    doubter = Doubter()
    assert doubter.hear(clock_us=7_200_000_000) == ""
    doubter.peer.clock_us = 7_200_000_000
    assert doubter.exchange(clock_us=1_000_000) == [CLOCK] * limits.PROOF_ROUNDS + [""]
    assert doubter.peer.clock_us == 0, "it would still take the beat for one that was overtaken"


def test_a_new_process_may_show_any_clock() -> None:
    doubter = Doubter()
    assert doubter.hear(clock_us=7_200_000_000) == ""
    assert doubter.hear(incarnation=12, clock_us=5) == ""
    assert doubter.hear(incarnation=13, clock_us=YEAR_US) == ""


def test_a_proposal_needs_a_believed_stamp() -> None:
    credence = Credence(START, NOW_US)
    credence.check_proposal(START + limits.LTS_LEAD, START, NOW_US)
    with pytest.raises(BadPacket, match=PROPOSED):
        credence.check_proposal(START + limits.LTS_LEAD + 1, START, NOW_US)
    with pytest.raises(BadPacket, match="far behind our clock"):
        credence.check_proposal(START, START + limits.LTS_LEAD, NOW_US)


def test_questions_are_not_asked_more_often_than_they_may_be_answered() -> None:
    doubter = Doubter()
    asked = 0
    for _ in range(1_000):
        doubter.hear(lts=START + (YEAR_US << 10))
        asked += doubter.asks()
        doubter.now_us += 1_000
    assert asked <= 1_000_000 / limits.PROOF_RETRY_US
