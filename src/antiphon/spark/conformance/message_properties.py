"""The properties that speak of messages."""

from antiphon.spark.conformance import (
    access,
    agreed,
    bounded,
    calls,
    causal,
    causes,
    deliver_integrity,
    fifo,
    no_duplication,
    one_order,
    planned_stop,
    pressure,
    reliable,
    resilience,
    safe,
    same_view,
    self_delivery,
    standstill,
    termination,
    transitional_signals,
    virtual_synchrony,
)
from antiphon.spark.conformance.verdict import Property

MESSAGES: tuple[Property, ...] = tuple(
    prop
    for file in (
        access, agreed, bounded, calls, causal, causes, deliver_integrity, fifo, no_duplication, one_order,
        planned_stop, pressure, reliable, resilience, safe, same_view, self_delivery, standstill, termination,
        transitional_signals, virtual_synchrony,
    )
    for prop in file.PROPERTIES
)  # fmt: skip
