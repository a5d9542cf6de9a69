"""*edges*, its third part: what clients of edges hand over is sent once, and no fate is left in the dark.

When a message was handed over and when it was sent is compared in simulated runs only. In a live run clients
may hand over what is alike in everything: then it is counted how often it was sent, and nothing else is said
of it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.rim import Rim
from antiphon.spark.conformance.traffic import is_reliable
from antiphon.spark.conformance.verdict import either, finding, findings, text
from antiphon.spark.traces import each_message
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def look_at_sends(model: Model, tables: Rim) -> "Iterator[DataFrame]":
    """What is wrong with what was handed over and sent."""
    yield _sent(tables)
    fates = model.landed("edge_fates", _fates(tables))
    yield _fates_told(tables, fates)
    yield _lost(model, tables, fates)


def _at(what: "Column", *positions: "Column | str") -> "Column":
    return finding(what, processes=["process"], messages=["message"], positions=positions or ["position"])


def _sent(tables: Rim) -> "DataFrame":
    given, live = F.col("given"), F.col("live")
    alike = Window.partitionBy("run", "mark").orderBy("position")
    again = Window.partitionBy("run", "given.process", "given.message").orderBy("position")
    of_session = Window.partitionBy("run", "process").orderBy("position")
    edge = F.substring_index("peer", "#", -1).alias("edge")
    traced = tables.events.select("run", F.col("daemon").alias("edge")).distinct()
    sends = (
        tables.sends.withColumn("edge", edge)
        .join(traced.withColumn("is_traced", F.lit(True)), ["run", "edge"], "left")
        .withColumn("number", F.row_number().over(alike))
    )
    is_early = ~live & (given["position"] > F.col("position"))
    is_strange = F.coalesce(F.col("number") > F.col("alike"), ~live | F.col("is_traced"), F.lit(False))
    is_second = given.isNotNull() & (F.col("number") > 1)
    strange = either(
        sends,
        (
            (is_strange & ~is_second) | F.coalesce(is_early, F.lit(False)),
            _at(text("sent for %s, which had not handed it over", "peer")),
        ),
    )
    known = sends.where(given.isNotNull() & ~F.coalesce(is_early, F.lit(False))).withColumns(
        {
            "first": F.first("position").over(again),
            "before": F.lag("given.position").over(of_session),
        }
    )
    return strange.unionByName(
        either(
            known,
            (
                F.col("first") < F.col("position"),
                _at(text("sent twice for %s", "peer"), "first", "position"),
            ),
            (
                F.col("before") > given["position"],
                _at(text("sent after what %s handed over later", given["process"])),
            ),
        )
    )


def _fates(tables: Rim) -> "DataFrame":
    """What clients were told of messages that they had handed over: run, live, daemon, process, message,
    event ("unsure" or "unsent"), position, handed_position."""
    told = tables.of(Event.UNSURE, Event.UNSENT).select(
        "run", "live", "daemon", "process", "event", "position", "message", "count"
    )
    handed = tables.handed.select(
        "run", "process", "message", F.col("position").alias("handed_position"), "alike"
    )
    fates = each_message(told).join(handed, ["run", "process", "message"])  # joins have numbers, too
    return fates.where(F.col("handed_position") < F.col("position"))


def _fates_told(tables: Rim, fates: "DataFrame") -> "DataFrame":
    """That a fate is unknown is told only after an attachment was lost: of this edge, or of any if this one
    has been behind another one."""
    losses = tables.events.where(
        (F.col("process") == "")
        & F.col("event").isin(Event.DETACH.value, Event.RECOVER.value, Event.CRASH.value)
    ).select("run", "daemon", "position", F.col("position").alias("loss"))
    unsure = fates.where(F.col("event") == Event.UNSURE)
    here, anywhere = (
        Window.partitionBy(*key).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
        for key in (("run", "daemon"), ("run",))
    )
    behind = tables.behind.withColumn("is_behind", F.lit(True))
    judged = (
        unsure.unionByName(losses, allowMissingColumns=True)
        .withColumns({"here": F.max("loss").over(here), "anywhere": F.max("loss").over(anywhere)})
        .where(F.col("loss").isNull())
        .join(behind, ["run", "daemon"], "left")
    )
    is_behind = F.coalesce("is_behind", F.lit(False))
    lost = F.when(is_behind, F.col("anywhere")).otherwise(F.col("here"))
    is_lost = F.coalesce(lost > F.col("handed_position"), F.lit(False)) | (F.col("live") & is_behind)
    return findings(
        judged.where(~is_lost),
        F.lit("told that a message's fate is unknown, and no attachment was lost"),
        processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip


def _lost(model: Model, tables: Rim, fates: "DataFrame") -> "DataFrame":
    carriers = model.sends.select("run", F.col("message").alias("sent_as"), "bundle")
    sends = (
        tables.sends.where(F.col("given").isNotNull())
        .select("run", F.col("message").alias("sent_as"), "given.process", "given.message")
        .join(carriers, ["run", "sent_as"], "left")
        .join(tables.taken, ["run", "bundle"], "left")
        .groupBy("run", "process", "message")
        .agg(F.bool_or(F.col("ranks").isNotNull()).alias("is_delivered"))
    )  # fmt: skip
    told = fates.groupBy("run", "process", "message").agg(
        F.min(F.when(F.col("event") == Event.UNSENT, F.col("position"))).alias("unsent_position"),
        F.lit(True).alias("is_told"),
    )
    ends = tables.of(Event.DISCONNECT).select("run", "process", F.lit(True).alias("has_ended"))
    judged = (
        tables.handed.join(sends, ["run", "process", "message"], "left")
        .join(told, ["run", "process", "message"], "left")
        .join(ends, ["run", "process"], "left")
        .join(tables.runs.select("run", "in_reach"), "run")
    )
    stays = F.col("has_ended").isNull() & F.coalesce(
        F.array_contains("in_reach", F.col("daemon")), F.lit(False)
    )
    is_owed = stays & is_reliable() & F.col("is_told").isNull()
    delivered = F.col("is_delivered")
    return either(
        judged,
        (
            F.col("unsent_position").isNotNull() & delivered,
            _at(F.lit("told that it was not sent, and it was delivered"), "unsent_position"),
        ),
        (
            is_owed & delivered.isNull(),
            _at(text("%s handed it to its edge; it was never sent, and nothing was told", "process")),
        ),
        (
            is_owed & ~delivered,
            _at(text("%s handed it to its edge; it was lost, and nothing was told", "process")),
        ),
    )
