"""Tables: messages and views of a journal, events and link samples of traces, as partitioned Parquet.

    messages/  by group and date    what a journal delivered; most questions are about one group or some days
    views/     by kind              views, signals and gaps of a journal: few rows
    events/    by event             the events of traces: every question is about some kinds of events
    runs/                           the runs of these traces, with the names of their daemons
    links/     by run               samples of links: one column a counter

Messages and views are added: a streaming query with a checkpoint goes on where the last one ended, and
Spark's log of the files that it wrote keeps each row once, also after a crash. Events and links are made
anew of all traces in their folder, and take the place of what was there.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.spark.traces import EVENTS, RUNS, ingest_traces, read_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = "messages"
VIEWS = "views"
LINKS = "links"
FIRST_ANSWER_S = 10.0
"""How long a journal may take to answer before Spark is started for it."""
_CHECKPOINTS = "checkpoints"
_DRAFT = "draft"
LINK_COUNTERS = (
    "packets", "received", "resent", "duplicates", "nacks", "unreliable_dropped", "failures", "round_trip_us",
    "window_packets", "in_flight_packets", "waiting_bytes",
)  # fmt: skip


class Ingested(Struct, frozen=True):
    """What one ingest added to a table."""

    table: str
    added: int
    rows: int
    """The number of rows in the table now."""


# Journals -------------------------------------------------------------------------------------------------


def look_for_journal(endpoint: str, groups: str = "") -> None:
    """JournalUnavailable or UsageError if there is nothing to ingest: to be found out, and told in a line,
    before Spark is started."""
    try:
        from antiphon.spark.options import check_options
        from antiphon.spark.places import replicas
    except ImportError:
        return  # there is no Spark; whoever wants a session is told what is missing
    options = {"endpoint": endpoint, "timeoutSeconds": str(FIRST_ANSWER_S)}
    if groups:
        options["groups"] = groups
    try:
        reading, _ = check_options(options)
        replicas(reading).check_groups()
    except UsageError as error:  # made for Spark, whose errors do not say by themselves who speaks
        raise UsageError(str(error).removeprefix("antiphon: ")) from None


def ingest_journal(
    spark: "SparkSession",
    endpoint: str,
    tables: str | Path,
    groups: str = "",
    start: str = "earliest",
    max_rows: int | None = None,
) -> list[Ingested]:
    """Add what a journal has and the tables have not.

    `endpoint` may name several journals of the same groups, with commas between: when one is gone, the next
    one is read from the same place on. `start` counts only the first time.
    """
    from pyspark.sql import functions as F

    options = {"endpoint": endpoint, "start": start}
    if groups:
        options["groups"] = groups
    if max_rows is not None:
        options["maxRowsPerTrigger"] = str(max_rows)
    rows = spark.readStream.format("antiphon").options(**options).load()
    messages = rows.where("kind = 'message'").withColumn("date", F.to_date("delivered"))
    others = rows.where("kind != 'message'")
    return [
        _append(messages, str(tables), MESSAGES, ["group", "date"]),
        _append(others, str(tables), VIEWS, ["kind"]),
    ]


def _append(rows: "DataFrame", tables: str, name: str, partitions: list[str]) -> Ingested:
    """Add all rows that there are now, each once."""
    spark = rows.sparkSession
    before = _count(spark, f"{tables}/{name}", rows.schema)
    query = (
        rows.writeStream.format("parquet")
        .partitionBy(*partitions)
        .option("path", f"{tables}/{name}")
        .option("checkpointLocation", f"{tables}/{_CHECKPOINTS}/{name}")
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    after = _count(spark, f"{tables}/{name}", rows.schema)
    return Ingested(name, after - before, after)


def read_messages(spark: "SparkSession", tables: str | Path) -> "DataFrame":
    """The messages of a journal: the columns of the source, and `date`."""
    from pyspark.sql.types import DateType, StructType

    from antiphon.spark.schema import ROWS

    # Stated, not guessed: a group that is called 2026 stays a text.
    schema = StructType([*ROWS.fields]).add("date", DateType())
    return _read(spark, f"{tables}/{MESSAGES}", schema)


def read_views(spark: "SparkSession", tables: str | Path) -> "DataFrame":
    """The views, signals and gaps of a journal: the columns of the source."""
    from antiphon.spark.schema import ROWS

    return _read(spark, f"{tables}/{VIEWS}", ROWS)


def _read(spark: "SparkSession", path: str, schema: Any) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        return spark.read.schema(schema).parquet(path)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise UsageError(f"there is no table {path}") from None
        raise


def _count(spark: "SparkSession", path: str, schema: Any) -> int:
    try:
        return _read(spark, path, schema).count()
    except UsageError:  # the first time
        return 0


# Traces ---------------------------------------------------------------------------------------------------


def ingest_folder(spark: "SparkSession", folder: str | Path, tables: str | Path) -> list[Ingested]:
    """Make the tables of runs, events and links of the traces in a folder. They are complete before they take
    the place of those that were there."""
    draft = f"{tables}/{_DRAFT}"
    ingest_traces(spark, folder, draft)
    events = read_traces(spark, draft)
    links = links_of(events)
    links.write.mode("overwrite").partitionBy("run").parquet(f"{draft}/{LINKS}")
    schemas = {name: spark.read.parquet(f"{draft}/{name}").schema for name in (RUNS, EVENTS)}
    schemas[LINKS] = links.schema  # there may be no row to tell it
    found = [_replace(spark, str(tables), name, schema) for name, schema in schemas.items()]
    _remove(spark, draft)
    return found


def links_of(events: "DataFrame") -> "DataFrame":
    """One row per sample of a link: run, daemon, peer, daemon_view, position, time_us, state, and a column
    for each counter."""
    from pyspark.sql import functions as F

    return events.where("event = 'link'").select(
        "run", "daemon", "peer", "daemon_view", "position", "time_us", "state",
        *(F.col("link")[name].alias(name) for name in LINK_COUNTERS),
    )  # fmt: skip


def _replace(spark: "SparkSession", tables: str, name: str, schema: Any) -> Ingested:
    rows = _count(spark, f"{tables}/{_DRAFT}/{name}", schema)
    before = _count(spark, f"{tables}/{name}", schema)
    _remove(spark, f"{tables}/{name}")
    system, java = _file_system(spark, tables)
    if not system.rename(java(f"{tables}/{_DRAFT}/{name}"), java(f"{tables}/{name}")):
        raise OSError(f"cannot rename {tables}/{_DRAFT}/{name}")
    return Ingested(name, rows - before, rows)


def _remove(spark: "SparkSession", path: str) -> None:
    system, java = _file_system(spark, path)
    system.delete(java(path), True)


def _file_system(spark: "SparkSession", path: str) -> tuple[Any, Any]:
    """Where a path is, and how paths are made: on this machine, or wherever the cluster keeps its files."""
    context: Any = spark.sparkContext
    java = context._jvm.org.apache.hadoop.fs.Path
    return java(path).getFileSystem(context._jsc.hadoopConfiguration()), java
