"""2.13, part 2, across all groups: one order for everything.

The simulator's oracle lays side by side what each process saw and looks for a circle. Here the order is read
from the places, which are timestamps: every bundle has one that no other has, and so has the agreed event
that makes a view. If a message has the same one at all receivers, and none of them delivers anything reliable
after an ordered message or a view that is later, then the order of places is one order that all receivers
follow. This asks for more than that such an order exists: that it is the order of places, which is how our
daemons decide.

In the adaptive order some bundles are loose: they have no place, and nothing is said of them here. And what
is not ordered and waits for its place at the end of a view gets one that it may share, on each side of a cut
another one.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.stamps import after_newest, with_newest
from antiphon.spark.conformance.traffic import is_ordered, is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    return _out_of_order(model).unionByName(_stamped_twice(model))


def _out_of_order(model: Model) -> "DataFrame":
    delivered = model.deliveries.where(is_reliable()).select(
        "run", "process", "position", "message", "lts", is_ordered().alias("is_ordered"),
        F.slice("message", 1, 3).alias("session"),
    )  # fmt: skip
    views = model.views.where(F.col("view").isNotNull()).select(
        "run", "process", "position", F.col("view")[2].alias("lts"), F.lit(True).alias("is_ordered")
    )
    newest = F.max(F.when(F.col("is_ordered"), F.struct("lts", "session", "message", "position")))
    both = model.parts(delivered.unionByName(views, allowMissingColumns=True))
    seen = both.withColumn("newest", newest.over(earlier("process")))
    later, this = F.col("newest.lts"), F.col("lts")
    shared = (later == this) & (F.col("newest.session") != F.col("session"))
    # Few are found, so those are left out only now that have no place, or one that they may share.
    is_unplaced = F.col("is_loose").isNotNull()
    is_free = F.col("is_loose") | (is_unplaced & (later == this))
    found = (
        seen.where((later > this) | F.coalesce(shared, F.lit(False)))
        .join(traffic(model).unplaced, ["run", "message"], "left")
        .where(~F.coalesce(is_free, F.lit(False)))
    )
    return findings(
        found,
        text("what has lts %s was delivered after an ordered message or a view with lts %s", this, later),
        processes=["process"],
        messages=[F.col("message"), F.col("newest.message")],
        positions=[F.col("newest.position"), F.col("position")],
    )


def _stamped_twice(model: Model) -> "DataFrame":
    """Messages that have different places in the order at different receivers."""
    stamps, places = F.col("stamps"), F.col("places")
    # An ordered bundle has one place, unless it got none before the end of a view: then each side gives one.
    is_late = F.forall("takers", lambda one: one["is_after_signal"])
    may_differ = ~is_ordered() | (F.size(places) == 1) | is_late
    is_in_place = F.array_contains(places, stamps[0]) & F.array_contains(places, stamps[1]) & may_differ
    found = (
        traffic(model)
        .messages.where(is_reliable() & ((stamps[0] != stamps[1]) | (stamps[1] != F.col("lts"))))
        .join(traffic(model).bundles.select("run", "bundle", "places", "takers"), ["run", "bundle"], "left")
        .where(~F.coalesce(is_in_place, F.lit(False)))
    )
    return findings(
        found,
        text(
            "delivered with lts %s and with lts %s", F.col("stamps")[0], F.greatest("lts", F.col("stamps")[1])
        ),
        messages=["message"],
        positions=["first_position"],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    delivered = model.bundle_deliveries.where("life is not null").select(
        "run", "daemon", "life", "position", "bundle", F.col("rank").alias("stamp"), "service", "is_loose"
    )
    is_late = (F.col("newest.stamp") > F.col("stamp")) & ~F.col("is_loose")
    found = with_newest(delivered, is_ordered()).where(is_late)
    return after_newest(found, "delivered %s at place %s after the ordered %s at place %s")


PROPERTIES = (
    Property(promises.ONE_ORDER, (Event.DELIVER, Event.VIEW), _look),
    Property(promises.ONE_ORDER_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
