"""2.13, parts 3 and 4, group by group: the members of a view see one sequence of ordered messages.

`one_order` says that what they deliver has one order. This says that nothing is missing, so that those who
have the same messages have the same sequence:

- Those who leave a view together have the same messages in it, and so have all to whom no signal told that
  some are lost.
- No member has a gap up to the signal, nor has one who disconnects: whatever another member delivered in the
  view, and has a smaller timestamp than something that was delivered here before the signal, was delivered
  here as well (part 3).
- After the signal, gaps are for what the lost ones sent: the messages of those who come along are there (part
  4).

Members that chose less than this order are left out. The simulator's oracle says what comes before from the
sequences of two members; here the timestamps do, which also speaks of those who have no message in common.
Between daemons, parts 3 and 4 are about all bundles of the view, whatever their service, but for loose ones:
these have no place before or after others. A group that had an early signal is judged on its own there.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import is_in_order, is_ordered, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    # What its sender did not want back may be missing at the sender; as in the oracle, this is no fault.
    judged = (
        traffic(model)
        .lacks.where(is_ordered() & F.col("end").isNotNull() & ~F.coalesce("self_discard", F.lit(False)))
        .where(is_in_order("choice"))
        .withColumn("takers", F.filter("takers", _got_it_in_order))
        .where(F.size("takers") > 0)
    )
    lts, never = F.col("lts"), ~F.col("is_elsewhere")
    is_whole = ~F.col("is_signalled") & (F.col("end") != "cut")
    came_along = F.array_contains("end_transitional", F.col("sender")) & (F.col("end") == "view")
    fault = (
        F.when(
            is_whole & F.exists("takers", lambda one: ~one["is_signalled"]),
            F.lit("one member stopped before this message, and no member was lost"),
        )
        .when(
            F.col("is_signalled") & (F.col("end") != "cut") & F.exists("takers", _is_companion),
            F.lit("one member lacks a message that others have who went on together with it"),
        )
        .when(
            never & (lts < F.col("before_lts")),
            F.lit("one member lacks a message before the signal and delivered later ones"),
        )
        .when(
            never & came_along & (lts < F.col("after_lts")),
            F.lit("one member lacks a message of one who came along and delivered later ones"),
        )
    )
    found = judged.withColumn("fault", fault).where(F.col("fault").isNotNull())
    return findings(
        found,
        F.concat(text("in view %s of %s ", "view", "group"), "fault"),
        group="group",
        view="view",
        processes=[F.col("process"), F.col("takers")[0]["process"]],
        messages=["message"],
        positions=["first_position"],
    )


def _got_it_in_order(taker: "Column") -> "Column":
    """Whether one who delivered it wants the group's messages in order."""
    return is_in_order(taker["choice"]) & is_ordered(taker["service"])


def _is_companion(taker: "Column") -> "Column":
    """Whether one who delivered it had a signal, too, and goes on together with the one who lacks it."""
    return taker["is_signalled"] & (taker["end"] != "cut") & taker["next_view"].eqNullSafe(F.col("next_view"))


def _look_at_daemons(model: Model) -> "DataFrame":
    lacks = traffic(model).bundle_lacks.where(
        F.col("end").isNotNull() & (F.size("takers") > 0) & ~F.col("is_loose")
    )
    is_split = F.exists("signals", lambda one: F.size(one["groups"]) > 0)
    has_moved = (F.size("signals") > 0) & (F.col("end") == "view")
    rank = F.col("rank")
    came_along = F.coalesce(
        has_moved & F.array_contains("end_transitional", F.col("source")) & (rank < F.col("newest_rank")),
        F.lit(False),
    )
    judged = lacks.withColumns({"is_split": is_split, "came_along": came_along})
    plain = judged.where(
        F.col("came_along") | F.coalesce(~F.col("is_split") & (rank < F.col("before_rank")), F.lit(False))
    )
    split = judged.where("is_split and not came_along")
    found = plain.unionByName(_in_its_groups(model, split))
    witness = F.col("takers")[0]
    return findings(
        found,
        text(
            "%s lacks %s, which %s delivered, and has later ones",
            "daemon", bundle_name(), witness["daemon"],
        ),
        view="view",
        processes=[F.col("daemon"), witness["daemon"]],
        positions=[witness["position"]],
    )  # fmt: skip


def _in_its_groups(model: Model, lacks: "DataFrame") -> "DataFrame":
    """The bundles that a daemon lacks in a view with early signals and that precede others to the same
    group."""

    def each_group() -> "Column":
        return F.explode(F.when(F.size("groups") > 0, F.col("groups")).otherwise(F.array(F.lit(""))))

    key = ["run", "daemon", "view"]
    newest = (
        model.bundle_deliveries.where(is_ordered() & ~F.col("is_after_signal"))
        .select("run", "daemon", F.col("term_view").alias("view"), "groups", "rank")
        .join(lacks.select(*key).distinct(), key, "left_semi")
        .select(*key, each_group().alias("group"), "rank")
        .groupBy(*key, "group")
        .agg(F.max("rank").alias("reach_rank"))
    )
    return (
        lacks.withColumn("group", each_group())
        .join(newest, [*key, "group"])
        .where(F.col("rank") < F.col("reach_rank"))
        .dropDuplicates(["run", "daemon", "bundle"])
        .select(*lacks.columns)
    )


PROPERTIES = (
    Property(promises.AGREED, (Event.DELIVER,), _look),
    Property(promises.AGREED_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
