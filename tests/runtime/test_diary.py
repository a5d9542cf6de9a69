"""Diaries: names that several sessions bore mean the right ones in the trace."""

from diary import Diary, merge

from antiphon import Left, View
from antiphon.trace import Event
from antiphon.types import Cause, ViewId

GROUP = "red"


def view(number: ViewId, cause: Cause, members: list[str], changed: list[str]) -> View:
    return View(GROUP, number, tuple(members), (), cause, tuple(changed))


def told(diaries: list[Diary]) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """By process, the members of its views and who changed them."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for record in merge(1, ("d1", "d2"), diaries).records:
        if record.event is Event.VIEW:
            found.setdefault(record.process, []).append((record.members, record.changed))
    return found


def test_a_name_means_who_joined_with_it_last() -> None:
    ada, bob = Diary("#ada#d1", "d1", 0, 5, 1), Diary("#bob#d2", "d2", 1, 6, 1)
    ada.took(view(ViewId(1, 0, 1, 0), Cause.JOIN, ["#ada#d1"], ["#ada#d1"]))
    for diary in (ada, bob):
        diary.took(view(ViewId(1, 0, 2, 1), Cause.JOIN, ["#ada#d1", "#bob#d2"], ["#bob#d2"]))
    ada.took(Left(GROUP, ViewId(1, 0, 3, 0)))
    bob.took(view(ViewId(1, 0, 3, 0), Cause.LEAVE, ["#bob#d2"], ["#ada#d1"]))
    ada.disconnect()
    heir = Diary("#ada#d1", "d1", 0, 5, 2)
    for diary in (heir, bob):
        diary.took(view(ViewId(1, 0, 4, 0), Cause.JOIN, ["#bob#d2", "#ada#d1"], ["#ada#d1"]))
    assert told([ada, bob, heir]) == {
        "#ada#d1": [(("#ada#d1",), ("#ada#d1",)), (("#ada#d1", "#bob#d2"), ("#bob#d2",))],
        "#bob#d2": [
            (("#ada#d1", "#bob#d2"), ("#bob#d2",)),
            (("#bob#d2",), ("#ada#d1",)),
            (("#bob#d2", "#ada!2#d1"), ("#ada!2#d1",)),
        ],
        "#ada!2#d1": [(("#bob#d2", "#ada!2#d1"), ("#ada!2#d1",))],
    }


def test_on_the_other_side_of_a_cut_a_name_means_who_bore_it_before() -> None:
    ada, bob = Diary("#ada#d1", "d1", 0, 5, 1), Diary("#bob#d2", "d2", 1, 6, 1)
    both = ["#ada#d1", "#bob#d2"]
    for diary in (ada, bob):
        diary.took(view(ViewId(1, 0, 1, 0), Cause.JOIN, both, ["#bob#d2"]))
    ada.entries[-1][2].changed = ("#ada#d1",)  # as if both had joined at once
    ada.disconnect()
    heir, eve = Diary("#ada#d1", "d1", 0, 5, 2), Diary("#eve#d2", "d2", 1, 6, 2)
    heir.took(view(ViewId(1, 7, 3, 0), Cause.JOIN, both, ["#ada#d1"]))
    for diary in (bob, eve):
        diary.took(view(ViewId(1, 8, 4, 1), Cause.JOIN, [*both, "#eve#d2"], ["#eve#d2"]))
        diary.took(view(ViewId(8, 0, 0, 1), Cause.NETWORK, ["#bob#d2", "#eve#d2"], ["#ada#d1"]))
        diary.took(view(ViewId(9, 0, 0, 1), Cause.MERGE, [*both, "#eve#d2"], ["#ada#d1"]))
    after_the_cut = [
        (("#ada#d1", "#bob#d2", "#eve#d2"), ("#eve#d2",)),
        (("#bob#d2", "#eve#d2"), ("#ada#d1",)),
        (("#ada!2#d1", "#bob#d2", "#eve#d2"), ("#ada!2#d1",)),
    ]
    found = told([ada, bob, heir, eve])
    assert found["#eve#d2"] == after_the_cut
    assert found["#bob#d2"][1:] == after_the_cut
    assert found["#ada!2#d1"] == [(("#ada!2#d1", "#bob#d2"), ("#ada!2#d1",))]
