"""The properties that speak of views, of who is in them, and of what they have: quorum and locks."""

from antiphon.spark.conformance import (
    initial_view,
    local_monotonicity,
    locks,
    membership_agreement,
    membership_precision,
    quorum,
    sane_view,
    self_inclusion,
    steadiness,
    transitional_set,
)
from antiphon.spark.conformance.verdict import Property

MEMBERSHIP: tuple[Property, ...] = tuple(
    prop
    for file in (
        initial_view, local_monotonicity, locks, membership_agreement, membership_precision, quorum,
        sane_view, self_inclusion, steadiness, transitional_set,
    )
    for prop in file.PROPERTIES
)  # fmt: skip
