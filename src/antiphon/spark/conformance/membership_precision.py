"""2.16: once the network is stable, each connected set of daemons becomes one view, soon and for good.

`restored` says from when on, which sets these are, and how long it may take. A trace without it, as one of a
live run, says nothing of this.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, either, finding, findings, none_found, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look_at_daemons(model: Model) -> "DataFrame":
    if not model.source.has(Event.RESTORED):
        return none_found(model)
    last = model.daemon_terms.where("is_last_life").groupBy("run", "daemon").agg(
        F.max_by(
            F.struct("view", "members", F.col("start_position").alias("position"), "start_time_us"),
            "start_position",
        ).alias("last")
    )  # fmt: skip
    alive = model.lives.where(F.col("is_last") & ~F.col("is_over")).select("run", "daemon")
    living = (
        alive.join(last, ["run", "daemon"], "left")
        .groupBy("run")
        .agg(F.collect_list(F.struct("daemon", "last")).alias("living"))
    )
    told = model.peace.join(living, "run", "left").withColumns(
        {
            "names": F.coalesce(F.transform("living", lambda one: one["daemon"]), _nobody()),
            "expected": F.flatten("parts"),
        }
    )
    return _wrong_survivors(told).unionByName(_wrong_parts(told))


def _nobody() -> "Column":
    return F.array().cast("array<string>")


def _difference(one: "Column | str", other: "Column | str") -> "Column":
    return F.array_sort(F.array_union(F.array_except(one, other), F.array_except(other, one)))


def _wrong_survivors(told: "DataFrame") -> "DataFrame":
    wrong = _difference("names", "expected")
    return findings(
        told.where(F.size(wrong) > 0),
        text("the daemons that live are not those that were expected to"),
        processes=wrong,
        positions=["position"],
    )


def _wrong_parts(told: "DataFrame") -> "DataFrame":
    """Daemons that could be in one view and are not."""
    parts = told.select("run", "position", "time_us", "bound_us", "living", F.explode("parts").alias("part"))
    mine = F.filter("living", lambda one: F.array_contains(F.col("part"), one["daemon"]))
    parts = parts.withColumn("mine", mine).withColumns(
        {
            "companions": F.transform("mine", lambda one: one["daemon"]),
            "views": F.array_distinct(F.array_compact(F.transform("mine", lambda one: one["last"]["view"]))),
        }
    )
    many = findings(
        parts.where(F.size("views") > 1),
        text("these can reach one another and ended in %s views", F.size("views")),
        processes=F.array_sort("companions"),
        positions=["position"],
    )
    each = parts.select("*", F.explode("mine").alias("one")).select("*", "one.*")
    return many.unionByName(either(each, *_cases()))


def _cases() -> "Iterator[tuple[Column, Column]]":
    """What can be wrong with the last view of one daemon."""
    yield (
        F.col("last").isNull(),
        finding(text("it never installed a view"), processes=["daemon"], positions=["position"]),
    )
    wrong = _difference("last.members", "companions")
    reached = F.array_join("last.members", ", ")
    yield (
        F.size(wrong) > 0,
        finding(
            text("its last view is not the set of those whom it can reach: %s", reached),
            view="last.view",
            processes=F.concat(F.array("daemon"), wrong),
            positions=["last.position"],
        ),
    )
    late_us = F.col("last.start_time_us") - F.col("time_us")
    yield (
        late_us > F.col("bound_us"),
        finding(
            text("installed %s us after the faults ended; %s are allowed", late_us, "bound_us"),
            view="last.view",
            processes=["daemon"],
            positions=["last.position"],
        ),
    )


PROPERTIES = (Property(promises.MEMBERSHIP_PRECISION_OF_DAEMONS, (Event.RESTORED,), _look_at_daemons),)
