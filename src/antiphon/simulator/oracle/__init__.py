"""The oracle: checks a trace against the promises, one file per property.

It judges traces, never code: what it says of a run is what any reader of the trace file could find. Most
properties are promised twice, to clients (boundary B4) and between daemons (B3); their files have two values.
"""

from antiphon.simulator.oracle import (
    access,
    agreed,
    bounded,
    calls,
    causal,
    causes,
    choices,
    deliver_integrity,
    edges,
    fifo,
    initial_view,
    local_monotonicity,
    locks,
    membership_agreement,
    membership_precision,
    misconduct,
    needless,
    no_duplication,
    one_order,
    planned_stop,
    pressure,
    quorum,
    reliable,
    repairs,
    resilience,
    safe,
    same_view,
    sane_view,
    self_delivery,
    self_inclusion,
    standstill,
    steadiness,
    strangers,
    termination,
    time,
    transitional_set,
    transitional_signals,
    virtual_synchrony,
)
from antiphon.simulator.oracle.verdict import Property, Violation
from antiphon.trace import Trace
from antiphon.trace.promises import in_order

PROPERTIES: tuple[Property, ...] = in_order(
    prop
    for file in (
        access, agreed, bounded, calls, causal, causes, choices, deliver_integrity, edges,
        fifo, initial_view,
        local_monotonicity, locks, membership_agreement, membership_precision, misconduct, needless,
        no_duplication,
        one_order, planned_stop, pressure, quorum, reliable, repairs, resilience, safe, same_view, sane_view,
        self_delivery, self_inclusion, standstill, steadiness, strangers, termination, time, transitional_set,
        transitional_signals, virtual_synchrony,
    )
    for prop in file.PROPERTIES
)  # fmt: skip

__all__ = ["PROPERTIES", "Property", "Violation", "judge"]


def judge(trace: Trace) -> list[Violation]:
    """Every property that `trace` breaks; the empty list for a clean run."""
    return [violation for prop in PROPERTIES for violation in prop.check(trace)]
