"""One-way latency between daemons: from `ssend` at one to `hold` at another, by the time that both know.

The records of a live daemon are stamped by its machine's system clock. Samples (`clock`) tell what the common
time was when that clock showed something. So a moment between two samples of one daemon has a common time,
too, whose error is at most

    the greater error of the two samples
    + by how much the system clock was moved against the common time from one to the other
    + what a system clock may drift until the nearer of them.

The second term makes up for a clock that was set between them: the moment is then wrong by no more than the
step. Moments that are not between two samples of one basis have no common time, and neither have two moments
of different bases: what cannot be compared is counted and left out. The error of a latency is the sum of both
errors. The true percentile of latencies lies between the percentiles of their lower and of their upper ends.

In simulated runs all records have one clock, and there is no error.
"""

from typing import TYPE_CHECKING, Any

from antiphon.limits import CLOCK_DRIFT_MAX_PPM
from antiphon.spark.report.figures import OneWay, OneWays
from antiphon.spark.report.latency import PERCENTILE_ACCURACY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MILLION = 1_000_000
VIRTUAL = "virtual"
"""The basis of simulated runs."""
_QUANTILES = (0.5, 0.99)


def one_ways_of(events: "DataFrame", places: "DataFrame") -> OneWays:
    """The latencies between places; `places` has run, daemon and place."""
    from pyspark.sql import functions as F

    trips = _trips(timed(events))
    at = [
        F.broadcast(places.select("run", F.col("daemon").alias(end), F.col("place").alias(f"{end}_at")))
        for end in ("origin", "target")
    ]
    took = F.col("came_us") - F.col("left_us")
    error = F.col("came_error_us") + F.col("left_error_us")
    is_known = F.coalesce(F.col("left_basis") == F.col("came_basis"), F.lit(False))
    rows = (
        trips.join(at[0], ["run", "origin"], "left")
        .join(at[1], ["run", "target"], "left")
        .withColumns({"took": F.when(is_known, took), "error": F.when(is_known, error)})
        .groupBy("origin_at", "target_at")
        .agg(
            F.count("*").alias("all"),
            F.count("took").alias("bundles"),
            F.count_if(F.col("took") + F.col("error") < 0).alias("impossible"),
            _quantiles(F.col("took") - F.col("error")).alias("low"),
            _quantiles(F.col("took")).alias("middle"),
            _quantiles(F.col("took") + F.col("error")).alias("high"),
            F.max("error").alias("error_max"),
            F.array_sort(F.collect_set(F.when(is_known, F.col("left_basis")))).alias("bases"),
        )
        .collect()
    )
    rows.sort(key=lambda row: (-row.bundles, row.origin_at or "", row.target_at or ""))
    return OneWays(
        pairs=tuple(_pair(row) for row in rows if row.bundles and row.origin_at and row.target_at),
        known=sum(row.bundles for row in rows),
        unknown=sum(row.all - row.bundles for row in rows),
        impossible=sum(row.impossible for row in rows),
    )


def _quantiles(value: "Column") -> "Column":
    from pyspark.sql import functions as F

    return F.percentile_approx(value, list(_QUANTILES), PERCENTILE_ACCURACY)


def _pair(row: Any) -> OneWay:
    # A bundle does not come before it is sent: what the bounds leave below zero is no part of the answer.
    low, middle, high = ([max(0, took_us) for took_us in row[name]] for name in ("low", "middle", "high"))
    p50_us, p99_us = middle
    errors = [max(one - least, most - one) for least, one, most in zip(low, middle, high, strict=True)]
    bases = tuple(sorted({basis.split()[0] for basis in row.bases}))
    return OneWay(
        row.origin_at, row.target_at, row.bundles, p50_us, errors[0], p99_us, errors[1], row.error_max, bases
    )


