"""Broken adaptive orders: roles, tickets and confirmations."""

from typing import Any

from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.core.ordering.adaptive_ending import AdaptiveEnding
from antiphon.core.ordering.adaptive_lines import AdaptiveLines
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.sequencer import Sequencer
from antiphon.simulator.mutants.mutant import Mutant, Original


def _always(right: Any) -> Any:
    return lambda *_: True


def _tickets_by_two(right: Original) -> Original:
    def last_wanted(sequencer: Sequencer, source: int) -> int:
        return sequencer._contiguous(source)

    return last_wanted


def _never(right: Any) -> Any:
    return property(lambda order: False)


def _fastest_active(right: Original) -> Original:
    def draw(lines: AdaptiveLines) -> None:
        lines.agreed = max(lines._received[source] for source in lines._active)

    return draw


def _without_tickets(right: Original) -> Original:
    def place(order: AdaptiveOrder, entry: Entry, in_order: bool) -> None:
        right(order, entry, in_order)
        key = (entry.source, entry.header.number)
        if key in order._awaiting and not entry.header.flags:
            entry.place = entry.header.lts
            del order._awaiting[key]
            order._deliver(entry)

    return place


ROLES: tuple[Mutant, ...] = (
    Mutant(
        "not confirmed", "bundles with tickets are delivered before their senders have these",
        frozenset(("2.13",)), AdaptiveOrder, "_is_confirmed", _always, "roles", shown_by=8,
    ),
)  # fmt: skip
"""Those that the scenario `roles` shows."""

RESTLESS: tuple[Mutant, ...] = (
    Mutant(
        "tickets by two", "a sequencer goes on after its source has asked for another one",
        frozenset(("2.13", "2.7", "2.10", "2.15")), Sequencer, "_last_wanted", _tickets_by_two, "roles",
    ),
    Mutant(
        "old role number", "a sequencer gives tickets although it was chosen in an earlier role",
        frozenset(("2.13", "2.7", "2.10", "2.15")), Sequencer, "_is_current", _always, "roles",
    ),
    Mutant(
        "reassign lost", "nobody gives tickets after a sequencer has become passive",
        frozenset(("2.10", "2.15", "2.17", "standstill")), AdaptiveOrder, "must_reassign", _never, "roles",
    ),
    Mutant(
        "not held back", "a source goes on sending while its role changes",
        frozenset(("2.10", "2.11", "2.12", "2.13", "2.7")), AdaptiveOrder, "is_holding", _never, "roles",
    ),
    Mutant(
        "fastest active", "the agreed line is that of the source that is ahead",
        frozenset(("2.13",)), AdaptiveLines, "draw", _fastest_active, "roles",
    ),
    Mutant(
        "no tickets needed", "bundles of passive sources are delivered when they come",
        frozenset(("2.13", "2.12")), AdaptiveOrder, "_place", _without_tickets, "roles",
    ),
    Mutant(
        "all confirmed at the end", "tickets that the sender did not have count at the end of a view",
        frozenset(("2.13", "2.7", "2.10")), AdaptiveEnding, "is_confirmed", _always, "roles",
    ),
    Mutant(
        "unreliable ahead", "unreliable messages overtake the tickets of what was sent before them",
        frozenset(("2.12",)), AdaptiveOrder, "has_places", _always, "roles",
    ),
)  # fmt: skip
"""Those that sources which change their roles all the time show: see tests/simulation/restless.py."""
