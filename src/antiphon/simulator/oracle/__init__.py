"""The oracle: holds a trace against the promises, one file per property.

It judges traces, never code: what it says of a run is what any reader of the trace file could find.
"""

from antiphon.simulator.oracle import (
    agreed,
    bounded,
    causal,
    deliver_integrity,
    fifo,
    initial_view,
    local_monotonicity,
    membership_agreement,
    no_duplication,
    one_order,
    reliable,
    safe,
    sane_view,
    self_delivery,
    self_inclusion,
    termination,
    transitional_set,
    virtual_synchrony,
)
from antiphon.simulator.oracle.verdict import Property, Violation
from antiphon.simulator.trace import Trace

PROPERTIES: tuple[Property, ...] = tuple(
    module.PROPERTY
    for module in (
        initial_view,
        self_inclusion,
        local_monotonicity,
        transitional_set,
        no_duplication,
        deliver_integrity,
        virtual_synchrony,
        sane_view,
        reliable,
        fifo,
        causal,
        agreed,
        one_order,
        safe,
        self_delivery,
        termination,
        membership_agreement,
        bounded,
    )
)

__all__ = ["PROPERTIES", "Property", "Violation", "judge"]


def judge(trace: Trace) -> list[Violation]:
    """Every property that `trace` breaks; the empty list for a clean run."""
    return [violation for prop in PROPERTIES for violation in prop.check(trace)]
