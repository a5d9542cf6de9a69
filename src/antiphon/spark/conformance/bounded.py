"""No buffer beyond its limit, and none in use once everything is said.

A live run may be stopped while something is under way, so the second is asked of simulated runs only.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    looks = model.of(Event.BUFFERS).select("run", "live", "daemon", "position", "buffers")
    each = looks.select("*", F.explode("buffers")).select(
        "*", F.col("value")[0].alias("used"), F.col("value")[1].alias("limit")
    )
    over = findings(
        each.where("used > limit"),
        text("daemon %s: %s holds %s, its limit is %s", "daemon", "key", "used", "limit"),
        processes=["daemon"],
        positions=["position"],
    )
    alive = model.lives.where(F.col("is_last") & ~F.col("is_over")).select(
        "run", "daemon", "recover_position"
    )
    last = (
        looks.join(alive, ["run", "daemon"])
        .where(F.col("position") > F.col("recover_position"))
        .groupBy("run", "daemon")
        .agg(F.max("position").alias("position"))
    )
    left = findings(
        each.where("used > 0").join(last, ["run", "daemon", "position"]),
        text("daemon %s: %s still holds %s at the end", "daemon", "key", "used"),
        processes=["daemon"],
        positions=["position"],
    )
    return over.unionByName(left)


PROPERTIES = (Property(promises.BOUNDED, (Event.BUFFERS,), _look),)
