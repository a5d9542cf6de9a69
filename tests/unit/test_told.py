"""What orders tell one another is read with limits."""

import pytest

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import number_of_round, stamp_after, stamp_at
from antiphon.core.ordering.told import (
    Change,
    Confirmation,
    Delivered,
    Reason,
    Reassignment,
    Seen,
    Tickets,
    Told,
    Wish,
    encode_told,
    parse_told,
)
from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire.bundle import Flag, Header

SOURCES = (0, 1, 2)
PLACE = stamp_after(0, 1)
LTS = 1 << 20
"""That of the bundles here."""
FIRST_TOO_FAR = number_of_round(LTS) + limits.PLACES_AHEAD_MAX


def entry_of(body: bytes, daemon: int = 1, lts: int = LTS) -> Entry:
    draft = bundles.draft(bundles.names_area("#", ()), 0, Service.RELIABLE, body, flags=Flag.ORDER)
    header = draft.header
    stamped = Header(
        header.length, header.service, header.flags, header.names, 1, 0, daemon, 0, 7, 0, 9, 0, lts, 0, 7, 0
    )
    bundles.stamp(draft.data, stamped)
    return Entry(1, stamped, draft.data)


@pytest.mark.parametrize(
    "told",
    [
        Tickets(PLACE, ((0, 1, 3), (0, 5, 5))),
        Tickets(PLACE, ((0, 1, limits.TICKETS_MAX),)),
        Tickets(stamp_at(FIRST_TOO_FAR - 1, 1), ((0, 1, 1),)),  # ahead of the sequencer's clock
        Confirmation(((2, 4),)),
        Confirmation(((1, 3), (2, 4)), is_urgent=True),
        Confirmation(()),
        Seen(((0, 3), (2, limits.COUNTER_MAX))),
        Change(Wish.PASSIVE, 2, 0, Reason.SILENT),
        Reassignment(3, 2, 1),
        Delivered(PLACE),
        Delivered(limits.COUNTER_MAX),
    ],
)
def test_what_is_told_is_read(told: Told):
    assert parse_told(entry_of(encode_told(told)), SOURCES) == told


@pytest.mark.parametrize(
    "told",
    [
        Tickets(PLACE, ()),
        Tickets(0, ((0, 1, 3),)),
        Tickets(PLACE, ((1, 1, 3),)),  # for itself
        Tickets(PLACE, ((3, 1, 3),)),
        Tickets(PLACE, ((0, 3, 1),)),
        Tickets(PLACE, ((0, 1, 3), (2, 5, 5))),  # of two sources
        Tickets(PLACE, ((0, 1, 1 + limits.TICKETS_MAX),)),
        Tickets(PLACE, ((0, 1, limits.TICKETS_MAX), (0, 1 << 20, 1 << 20))),
        Tickets(stamp_after(0, 2), ((0, 1, 1),)),  # stamps of another daemon
        Tickets(stamp_at(FIRST_TOO_FAR, 1), ((0, 1, 1),)),
        Tickets(stamp_at(FIRST_TOO_FAR - 1, 1), ((0, 1, 2),)),  # the second one is too far ahead
        Confirmation(((5, 4),)),
        Confirmation(((0, 0),)),
        Confirmation(((0, 1), (0, -1)), is_urgent=True),
        Confirmation(((0, limits.COUNTER_MAX + 1),)),
        Confirmation(((0, 1),) * (limits.DAEMONS_MAX + 1)),
        Seen(((5, 4),)),
        Seen(((-1, 4),)),
        Seen(((0, 1), (2, 0))),
        Seen(((0, -1),)),
        Seen(((0, limits.COUNTER_MAX + 1),)),
        Seen(((0, 1),) * (limits.DAEMONS_MAX + 1)),
        Change(Wish.PASSIVE, 4, 0, Reason.SILENT),
        Change(Wish.PASSIVE, 2, -1, Reason.SILENT),
        Reassignment(0, 2, 1),
        Reassignment(10, 2, 1),
    ],
)
def test_what_no_daemon_can_tell_is_refused(told: Told):
    with pytest.raises(BadFrame):
        parse_told(entry_of(encode_told(told)), SOURCES)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\x91\x09",
        encode_told([1, "x", []]),
        encode_told([3, 7, 0, 0, 0]),
        encode_told([2, [], 1]),  # urgent or not is true or false, and no number
        encode_told([2, [], None]),
        encode_told([5]),
        encode_told([5, 7]),
        encode_told([5, [[2]]]),
        encode_told([5, [[2, 3, 4]]]),
        encode_told([5, [[2, "x"]]]),
        encode_told([5, {"2": 3}]),
        encode_told([6, []]),
        encode_told(Seen(((0, 3),)))[:-1],
        encode_told(Seen(((0, 3),))) + b"\x00",
    ],
)
def test_bytes_that_are_nothing_are_refused(body: bytes):
    with pytest.raises(BadFrame):
        parse_told(entry_of(body), SOURCES)


def test_only_representatives_give_tickets_and_change_roles():
    for told in (Tickets(PLACE, ((0, 1, 3),)), Change(Wish.ACTIVE, 1, 0, Reason.BUSY), Reassignment(3, 2, 1)):
        with pytest.raises(BadFrame, match="representative"):
            parse_told(entry_of(encode_told(told), daemon=3), SOURCES)


def test_what_any_daemon_of_a_segment_may_tell():
    """Each daemon has tickets of its own bundles, and has got loose ones itself."""
    for told in (Confirmation(((2, 4),), is_urgent=True), Seen(((2, 4),))):
        assert parse_told(entry_of(encode_told(told), daemon=3), SOURCES) == told


@pytest.mark.parametrize(
    ("told", "body"),
    [
        (Confirmation(((1, 3), (2, 300))), "93 02 92 92 01 03 92 02 CD012C C2"),
        (Confirmation(((2, 4),), is_urgent=True), "93 02 91 92 02 04 C3"),
        (Seen(((2, 4), (0, 1))), "92 05 92 92 02 04 92 00 01"),
    ],
)
def test_confirmations_and_what_was_seen_on_the_wire(told: Told, body: str):
    assert encode_told(told) == bytes.fromhex(body)
    assert parse_told(entry_of(bytes.fromhex(body)), SOURCES) == told


def test_a_confirmation_is_not_urgent_unless_it_says_so():
    assert parse_told(entry_of(bytes.fromhex("92 02 91 92 02 04")), SOURCES) == Confirmation(((2, 4),), False)


def test_a_view_has_no_more_sources_than_there_may_be_daemons():
    """The bound of what is refused above is exact."""
    seen = Seen(((0, 1),) * limits.DAEMONS_MAX)
    assert parse_told(entry_of(encode_told(seen)), SOURCES) == seen


@pytest.mark.parametrize("place", [0, -1, limits.COUNTER_MAX + 1])
def test_nothing_is_delivered_up_to_an_impossible_place(place: int):
    with pytest.raises(BadFrame, match="order: impossible numbers"):
        parse_told(entry_of(encode_told(Delivered(place))), SOURCES)


def test_any_daemon_of_a_segment_tells_what_it_has_delivered():
    told = Delivered(PLACE)
    assert parse_told(entry_of(encode_told(told), daemon=2), SOURCES) == told
    assert encode_told(told) == bytes.fromhex("9206CD0401")
