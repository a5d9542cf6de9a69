"""Tickets: places for bundles of passive sources, who confirms them, and when they are forgotten."""

from collections import Counter

import pytest

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.ordering.tickets import Ticket, TicketBook
from antiphon.core.ordering.told import Confirmation, Newest, Run, Tickets
from antiphon.service import Service
from antiphon.wire.bundle import Flag, Header

ME = 0
ROUND = 1_024
SEQUENCER = 1
PASSIVE = 2
"""A source of several daemons: 2 and 3."""
NEVER = limits.COUNTER_MAX


def place(number: int) -> int:
    """The stamp of the sequencer that comes so many after the first one."""
    return stamp_after((9 + number) * ROUND, SEQUENCER)


class Daemon:
    """A daemon's book, and how many bundles of each source have come without a gap."""

    def __init__(self, me: int = ME) -> None:
        self.come: Counter[int] = Counter()
        self.book = TicketBook(me, lambda source: self.come[source])

    def gets(
        self,
        number: int,
        *,
        source: int = PASSIVE,
        daemon: int = PASSIVE,
        service: Service = Service.AGREED,
        flags: int = 0,
        in_turn: bool = True,
    ) -> Entry:
        """A bundle comes in, and with it all before it of its source unless it is not `in_turn`."""
        header = Header(
            0, service, flags, b"", 1, 0, daemon, 4, 7, number, number, 0, number * ROUND, 0, 0b111, 0
        )
        entry = Entry(source, header, b"")
        if in_turn:
            self.come[source] = max(self.come[source], number)
        assert self.book.came(entry) == (entry.place > 0)
        return entry

    def is_told(
        self, first: int, *runs: Run, number: int = 1, sequencer: int = SEQUENCER
    ) -> list[tuple[int, Entry | None]]:
        """A bundle with this number of the sequencer gives tickets, from place `first` on."""
        return list(self.book.take(sequencer, number, Tickets(first, runs)))

    def hears(self, daemon: int, *newest: Newest, lts: int) -> None:
        """A daemon confirms the tickets of its bundles."""
        self.book.confirm(daemon, Confirmation(newest), lts)

    def ticket(self, entry: Entry) -> Ticket:
        ticket = self.book.of(entry)
        assert ticket is not None
        return ticket


# A bundle and its ticket ----------------------------------------------------------------------------------


def test_a_bundle_that_comes_before_its_ticket_waits_for_it() -> None:
    daemon = Daemon()
    entry = daemon.gets(5)
    assert entry.place == 0 and daemon.book.of(entry) is None
    assert daemon.book.awaiting == {(PASSIVE, 5): entry}
    assert daemon.is_told(place(0), (PASSIVE, 5, 5), number=8) == [(place(0), entry)]
    assert entry.place == place(0)
    assert daemon.ticket(entry) == Ticket(place(0), SEQUENCER, 8)
    assert not daemon.book.awaiting and daemon.book.placed == {(PASSIVE, 5): entry}


def test_a_ticket_that_comes_before_its_bundle_is_there_for_it() -> None:
    daemon = Daemon()
    assert daemon.is_told(place(0), (PASSIVE, 5, 5)) == [(place(0), None)]
    assert len(daemon.book) == 1 and not daemon.book.placed
    entry = daemon.gets(5)
    assert entry.place == place(0)
    assert not daemon.book.awaiting and daemon.book.placed == {(PASSIVE, 5): entry}


def test_each_bundle_of_the_runs_has_the_next_stamp_of_the_sequencer() -> None:
    daemon = Daemon()
    entries = [daemon.gets(number) for number in (5, 6, 9)]
    told = daemon.is_told(place(0), (PASSIVE, 5, 7), (PASSIVE, 9, 9))
    assert told == [(place(0), entries[0]), (place(1), entries[1]), (place(2), None), (place(3), entries[2])]
    assert entries[2].place == place(3) == place(0) + 3 * ROUND


