"""No effect without its cause, a promise of our own: what comes after a hole is not delivered.

When a daemon is lost, some of its messages may be lost with it, and those that follow them are dropped. The
simulator's oracle follows real causality between processes, group by group. Here the same is asked of
daemons, by the places of bundles, which is how they decide: a hole is a bundle that was for a daemon and that
it did not deliver. After the general signal, a daemon delivers no ordered bundle with a later place than a
hole, unless its source comes along or was promised so in an attempt that failed. Loose bundles have no place,
and are no holes here.

This asks for more than the oracle does: of the bundle to one group also if the hole is in another, and
without looking whether its sender knew of the lost one. Before the signal `agreed` allows no hole. Only
the oracle sees a process that lacks a cause that its own daemon has delivered, and the causes of causal
messages, which a companion may have delivered ahead of their places.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import Traffic, is_ordered, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    tables = traffic(model)
    effects = (
        model.bundle_deliveries.where(is_ordered() & F.col("message").isNotNull() & F.col("is_after_signal"))
        .withColumnRenamed("term_view", "view")
        .select("run", "daemon", "view", "position", "bundle", "message", "rank")
        .join(_first_holes(model, tables), ["run", "daemon", "view"])
        .where(
            (F.col("position") > F.col("general_signal_position"))
            & (F.col("rank") > F.col("hole.rank"))
            & ~F.array_contains("committed", F.col("bundle")[1])
        )
    )
    return findings(
        effects,
        text("delivered %s and not the earlier %s", bundle_name(), bundle_name("hole.bundle")),
        view="view",
        processes=["daemon"],
        messages=[F.col("hole.message"), F.col("message")],
        positions=["position"],
    )


def _first_holes(model: Model, tables: Traffic) -> "DataFrame":
    """For each daemon in a view that it left after a signal, the hole with the smallest place.

    run, daemon, view, general_signal_position, committed (numbers of the daemons whose bundles it has
    promised to deliver), hole (rank, bundle, message).
    """
    runs = model.runs.select("run", "daemons", "has_places")
    # Where places are given later, those of bundles that nobody delivered are not known.
    is_placed = ~F.col("is_loose") & (~F.col("has_places") | (F.size("takers") > 0))
    holes = (
        tables.bundle_lacks.where((F.col("end") != "cut") & F.col("general_signal_position").isNotNull())
        .join(runs, "run")
        .where(is_placed)
    )
    first = holes.groupBy("run", "daemon", "view").agg(
        F.min(F.struct("rank", "bundle", "message")).alias("hole"),
        F.any_value("general_signal_position").alias("general_signal_position"),
        F.any_value(_promised()).alias("promised"),
        F.any_value("daemons").alias("daemons"),
    )
    number = F.transform("promised", lambda one: F.array_position("daemons", one).cast("bigint") - 1)
    return first.withColumn("committed", number)


def _promised() -> "Column":
    """The names of the daemons whose bundles are delivered whatever is missing."""
    return F.array_distinct(F.flatten(F.transform("signals", lambda one: one["members"])))


PROPERTIES = (Property(promises.CAUSES, (Event.SDELIVER,), _look),)
