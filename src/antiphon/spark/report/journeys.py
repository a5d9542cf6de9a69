"""The way of each delivered message: one row per delivery, with the time at each station.

    send ──waiting──> ssend ──transport──> hold ──ordering──> sdeliver ──client──> deliver
    (sender)          (its daemon)         (receiver's daemon)                     (receiver)

Deliveries meet their message by its identity, in joins on equal keys, so a job grows with the number of
deliveries. Stations that a trace does not have (unreliable messages have none between, and a client's trace
alone has none of daemons) stay null.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def journeys(events: "DataFrame") -> "DataFrame":
    """Columns: run, service, groups, sender, origin and target (daemons), sent_us, placed_us, held_us,
    turned_us, delivered_us; times as in the trace."""
    from pyspark.sql import functions as F

    key = ["run", "message"]
    sends = events.where("event = 'send'").select(
        "run",
        "message",
        F.col("process").alias("sender"),
        F.col("daemon").alias("origin"),
        F.col("time_us").alias("sent_us"),
    )
    deliveries = events.where("event = 'deliver' and message is not null").select(
        "run",
        "message",
        "service",
        "groups",
        F.col("daemon").alias("target"),
        F.col("time_us").alias("delivered_us"),
    )
    # A second record of the same thing (a message that a recovery brought once more) tells nothing new.
    placed = _each_message(events, "ssend").groupBy(key).agg(F.min("time_us").alias("placed_us"))
    stations = (
        events.where("event in ('hold', 'sdeliver') and message is not null")
        .groupBy("run", F.col("daemon").alias("target"), "message", "count")
        .agg(
            F.min(F.when(F.col("event") == "hold", F.col("time_us"))).alias("held_us"),
            F.min(F.when(F.col("event") == "sdeliver", F.col("time_us"))).alias("turned_us"),
        )
        .where("turned_us is not null")
    )
    stations = (
        _exploded(stations)
        .groupBy(*key, "target")
        .agg(F.min("held_us").alias("held_us"), F.min("turned_us").alias("turned_us"))
    )
    return (
        deliveries.join(sends, key, "left").join(placed, key, "left").join(stations, [*key, "target"], "left")
    )


def _each_message(events: "DataFrame", event: str) -> "DataFrame":
    """The bundles of one event, as one row for each of their messages."""
    from pyspark.sql import functions as F

    bundles = events.where((F.col("event") == event) & F.col("message").isNotNull())
    return _exploded(bundles.select("run", "message", "count", "time_us"))


def _exploded(bundles: "DataFrame") -> "DataFrame":
    """A row for each of the `count` messages from `message` on: their sequences follow one another."""
    from pyspark.sql import functions as F

    first = F.col("message")[3]
    each = bundles.withColumn("sequence", F.explode(F.sequence(first, first + F.col("count") - 1)))
    same_session = F.slice("message", 1, 3)
    return each.withColumn("message", F.concat(same_session, F.array("sequence"))).drop("sequence", "count")
