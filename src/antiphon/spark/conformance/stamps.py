"""The timestamps, or the places, of bundles along one life of a daemon: each compared with the newest one
before it."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.verdict import bundle_name, findings, text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_newest(bundles: "DataFrame", counts: "Column | None" = None) -> "DataFrame":
    """Bundles that were sent or delivered, with `newest` (stamp, bundle, position): the one with the greatest
    `stamp` that came before, among those that count."""
    one = F.struct("stamp", "bundle", "position")
    newest = F.max(one if counts is None else F.when(counts, one))
    return bundles.withColumn("newest", newest.over(earlier("daemon", "life")))


def after_newest(bundles: "DataFrame", pattern: str) -> "DataFrame":
    """A finding for each, told with its name and stamp and with those of the newest one before."""
    return findings(
        bundles,
        text(pattern, bundle_name(), "stamp", bundle_name("newest.bundle"), "newest.stamp"),
        view=F.col("bundle")[0],
        processes=["daemon"],
        positions=[F.col("newest.position"), F.col("position")],
    )
