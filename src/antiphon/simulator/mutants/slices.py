"""Mutants of work that is cut into slices, and of departures that are told together."""

from collections import deque
from collections.abc import Callable

from antiphon.core.groups.merging import Merging
from antiphon.core.groups.regrouping import Regrouping
from antiphon.core.ordering.entry import Entry
from antiphon.simulator.mutants.mutant import Mutant, Original
from antiphon.wire.bundle import Flag
from antiphon.wire.events import GroupEvent, HostedGroup

Member = tuple[int, int]


def _left_undone(original: Original) -> Original:
    """What is left to do when a view stops is not done."""

    def finish(regrouping: Regrouping) -> None:
        if regrouping._work is not None:
            regrouping._complete()
        original(regrouping)

    return finish


def _delivers_between_slices(original: Original) -> Original:
    def deliver(regrouping: Regrouping, ready: deque[Entry], deliver: Callable[[Entry], None]) -> bool:
        if not regrouping.is_blocking:
            return bool(original(regrouping, ready, deliver))
        while ready and not ready[0].header.flags & Flag.GROUPS:
            deliver(ready.popleft())
        return not ready

    return deliver


def _first_part_taken_for_all(original: Original) -> Original:
    def add(merging: Merging, daemon: int, groups: tuple[HostedGroup, ...], is_last: bool) -> bool:
        return bool(original(merging, daemon, groups, True))

    return add


def _one_of_the_departed(original: Original) -> Original:
    """The last one of the sessions that end together stays."""

    def departed(event: GroupEvent, sender: Member) -> tuple[Member, ...]:
        members: tuple[Member, ...] = original(event, sender)
        return members[:-1] if len(members) > 1 else members

    return departed


SLICES: tuple[Mutant, ...] = (
    Mutant(
        "left undone", "what was left to do for groups when a view stopped is forgotten",
        frozenset(("2.4", "2.7", "2.10", "2.17", "2.20")), Regrouping, "finish", _left_undone, "slices",
        shown_by=3,
    ),
    Mutant(
        "delivers between slices", "messages of a view are delivered before all clients know of the view",
        frozenset(("2.4", "2.7", "2.10", "2.20")), Regrouping, "deliver", _delivers_between_slices, "slices",
        shown_by=1,
    ),
    Mutant(
        "first part taken for all", "groups are put together before a daemon has told all of its members",
        frozenset(("2.2", "2.17", "2.20")), Merging, "add", _first_part_taken_for_all, "slices",
    ),
    Mutant(
        "one of the departed stays", "of sessions that end together one stays in its groups",
        frozenset(("2.2", "2.8", "2.17", "2.20")), GroupEvent, "departed", _one_of_the_departed, "slices",
    ),
)  # fmt: skip
