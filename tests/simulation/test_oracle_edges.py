"""The property *edges*, on traces made by hand: what it finds, and what it lets be."""

import pytest
from edge_tales import EDGE, LIFE, VIEW, Tale, number

from antiphon.trace import Event


def test_an_edge_that_gets_everything_in_order_is_fine() -> None:
    tale = Tale().base(10).core(11).core(12, "reliable").core(13, "safe").deliver(11, 12, 13).restored()
    assert tale.core(14).deliver(14).wrong() == []


def test_what_came_before_the_group_flowed_is_not_owed() -> None:
    assert Tale().core(5).base(10).core(11).deliver(11).wrong() == []


def test_a_message_between_two_others_is_owed() -> None:
    (wrong,) = Tale().base(10).core(11).core(12).core(13).deliver(11, 13).wrong()
    assert "never got it" in wrong and "at place 12" in wrong


def test_unreliable_messages_are_not_owed() -> None:
    assert Tale().base(10).core(11).core(12, "unreliable").core(13).deliver(11, 13).wrong() == []


def test_the_last_message_is_owed_once_the_faults_are_over() -> None:
    tale = Tale().base(10).core(11).core(12).deliver(11)
    assert tale.wrong() == [], "it may still come"
    (wrong,) = tale.restored().wrong()
    assert "at place 12" in wrong and "the end of the run" in wrong


def test_what_was_sent_to_a_member_is_owed_wherever_its_group_is_said_to_begin() -> None:
    (wrong,) = Tale().base(12).core(11).core(13).deliver(13).wrong()
    assert "at place 11" in wrong


@pytest.mark.parametrize("place", [11, 13])
def test_a_message_comes_once(place: int) -> None:
    wrong = Tale().base(10).core(11).core(13).deliver(11, 13, place).wrong()
    assert "delivered twice" in wrong


def test_messages_come_in_the_order_of_their_places() -> None:
    (wrong,) = Tale().base(10).core(11).core(12, "reliable").deliver(12, 11).wrong()
    assert "at place 11" in wrong and "after place 12" in wrong


def test_nothing_comes_before_the_core_has_delivered_it() -> None:
    (wrong,) = Tale().base(10).core(11, by=()).deliver(11).wrong()
    assert "before any daemon" in wrong


def test_only_members_get_messages() -> None:
    (wrong,) = Tale().core(11).deliver(11).wrong()
    assert "a member of none" in wrong


def test_a_gap_that_is_told_is_fine() -> None:
    tale = Tale().base(10).core(11).deliver(11).core(12).gap(11, 13).base(13).core(14).deliver(14)
    assert tale.restored().wrong() == []


def test_a_gap_says_where_it_begins() -> None:
    """What is said to be there, up to the gap, has to be there."""
    tale = Tale().base(10).core(11).deliver(11).core(12).core(14).gap(12, 13).base(13).deliver(14)
    (wrong,) = tale.wrong()
    assert "at place 12" in wrong and "its gap" in wrong


def test_nothing_of_the_group_comes_between_a_gap_and_the_base() -> None:
    tale = Tale().base(10).core(11).deliver(11).core(12).core(13)
    tale.add(Event.GAP, "e0", groups=("g",), daemon_view=VIEW, lts=11, place=12, reason="late")
    tale.deliver(13)
    tale.add(Event.GAP, "e0", "#x#e0", ("g",), (number(1),), lts=11, place=12)
    assert any("after a gap" in wrong for wrong in tale.wrong())


def test_of_a_daemon_view_that_ends_everything_is_owed() -> None:
    tale = Tale().base(10).core(11).deliver(11).core(12).install(20)
    tale.add(Event.PART, "e0", daemon_view=20)
    tale.core(22, view=20).deliver(22)
    (wrong,) = tale.wrong()
    assert "in daemon view 10 at place 12" in wrong


def test_what_only_others_delivered_after_their_signal_does_not_come() -> None:
    def tale(*, is_certain: bool) -> list[str]:
        tale = Tale().base(10).core(11).deliver(11)
        if not is_certain:
            tale.add(Event.STRANSSIG, "d0", daemon_view=VIEW)
        tale.core(12, by=("d0",)).deliver(12)
        tale.install(20, ("d0",)).install(30, ("d1",))
        return tale.add(Event.PART, "e0", daemon_view=30).wrong()

    assert tale(is_certain=True) == [], "the edge may have had it from the other daemon"
    (wrong,) = tale(is_certain=False)
    assert "only others delivered it" in wrong


