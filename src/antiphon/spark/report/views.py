"""Views: what the membership of each daemon went through, why, and how long clients had to wait.

A daemon that gathers out of a working view goes on working until a new view is proposed, and a view that was
installed works once its groups are put together. So a pause begins when the view is given up or a proposal is
taken, and ends when the next view works, or with the daemon.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from antiphon.spark.report.figures import Installation, Pause, Run, Spread, StateSpan
from antiphon.spark.report.latency import spread_columns, spread_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DOWN = "down"
STOPPED = "stopped"
"""Why a daemon is down that was told to stop."""
WORKING = ("op", "gop")
"""A daemon view works; the groups of one that was installed are whole."""
_GATHERING = "gather"
_MERGING = "ggather"
_SIGNS_OF_LIFE = ("recover", "stop", "crash", "state", "sview", "stranssig", "buffers", "link")
"""Events that show that a daemon lives, and are few."""


def spans_of(events: "DataFrame") -> "DataFrame":
    """What each daemon went through: run, daemon, state, reason, start_us, end_us, is_working, episode,
    begun_by (the reason for which the episode began). An episode begins with a view that works, or with
    the end of the daemon."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    states = _states_of(events)
    ends = states.groupBy("run").agg(F.max("last_us").alias("run_end_us"))
    daemon = Window.partitionBy("run", "daemon").orderBy("position")
    so_far = daemon.rowsBetween(Window.unboundedPreceding, 0)
    episode = Window.partitionBy("run", "daemon", "episode").orderBy("position")
    in_episode = episode.rowsBetween(Window.unboundedPreceding, 0)
    is_broken = F.max(~F.col("state").isin(*WORKING, _GATHERING)).over(in_episode)
    is_down = F.col("state") == DOWN
    away = ~F.col("state").isin(*WORKING, DOWN)
    return (
        states.withColumn("episode", F.count_if(F.col("state").isin(*WORKING, DOWN)).over(so_far))
        .withColumn("end_us", F.lead("time_us").over(daemon))
        .withColumn("next_state", F.lead("state").over(daemon))
        .withColumn("next_reason", F.lead("reason").over(daemon))
        .withColumn("is_working", ~is_broken & (F.col("episode") > 0))
        .withColumn("begun_by", F.first(F.when(away, F.col("reason")), ignorenulls=True).over(in_episode))
        .join(F.broadcast(ends), "run")
        # What a daemon did after its last sign of life is not known, unless it is known to be down.
        .withColumn("end_us", F.coalesce("end_us", F.when(is_down, F.col("run_end_us")), "last_us"))
        .withColumnRenamed("time_us", "start_us")
        .drop("run_end_us", "last_us")
    )


