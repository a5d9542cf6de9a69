"""Resilience: a bundle that asks for K daemons is delivered only once so many have it.

As in the simulator's oracle: at a delivery before the signal at least K of the bundle's destinations in the
daemon view hold it, or all of them if they are fewer, and at least so many deliver it in that view unless
they crash in it. *When* a daemon came to hold it can be told in simulated runs only; in live runs is asked
that it came to hold it at all, and daemons without a trace may have done so.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    return _too_early(model).unionByName(_not_by_enough(model))


def _needed() -> "Column":
    """How many daemons must hold a bundle, in a view with `view_size` members."""
    asked = (
        F.when(F.col("resilience") == "majority", F.floor(F.col("view_size") / 2) + 1)
        .when(F.col("resilience") == "total", F.col("view_size"))
        .otherwise(F.col("resilience").try_cast("bigint"))
    )
    return F.least(asked.cast("bigint"), F.size("destinations").cast("bigint"))


def _with_needed(model: Model, bundles: "DataFrame") -> "DataFrame":
    """The resilient ones of these bundles that a daemon delivered before the signal, and what each needs."""
    sizes = model.daemon_terms.groupBy("run", "view").agg(F.max(F.size("members")).alias("view_size"))
    before = F.filter("takers", lambda one: ~one["is_after_signal"])
    first = F.array_min(F.transform(before, lambda one: one["position"]))
    return (
        bundles.where(F.col("resilience") != "")
        .withColumns({"view": F.col("bundle")[0], "before_position": first})
        .where(F.col("before_position").isNotNull())
        .join(sizes, ["run", "view"])
        .withColumn("needed", _needed())
    )


def _too_early(model: Model) -> "DataFrame":
    """Bundles that were delivered when too few daemons had them."""
    traced = model.lives.groupBy("run").agg(F.collect_set("daemon").alias("traced"))
    judged = _with_needed(model, traffic(model).bundles).join(traced, "run")
    in_time = F.filter(
        F.coalesce("holders", F.array()),
        lambda one: F.col("live") | (one["position"] < F.col("before_position")),
    )
    holding = F.array_intersect("destinations", F.transform(in_time, lambda one: one["daemon"]))
    untraced = F.array_except("destinations", "traced")
    found = judged.withColumn("holding", F.array_union(holding, untraced)).where(
        F.size("holding") < F.col("needed")
    )
    witness = F.filter("takers", lambda one: one["position"] == F.col("before_position"))[0]["daemon"]
    return findings(
        found,
        text(
            "%s delivered %s when %s daemons had it; %s were asked for",
            witness, bundle_name(), F.size("holding").cast("string"), F.col("needed").cast("string"),
        ),
        view="view",
        processes=[witness],
        positions=["before_position"],
    )  # fmt: skip


def _not_by_enough(model: Model) -> "DataFrame":
    """Bundles that too few delivered, although they did not crash."""
    lives = model.lives.groupBy("run", "daemon").agg(F.bool_or("is_over").alias("is_over"))
    judged = _with_needed(model, traffic(model).bundle_lacks).join(lives, ["run", "daemon"], "left")
    is_excused = F.coalesce(F.col("end") == "cut", F.col("is_over"), F.col("live"))
    found = (
        judged.where(~is_excused)
        .groupBy("run", "bundle", "view")
        .agg(
            F.collect_set("daemon").alias("lacking"),
            F.max("needed").alias("needed"),
            F.max(F.size("destinations")).alias("expected"),
            F.min("before_position").alias("before_position"),
            F.any_value(F.col("takers")[0]["daemon"]).alias("witness"),
        )
        .where(F.col("expected") - F.size("lacking") < F.col("needed"))
    )
    lacking = F.array_sort("lacking")
    return findings(
        found,
        text(
            "%s delivered %s, which asked for %s daemons; too many did not, nor did they crash then: %s",
            "witness", bundle_name(), F.col("needed").cast("string"), F.array_join(lacking, ", "),
        ),
        view="view",
        processes=F.concat(F.array("witness"), lacking),
        positions=["before_position"],
    )  # fmt: skip


PROPERTIES = (Property(promises.RESILIENCE_OF_DAEMONS, (Event.SDELIVER, Event.HOLD), _look),)
