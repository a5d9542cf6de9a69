"""The records of why views changed."""

from antiphon import limits
from antiphon.core.membership.rounds import Reason, Rounds


def test_a_round_from_its_reason_to_its_end() -> None:
    rounds = Rounds()
    rounds.begin(Reason.SILENCE, 2, "d2 was silent", 1_000)
    rounds.left("seg", 1_500)
    rounds.left("gather", 4_500)
    assert rounds.current is not None and rounds.current.ended_us is None
    rounds.end("installed", 5_000)
    (record,) = rounds.past
    assert rounds.current is None
    assert (record.reason, record.peer, record.detail) == (Reason.SILENCE, 2, "d2 was silent")
    assert record.states == [("seg", 500), ("gather", 3_000)]
    assert (record.started_us, record.ended_us, record.ended) == (1_000, 5_000, "installed")


def test_a_round_that_gives_way_to_another_is_kept() -> None:
    rounds = Rounds()
    rounds.begin(Reason.FOUND, 1, "d1 hears us", 10)
    rounds.begin(Reason.SILENCE, 2, "d2 was silent", 30)
    assert [(record.ended, record.ended_us) for record in rounds.past] == [("given up", 30)]
    assert rounds.current is not None and rounds.current.reason is Reason.SILENCE


def test_rounds_do_not_share_their_lists() -> None:
    rounds = Rounds()
    rounds.begin(Reason.FOUND, 1, "", 0)
    rounds.left("gather", 5)
    rounds.begin(Reason.FOUND, 1, "", 10)
    assert rounds.current is not None and rounds.current.states == []


def test_without_a_round_there_is_nothing_to_record() -> None:
    rounds = Rounds()
    rounds.left("op", 5)
    rounds.end("installed", 6)
    assert not rounds.past


def test_only_the_newest_are_kept() -> None:
    rounds = Rounds()
    for number in range(limits.ROUNDS_KEPT + 5):
        rounds.begin(Reason.FOUND, number, "", number)
        rounds.end("nothing new", number)
    assert len(rounds.past) == limits.ROUNDS_KEPT
    assert rounds.past[0].peer == 5


def test_every_reason_has_a_word_of_its_own() -> None:
    words = [reason.value for reason in Reason]
    assert len(set(words)) == len(words)
    assert all(word == word.lower() and " " not in word for word in words)