def test_a_feed_goes_through_daemon_views_as_daemons_do() -> None:
    tale = Tale().base(10).core(11).deliver(11)
    tale.add(Event.PART, "e0", daemon_view=30)
    (wrong,) = tale.wrong()
    assert "from daemon view 10 to 30" in wrong


# Views and signals ------------------------------------------------------------------------------------------


def test_views_have_the_members_that_they_have_in_the_core() -> None:
    (wrong,) = Tale().view("#x#e0", number(1), ("#core#d0", "#other#d1")).wrong()
    assert "other members" in wrong


def test_no_view_is_left_out() -> None:
    tale = Tale().base(10).view("#core#d0", number(11)).view("#core#d0", number(12))
    (wrong,) = tale.view("#x#e0", number(12)).wrong()
    assert "left out" in wrong


def test_a_signal_comes_where_it_does_in_the_core() -> None:
    def tale() -> Tale:
        tale = Tale().base(10).core(11).core(12)
        tale.deliver(11, process="#core#d0").signal("#core#d0", number(1))
        return tale.deliver(12, process="#core#d0").view("#core#d0", number(20, 20), cause="network")

    def ends(tale: Tale) -> list[str]:
        return tale.view("#x#e0", number(20, 20), cause="network").wrong()

    assert ends(tale().deliver(11).signal("#x#e0", number(1)).deliver(12)) == []
    (wrong,) = ends(tale().deliver(11, 12))
    assert "has no signal" in wrong
    (wrong,) = ends(tale().signal("#x#e0", number(1)).deliver(11, 12))
    assert "after the signal" in wrong


def test_a_message_and_a_view_have_one_order_everywhere() -> None:
    tale = Tale().base(10).view("#core#d0", number(11)).core(12).deliver(12, process="#core#d0")
    tale.view("#core#d0", number(13))
    assert any(
        "circle" in wrong
        for wrong in tale.view("#x#e0", number(11)).view("#x#e0", number(13)).deliver(12).wrong()
    )


# What clients hand over -------------------------------------------------------------------------------------


def test_what_is_handed_over_and_sent_is_fine() -> None:
    tale = Tale().base(10)
    one, two = tale.hand(71), tale.hand(72)
    assert tale.send(one, 1, 11).send(two, 2, 12).restored().wrong() == []


def test_what_is_handed_over_is_not_forgotten() -> None:
    tale = Tale().base(10)
    tale.hand(71)
    assert tale.wrong() == []
    (wrong,) = tale.restored().wrong()
    assert "never sent" in wrong


def test_what_was_lost_on_the_way_is_not_forgotten() -> None:
    tale = Tale().base(10)
    tale.send(tale.hand(71), 1)
    (wrong,) = tale.restored().wrong()
    assert "it was lost" in wrong


def test_it_may_be_told_that_a_fate_is_unknown_once_an_attachment_is_lost() -> None:
    def unsure(tale: Tale) -> Tale:
        return tale.add(Event.UNSURE, "e0", "#x#e0", message=(EDGE, LIFE, 1, 1)).restored()

    tale = Tale().base(10)
    tale.hand(71)
    assert unsure(tale.add(Event.DETACH, "e0", peer="d0")).wrong() == []
    tale = Tale().base(10)
    tale.hand(71)
    (wrong,) = unsure(tale).wrong()
    assert "no attachment was lost" in wrong


def test_nothing_is_sent_twice() -> None:
    tale = Tale().base(10)
    handed = tale.hand(71)
    (wrong,) = tale.send(handed, 1, 11).send(handed, 2, 12).wrong()
    assert "sent twice" in wrong


def test_nothing_is_sent_that_was_not_handed_over() -> None:
    tale = Tale().base(10)
    handed = tale.hand(71)
    handed.checksum = 72
    tale.send(handed, 1, 11)
    handed.checksum = 71
    (wrong,) = tale.wrong()
    assert "had not handed it over" in wrong


def test_messages_of_one_attachment_keep_their_order() -> None:
    tale = Tale().base(10)
    one, two = tale.hand(71), tale.hand(72)
    (wrong,) = tale.send(two, 1, 11).send(one, 2, 12).wrong()
    assert "handed over later" in wrong


def test_what_was_not_wanted_back_does_not_come_back() -> None:
    tale = Tale().base(10)
    handed = tale.hand(71)
    handed.self_discard = True
    tale.send(handed, 1)
    sent = tale.records[-1]
    sent.self_discard = True
    tale.carry(sent, 11)
    assert tale.core(12).deliver(12).wrong() == []
    tale._sent[11] = sent
    assert "came back to a sender that did not want it" in tale.deliver(11).wrong()