def _trips(moments: "DataFrame") -> "DataFrame":
    """A row for each bundle and daemon that it came to: run, origin, target, and for both ends the common
    time, its error and its basis."""
    from pyspark.sql import functions as F

    def end(event: str, daemon: str, word: str) -> "DataFrame":
        # A second record of the same thing (a bundle that a recovery brought once more) tells nothing new.
        firsts = moments.where(F.col("event") == event).groupBy("run", "bundle", "daemon")
        names = ("common_us", "error_us", "basis")
        columns = [F.min_by(name, "position").alias(name) for name in names]
        return firsts.agg(*columns).select(
            "run",
            "bundle",
            F.col("daemon").alias(daemon),
            F.col("common_us").alias(f"{word}_us"),
            F.col("error_us").alias(f"{word}_error_us"),
            F.col("basis").alias(f"{word}_basis"),
        )

    left, came = end("ssend", "origin", "left"), end("hold", "target", "came")
    return left.join(came, ["run", "bundle"]).where("origin != target")


def timed(events: "DataFrame") -> "DataFrame":
    """The ssend and hold records, with the common time of each, its error and its basis; null where there is
    none."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_sample = F.col("event") == "clock"
    # Of references there is one time, that of the world; of internal times many.
    basis = F.when(F.col("state") == "reference", F.col("state")).otherwise(
        F.concat_ws(" ", "state", "peer", F.col("clock")["since_us"].cast("string"))
    )
    sample = F.struct(
        F.col("time_us").alias("shown_us"),
        (F.col("clock")["time_us"] - F.col("time_us")).alias("ahead_us"),
        F.col("clock")["error_us"].alias("error_us"),
        basis.alias("basis"),
    )
    daemon = Window.partitionBy("run", "daemon").orderBy("position")
    so_far = daemon.rowsBetween(Window.unboundedPreceding, 0)
    marked = events.where("event in ('ssend', 'hold', 'clock', 'recover')").withColumns(
        {
            # Lives of one daemon are told apart: between two of them its machine may have been another.
            "life": F.count_if(F.col("event") == "recover").over(so_far),
            "sample": F.when(is_sample, sample),
        }
    )
    life = Window.partitionBy("run", "daemon", "life").orderBy("position")
    before = F.last("sample", ignorenulls=True).over(life.rowsBetween(Window.unboundedPreceding, 0))
    after = F.first("sample", ignorenulls=True).over(life.rowsBetween(0, Window.unboundedFollowing))
    bracketed = marked.withColumns({"before": before, "after": after}).where("event in ('ssend', 'hold')")
    return bracketed.select("run", "bundle", "daemon", "event", "position", *_common_time())


def _common_time() -> "list[Column]":
    """The common time of a moment between the samples `before` and `after`, its error and its basis."""
    from pyspark.sql import functions as F

    before, after = F.col("before"), F.col("after")
    is_known = F.coalesce(before["basis"] == after["basis"], F.lit(False))
    since_us = F.greatest(F.col("time_us") - before["shown_us"], F.lit(0))
    until_us = F.greatest(after["shown_us"] - F.col("time_us"), F.lit(0))
    moved_us = after["ahead_us"] - before["ahead_us"]
    share = since_us / F.greatest(since_us + until_us, F.lit(1))
    ahead_us = before["ahead_us"] + F.round(moved_us * share).cast("bigint")
    drift_us = F.ceil(F.least(since_us, until_us) * CLOCK_DRIFT_MAX_PPM / MILLION)
    error_us = F.greatest(before["error_us"], after["error_us"]) + F.abs(moved_us) + drift_us
    time_us = F.col("time_us")
    return [
        F.when(~F.col("live"), time_us).when(is_known, time_us + ahead_us).alias("common_us"),
        F.when(~F.col("live"), F.lit(0)).when(is_known, error_us).alias("error_us"),
        F.when(~F.col("live"), F.lit(VIRTUAL)).when(is_known, before["basis"]).alias("basis"),
    ]
