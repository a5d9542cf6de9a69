"""2.18: all daemons deliver a bundle in the same view, the one in which it was sent."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look_at_daemons(model: Model) -> "DataFrame":
    is_home = F.coalesce(F.col("bundle")[0] == F.col("term_view"), F.lit(False))
    found = model.bundle_deliveries.where(F.col("term_view").isNotNull() & ~is_home)
    return findings(
        found,
        text("delivered %s while in daemon view %s", bundle_name(), "term_view"),
        view="term_view",
        processes=["daemon"],
        messages=["message"],
        positions=["position"],
    )


PROPERTIES = (Property(promises.SAME_VIEW_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),)
