"""2.4: who came along from the previous view.

Processes that are not told of views know only those that they joined with: there they are like any other,
later they are left out. Those who came into one view from the same previous view are brought together by an
aggregation; each different set is then compared with that list, once.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, either, finding, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    terms = model.terms.where(F.col("previous").isNull() | F.col("knows_views"))
    return _judge(terms.withColumn("name", F.col("process")))


def _look_at_daemons(model: Model) -> "DataFrame":
    terms = model.daemon_terms.withColumns({"name": F.col("daemon"), "group": F.lit("")})
    is_crowded = F.col("previous").isNull() & (F.col("members") != F.array("daemon"))
    crowded = findings(
        terms.where(is_crowded),
        text("the first view of %s after its start has others", "daemon"),
        view="view",
        processes=["daemon"],
        positions=["start_position"],
    )
    return crowded.unionByName(_judge(terms))


def _judge(terms: "DataFrame") -> "DataFrame":
    """`terms` has: run, group, view, previous, name, members, previous_members, transitional."""
    view = ["run", "group", "view"]
    sets = (
        terms.groupBy(*view, "previous", F.array_sort("transitional").alias("transitional"))
        .agg(
            F.min(F.struct("name", F.col("start_position").alias("position"))).alias("first"),
            F.min_by(F.array_intersect("previous_members", "members"), "name").alias("in_both"),
            F.collect_set("name").alias("names"),
        )
        .groupBy(*view)
        .agg(
            F.collect_list(F.struct("previous", "transitional", "first", "in_both", "names")).alias("sets"),
            F.array_distinct(F.flatten(F.collect_list("names"))).alias("all_names"),
        )
    )
    each = sets.select(*view, "sets", "all_names", F.explode("sets").alias("one")).select("*", "one.*")
    came_too = F.filter("sets", lambda other: other["previous"] == F.col("previous"))
    each = each.withColumn("came_too", came_too).withColumns(
        {
            "companions": F.array_distinct(F.flatten(F.transform("came_too", lambda one: one["names"]))),
            "other": F.array_min(
                F.transform("came_too", lambda one: F.struct(one["first"], one["transitional"]))
            ),
        }
    )
    return either(each, *_cases())


def _cases() -> "Iterator[tuple[Column, Column]]":
    """What can be wrong with one transitional set, in the light of all who came into the view."""
    is_first, name, here = F.col("previous").isNull(), F.array("first.name"), ["first.position"]
    yield (
        is_first & (F.size("transitional") > 0),
        finding(
            text("the first view after a start has a transitional set"),
            group="group", view="view", processes=name, positions=here,
        ),
    )  # fmt: skip
    foreign = F.array_except("transitional", "in_both")
    yield (
        ~is_first & (F.size(foreign) > 0),
        finding(
            text("the transitional set has members that were not in both views"),
            group="group", view="view", processes=F.concat(name, foreign), positions=here,
        ),
    )  # fmt: skip
    seen = F.array_intersect("transitional", "all_names")
    difference = F.array_union(F.array_except(seen, "companions"), F.array_except("companions", seen))
    yield (
        ~is_first & (F.size(difference) > 0),
        finding(
            text("its transitional set is wrong about those who came from view %s", "previous"),
            group="group", view="view", processes=F.concat(name, difference), positions=here,
        ),
    )  # fmt: skip
    yield (
        ~is_first & (F.col("transitional") != F.col("other.transitional")),
        finding(
            text("both came from the same view and have different transitional sets"),
            group="group", view="view", processes=["other.first.name", "first.name"],
            positions=["other.first.position", "first.position"],
        ),
    )  # fmt: skip


PROPERTIES = (
    Property(promises.TRANSITIONAL_SET, (Event.VIEW,), _look),
    Property(promises.TRANSITIONAL_SET_OF_DAEMONS, (Event.SVIEW,), _look_at_daemons),
)
