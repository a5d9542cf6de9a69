"""The bounds of what may come in a view."""

import pytest

from antiphon import limits
from antiphon.core.ordering.plausible import NUMBER, STAMP, Reach
from antiphon.core.ordering.symmetric import SymmetricOrder
from antiphon.errors import BadPacket
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.packet import Data, Fragment, Head, Item, PacketKind, Skip, Update

VIEW = 56 * 365 * 86_400_000_000 << 10
NOW_US = 5_000_000


def reach(segments: tuple[tuple[int, ...], ...] = ((0,), (1,), (2,))) -> Reach:
    """Of daemon 0, which has everything of all others up to number 0."""
    order = SymmetricOrder(4, 0, segments, VIEW, VIEW + 500)
    source_of = {daemon: segment[0] for segment in segments for daemon in segment}
    return Reach(order, source_of, VIEW, NOW_US)


def check(
    item: Item, *, bounds: Reach | None = None, kind: PacketKind = PacketKind.DATA, from_site: bool = False
) -> str:
    head = Head(kind, 7, 1, 0, 101, VIEW, 1, 1)
    try:
        (bounds or reach()).check(Data(head, 1, [item], 100), from_site, NOW_US)
    except BadPacket as error:
        return error.reason
    return ""


def fragment(number: int = 1, lts: int = VIEW + 1, aru: int = VIEW, source: int = 1) -> Fragment:
    data = bytearray(b"".join(bundle.encode(bundle.names_area("#a#d1", ["g"]), 1, Service.AGREED, [b"x"])))
    data[48:64] = lts.to_bytes(8) + aru.to_bytes(8)
    return Fragment(source, number, 1, len(data), 0, data)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (fragment(), ""),
        (fragment(number=limits.OUTSTANDING_MAX), ""),
        (fragment(number=limits.OUTSTANDING_MAX + 1), NUMBER),
        (fragment(lts=VIEW + limits.LTS_LEAD), ""),
        (fragment(lts=VIEW + limits.LTS_LEAD + 1), STAMP),
        (fragment(aru=VIEW + limits.LTS_LEAD), ""),
        (fragment(aru=VIEW + limits.LTS_LEAD + 1), STAMP),
        (fragment(source=0), "item: impossible source"),
        (fragment(source=3), "item: impossible source"),
        (Fragment(1, 1, 1, 100, 0, b"too short for a header"), "bundle: shorter than its header"),
        (Fragment(1, limits.OUTSTANDING_MAX + 1, 1, 100, 7, b"the middle"), NUMBER),
        (Update(1, 1, 0, VIEW, VIEW), ""),
        (Update(1, 1, limits.OUTSTANDING_MAX + 1, VIEW, VIEW), NUMBER),
        (Update(1, 1, 0, limits.COUNTER_MAX, VIEW), STAMP),
        (Update(1, 1, 0, VIEW, VIEW + limits.LTS_LEAD + 1), STAMP),
        (Skip(1, 1, limits.OUTSTANDING_MAX, VIEW + 1, VIEW), ""),
        (Skip(1, 1, limits.OUTSTANDING_MAX + 1, VIEW + 1, VIEW), NUMBER),
        (Skip(1, 1, 1, VIEW + limits.LTS_LEAD + 1, VIEW), STAMP),
        (Skip(1, 1, 1, VIEW + 1, limits.COUNTER_MAX), STAMP),
    ],
)
def test_an_item_is_within_what_its_source_can_have_done(item: Item, reason: str) -> None:
    assert check(item) == reason


def test_time_lets_stamps_grow() -> None:
    bounds = reach()
    far = VIEW + limits.LTS_LEAD + 1_000_000 * limits.LTS_PER_US
    assert bounds.stamp(NOW_US + 1_000_000) == far
    assert bounds.stamp(NOW_US) < far


def test_numbers_of_unreliable_bundles_are_not_bounded_but_their_stamps_are() -> None:
    kind = PacketKind.UNRELIABLE
    assert check(fragment(number=1 << 60), kind=kind) == ""
    assert check(fragment(lts=limits.COUNTER_MAX), kind=kind) == STAMP


def test_bundles_of_our_own_source_come_over_the_ring_only() -> None:
    bounds = reach(((0, 3), (1,)))
    assert check(fragment(source=0), bounds=bounds) == "item: impossible source"
    assert check(fragment(source=0), bounds=bounds, from_site=True) == ""
    assert check(fragment(source=3), bounds=bounds, from_site=True) == "item: impossible source"


@pytest.mark.parametrize(
    ("number", "lts", "aru"),
    [
        (limits.OUTSTANDING_MAX + 1, VIEW, VIEW),
        (0, VIEW + limits.LTS_LEAD + 1, VIEW),
        (0, VIEW, VIEW + limits.LTS_LEAD + 1),
    ],
)
def test_a_token_is_within_what_its_ring_can_have_done(number: int, lts: int, aru: int) -> None:
    bounds = reach(((0, 3), (1,)))
    bounds.check_numbering(limits.OUTSTANDING_MAX, VIEW, VIEW, NOW_US)
    with pytest.raises(BadPacket, match="token: "):
        bounds.check_numbering(number, lts, aru, NOW_US)