def test_a_bundle_of_another_number_or_of_another_source_is_not_meant() -> None:
    daemon = Daemon()
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    assert daemon.gets(4).place == daemon.gets(6).place == daemon.gets(5, source=7, daemon=7).place == 0


def test_a_ticket_that_comes_twice_counts_once() -> None:
    """A sequencer that has gone wrong must not move a bundle that others may have delivered in its place."""
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    later = stamp_after(place(7), 4)
    assert daemon.is_told(later, (PASSIVE, 5, 6), number=3, sequencer=4) == [(later + ROUND, None)]
    assert entry.place == place(0)
    assert daemon.ticket(entry) == Ticket(place(0), SEQUENCER, 8)
    assert len(daemon.book) == 2


def test_the_greatest_number_that_had_a_ticket_is_remembered_for_each_source() -> None:
    daemon = Daemon()
    daemon.is_told(place(0), (PASSIVE, 4, 4), (PASSIVE, 6, 7))
    daemon.is_told(place(5), (7, 3, 3))
    daemon.is_told(place(9), (PASSIVE, 2, 2))
    assert daemon.book.highest == {PASSIVE: 7, 7: 3}
    daemon.book.forget_others(place(9))
    assert daemon.book.highest == {PASSIVE: 7, 7: 3}


# Gaps -----------------------------------------------------------------------------------------------------


def test_without_tickets_there_is_no_gap() -> None:
    daemon = Daemon()
    daemon.gets(5)
    assert daemon.book.first_gap() is None


def test_a_gap_is_there_until_everything_of_the_source_up_to_the_number_has_come() -> None:
    daemon = Daemon()
    daemon.come[PASSIVE] = 3
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    assert daemon.book.first_gap() == place(0)
    entry = daemon.gets(5, in_turn=False)  # number 4 has not come: it may be a loose one that comes first
    assert entry.place == place(0) == daemon.book.first_gap()
    daemon.come[PASSIVE] = 4
    assert daemon.book.first_gap() == place(0)
    daemon.come[PASSIVE] = 5
    assert daemon.book.first_gap() is None


def test_a_bundle_that_came_beyond_a_gap_before_its_ticket_is_blocked_too() -> None:
    daemon = Daemon()
    daemon.gets(5, in_turn=False)
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    assert daemon.book.first_gap() == place(0)


def test_a_ticket_for_what_is_for_other_sites_makes_no_gap() -> None:
    daemon = Daemon()
    daemon.come[PASSIVE] = 5  # it was skipped
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    assert daemon.book.first_gap() is None


def test_the_first_gap_is_that_of_the_smallest_place() -> None:
    daemon = Daemon()
    daemon.is_told(place(4), (7, 1, 1))
    daemon.is_told(place(0), (PASSIVE, 1, 2))
    assert daemon.book.first_gap() == place(0)
    daemon.come[PASSIVE] = 1
    assert daemon.book.first_gap() == place(1)
    daemon.come[PASSIVE] = 2
    assert daemon.book.first_gap() == place(4)
    daemon.come[7] = 1
    assert daemon.book.first_gap() is None


# Confirmations of others ----------------------------------------------------------------------------------


def test_a_bundle_is_kept_until_the_confirmation_of_its_ticket_is_everywhere() -> None:
    daemon = Daemon()
    entry = daemon.gets(5)
    assert entry.kept_until == 0  # it waits for its ticket, so that it is not forgotten anyhow
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    assert (daemon.ticket(entry).confirmed_lts, entry.kept_until) == (0, NEVER)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    assert (daemon.ticket(entry).confirmed_lts, entry.kept_until) == (40 * ROUND, 40 * ROUND)


def test_a_confirmation_may_come_before_the_bundle() -> None:
    daemon = Daemon()
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    entry = daemon.gets(5)
    assert (daemon.ticket(entry).confirmed_lts, entry.kept_until) == (40 * ROUND, 40 * ROUND)


def test_a_confirmation_may_come_before_the_ticket() -> None:
    """Sources are not read in the order in which they sent."""
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    assert (daemon.ticket(entry).confirmed_lts, entry.kept_until) == (40 * ROUND, 40 * ROUND)


