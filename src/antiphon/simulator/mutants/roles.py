"""Broken adaptive orders: roles, tickets, confirmations, places. What no seed shows has tests of its own."""

from typing import Any

from antiphon.core.ordering.adaptive_ending import PlacedRuns
from antiphon.core.ordering.adaptive_lines import AdaptiveLines
from antiphon.core.ordering.ahead import Reservations
from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.core.ordering.tickets import TicketBook
from antiphon.simulator.mutants.mutant import Mutant, Original


def _always(right: Any) -> Any:
    return lambda *_: True


def _never(right: Any) -> Any:
    return property(lambda _: False)


def _skips_one(original: Original) -> Original:
    """Bundles whose numbers are multiples of five are taken to have no certain place."""

    def place_of(runs: PlacedRuns, source: int, number: int) -> int | None:
        place: int | None = original(runs, source, number)
        return None if number % 5 == 0 else place

    return place_of


def _as_agreed(right: Any) -> Any:
    return property(lambda lines: lines.agreed)


def _without_a_note(original: Original) -> Original:
    def take(reserved: Reservations, first: int, count: int) -> int:
        return first

    return take


ROLES: tuple[Mutant, ...] = (
    Mutant(
        "not confirmed", "bundles with tickets are delivered before their senders have these",
        frozenset(("2.13",)), TicketBook, "is_certain", _always, "restless", seeds=31, shown_by=30,
    ),
    Mutant(
        "not reassigned", "a source whose sequencer became passive does not choose another one",
        frozenset(("2.10", "2.15", "2.17", "standstill")), RoleChanges, "must_reassign", _never, "restless",
        shown_by=4,
    ),
    Mutant(
        "a hole in the places", "some places that senders knew are forgotten at the end of a view",
        frozenset(("2.12", "2.13")), PlacedRuns, "place_of", _skips_one, "restless", shown_by=4,
    ),
    Mutant(
        "joins wait for active sources alone", "a join has its turn before bundles that were born before it",
        frozenset(("2.7", "2.9", "2.10", "2.11", "2.12")), AdaptiveLines, "come", _as_agreed, "restless",
        seeds=32, shown_by=31,
    ),
    Mutant(
        "places are not reserved", "a sequencer's own bundle gets the place that a ticket has",
        frozenset(("2.13", "2.16", "standstill")), Reservations, "take", _without_a_note, "restless",
        seeds=16, shown_by=15,
    ),
)  # fmt: skip
