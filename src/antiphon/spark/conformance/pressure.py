"""Senders that share no group with a slow receiver do not wait for it.

The same rule as the simulator's oracle has, which is the specification. Only the few sessions that it judges
meet looks at buffers, and only the looks that show nothing under way.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.traffic import is_reliable
from antiphon.spark.conformance.verdict import Property, findings, none_found
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CALM = ("op", "gop")
_UNDER_WAY = "own_unstable"
_LATER = (1 << 62) - 1
"""Position of what has not happened by the end of the run."""


def _look(model: Model) -> "DataFrame":
    if not model.source.has(Event.SLOW):
        return none_found(model)
    waits, looks = _waits(model), _looks(model)
    ready_us = F.greatest("time_us", F.coalesce("before_us", F.lit(0)), "idle_since_us")
    late = waits.join(looks, ["run", "daemon"]).where(
        (F.col("look_position") > F.col("position"))
        & (F.col("look_position") < F.col("end_position"))
        & (F.col("look_position") > F.coalesce("before_position", F.lit(-1)))
        & (F.col("look_us") - ready_us > promises.WAIT_MAX_US)
    )
    return findings(
        late,
        F.lit("it waits although no slow receiver gets it and nothing of its daemon is under way"),
        processes=["process"],
        messages=[F.col("message")],
        positions=["position", "look_position"],
    )


def _judged(model: Model) -> "DataFrame":
    """run, process: sessions that share no group with a slow one, and send nothing outside of the order."""
    slow = model.of(Event.SLOW).select("run", "process").distinct()
    joins = model.of(Event.JOIN).join(slow, ["run", "process"], "left_semi")
    pressed = (
        joins.select("run", F.explode("groups").alias("group"))
        .groupBy("run")
        .agg(F.collect_set("group").alias("pressed"))
    )
    runs = slow.select("run").distinct().join(pressed, "run", "left")
    is_private = F.exists("groups", lambda group: group.startswith("#"))
    is_free = is_reliable() & ~is_private & ~F.coalesce(F.arrays_overlap("groups", "pressed"), F.lit(False))
    return (
        model.sent.join(runs, "run")
        .groupBy("run", "process")
        .agg(F.bool_and(is_free).alias("is_free"))
        .where("is_free")
        .select("run", "process")
    )


def _waits(model: Model) -> "DataFrame":
    """Each message of a judged session: when it was read, when its bundle was sent, and the one before it."""
    bundles = model.of(Event.SSEND).select(
        "run", "bundle", F.col("position").alias("sent_position"), F.col("time_us").alias("sent_us")
    )
    crashes = model.lives.select("run", "daemon", "incarnation", "crash_position")
    sent = (
        model.sends.join(_judged(model), ["run", "process"], "left_semi")
        .join(bundles, ["run", "bundle"], "left")
        .withColumn("incarnation", F.col("message")[1])
        .join(crashes, ["run", "daemon", "incarnation"], "left")
    )
    in_order = Window.partitionBy("run", "process").orderBy("position")
    is_first = F.row_number().over(in_order) == 1
    before = earlier("process")
    known = sent.withColumns(
        {
            "end_position": F.coalesce("sent_position", "crash_position", F.lit(_LATER)),
            "before_us": F.max("sent_us").over(before),
            "before_position": F.when(
                ~is_first, F.coalesce(F.lag("sent_position").over(in_order), F.lit(_LATER))
            ),
        }
    )
    return known.select(
        "run", "daemon", "process", "position", "time_us", "message", "end_position", "before_us",
        "before_position",
    )  # fmt: skip


def _looks(model: Model) -> "DataFrame":
    """Looks at daemons that show nothing under way in a calm time: run, daemon, look_position, look_us,
    idle_since_us (the first of such looks in a row)."""
    marks = model.of(Event.STATE, Event.BUFFERS, Event.SSEND).select(
        "run", "daemon", "position", "time_us", "event", "state", "buffers"
    )
    state = F.when(F.col("event") == Event.STATE, F.col("state"))
    is_idle = (F.col("event") == Event.BUFFERS) & (F.col("buffers")[_UNDER_WAY][0] == 0)
    before = earlier("daemon")
    rows = marks.withColumns(
        {
            "is_idle": is_idle,
            "last_state": F.last(state, ignorenulls=True).over(before),
            "stretch": F.sum((~is_idle).cast("long")).over(before),
        }
    )
    looks = rows.where("is_idle").where(F.col("last_state").isin(*_CALM))
    in_a_row = Window.partitionBy("run", "daemon", "stretch")
    return looks.select(
        "run",
        "daemon",
        F.col("position").alias("look_position"),
        F.col("time_us").alias("look_us"),
        F.min("time_us").over(in_a_row).alias("idle_since_us"),
    )


PROPERTIES = (Property(promises.PRESSURE, (Event.SLOW,), _look),)
