"""2.5: at most once."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    suspects = traffic(model).messages.where(F.col("deliveries") > F.size("receivers"))
    twice = (
        model.deliveries.join(suspects.select("run", "message"), ["run", "message"], "left_semi")
        .groupBy("run", "process", "message")
        .agg(F.sort_array(F.collect_list("position")).alias("places"))
        .where(F.size("places") > 1)
    )
    return findings(
        twice,
        F.lit("delivered twice"),
        processes=["process"],
        messages=["message"],
        positions=F.slice("places", 1, 2),
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    takers = F.transform("takers", lambda one: one["daemon"])
    twice = (
        traffic(model)
        .bundles.where(F.size("takers") > F.size(F.array_distinct(takers)))
        .select("run", "bundle", F.explode("takers").alias("taker"))
        .groupBy("run", "bundle", F.col("taker.daemon").alias("daemon"))
        .agg(F.sort_array(F.collect_list("taker.position")).alias("places"))
        .where(F.size("places") > 1)
    )
    return findings(
        twice,
        text("delivered %s twice", bundle_name()),
        view=F.col("bundle")[0],
        processes=["daemon"],
        positions=F.slice("places", 1, 2),
    )


PROPERTIES = (
    Property(promises.NO_DUPLICATION, (Event.DELIVER,), _look),
    Property(promises.NO_DUPLICATION_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
