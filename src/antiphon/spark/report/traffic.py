"""Traffic: what there was in each run, who sent most, and how it went over time."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from antiphon.spark.report.figures import Rate, Run, Talker
from antiphon.spark.report.latency import public_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEPS_MAX = 120
"""Steps of time in a plot: about as many as can be told apart."""
_LIFE = ("recover", "stop", "crash")
"""Events that begin and end lives of daemons."""


def runs_of(events: "DataFrame") -> tuple[tuple[Run, ...], dict[str, int]]:
    """Every run with its numbers, and how many events of each kind there are, the most frequent first; in one
    pass."""
    from pyspark.sql import functions as F

    mark = F.struct("daemon", "position", "event")
    rows = (
        events.groupBy("run", "event")
        .agg(
            F.any_value("live").alias("live"),
            F.collect_set("daemon").alias("daemons"),
            F.count("*").alias("times"),
            F.min("time_us").alias("start"),
            F.max("time_us").alias("end"),
            F.collect_list(F.when(F.col("event").isin(*_LIFE), mark)).alias("marks"),
        )
        .collect()
    )
    by_run: dict[str, list[Any]] = {}
    totals: dict[str, int] = {}
    for row in rows:
        by_run.setdefault(row.run, []).append(row)
        totals[row.event] = totals.get(row.event, 0) + row.times
    runs = tuple(_run(name, found) for name, found in sorted(by_run.items()))
    return runs, dict(sorted(totals.items(), key=lambda one: (-one[1], one[0])))


def _run(name: str, rows: Sequence[Any]) -> Run:
    times = {row.event: row.times for row in rows}
    stops, crashes = _ends(sorted(mark for row in rows for mark in row.marks))
    return Run(
        name=name,
        live=rows[0].live,
        daemons=len({daemon for row in rows for daemon in row.daemons if daemon}),
        processes=times.get("connect", 0),
        events=sum(times.values()),
        start_us=min(row.start for row in rows),
        end_us=max(row.end for row in rows),
        sent=times.get("send", 0),
        delivered=times.get("deliver", 0),
        views=times.get("view", 0),
        signals=times.get("transsig", 0),
        installations=times.get("sview", 0) - times.get("recover", 0),
        stops=stops,
        crashes=crashes,
    )


def _ends(marks: Sequence[tuple[str, int, str]]) -> tuple[int, int]:
    """How many daemons ended because they were told to, and how many others; `marks` in the order of each
    daemon. Every end that is recorded is a `crash`, and a planned one has a `stop` before it. A daemon that
    was killed wrote nothing: it is known if it started again."""
    stops = crashes = 0
    before = ("", 0, "")
    for mark in marks:
        (_daemon, _, event), follows = mark, mark[0] == before[0]
        if event == "crash" and follows and before[2] == "stop":
            stops += 1
        elif event == "crash" or (event == "recover" and follows and before[2] != "crash"):
            crashes += 1
        before = mark
    return stops, crashes


def talkers_of(ways: "DataFrame", events: "DataFrame", most: int) -> tuple[Talker, ...]:
    """The processes that sent most, each with its run."""
    from pyspark.sql import functions as F

    sent = events.where("event = 'send'").select(
        "run", "process", F.lit(1).alias("sent"), F.lit(0).alias("delivered")
    )
    delivered = ways.where("sender is not null").select(
        "run", F.col("sender").alias("process"), F.lit(0).alias("sent"), F.lit(1).alias("delivered")
    )
    rows = (
        sent.unionByName(delivered)
        .groupBy("run", "process")
        .agg(F.sum("sent").alias("sent"), F.sum("delivered").alias("delivered"))
        .orderBy(F.desc("sent"), "run", "process")
        .limit(most)
        .collect()
    )
    return tuple(Talker(f"{row.run} {row.process}", row.sent, row.delivered) for row in rows)


def groups_of(events: "DataFrame") -> tuple[Talker, ...]:
    """How much was sent to each group, over all runs; the busiest first."""
    from pyspark.sql import functions as F

    named = events.where("event in ('join', 'send', 'deliver')").select(
        "event", F.explode(F.array_distinct(F.transform("groups", public_name))).alias("name")
    )
    rows = (
        named.groupBy("name")
        .agg(
            F.count_if(F.col("event") == "send").alias("sent"),
            F.count_if(F.col("event") == "deliver").alias("delivered"),
        )
        .collect()
    )
    found = [Talker(row.name, row.sent, row.delivered) for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.sent, -one.delivered, one.name)))


def step_of(run: Run) -> int:
    """A step of time for a plot of a run, in microseconds: 1, 2 or 5 times a power of ten."""
    rough_us = max(1, ceil(run.span_us / STEPS_MAX))
    power: int = 10 ** (len(str(rough_us)) - 1)
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough_us)


def rates_of(events: "DataFrame", runs: Sequence[Run]) -> dict[str, tuple[Rate, ...]]:
    """Messages sent and delivered in each step of each of these runs; steps without any are there, too."""
    from pyspark.sql import functions as F

    step = F.lit(None).cast("bigint")
    for run in runs:
        since = F.floor((F.col("time_us") - run.start_us) / step_of(run))
        step = F.when(F.col("run") == run.name, since).otherwise(step)
    rows = (
        events.where(F.col("run").isin(*(run.name for run in runs)) & F.col("event").isin("send", "deliver"))
        .groupBy("run", step.alias("step"))
        .agg(
            F.count_if(F.col("event") == "send").alias("sent"),
            F.count_if(F.col("event") == "deliver").alias("delivered"),
        )
        .collect()
    )
    found = {(row.run, row.step): (row.sent, row.delivered) for row in rows}
    return {
        run.name: tuple(
            Rate(number * step_of(run), *found.get((run.name, number), (0, 0)))
            for number in range(run.span_us // step_of(run) + 1)
        )
        for run in runs
    }
