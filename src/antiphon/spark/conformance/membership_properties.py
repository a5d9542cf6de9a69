"""The properties that speak of views and of who is in them."""

from antiphon.spark.conformance import (
    initial_view,
    local_monotonicity,
    membership_agreement,
    membership_precision,
    sane_view,
    self_inclusion,
    steadiness,
    transitional_set,
)
from antiphon.spark.conformance.verdict import Property

MEMBERSHIP: tuple[Property, ...] = tuple(
    prop
    for file in (
        initial_view, local_monotonicity, membership_agreement, membership_precision, sane_view,
        self_inclusion, steadiness, transitional_set,
    )
    for prop in file.PROPERTIES
)  # fmt: skip
