"""Views have short names for people, and no two views of one output have the same."""

import random

import pytest

from antiphon import short_views
from antiphon.short_views import ShortViews
from antiphon.types import ViewId

EPOCH = 1_826_384_838_276_352_001


def test_names_are_ends_of_identifiers_and_differ_however_many_there_are() -> None:
    chance = random.Random(7)
    views = ShortViews()
    ids = {ViewId(EPOCH, 0, EPOCH + 1_024 * chance.randrange(10**10) + 2, 2) for _ in range(3_000)}
    names = {view: views.of(view) for view in ids}
    assert len(set(names.values())) == len(ids)
    assert all(str(view.lts).endswith(name) for view, name in names.items())
    assert sum(map(len, names.values())) < 7 * len(names)
    assert {view: views.of(view) for view in ids} == names


def test_the_two_sides_of_a_cut_are_told_apart() -> None:
    before = ViewId(EPOCH, 0, EPOCH + 77, 2)
    after = ViewId(EPOCH, EPOCH + 5_000, EPOCH + 77, 2)
    assert ShortViews().of(before) == "352078"
    assert ShortViews().of(after) == "352078-357001"


def test_views_that_differ_in_nothing_that_is_short_have_whole_names() -> None:
    first, second = (ViewId(epoch, 0, EPOCH, 2) for epoch in (EPOCH - 2_048, EPOCH - 1_024))
    views = ShortViews()
    names = [views.of(first), *(views.of(second) for _ in range(2))]
    assert names[0] == "352001"
    assert len({*names}) == 2 and names[1] == names[2]
    for number in range(10):
        third = ViewId(EPOCH, number, 5, 1)
        assert views.of(third) == views.of(third)


def test_a_short_identifier_may_be_the_end_of_others() -> None:
    views = ShortViews()
    ids = [111_345_678, 912_345_678, 12_345_678, 345_678]
    assert [views.of(view) for view in ids] == ["345678", "12345678", "=12345678", "=345678"]


def test_sentences_of_the_oracle_become_short() -> None:
    views = ShortViews()
    told = f"view ({EPOCH}, {EPOCH + 9}, {EPOCH + 7}, 3) of g2 came after {EPOCH}.0.{EPOCH + 5}.3, "
    assert (
        views.within(told + f"daemon view {EPOCH}")
        == "view 352008-352010 of g2 came after 352006, daemon view 352001"
    )
    for untouched in ("at 10.0.0.7:4803", "positions: 1234567, 8", "view of g0", "tea.0.1.2"):
        assert views.within(untouched) == untouched


def test_a_log_that_goes_on_for_years_remembers_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_views, "_REMEMBERED", 100)
    views = ShortViews()
    for number in range(1_000):
        views.of(EPOCH + number * 1_000_000)
    assert len(views._names) == len(views._owners) == 100
