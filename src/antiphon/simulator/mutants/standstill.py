"""Mutants of the watchdogs: views that stand still, and daemons that are left out because of that."""

from typing import Any

from antiphon.core.membership.exclusions import Exclusions
from antiphon.core.membership.formation import Formation
from antiphon.core.stalls import Stalls
from antiphon.simulator.mutants.mutant import Mutant, Original

_NEVER_US = 1 << 62


def _never_looks(original: Original) -> Original:
    return lambda stalls, now_us: None


def _patience_without_end(original: Original) -> Original:
    """Each look finds a fresh reason to wait."""

    def look(stalls: Stalls, now_us: int) -> None:
        stalls._patience.clear()
        original(stalls, now_us)

    return look


def _forming_unwatched(original: Original) -> Original:
    """Time that passes counts as progress."""

    def watch(formation: Formation, now_us: int) -> None:
        formation.progress(now_us)
        original(formation, now_us)

    return watch


def _left_out_for_ever(original: Original) -> Original:
    def exclude(exclusions: Exclusions, daemon: int, *arguments: Any) -> None:
        original(exclusions, daemon, *arguments)
        exclusions._records[daemon].until_us = _NEVER_US

    return exclude


STANDSTILL: tuple[Mutant, ...] = (
    Mutant(
        "stall-unwatched", "a view in which something waits for ever is never ended",
        frozenset(("2.16", "2.17")), Stalls, "look", _never_looks, "poisoned",
        seeds=20, shown_by=16,
    ),
    Mutant(
        "stall-forgiven", "the time of a standstill begins anew with each look at it",
        frozenset(("2.16", "2.17")), Stalls, "look", _patience_without_end, "poisoned",
        seeds=20, shown_by=16,
    ),
    Mutant(
        "forming-unwatched", "a view that is being formed is never given up for lack of progress",
        frozenset(("2.16", "2.17")), Formation, "watch", _forming_unwatched, "poisoned",
        seeds=30, shown_by=20,
    ),
    Mutant(
        "left-out-for-ever", "a daemon because of which views stood still is never taken in again",
        frozenset(("2.16", "2.17")), Exclusions, "exclude", _left_out_for_ever, "poisoned",
        shown_by=7,
    ),
)  # fmt: skip
