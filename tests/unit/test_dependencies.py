"""Loose bundles: who got one says so, and what comes after it waits for it."""

from collections import Counter

import pytest

from antiphon import limits
from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.dependencies import Dependencies
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.told import Newest, Seen, encode_told
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire.after import After, Loose, after_of, extension
from antiphon.wire.bundle import Flag, Header
from antiphon.wire.extensions import Extension

ROUND = 1_024


class Daemon:
    """A daemon, and how many bundles of each source have come to it without a gap."""

    def __init__(self) -> None:
        self.come: Counter[int] = Counter()
        self.dependencies = Dependencies(0, lambda source: self.come[source])

    def gets(self, source: int, number: int, lts: int, *, is_loose: bool = True) -> None:
        """A bundle of a source comes in."""
        self.come[source] = max(self.come[source], number)
        entry = Entry(source, _header(source, number, lts), b"")
        self.dependencies.came(entry, After(is_loose, ()))

    def gets_unreliable(self, *needs: Loose) -> None:
        """An unreliable bundle comes in that names some others."""
        self.gets_from(extension(After(False, needs)) if needs else None)

    def gets_from(self, said: Extension | None) -> None:
        """An unreliable bundle comes in with what its daemon wrote into its header."""
        fields = () if said is None else (said,)
        self.dependencies.saw_unreliable(_header(9, 1, 99 * ROUND, fields))

    def hears(self, lts: int, *seen: Newest) -> None:
        """Some daemon says in a bundle with this lts what it has got."""
        self.dependencies.need(lts, seen)

    def tells(self, stable: int = 0) -> set[Newest]:
        """What it tells before its next bundle for members."""
        told = self.dependencies.untold(stable)
        self.dependencies.told()
        assert len(told) == len(set(told))
        return set(told)

    def names(self, own: Loose | None = None) -> After | None:
        """What its next unreliable bundle names."""
        said = self.dependencies.named(own)
        return None if said is None else after_of(_header(0, 1, ROUND, (said,)))

    def delivers(self, place: int) -> bool:
        """Whether what has this place waits for no loose bundle."""
        return self.dependencies.is_met(place)


def _header(source: int, number: int, lts: int, fields: tuple[Extension, ...] = (), flags: int = 0) -> Header:
    return Header(
        0, Service.FIFO, flags, b"", 1, 0, source, 4, 7, number, number, 0, lts, 0, 7, 0, extensions=fields
    )


# Telling --------------------------------------------------------------------------------------------------


def test_a_loose_bundle_is_told_once() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    assert daemon.tells() == {(2, 5)}
    assert daemon.tells() == set()


def test_asking_what_is_to_be_told_does_not_tell_it() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    assert daemon.dependencies.untold(0) == daemon.dependencies.untold(0) == ((2, 5),)


def test_a_bundle_that_is_not_loose_is_not_told() -> None:
    """It has its ticket, or its source is waited for; what it names is for those who get it unreliably."""
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND, is_loose=False)
    assert daemon.tells() == set()


def test_the_newest_one_of_a_source_stands_for_all_before_it() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    daemon.gets(2, 7, 7 * ROUND)
    daemon.gets(3, 1, 8 * ROUND)
    assert daemon.tells() == {(2, 7), (3, 1)}


def test_an_earlier_one_that_comes_late_takes_nothing_back() -> None:
    """Packets overtake one another. That the earlier one is stable does not make the later one stable."""
    daemon = Daemon()
    daemon.gets(2, 7, 7 * ROUND)
    daemon.gets(2, 5, 5 * ROUND)
    assert daemon.dependencies.untold(5 * ROUND) == ((2, 7),)


def test_one_that_comes_after_the_telling_is_told_the_next_time() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    daemon.tells()
    daemon.gets(2, 6, 6 * ROUND)
    assert daemon.tells() == {(2, 6)}


def test_what_is_stable_is_everywhere_and_is_not_told() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    daemon.gets(3, 1, 8 * ROUND)
    assert daemon.dependencies.untold(5 * ROUND - 1) == ((2, 5), (3, 1))
    assert daemon.dependencies.untold(5 * ROUND) == ((3, 1),)
    assert daemon.tells(stable=8 * ROUND) == set()
    assert daemon.tells(stable=0) == set()  # it is done with, as if it had been told


# Waiting --------------------------------------------------------------------------------------------------


