"""What orders tell one another is read with limits."""

import pytest

from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import stamp_after
from antiphon.core.ordering.told import (
    Change,
    Confirmation,
    Reason,
    Reassignment,
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


def entry_of(body: bytes, daemon: int = 1, lts: int = 1 << 20) -> Entry:
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
        Tickets(PLACE, ((0, 1, 3), (2, 5, 5))),
        Confirmation(((2, 4),)),
        Change(Wish.PASSIVE, 2, 0, Reason.SILENT),
        Reassignment(3, 2, 1),
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
        Tickets(PLACE, ((0, 1, 1 << 21),)),  # more places than there are before the bundle
        Tickets(stamp_after(0, 2), ((0, 1, 1),)),  # stamps of another daemon
        Tickets(stamp_after(1 << 20, 1), ((0, 1, 1),)),
        Confirmation(((5, 4),)),
        Confirmation(((0, 0),)),
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
    "body", [b"", b"\xc1", b"\x90", b"\x91\x09", encode_told([1, "x", []]), encode_told([3, 7, 0, 0, 0])]
)
def test_bytes_that_are_nothing_are_refused(body: bytes):
    with pytest.raises(BadFrame):
        parse_told(entry_of(body), SOURCES)


def test_only_representatives_give_tickets_and_change_roles():
    for told in (Tickets(PLACE, ((0, 1, 3),)), Change(Wish.ACTIVE, 1, 0, Reason.BUSY), Reassignment(3, 2, 1)):
        with pytest.raises(BadFrame, match="representative"):
            parse_told(entry_of(encode_told(told), daemon=3), SOURCES)
