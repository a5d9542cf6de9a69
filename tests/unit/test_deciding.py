"""Which role a source wants, from what it measures."""

from antiphon import limits
from antiphon.core.ordering.deciding import Decider, Decision
from antiphon.core.ordering.told import Reason, Wish

MS = 1_000
SECOND = 1_000 * MS
DELAYS = {1: 40 * MS, 2: 90 * MS}


class Site:
    """A source that sends every `gap_us`, beside active ones that send `busier` times as often."""

    def __init__(self) -> None:
        self.now_us = SECOND
        self.decider = Decider(self.now_us)
        self.sent = 0
        self.others = 0

    def send(self, times: int, gap_us: int, busier: int) -> None:
        for _ in range(times):
            self.now_us += gap_us
            self.sent += 1
            self.others += busier
            self.decider.look(self.sent, self.others, self.now_us)

    def wants(self, is_active: bool, sequencer: int | None = None) -> Decision | None:
        return self.decider.decide(is_active, sequencer, DELAYS, self.now_us)


def test_one_that_sends_less_often_than_a_ticket_takes_beside_busy_ones_becomes_passive() -> None:
    site = Site()
    site.send(20, 100 * MS, busier=limits.ROLE_BUSIER)
    assert site.wants(True) == Decision(Wish.PASSIVE, 1, Reason.RARE)


def test_one_that_sends_about_as_often_as_the_others_stays_active() -> None:
    site = Site()
    site.send(20, 100 * MS, busier=limits.ROLE_BUSIER - 1)
    assert site.wants(True) is None


def test_one_that_sends_more_often_than_a_ticket_takes_stays_active_beside_busier_ones() -> None:
    site = Site()
    site.send(200, 30 * MS, busier=100)
    assert site.wants(True) is None


def test_between_the_margins_nothing_changes() -> None:
    """A threshold of 20 % of the delay value was used.

    NAVTECH 5.4, Switching Heuristic.
    """
    for gap_us in (40 * MS, 47 * MS):
        site = Site()
        site.send(100, gap_us, busier=20)
        assert site.wants(True) is None and site.wants(False, 1) is None


def test_a_busy_passive_one_becomes_active() -> None:
    site = Site()
    site.send(200, 30 * MS, busier=20)
    assert site.wants(False, 1) == Decision(Wish.ACTIVE, 1, Reason.BUSY)


def test_a_few_messages_close_together_do_not_make_a_rare_sender_active() -> None:
    site = Site()
    site.send(20, 300 * MS, busier=300)
    site.send(7, 20 * MS, busier=200)
    assert site.wants(False, 1) is None


def test_a_passive_one_becomes_active_when_the_others_do_not_send_much_more() -> None:
    site = Site()
    site.send(20, 300 * MS, busier=limits.ROLE_BUSIER // 2 - 1)
    assert site.wants(False, 1) == Decision(Wish.ACTIVE, 1, Reason.ALIKE)


def test_a_silent_one_becomes_passive_once_others_send() -> None:
    site = Site()
    site.send(20, 100 * MS, busier=1)
    site.now_us += 60 * SECOND
    site.decider.look(site.sent, site.others, site.now_us)
    assert site.wants(True) is None  # nobody sends: nobody is kept waiting
    site.others += limits.ROLE_BUSIER
    site.decider.look(site.sent, site.others, site.now_us)
    assert site.wants(True) == Decision(Wish.PASSIVE, 1, Reason.SILENT)


def test_one_that_became_passive_for_its_silence_stays_so_until_it_sends() -> None:
    """Nobody sends any more: what it sent before the silence was about as much as the others sent."""
    site = Site()
    site.send(20, 100 * MS, busier=1)
    site.others += limits.ROLE_BUSIER
    site.now_us += 60 * SECOND
    site.decider.look(site.sent, site.others, site.now_us)
    assert site.wants(True) == Decision(Wish.PASSIVE, 1, Reason.SILENT)
    site.decider.changed(site.now_us)
    site.now_us += 60 * SECOND
    assert site.wants(False, 1) is None
    site.send(1, 0, busier=0)
    assert site.wants(False, 1) == Decision(Wish.ACTIVE, 1, Reason.ALIKE)


def test_a_role_is_kept_for_a_while() -> None:
    site = Site()
    site.send(20, 100 * MS, busier=100)
    site.decider.changed(site.now_us)
    assert site.wants(True) is None and site.decider.due_us == site.now_us + limits.ROLE_MIN_US
    site.send(limits.ROLE_MIN_US // (100 * MS), 100 * MS, busier=100)
    assert site.wants(True) is not None


def test_a_closer_sequencer_is_chosen() -> None:
    site = Site()
    site.send(20, 100 * MS, busier=100)
    assert site.wants(False, 2) == Decision(Wish.SEQUENCER, 1, Reason.CLOSER)
    assert site.wants(False, 1) is None
