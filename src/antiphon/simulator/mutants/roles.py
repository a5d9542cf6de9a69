"""Broken adaptive orders: roles, tickets, confirmations, places, and what must have come before them."""

from typing import Any

from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.adaptive_ending import PlacedRuns
from antiphon.core.ordering.adaptive_lines import AdaptiveLines
from antiphon.core.ordering.ahead import Reservations
from antiphon.core.ordering.role_changes import RoleChanges
from antiphon.core.ordering.sequencer import Sequencer
from antiphon.core.ordering.tickets import TicketBook
from antiphon.simulator.mutants.mutant import Mutant, Original


def _always(right: Any) -> Any:
    return lambda *_: True


def _nothing(right: Any) -> Any:
    return lambda *_: None


def _zero(right: Any) -> Any:
    return lambda *_: 0


def _never(right: Any) -> Any:
    return property(lambda _: False)


def _gives_for_all_that_has_come(original: Original) -> Original:
    def last_wanted(sequencer: Sequencer, source: int) -> int:
        return sequencer._contiguous(source)

    return last_wanted


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
        frozenset(("2.13",)), TicketBook, "is_certain", _always, "restless",
    ),
    Mutant(
        "two give tickets", "a sequencer goes on while its source asks for another one",
        frozenset(("2.4", "2.13")), Sequencer, "_last_wanted", _gives_for_all_that_has_come, "restless",
    ),
    Mutant(
        "stale role number", "a sequencer gives tickets although it was chosen in an earlier role",
        frozenset(("2.4", "2.7", "2.13")), Sequencer, "_is_current", _always, "restless",
    ),
    Mutant(
        "not reassigned", "a source whose sequencer became passive does not choose another one",
        frozenset(("2.10", "2.15", "2.17", "standstill")), RoleChanges, "must_reassign", _never, "restless",
    ),
    Mutant(
        "a hole in the places", "some places that senders knew are forgotten at the end of a view",
        frozenset(("2.12", "2.13")), PlacedRuns, "place_of", _skips_one, "restless",
    ),
    Mutant(
        "loose and untold", "nobody says which bundles of passive sources come before",
        frozenset(("2.12", "2.13", "causes")), AdaptiveOrder, "told_before", _nothing, "restless",
    ),
    Mutant(
        "safe too soon", "safe bundles come before the signal although a confirmation is not everywhere",
        frozenset(("2.14",)), TicketBook, "first_unsafe", _zero, "restless",
    ),
    Mutant(
        "joins wait for active sources alone", "a join has its turn before bundles that were born before it",
        frozenset(("2.7", "2.9", "2.10")), AdaptiveLines, "come", _as_agreed, "restless",
    ),
    Mutant(
        "places are not reserved", "a sequencer's own bundle gets the place that a ticket has",
        frozenset(("2.13",)), Reservations, "take", _without_a_note, "restless",
    ),
    Mutant(
        "gaps do not matter", "what comes after a bundle that has not come is delivered",
        frozenset(("2.12", "2.13")), TicketBook, "first_gap", _nothing, "restless",
    ),
)  # fmt: skip