def test_what_has_an_earlier_place_than_the_telling_does_not_wait() -> None:
    daemon = Daemon()
    daemon.hears(10 * ROUND, (2, 5))
    assert daemon.delivers(9 * ROUND)
    assert daemon.delivers(10 * ROUND)
    assert not daemon.delivers(10 * ROUND + 1)


def test_what_has_a_later_place_waits_until_the_source_has_come_without_a_gap() -> None:
    daemon = Daemon()
    daemon.hears(10 * ROUND, (2, 5))
    for come in range(5):
        daemon.come[2] = come
        assert not daemon.delivers(11 * ROUND)
    daemon.come[2] = 5
    assert daemon.delivers(11 * ROUND)


def test_a_loose_bundle_that_came_beyond_a_gap_is_not_enough() -> None:
    """What its source sent before it comes first, too."""
    daemon = Daemon()
    daemon.come[2] = 3
    entry = Entry(2, _header(2, 5, 5 * ROUND), b"")
    daemon.dependencies.came(entry, After(True, ()))
    daemon.hears(10 * ROUND, (2, 5))
    assert not daemon.delivers(11 * ROUND)
    daemon.come[2] = 5
    assert daemon.delivers(11 * ROUND)


def test_nothing_waits_for_what_has_come_before_it_was_told() -> None:
    daemon = Daemon()
    daemon.come[2] = 5
    daemon.hears(10 * ROUND, (2, 5))
    assert daemon.delivers(11 * ROUND)
    daemon.hears(12 * ROUND, (2, 6))
    assert daemon.delivers(12 * ROUND) and not daemon.delivers(13 * ROUND)


def test_all_that_one_telling_names_is_waited_for() -> None:
    daemon = Daemon()
    daemon.hears(10 * ROUND, (2, 5), (3, 1), (4, 8))
    for source, number in ((4, 8), (2, 5)):
        daemon.come[source] = number
        assert not daemon.delivers(11 * ROUND)
    daemon.come[3] = 1
    assert daemon.delivers(11 * ROUND)


def test_tellings_hold_back_what_comes_after_them_whatever_the_order_in_which_they_come() -> None:
    daemon = Daemon()
    daemon.hears(20 * ROUND, (2, 5))
    daemon.hears(10 * ROUND, (3, 1))
    daemon.hears(15 * ROUND, (2, 4))
    assert daemon.delivers(10 * ROUND) and not daemon.delivers(11 * ROUND)
    daemon.come[3] = 1
    assert daemon.delivers(15 * ROUND) and not daemon.delivers(16 * ROUND)
    daemon.come[2] = 4
    assert daemon.delivers(20 * ROUND) and not daemon.delivers(21 * ROUND)
    daemon.come[2] = 5
    assert daemon.delivers(21 * ROUND)


def test_a_later_telling_that_is_met_does_not_hide_an_earlier_one_that_is_not() -> None:
    daemon = Daemon()
    daemon.hears(10 * ROUND, (3, 1))
    daemon.hears(20 * ROUND, (2, 5))
    daemon.come[2] = 5
    assert not daemon.delivers(21 * ROUND)


def test_nothing_may_have_to_wait_before_something_was_told_that_has_not_come_nor_once_it_has() -> None:
    daemon = Daemon()
    daemon.come[2] = 5
    daemon.hears(10 * ROUND, (2, 5))
    assert not daemon.dependencies.has_needs
    daemon.hears(12 * ROUND, (2, 6))
    assert daemon.dependencies.has_needs
    daemon.come[2] = 6
    assert daemon.delivers(12 * ROUND) and daemon.dependencies.has_needs  # that place is before the telling
    assert daemon.delivers(13 * ROUND) and not daemon.dependencies.has_needs


# Unreliable bundles ---------------------------------------------------------------------------------------


def test_an_unreliable_bundle_names_all_that_was_not_told_and_this_tells_nothing() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND)
    daemon.gets(3, 1, 8 * ROUND)
    names = After(False, (Loose(2, 5, 5 * ROUND), Loose(3, 1, 8 * ROUND)))
    assert daemon.names() == names
    assert daemon.names() == names  # the first one may be lost
    assert daemon.tells() == {(2, 5), (3, 1)}