def test_another_daemon_of_the_same_source_confirms_nothing_for_it() -> None:
    daemon = Daemon()
    entry, theirs = daemon.gets(5, daemon=2), daemon.gets(6, daemon=3)
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    daemon.hears(3, (SEQUENCER, 8), lts=40 * ROUND)
    assert (daemon.ticket(entry).confirmed_lts, entry.kept_until) == (0, NEVER)
    assert (daemon.ticket(theirs).confirmed_lts, theirs.kept_until) == (40 * ROUND, 40 * ROUND)
    late = daemon.gets(7, daemon=2)
    daemon.is_told(place(3), (PASSIVE, 7, 7), number=8)
    assert daemon.ticket(late).confirmed_lts == 0
    daemon.hears(2, (SEQUENCER, 8), lts=50 * ROUND)
    assert daemon.ticket(entry).confirmed_lts == daemon.ticket(late).confirmed_lts == 50 * ROUND
    assert daemon.ticket(theirs).confirmed_lts == 40 * ROUND


def test_the_first_daemon_of_a_source_confirms_nothing_for_the_others_before_their_bundles_come() -> None:
    """A source is called by its first daemon, and is not that daemon."""
    daemon = Daemon()
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    daemon.hears(2, (SEQUENCER, 8), lts=40 * ROUND)
    theirs = daemon.gets(5, daemon=3)
    assert (daemon.ticket(theirs).confirmed_lts, theirs.kept_until) == (0, NEVER)
    daemon.hears(3, (SEQUENCER, 8), lts=50 * ROUND)
    assert (daemon.ticket(theirs).confirmed_lts, theirs.kept_until) == (50 * ROUND, 50 * ROUND)
    assert daemon.ticket(daemon.gets(6, daemon=3)).confirmed_lts == 50 * ROUND


def test_a_confirmation_is_for_the_tickets_up_to_its_number() -> None:
    daemon = Daemon()
    entries = [daemon.gets(number) for number in (5, 6, 7)]
    for at in range(3):
        daemon.is_told(place(3 * at), (PASSIVE, 5 + at, 5 + at), number=8 + at)
    daemon.hears(PASSIVE, (SEQUENCER, 9), lts=40 * ROUND)
    assert [daemon.ticket(entry).confirmed_lts for entry in entries] == [40 * ROUND, 40 * ROUND, 0]
    assert [entry.kept_until for entry in entries] == [40 * ROUND, 40 * ROUND, NEVER]
    daemon.hears(PASSIVE, (SEQUENCER, 10), lts=50 * ROUND)
    assert [entry.kept_until for entry in entries] == [40 * ROUND, 40 * ROUND, 50 * ROUND]


def test_a_confirmation_is_for_the_tickets_of_the_sequencers_that_it_names() -> None:
    daemon = Daemon()
    first, second = daemon.gets(5), daemon.gets(6)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    daemon.is_told(stamp_after(place(3), 4), (PASSIVE, 6, 6), number=3, sequencer=4)
    daemon.hears(PASSIVE, (4, 8), lts=40 * ROUND)
    assert [daemon.ticket(entry).confirmed_lts for entry in (first, second)] == [0, 40 * ROUND]
    daemon.hears(PASSIVE, (4, 9), (SEQUENCER, 8), lts=50 * ROUND)
    assert [daemon.ticket(entry).confirmed_lts for entry in (first, second)] == [50 * ROUND, 40 * ROUND]


def test_an_older_confirmation_that_comes_again_changes_nothing() -> None:
    daemon = Daemon()
    daemon.hears(PASSIVE, (SEQUENCER, 9), lts=40 * ROUND)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=50 * ROUND)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=9)
    assert daemon.ticket(daemon.gets(5)).confirmed_lts == 40 * ROUND


