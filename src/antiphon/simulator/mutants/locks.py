"""Broken locks and quorums."""

from typing import Any

from antiphon.core.groups import locks, quorum
from antiphon.core.groups.locks import Locks
from antiphon.core.groups.quorum import Quorum
from antiphon.simulator.mutants.mutant import Mutant, Original


def _nothing(original: Original) -> Original:
    return lambda *_: None


def _last_comes_first(original: Original) -> Original:
    def grant(table: Locks, lock: Any, fence: int) -> None:
        if lock.holder is None and len(lock.waiting) > 1:
            newest = list(lock.waiting)[-1]
            lock.waiting = {newest: None, **{one: None for one in lock.waiting if one != newest}}
        original(table, lock, fence)

    return grant


def _same_number(original: Original) -> Original:
    def grant(table: Locks, lock: Any, fence: int) -> None:
        original(table, lock, lock.fence or fence)

    return grant


def _without_a_new_number(original: Original) -> Original:
    def merged(parts: Any, fence: int, may_grant: bool) -> Locks:
        return original(parts, 1, may_grant)  # type: ignore[no-any-return]

    return merged


def _of_whatever_is_left(original: Original) -> Original:
    def lost(told: Quorum, members: Any) -> None:
        original(told, members)
        for base in told._bases:
            base.wishes = told._current()
        told._attempts = []
        told.look()

    return lost


def _always_certain(original: Original) -> Original:
    def decide(told: Quorum, place: int, is_certain: bool) -> None:
        original(told, place, True)

    return decide


def _numbers_alone(original: Original) -> Original:
    """More than half of the base in numbers, whoever they are."""
    return lambda base, current: 2 * len(current) > len(base.wishes)


def _newest_lineage_alone(original: Original) -> Original:
    def merged(parts: Any, members: Any, place: int) -> Quorum:
        newest = max(place for part in parts for place in part._decided.values())
        for part in parts:
            part._bases = [base for base in part._bases if newest in base.decided.values()]
        return original(parts, members, place)  # type: ignore[no-any-return]

    return merged


LOCKS: tuple[Mutant, ...] = (
    Mutant(
        "the last comes first", "a lock goes to the member that has waited for the shortest time",
        frozenset(("locks",)), Locks, "_grant", _last_comes_first, "locks",
    ),
    Mutant(
        "same number again", "the next holder of a lock has the number of the one before",
        frozenset(("locks",)), Locks, "_grant", _same_number, "locks",
    ),
    Mutant(
        "held without quorum", "a group that loses its quorum keeps the holders of its locks",
        frozenset(("locks",)), Locks, "stop", _nothing, "locks",
    ),
    Mutant(
        "numbers not raised by a merge", "after a merge the holder of a lock has a number that is no greater",
        frozenset(("locks",)), locks, "merged", _without_a_new_number, "locks", shown_by=3,
    ),
    Mutant(
        "a majority of whatever is left", "a part compares its size with its own after a loss",
        frozenset(("quorum",)), Quorum, "lost", _of_whatever_is_left, "locks",
    ),
    Mutant(
        "decided after the signal", "a decision counts although it came after the signal",
        frozenset(("quorum", "locks")), Quorum, "decide", _always_certain, "decisions", shown_by=1,
    ),
    Mutant(
        "newcomers vote", "members that have come since count for the half",
        frozenset(("quorum",)), quorum._Base, "has_enough", _numbers_alone, "locks", shown_by=7,
    ),
    Mutant(
        "the newest lineage alone", "a part that has just begun gives another its quorum when they merge",
        frozenset(("quorum", "locks")), quorum, "merged", _newest_lineage_alone, "locks", seeds=200,
        shown_by=181,
    ),
)  # fmt: skip
