"""Traces: what happened in a run, written down for the oracle, for Spark and for bug reports."""

from antiphon.trace.merging import merge
from antiphon.trace.records import (
    CAUSAL_SERVICES,
    FIFO_SERVICES,
    FORMAT,
    GIVEN_UP,
    ORDERED_SERVICES,
    REFUSED,
    RELIABLE_SERVICES,
    VERSION,
    Bundle,
    Event,
    Header,
    Identity,
    LockState,
    Record,
    ViewNumber,
    chosen,
    delivered_as,
)
from antiphon.trace.runs import Trace, read

__all__ = [
    "CAUSAL_SERVICES",
    "FIFO_SERVICES",
    "FORMAT",
    "GIVEN_UP",
    "ORDERED_SERVICES",
    "REFUSED",
    "RELIABLE_SERVICES",
    "VERSION",
    "Bundle",
    "Event",
    "Header",
    "Identity",
    "LockState",
    "Record",
    "Trace",
    "ViewNumber",
    "chosen",
    "delivered_as",
    "merge",
    "read",
]