def test_members_hear_nothing_of_a_change_of_role_so_that_its_ticket_needs_no_confirmation() -> None:
    daemon = Daemon()
    entry = daemon.gets(5, service=Service.RELIABLE, flags=Flag.ORDER)
    own = daemon.gets(6, daemon=ME, service=Service.RELIABLE, flags=Flag.ORDER)
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    assert (entry.place, own.place) == (place(0), place(1))
    assert entry.kept_until == own.kept_until == 0 and not daemon.book.to_confirm


# Our own confirmations ------------------------------------------------------------------------------------


def test_a_daemon_confirms_the_newest_tickets_of_its_own_bundles_once() -> None:
    daemon = Daemon(me=PASSIVE)
    for number in (5, 6, 7):
        daemon.gets(number)
    daemon.gets(8, daemon=3)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    daemon.is_told(place(2), (PASSIVE, 6, 6), number=9)
    daemon.is_told(stamp_after(place(3), 4), (PASSIVE, 7, 7), number=2, sequencer=4)
    daemon.is_told(place(6), (PASSIVE, 8, 8), number=12)  # not its own
    assert daemon.book.to_confirm
    assert daemon.book.confirmation() == Confirmation(((SEQUENCER, 9), (4, 2)))
    assert not daemon.book.to_confirm


def test_the_bundles_of_others_are_not_confirmed() -> None:
    daemon = Daemon()
    daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    assert not daemon.book.to_confirm


def test_older_tickets_that_are_matched_later_do_not_lower_what_is_confirmed() -> None:
    daemon = Daemon(me=PASSIVE)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    daemon.is_told(place(2), (PASSIVE, 6, 6), number=9)
    daemon.gets(6)
    daemon.gets(5)
    assert daemon.book.confirmation() == Confirmation(((SEQUENCER, 9),))


