"""The oracle: holds a trace against the promises, one file per property.

It judges traces, never code: what it says of a run is what any reader of the trace file could find. Most
properties are promised twice, to clients (boundary B4) and between daemons (B3); their files have two values.
"""

from antiphon.simulator.oracle import (
    agreed,
    bounded,
    causal,
    causes,
    deliver_integrity,
    fifo,
    initial_view,
    local_monotonicity,
    membership_agreement,
    membership_precision,
    no_duplication,
    one_order,
    reliable,
    safe,
    same_view,
    sane_view,
    self_delivery,
    self_inclusion,
    termination,
    transitional_set,
    transitional_signals,
    virtual_synchrony,
)
from antiphon.simulator.oracle.verdict import Property, Violation
from antiphon.trace import Trace

PROPERTIES: tuple[Property, ...] = (
    initial_view.PROPERTY,
    initial_view.DAEMON_PROPERTY,
    self_inclusion.PROPERTY,
    self_inclusion.DAEMON_PROPERTY,
    local_monotonicity.PROPERTY,
    local_monotonicity.DAEMON_PROPERTY,
    transitional_set.PROPERTY,
    transitional_set.DAEMON_PROPERTY,
    no_duplication.PROPERTY,
    no_duplication.DAEMON_PROPERTY,
    deliver_integrity.PROPERTY,
    deliver_integrity.DAEMON_PROPERTY,
    virtual_synchrony.PROPERTY,
    virtual_synchrony.DAEMON_PROPERTY,
    transitional_signals.PROPERTY,
    transitional_signals.DAEMON_PROPERTY,
    sane_view.PROPERTY,
    reliable.PROPERTY,
    reliable.DAEMON_PROPERTY,
    fifo.PROPERTY,
    fifo.DAEMON_PROPERTY,
    causal.PROPERTY,
    causal.DAEMON_PROPERTY,
    causes.PROPERTY,
    agreed.PROPERTY,
    agreed.DAEMON_PROPERTY,
    one_order.PROPERTY,
    one_order.DAEMON_PROPERTY,
    safe.PROPERTY,
    safe.DAEMON_PROPERTY,
    self_delivery.PROPERTY,
    self_delivery.DAEMON_PROPERTY,
    membership_precision.DAEMON_PROPERTY,
    termination.PROPERTY,
    termination.DAEMON_PROPERTY,
    same_view.DAEMON_PROPERTY,
    sane_view.DAEMON_PROPERTY,
    membership_agreement.PROPERTY,
    membership_agreement.DAEMON_PROPERTY,
    bounded.PROPERTY,
)

__all__ = ["PROPERTIES", "Property", "Violation", "judge"]


def judge(trace: Trace) -> list[Violation]:
    """Every property that `trace` breaks; the empty list for a clean run."""
    return [violation for prop in PROPERTIES for violation in prop.check(trace)]
