"""Broken adaptive orders: roles, tickets and confirmations."""

from typing import Any

from antiphon.core.ordering.adaptive import AdaptiveOrder
from antiphon.simulator.mutants.mutant import Mutant


def _always(right: Any) -> Any:
    return lambda *_: True


ROLES: tuple[Mutant, ...] = (
    Mutant(
        "not confirmed", "bundles with tickets are delivered before their senders have these",
        frozenset(("2.13",)), AdaptiveOrder, "_is_confirmed", _always, "roles", shown_by=8,
    ),
)  # fmt: skip
