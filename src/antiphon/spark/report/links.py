"""Links: packets, retransmissions and round trips of each direction, from the samples of daemons.

A sample has the counters of a link since the daemon view began, and a link begins anew with each view. So the
last sample of a view tells all that this view did, and the views of a run are added up.
"""

from typing import TYPE_CHECKING

from antiphon.spark.report.figures import Link

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTERS = ("packets", "resent", "received", "duplicates", "failures")


def links_of(events: "DataFrame") -> "DataFrame":
    """Every direction: run, origin, target, packets, resent, received (by the other end), duplicates,
    failures, round_trip_us."""
    from pyspark.sql import functions as F

    samples = events.where("event = 'link'").select(
        "run",
        "daemon",
        "peer",
        "daemon_view",
        "position",
        *(F.col("link")[name].alias(name) for name in (*_COUNTERS, "round_trip_us")),
    )
    views = samples.groupBy("run", "daemon", "peer", "daemon_view").agg(
        *(F.max_by(name, "position").alias(name) for name in _COUNTERS),
        F.avg("round_trip_us").alias("round_trip_us"),
    )
    ends = views.groupBy("run", "daemon", "peer").agg(
        *(F.sum(F.coalesce(name, F.lit(0.0))).cast("bigint").alias(name) for name in _COUNTERS),
        F.avg("round_trip_us").alias("round_trip_us"),
    )
    sent = ends.select(
        "run",
        F.col("daemon").alias("origin"),
        F.col("peer").alias("target"),
        "packets",
        "resent",
        "failures",
        F.coalesce("round_trip_us", F.lit(0.0)).alias("round_trip_us"),
    )
    got = ends.select(
        "run", F.col("peer").alias("origin"), F.col("daemon").alias("target"), "received", "duplicates"
    )
    return (
        sent.join(got, ["run", "origin", "target"], "left").fillna(-1, ["received"]).fillna(0, ["duplicates"])
    )


def worst_links(links: "DataFrame", most: int) -> tuple[tuple[Link, ...], int]:
    """Those that had to send most again, for each packet; and how many links there are."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    share = F.col("resent") / F.greatest(F.col("packets") + F.col("resent"), F.lit(1))
    rows = (
        links.withColumn("total", F.count("*").over(Window.partitionBy()))
        .orderBy(F.desc(share), F.desc("packets"), "run", "origin", "target")
        .limit(most)
        .collect()
    )
    found = tuple(
        Link(
            row.run, row.origin, row.target, row.packets, row.resent, row.received, row.duplicates,
            row.failures, row.round_trip_us,
        )
        for row in rows
    )  # fmt: skip
    return found, rows[0].total if rows else 0
