"""Who gives tickets for which bundles, and when it stops."""

from antiphon.core.ordering.roles import Assignment, Roles
from antiphon.core.ordering.sequencer import Sequencer
from antiphon.core.ordering.told import Change, Reason, Wish


class Site:
    """Daemon 1, the sequencer of source 2, whose bundles have come up to a number."""

    def __init__(self) -> None:
        self.roles = Roles((1, 2, 3))
        self.come = {1: 0, 2: 0, 3: 0}
        self.sequencer = Sequencer(1, 1, self.roles, lambda source: self.come[source], lambda: 50 << 10)
        self.roles.take_effect(2, 4, Change(Wish.PASSIVE, 1, 0, Reason.RARE), 9_000, 0)

    def gives(self, come: int) -> list[tuple[int, int, int]]:
        """The runs of tickets that it gives when source 2 has come so far."""
        self.come[2] = come
        return list(self.sequencer.give_tickets().runs) if self.sequencer.has_wanted() else []


def test_it_gives_tickets_from_the_change_of_role_on() -> None:
    site = Site()
    assert site.gives(4) == []
    assert site.gives(6) == [(2, 5, 6)]
    assert site.gives(6) == []
    site.sequencer.exempt.add((2, 8))
    assert site.gives(9) == [(2, 7, 7), (2, 9, 9)]


def test_places_grow_and_leave_no_stamp_to_two_bundles() -> None:
    site = Site()
    site.come[2] = 6
    first = site.sequencer.give_tickets().place
    site.come[2] = 7
    second = site.sequencer.give_tickets().place
    assert (first, second) == (51 << 10 | 1, 53 << 10 | 1)
    assert site.sequencer.reserved.free_from(51) == 54


def test_it_stops_where_its_source_asks_for_a_change_whatever_that_asks_for_next() -> None:
    """Otherwise two could give tickets for the same bundles."""
    site = Site()
    site.sequencer.begins(2, 6)
    assert site.gives(8) == [(2, 5, 6)]
    site.sequencer.begins(2, 8)
    assert site.gives(9) == []
    site.sequencer.ends(2, 6)
    assert site.gives(9) == [(2, 7, 8)]
    site.sequencer.ends(2, 8)
    assert not site.sequencer.is_pending(2) and site.gives(9) == [(2, 9, 9)]


def test_it_gives_none_if_it_was_chosen_in_an_earlier_role() -> None:
    site = Site()
    site.roles[1].number = 2
    assert site.gives(9) == []
    site.roles.assign(2, Assignment(1, 2, 7, 9))
    assert site.gives(9) == [(2, 7, 9)]


def test_it_gives_none_while_its_own_role_changes_or_once_it_is_passive() -> None:
    site = Site()
    site.sequencer.is_changing = True
    assert site.gives(9) == []
    site.sequencer.is_changing = False
    site.roles.take_effect(1, 3, Change(Wish.PASSIVE, 3, 0, Reason.RARE), 9_500, 0)
    assert site.gives(9) == []