def _states_of(events: "DataFrame") -> "DataFrame":
    """When each daemon entered a state, or went down: run, daemon, position, time_us, state, reason (`crash`,
    `stopped` or `killed` where it went down), last_us (its last sign of life)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    daemon = Window.partitionBy("run", "daemon").orderBy("position")
    signs = events.where(F.col("event").isin(*_SIGNS_OF_LIFE) & (F.col("daemon") != ""))
    so_far = daemon.rowsBetween(Window.unboundedPreceding, 0)
    begins_or_stops = F.when(F.col("event").isin("recover", "stop"), F.col("event"))
    steps = signs.withColumns(
        {
            "is_planned": F.last(begins_or_stops, ignorenulls=True).over(so_far).eqNullSafe("stop"),
            "seen_us": F.lag("time_us").over(daemon),
            "last_us": F.max("time_us").over(Window.partitionBy("run", "daemon")),
        }
    ).where("event in ('recover', 'crash', 'state')")
    is_crash = F.col("event") == "crash"
    end = F.when(F.col("is_planned"), STOPPED).otherwise("crash")
    entered = steps.where("event != 'recover'").withColumns(
        {
            "state": F.when(is_crash, DOWN).otherwise(F.col("state")),
            "reason": F.when(is_crash, end).otherwise(F.col("reason")),
        }
    )
    # A daemon that was killed wrote no crash: it was down from its last sign of life to its next start.
    killed = (
        steps.withColumn("before", F.lag("event").over(daemon))
        .where("event = 'recover' and before is not null and before != 'crash'")
        .withColumns(
            {
                "position": F.col("position") - 1,
                "time_us": F.col("seen_us"),
                "state": F.lit(DOWN),
                "reason": F.lit("killed"),
            }
        )
    )
    columns = ("run", "daemon", "position", "time_us", "state", "reason", "last_us")
    # A view that is installed in order to put its groups together does not work yet. The records of an
    # installation follow one another: the state, the view, the state of the groups.
    is_merging = (F.lead("state").over(daemon) == _MERGING) & (
        F.lead("position").over(daemon) <= F.col("position") + 2
    )
    return (
        entered.select(*columns)
        .unionByName(killed.select(*columns))
        .withColumn("is_merging", F.coalesce(is_merging, F.lit(False)))
        .where("not (state = 'op' and is_merging)")
        .drop("is_merging")
    )


def pauses_of(spans: "DataFrame") -> "DataFrame":
    """The times in which a daemon that lived took no message of a client: run, daemon, start_us, took_us,
    reason, ended."""
    from pyspark.sql import functions as F

    end = F.when(F.col("next_reason") == STOPPED, "stop").otherwise("crash")
    return (
        spans.where(f"not is_working and state != '{DOWN}'")
        .groupBy("run", "daemon", "episode")
        .agg(
            F.min("start_us").alias("start_us"),
            F.max("end_us").alias("end_us"),
            F.min_by("begun_by", "position").alias("reason"),
            F.max_by("next_state", "position").alias("next_state"),
            F.max_by("next_reason", "position").alias("next_reason"),
        )
        .withColumn("took_us", F.col("end_us") - F.col("start_us"))
        .withColumn(
            "ended", F.when(F.col("next_state") == DOWN, end).otherwise(F.coalesce("next_state", F.lit("")))
        )
    )


def longest_pauses(pauses: "DataFrame", starts_us: dict[str, int], most: int) -> tuple[Pause, ...]:
    """The longest, with times since their run began."""
    from pyspark.sql import functions as F

    rows = pauses.orderBy(F.desc("took_us"), "run", "daemon", "start_us").limit(most).collect()
    return tuple(
        Pause(row.run, row.daemon, row.start_us - starts_us[row.run], row.took_us, row.reason, row.ended)
        for row in rows
    )


def pauses_by_reason(pauses: "DataFrame") -> tuple[Spread, ...]:
    """How long pauses were, by the reason for which the view was left; `deliveries` counts pauses here."""
    from pyspark.sql import functions as F

    rows = pauses.groupBy("reason").agg(*spread_columns(F.col("took_us"))).collect()
    found = [Spread(row.reason or "?", *spread_values(row)) for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.deliveries, one.name)))


def installations_of(events: "DataFrame", spans: "DataFrame") -> "DataFrame":
    """Daemon views that came of another one, so not those of lonely starts: run, daemon_view, first_us,
    last_us, members, installed_at, reasons."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    daemon = Window.partitionBy("run", "daemon").orderBy("position")
    so_far = daemon.rowsBetween(Window.unboundedPreceding, 0)
    views = events.where("event = 'sview' and size(transitional) > 0").select(
        "run",
        "daemon",
        "position",
        "time_us",
        "daemon_view",
        "members",
        F.lit(None).cast("string").alias("begun_by"),
    )
    states = spans.where(~F.col("state").isin(*WORKING, DOWN)).select(
        "run", "daemon", "position", F.col("start_us").alias("time_us"),
        F.lit(None).cast("bigint").alias("daemon_view"), F.lit(None).cast("array<string>").alias("members"),
        "begun_by",
    )  # fmt: skip
    told = views.unionByName(states).withColumn("why", F.last("begun_by", ignorenulls=True).over(so_far))
    return (
        told.where("daemon_view is not null")
        .groupBy("run", "daemon_view")
        .agg(
            F.min("time_us").alias("first_us"),
            F.max("time_us").alias("last_us"),
            F.any_value("members").alias("members"),
            F.count("*").alias("installed_at"),
            F.array_sort(F.collect_set("why")).alias("reasons"),
        )
    )


def largest_changes(
    installations: "DataFrame", starts_us: dict[str, int], most: int
) -> tuple[tuple[Installation, ...], int]:
    """Views in the order in which they came, those that took longest to be installed everywhere if there are
    too many; and how many there are."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rows = (
        installations.withColumn("total", F.count("*").over(Window.partitionBy()))
        .orderBy(F.desc(F.col("last_us") - F.col("first_us")), F.desc(F.size("members")), "run", "first_us")
        .limit(most)
        .collect()
    )
    found = [_installation(row, starts_us[row.run]) for row in rows]
    return tuple(sorted(found, key=lambda one: (one.run, one.first_us))), rows[0].total if rows else 0


def _installation(row: Any, start_us: int) -> Installation:
    return Installation(
        row.run, row.daemon_view, row.first_us - start_us, row.last_us - start_us, tuple(row.members),
        row.installed_at, tuple(row.reasons),
    )  # fmt: skip


def spans_in(spans: "DataFrame", runs: Sequence[Run], most: int) -> dict[str, tuple[StateSpan, ...]]:
    """What is drawn of these runs: the first `most` spans of each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    starts_us = {run.name: run.start_us for run in runs}
    in_run = Window.partitionBy("run").orderBy("start_us", "daemon", "position")
    rows = (
        spans.where(F.col("run").isin(*starts_us))
        .withColumn("place", F.row_number().over(in_run))
        .where(F.col("place") <= most)
        .collect()
    )
    found: dict[str, list[StateSpan]] = {name: [] for name in starts_us}
    for row in sorted(rows, key=lambda row: row.place):
        start_us = starts_us[row.run]
        found[row.run].append(
            StateSpan(
                row.daemon, row.state, row.reason, row.start_us - start_us, row.end_us - start_us,
                row.is_working,
            )
        )  # fmt: skip
    return {name: tuple(rows) for name, rows in found.items()}


def moments_in(installations: "DataFrame", runs: Sequence[Run]) -> dict[str, tuple[int, ...]]:
    """When daemon views were installed for the first time, since the beginning of their run."""
    from pyspark.sql import functions as F

    starts_us = {run.name: run.start_us for run in runs}
    rows = installations.where(F.col("run").isin(*starts_us)).select("run", "first_us").collect()
    found: dict[str, list[int]] = {name: [] for name in starts_us}
    for row in rows:
        found[row.run].append(row.first_us - starts_us[row.run])
    return {name: tuple(sorted(times)) for name, times in found.items()}
