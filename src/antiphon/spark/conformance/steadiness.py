"""While something flaps, daemons that are well keep their views, and have one that works almost always.

The same rule as the simulator's oracle has: `steady` names the daemons and the bounds, `restored` ends it.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, none_found, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOST = ("seg", "statetrans")
_LATER_US = (1 << 62) - 1


def _look(model: Model) -> "DataFrame":
    if not model.source.has(Event.STEADY):
        return none_found(model)
    spans = _spans(model)
    return _many_views(model, spans).unionByName(_long_silences(model, spans))


def _spans(model: Model) -> "DataFrame":
    """The daemons to judge and their limits: run, daemon, begin_position, begin_us, end_us, views_max,
    silent_max_us."""
    ends = model.of(Event.RESTORED).groupBy("run").agg(F.max("time_us").alias("end_us"))
    return (
        model.of(Event.STEADY)
        .join(ends, "run", "left")
        .select(
            "run",
            F.explode(F.col("parts")[0]).alias("daemon"),
            F.col("position").alias("begin_position"),
            F.col("time_us").alias("begin_us"),
            F.coalesce("end_us", F.lit(_LATER_US)).alias("end_us"),
            F.col("count").alias("views_max"),
            F.col("bound_us").alias("silent_max_us"),
        )
    )


def _many_views(model: Model, spans: "DataFrame") -> "DataFrame":
    views = (
        model.of(Event.SVIEW)
        .join(spans, ["run", "daemon"])
        .where((F.col("time_us") > F.col("begin_us")) & (F.col("time_us") < F.col("end_us")))
        .groupBy("run", "daemon", "begin_position", "views_max")
        .agg(F.count("*").alias("views"))
        .where("views > views_max")
    )
    return findings(
        views,
        text("it installs %s views; %s are allowed", "views", "views_max"),
        processes=["daemon"],
        positions=["begin_position"],
    )


def _long_silences(model: Model, spans: "DataFrame") -> "DataFrame":
    of_daemon = Window.partitionBy("run", "daemon").orderBy("position")
    mark = F.when(F.col("state").isin(*_LOST), F.lit(True)).when(F.col("state") == "op", F.lit(False))
    states = (
        model.of(Event.STATE)
        .select("run", "daemon", "position", "time_us", "state")
        .withColumns(
            {
                "is_silent": F.last(mark, ignorenulls=True).over(of_daemon),
                "next_us": F.lead("time_us").over(of_daemon),
            }
        )
        .where("is_silent")
    )
    lasts_us = F.least(F.coalesce("next_us", "end_us"), "end_us") - F.greatest("time_us", "begin_us")
    silences = (
        states.join(spans, ["run", "daemon"])
        .withColumn("lasts_us", F.greatest(lasts_us, F.lit(0)))
        .groupBy("run", "daemon", "begin_position", "silent_max_us")
        .agg(F.sum("lasts_us").alias("silent_us"))
        .where("silent_us > silent_max_us")
    )
    return findings(
        silences,
        text("it has no view that works for %s us in all; %s are allowed", "silent_us", "silent_max_us"),
        processes=["daemon"],
        positions=["begin_position"],
    )


PROPERTIES = (Property(promises.STEADINESS, (Event.STEADY,), _look),)
