"""Watchdogs end views that stand still; among daemons that keep to the protocols there are none.

As in the simulator's oracle, runs in which packets were forged are not judged.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REASONS = ("stalled", "impossible-state")


def _look(model: Model) -> "DataFrame":
    forged = model.of(Event.FORGED).select("run").distinct()
    given_up = model.of(Event.STATE).where(F.col("reason").isin(*_REASONS)).join(forged, "run", "left_anti")
    return findings(
        given_up,
        text("daemon %s gives up its view (%s)", "daemon", "reason"),
        processes=["daemon"],
        positions=["position"],
    )


PROPERTIES = (Property(promises.STANDSTILL, (Event.STATE,), _look),)
