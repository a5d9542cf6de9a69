"""2.8: the signal has one place in a view, the same for all who go on together.

That those who go on together have the same ordered messages is 2.7 and 2.13. Here a message is found that one
of them delivered before the signal and another after it; those who chose to get messages earlier are left
out. As in the simulator's oracle, daemons are asked for one general signal in a view that loses members, at
most one early one for each group, before the general one, and that those named in it are the ones who may
come along.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import is_ordered, traffic
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    return _in_one_term(model).unionByName(_not_to_all(model)).unionByName(_at_two_places(model))


def _in_one_term(model: Model) -> "DataFrame":
    """Signals that one process should not have had, or should have had."""
    signals = F.col("signals")
    is_cut = (F.col("end_event") == Event.VIEW) & (F.col("end_cause") == "network") & (signals == 0)
    fault = (
        F.when(signals > 1, text("%s signals in view %s of %s", "signals", "view", "group"))
        .when(
            F.col("signal_view") != F.col("view"),
            text("a signal for view %s while in %s", "signal_view", "view"),
        )
        .when(is_cut, text("view %s of %s was cut, and no signal told of it", "view", "group"))
    )
    found = model.terms.where("knows_views").withColumn("fault", fault).where(F.col("fault").isNotNull())
    return findings(
        found,
        F.col("fault"),
        group="group",
        view="view",
        processes=["process"],
        positions=[F.coalesce("signal_position", "end_position")],
    )


def _not_to_all(model: Model) -> "DataFrame":
    """Signals that some had, and others not who went on together with them."""
    moved = model.terms.where(F.col("knows_views") & (F.col("end_event") == Event.VIEW))
    had = F.col("signals") > 0
    found = (
        moved.groupBy("run", "group", "view", "next_view")
        .agg(
            F.min_by(
                F.when(had, F.struct("process", "signal_position")), F.when(had, F.col("process"))
            ).alias("told"),
            F.min(F.when(~had, F.col("process"))).alias("untold"),
        )
        .where("told is not null and untold is not null")
    )
    return findings(
        found,
        text(
            "it had a signal in view %s of %s, %s had none and went on together with it",
            "view", "group", "untold",
        ),
        group="group",
        view="view",
        processes=[F.col("told.process"), F.col("untold")],
        positions=["told.signal_position"],
    )  # fmt: skip


def _at_two_places(model: Model) -> "DataFrame":
    """Messages that were before the signal for one, and after it for another who went on with it."""
    tables = traffic(model)
    each = F.col("one")
    moved = (
        tables.view_messages.where(is_ordered() & F.exists("takers", lambda one: one["is_after_signal"]))
        .where(F.exists("takers", lambda one: ~one["is_after_signal"]))
        .withColumn("one", F.explode("takers"))
        .where((each["end"] == "view") & each["is_signalled"] & (each["choice"] == ""))
        .groupBy("run", "group", "view", "message", each["next_view"].alias("next_view"))
        .agg(
            F.min(F.when(~each["is_after_signal"], each["process"])).alias("before"),
            F.min(F.when(each["is_after_signal"], each["process"])).alias("after"),
            F.min("first_position").alias("first_position"),
        )
        .where("before is not null and after is not null")
    )
    wanted = tables.messages.where(~F.coalesce("self_discard", F.lit(False))).select("run", "message")
    return findings(
        moved.join(wanted, ["run", "message"]),
        text("delivered before the signal in view %s of %s at one of them only", "view", "group"),
        group="group",
        view="view",
        processes=["before", "after"],
        messages=["message"],
        positions=["first_position"],
    )


# Daemons --------------------------------------------------------------------------------------------------


def _look_at_daemons(model: Model) -> "DataFrame":
    terms = model.daemon_terms.where(
        (F.size("signals") > 0) | (F.size(F.array_except("members", "end_transitional")) > 0)
    )
    has_moved = F.col("end_event") == Event.SVIEW
    loses = F.size(F.array_except("members", "end_transitional")) > 0
    # All that was said, group by group, in order; the general signal is for the group "".
    said = F.flatten(
        F.transform(
            "signals",
            lambda one: F.when(F.size(one["groups"]) > 0, one["groups"]).otherwise(F.array(F.lit(""))),
        )
    )
    general = F.array_position("said", "")
    is_doubled = (F.size(F.array_distinct("said")) < F.size("said")) | (
        (general > 0) & (general < F.size("said"))
    )
    strange = F.filter("signals", lambda one: one["daemon_view"] != F.col("view"))
    ghosts = F.flatten(
        F.transform("signals", lambda one: F.array_except("end_transitional", one["transitional"]))
    )
    fault = (
        F.when(F.size(strange) > 0, text("a signal for another daemon view while in %s", "view"))
        .when(is_doubled, text("a second signal in daemon view %s", "view"))
        .when(
            has_moved & loses & (general == 0),
            text("daemon view %s lost members, and no signal told of it", "view"),
        )
        .when(
            has_moved & (F.size(ghosts) > 0),
            F.lit("the next view's transitional set has daemons that the signal did not name"),
        )
    )
    found = terms.withColumn("said", said).withColumn("fault", fault).where(F.col("fault").isNotNull())
    return findings(
        found,
        F.col("fault"),
        view="view",
        processes=F.concat(F.array("daemon"), F.coalesce(ghosts, F.array())),
        positions=[F.coalesce(F.get("signals", F.lit(0))["position"], F.col("end_position"))],
    )


PROPERTIES = (
    Property(promises.TRANSITIONAL_SIGNALS, (Event.TRANSSIG,), _look),
    Property(promises.TRANSITIONAL_SIGNALS_OF_DAEMONS, (Event.STRANSSIG,), _look_at_daemons),
)