def test_who_gets_an_unreliable_bundle_tells_all_that_it_names() -> None:
    """Its receiver may send what comes after these, and need not have got them itself."""
    daemon = Daemon()
    daemon.gets_unreliable(Loose(2, 5, 5 * ROUND), Loose(3, 1, 8 * ROUND))
    assert daemon.tells() == {(2, 5), (3, 1)}
    assert daemon.tells() == set()


def test_what_an_unreliable_bundle_names_is_passed_on_from_one_to_the_next() -> None:
    first, second, third = Daemon(), Daemon(), Daemon()
    first.gets(2, 5, 5 * ROUND)
    second.gets_from(first.dependencies.named(None))
    second.gets(3, 1, 8 * ROUND)
    third.gets_from(second.dependencies.named(None))
    assert third.dependencies.untold(5 * ROUND) == ((3, 1),)  # the stamps are passed on, too
    assert third.tells() == {(2, 5), (3, 1)}


def test_an_unreliable_bundle_that_names_older_ones_takes_nothing_back() -> None:
    daemon = Daemon()
    daemon.gets(2, 7, 7 * ROUND)
    daemon.gets_unreliable(Loose(2, 5, 5 * ROUND))
    assert daemon.dependencies.untold(5 * ROUND) == ((2, 7),)


def test_an_unreliable_bundle_is_itself_no_bundle_that_anything_waits_for() -> None:
    daemon = Daemon()
    daemon.gets_unreliable()
    assert daemon.tells() == set()


def test_an_unreliable_bundle_of_a_passive_source_names_what_is_under_way_of_it() -> None:
    daemon = Daemon()
    own = Loose(0, 9, 9 * ROUND)
    assert daemon.names(own) == After(False, (own,))


def test_what_our_own_source_sends_is_not_told() -> None:
    daemon = Daemon()
    daemon.gets(0, 5, 5 * ROUND)
    assert daemon.tells() == set()


def test_too_many_sources_to_name_are_waited_for_until_they_are_stable() -> None:
    daemon = Daemon()
    for source in range(1, limits.AFTER_SOURCES_MAX + 1):
        daemon.gets(source, 1, source * ROUND)
    assert not daemon.dependencies.has_room(0)
    assert daemon.dependencies.has_room(ROUND)


# Where nothing is loose -----------------------------------------------------------------------------------


def test_nothing_is_said_where_nothing_is_loose() -> None:
    daemon = Daemon()
    daemon.gets(2, 5, 5 * ROUND, is_loose=False)
    assert daemon.names() is None
    assert daemon.tells() == set()
    assert daemon.delivers(1 << 60)


# In an order ----------------------------------------------------------------------------------------------


def loose(source: int, number: int, *needs: Loose) -> Entry:
    lts = number * ROUND | source
    return Entry(source, _header(source, number, lts, (extension(After(True, needs)),)), b"x")


def test_an_order_tells_before_the_next_bundle_for_members_and_not_before_those_of_orders() -> None:
    order = AdaptiveOrder(3, 0)
    order.receive(loose(1, 1))
    assert order.told_before(_header(0, 1, ROUND, flags=Flag.ORDER)) is None
    assert order.told_before(_header(0, 2, ROUND)) == encode_told(Seen(((1, 1),)))
    assert order.told_before(_header(0, 3, ROUND)) is None


def test_joins_come_after_loose_bundles_too() -> None:
    order = AdaptiveOrder(3, 0)
    order.receive(loose(1, 1))
    assert order.told_before(_header(0, 1, ROUND, flags=Flag.EVENT)) == encode_told(Seen(((1, 1),)))


def test_an_order_that_is_over_tells_nothing() -> None:
    order = AdaptiveOrder(3, 0)
    order.receive(loose(1, 1))
    order.stop()
    assert order.told_before(_header(0, 1, ROUND)) is None


@pytest.mark.parametrize("is_unreliable", [False, True])
def test_a_bundle_that_names_a_daemon_which_is_no_source_of_the_view_is_refused(is_unreliable: bool) -> None:
    order = AdaptiveOrder(4, 0, ((0,), (1, 2), (3,)))
    entry = loose(1, 1, Loose(2, 1, ROUND))
    with pytest.raises(BadFrame, match="after: not a source of the view"):
        if is_unreliable:
            order.saw_unreliable(entry.header)
        else:
            order.receive(entry)
    assert order.contiguous(1) == 0 and order.dependencies.untold(0) == ()
