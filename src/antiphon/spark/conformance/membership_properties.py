"""The properties that speak of views and of who is in them."""

from antiphon.spark.conformance import (
    initial_view,
    local_monotonicity,
    membership_agreement,
    membership_precision,
    sane_view,
    self_inclusion,
    transitional_set,
)
from antiphon.spark.conformance.verdict import Property

MEMBERSHIP: tuple[Property, ...] = (
    initial_view.PROPERTY,
    initial_view.DAEMON_PROPERTY,
    self_inclusion.PROPERTY,
    self_inclusion.DAEMON_PROPERTY,
    local_monotonicity.PROPERTY,
    local_monotonicity.DAEMON_PROPERTY,
    transitional_set.PROPERTY,
    transitional_set.DAEMON_PROPERTY,
    sane_view.PROPERTY,
    membership_precision.DAEMON_PROPERTY,
    sane_view.DAEMON_PROPERTY,
    membership_agreement.PROPERTY,
    membership_agreement.DAEMON_PROPERTY,
)