@pytest.mark.parametrize("service", [Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_a_confirmation_is_urgent_if_a_safe_bundle_waits_for_it(service: Service) -> None:
    daemon = Daemon(me=PASSIVE)
    daemon.gets(5, service=service)
    daemon.gets(6)
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    assert daemon.book.confirmation() == Confirmation(((SEQUENCER, 8),), service is Service.SAFE)
    daemon.gets(7)
    daemon.is_told(place(4), (PASSIVE, 7, 7), number=9)
    assert daemon.book.confirmation() == Confirmation(((SEQUENCER, 9),), False)


def test_a_safe_bundle_of_another_daemon_makes_nothing_urgent() -> None:
    daemon = Daemon(me=PASSIVE)
    daemon.gets(5)
    daemon.gets(6, daemon=3, service=Service.SAFE)
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    assert daemon.book.confirmation() == Confirmation(((SEQUENCER, 8),), False)


# Certain places, and safe bundles -------------------------------------------------------------------------


def test_a_place_is_certain_for_the_daemon_that_sent_the_bundle() -> None:
    daemon = Daemon(me=PASSIVE)
    own, other = daemon.gets(5), daemon.gets(6, daemon=3)
    daemon.is_told(place(0), (PASSIVE, 5, 6))
    assert daemon.book.is_certain(own, daemon.ticket(own), stable=0)
    assert not daemon.book.is_certain(other, daemon.ticket(other), stable=0)


def test_a_place_is_certain_once_its_sender_has_confirmed_it() -> None:
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    assert not daemon.book.is_certain(entry, daemon.ticket(entry), stable=0)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    assert daemon.book.is_certain(entry, daemon.ticket(entry), stable=0)


def test_a_place_is_certain_once_everybody_has_acknowledged_it() -> None:
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    ticket = daemon.ticket(entry)
    assert not daemon.book.is_certain(entry, ticket, stable=place(0) - 1)
    assert daemon.book.is_certain(entry, ticket, stable=place(0))


def test_the_first_unsafe_place_is_that_of_a_safe_bundle_whose_confirmation_is_not_everywhere() -> None:
    daemon = Daemon()
    entries = [daemon.gets(number, service=Service.SAFE) for number in (6, 7)]
    daemon.gets(5)  # agreed: it does not wait for that
    daemon.gets(8, service=Service.SAFE)  # has no place yet
    assert daemon.book.first_unsafe(stable=0) == 0
    daemon.is_told(place(0), (PASSIVE, 5, 6), number=8)
    daemon.is_told(place(4), (PASSIVE, 7, 7), number=9)
    assert daemon.book.first_unsafe(stable=0) == entries[0].place == place(1)
    assert daemon.book.first_unsafe(stable=place(9)) == place(1)  # acknowledged, and not confirmed
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    assert daemon.book.first_unsafe(stable=40 * ROUND - 1) == place(1)
    assert daemon.book.first_unsafe(stable=40 * ROUND) == entries[1].place == place(4)
    daemon.hears(PASSIVE, (SEQUENCER, 9), lts=50 * ROUND)
    assert daemon.book.first_unsafe(stable=50 * ROUND) == 0


def test_a_safe_bundle_that_was_delivered_is_not_unsafe() -> None:
    daemon = Daemon()
    first, second = (daemon.gets(number, service=Service.SAFE) for number in (5, 6))
    daemon.is_told(place(0), (PASSIVE, 5, 6))
    first.delivered = True
    assert daemon.book.first_unsafe(stable=0) == second.place == place(1)


def test_our_own_safe_bundle_waits_until_others_know_that_we_have_its_ticket() -> None:
    """Its place is certain here, and its confirmation is everywhere only once it came back."""
    daemon = Daemon(me=PASSIVE)
    daemon.gets(5, service=Service.SAFE)
    daemon.is_told(place(0), (PASSIVE, 5, 5), number=8)
    assert daemon.book.first_unsafe(stable=place(0)) == place(0)
    daemon.hears(PASSIVE, (SEQUENCER, 8), lts=40 * ROUND)
    assert daemon.book.first_unsafe(stable=40 * ROUND) == 0


# Forgetting -----------------------------------------------------------------------------------------------


def test_a_bundle_that_is_everywhere_is_forgotten_with_its_ticket() -> None:
    daemon = Daemon()
    entry, other = daemon.gets(5), daemon.gets(6)
    daemon.is_told(place(0), (PASSIVE, 5, 6))
    daemon.book.forget(entry)
    assert daemon.book.of(entry) is None and daemon.book.placed == {(PASSIVE, 6): other}
    assert len(daemon.book) == 1
    daemon.book.forget(entry)
    assert len(daemon.book) == 1


def test_forgetting_a_bundle_that_had_no_ticket_forgets_no_other() -> None:
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 5))
    plain = Entry(PASSIVE, Header(0, Service.FIFO, 0, b"", 1, 0, 2, 4, 7, 4, 4, 0, 4 * ROUND, 0, 7, 0), b"")
    daemon.book.forget(plain)
    assert daemon.ticket(entry).place == place(0)


def test_tickets_of_bundles_for_other_sites_are_forgotten_once_all_have_them() -> None:
    daemon = Daemon()
    daemon.come[PASSIVE] = 9
    daemon.is_told(place(0), (PASSIVE, 5, 6))
    daemon.book.forget_others(place(0) - 1)
    assert len(daemon.book) == 2
    daemon.book.forget_others(place(0))
    assert len(daemon.book) == 1
    daemon.book.forget_others(place(1))
    assert len(daemon.book) == 0


def test_a_ticket_whose_bundle_is_here_stays_as_long_as_that_does() -> None:
    """The bundle may wait for its confirmation long after all have the ticket."""
    daemon = Daemon()
    entry = daemon.gets(5)
    daemon.is_told(place(0), (PASSIVE, 5, 6))
    daemon.book.forget_others(place(9))
    assert daemon.ticket(entry).place == place(0) and len(daemon.book) == 1
    daemon.hears(PASSIVE, (SEQUENCER, 1), lts=40 * ROUND)
    assert daemon.ticket(entry).confirmed_lts == entry.kept_until == 40 * ROUND
    daemon.book.forget(entry)
    assert len(daemon.book) == 0 and not daemon.book.placed and not daemon.book.awaiting
