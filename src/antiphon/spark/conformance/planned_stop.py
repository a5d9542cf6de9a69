"""A daemon that is told to stop costs its peers a few round trips, and their clients nothing but departures.

As in the simulator's oracle, a run is judged from the first stop on whose record says for how long the others
may be without a view; where other troubles may stop them, too, no record does.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.verdict import Property, findings, none_found, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VIEW_LOST = ("seg", "statetrans")


def _look(model: Model) -> "DataFrame":
    if not model.source.has(Event.STOP):
        return none_found(model)
    stops = model.of(Event.STOP).where(F.col("bound_us") > 0)
    judged = stops.groupBy("run").agg(
        F.min("position").alias("first_position"), F.max("bound_us").alias("most_us")
    )
    return _torn(model, judged).unionByName(_pauses(model, judged))


def _torn(model: Model, judged: "DataFrame") -> "DataFrame":
    """Signals, and views that the network made."""
    is_torn = (F.col("event") == Event.TRANSSIG) | (F.col("cause") == "network")
    seen = model.of(Event.TRANSSIG, Event.VIEW).where(is_torn).join(judged, "run")
    return findings(
        seen.where(F.col("position") > F.col("first_position")),
        text("it had a %s of the network, although daemons only stopped on purpose", "event"),
        processes=["process"],
        positions=["position"],
    )


def _pauses(model: Model, judged: "DataFrame") -> "DataFrame":
    """Times without a view that were too long, of daemons that were not themselves told to stop."""
    marks = model.of(Event.STATE, Event.RECOVER, Event.CRASH, Event.STOP).join(judged, "run")
    is_life = F.col("event").isin(Event.RECOVER.value, Event.CRASH.value)
    works = (F.col("event") == Event.STATE) & (F.col("state") == "op")
    is_lost = (F.col("event") == Event.STATE) & F.col("state").isin(*_VIEW_LOST)
    lost = F.when(is_lost, F.struct("position", "time_us"))
    before = earlier("daemon")
    rows = marks.select(
        "run", "daemon", "position", "time_us", "event", "first_position", "most_us",
        works.alias("works"), lost.alias("lost"),
        F.coalesce(F.sum(is_life.cast("long")).over(before), F.lit(0)).alias("life"),
        F.coalesce(F.sum((is_life | works).cast("long")).over(before), F.lit(0)).alias("stretch"),
    )  # fmt: skip
    is_told = (F.col("event") == Event.STOP).cast("long")
    so_far = Window.partitionBy("run", "daemon", "life").orderBy("position")
    known = rows.withColumns(
        {
            "is_leaving": F.max(is_told).over(so_far),
            "views": F.sum(F.col("works").cast("long")).over(so_far),
            "begun": F.min("lost").over(Window.partitionBy("run", "daemon", "stretch")),
        }
    )
    pause_us = F.col("time_us") - F.col("begun")["time_us"]
    late = known.where(
        F.col("works")
        & (F.col("is_leaving") == 0)
        & (F.col("views") > 1)  # the first one of a life ends no pause
        & (F.col("position") > F.col("first_position"))
        & (pause_us > F.col("most_us"))
    )
    return findings(
        late.withColumns({"begun_position": F.col("begun")["position"], "pause_us": pause_us}),
        text("daemon %s was without a view for %s us, not %s at most", "daemon", "pause_us", "most_us"),
        processes=["daemon"],
        positions=["begun_position", "position"],
    )


PROPERTIES = (Property(promises.PLANNED_STOP, (Event.STATE,), _look),)
