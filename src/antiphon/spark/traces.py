"""Traces as tables: files of traces, or Parquet that was made of them, as a DataFrame of events.

One JSON file per run, or many files per live run, become one table with a row per event. Every column has a
stated type: nothing is guessed from the data. In a live run (`live`) `position` is the place in one file, so
it orders the events of one process, or of one life of a daemon, and nothing else. Code that reads these
tables uses it for nothing else, whatever kind of run it reads.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from antiphon.errors import UsageError
from antiphon.spark.headers import HEADER_START, first_lines
from antiphon.spark.small import held
from antiphon.trace import FORMAT, VERSION, Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

EVENTS = "events"
"""Folder of the ingested table, in the folder of tables; partitioned by the column `event`."""
RUNS = "runs"
_TORN = "torn"
"""Not an event: the value of the column `event` for lines that are not JSON."""
_TORN_MAX = 10_000
"""Lines that are looked at: one a file is harmless, and no cluster has as many processes."""
_STRANGE = f"not a trace of format version {VERSION}"
_NAMED_MAX = 3
"""Files that an error names."""
_OPEN_COST_BYTES = 256 * 1024
"""Many runs are small files: Spark is to read many of them in one task."""


def event_schema() -> Any:
    """The columns of one line of a trace file: those of `antiphon.trace.Record`, and
    what tells other lines apart. Lists of values of several types are texts here, see `_locks`."""
    from pyspark.sql.types import (
        ArrayType,
        BooleanType,
        DoubleType,
        LongType,
        MapType,
        StringType,
        StructField,
        StructType,
    )

    text, number, flag = StringType(), LongType(), BooleanType()
    texts, numbers = ArrayType(text), ArrayType(number)
    columns = {
        "run": text, "position": number, "time_us": number, "event": text, "daemon": text, "process": text,
        "groups": texts, "views": ArrayType(numbers), "message": numbers, "count": number, "service": text,
        "checksum": number, "self_discard": flag, "views_wanted": flag, "members": texts,
        "transitional": texts, "changed": texts, "minimum": number, "delivery": text, "has_quorum": flag,
        "locks": ArrayType(texts), "cause": text, "buffers": MapType(text, numbers),
        "incarnation": number, "daemon_view": number, "incarnations": numbers, "links": ArrayType(texts),
        "bundle": numbers, "lts": number, "place": number, "is_loose": flag, "resilience": text,
        "destinations": texts,
        "state": text, "reason": text, "parts": ArrayType(texts), "bound_us": number, "peer": text,
        "link": MapType(text, DoubleType()), "clock": MapType(text, number), "true_us": number,
        "call": text, "person": text,
        "format": text, _TORN: text,
    }  # fmt: skip
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def read_traces(spark: "SparkSession", folder: str | Path) -> "DataFrame":
    """The events of all runs in a folder of traces, or of tables that `ingest_traces` made there.

    Columns: those of `antiphon.trace.Record` with its defaults, and `run`, `scenario`, `seed`, `live`,
    `at_edge` (whether it happened at an edge, or at a process there). UsageError if there are no traces, or
    files that are not traces.
    """
    from pyspark.sql import functions as F

    lines = _table(spark, f"{folder}/{EVENTS}")
    if lines is None:
        lines = _lines(spark, str(folder), _headers(spark, str(folder)))
        _refuse_broken(lines)
    return lines.where(F.col("event") != _TORN).drop("file", _TORN).withColumns(_defaults())


def hold_traces(spark: "SparkSession", folder: str | Path) -> "tuple[DataFrame, DataFrame]":
    """What `read_traces` and `read_runs` give of a folder of few trace files, read once, held in memory."""
    from pyspark.sql import functions as F

    runs = _few(spark, *_runs(_checked(*first_lines(Path(folder)), str(folder))))
    lines = held(_lines(spark, str(folder), runs).withColumns(_defaults()))
    _refuse_broken(lines)
    return lines.where(F.col("event") != _TORN).drop("file", _TORN), runs


def read_runs(spark: "SparkSession", folder: str | Path) -> "DataFrame":
    """The runs in such a folder: `run`, `scenario`, `seed`, `live`, `daemons` (names, by number), `sites` (of
    the daemons, if known), `edges` (names)."""
    runs = _table(spark, f"{folder}/{RUNS}")
    return _headers(spark, str(folder)) if runs is None else runs


def each_message(bundles: "DataFrame") -> "DataFrame":
    """Bundles with `message` and `count`, once for each message of a client in them, which is `message`."""
    from pyspark.sql import functions as F

    first = F.col("message")[3]
    numbers = F.sequence(first, first + F.col("count") - 1)
    own = F.transform(numbers, lambda number: F.concat(F.slice("message", 1, 3), F.array(number)))
    return bundles.where(F.col("message").isNotNull()).withColumn("message", F.explode(own))


def refused(events: "DataFrame") -> "DataFrame | None":
    """The messages that daemons refused, which count as never sent: run, message; None if there are none.

    The records of a simulated run say so of themselves: their event is `unsent`. In a live run the daemon's
    file says so, and the session's file has `send`: see `antiphon.trace.unsent`, which is the specification.
    """
    told = events.where((events["event"] == Event.UNSENT) & (events["process"] == ""))
    if told.limit(1).count() == 0:
        return None
    return each_message(told.select("run", "message", "count")).select("run", "message").distinct()


def ingest_traces(spark: "SparkSession", folder: str | Path, out: str | Path) -> None:
    """Write the traces in `folder` as Parquet: `out`/events, partitioned by event, and `out`/runs.

    The JSON is parsed once. Afterwards `read_traces` and `read_runs` of `out` read only the columns and the
    events that a job asks for.
    """
    _headers(spark, str(folder)).write.mode("overwrite").parquet(f"{out}/{RUNS}")
    lines = _lines(spark, str(folder), spark.read.parquet(f"{out}/{RUNS}"))
    lines.write.mode("overwrite").partitionBy("event").parquet(f"{out}/{EVENTS}")
    _refuse_broken(spark.read.parquet(f"{out}/{EVENTS}"))


def is_ingested(spark: "SparkSession", folder: str | Path) -> bool:
    """Whether a folder has the tables that `ingest_traces` makes."""
    return _table(spark, f"{folder}/{EVENTS}") is not None


def _table(spark: "SparkSession", path: str) -> "DataFrame | None":
    """A table that was ingested; None if it was not."""
    from pyspark.errors import AnalysisException

    try:
        return spark.read.parquet(path)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return None
        raise


def _files(spark: "SparkSession") -> "DataFrameReader":
    spark.conf.set("spark.sql.files.openCostInBytes", str(_OPEN_COST_BYTES))
    return spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.jsonl")


def _lines(spark: "SparkSession", folder: str, runs: "DataFrame") -> "DataFrame":
    """Every event of every trace file, and every line that is not JSON.

    What a record leaves out stays null, also in the table that is ingested: that costs next to nothing there.
    """
    from pyspark.sql import functions as F

    reader = _files(spark).schema(event_schema()).option("columnNameOfCorruptRecord", _TORN)
    lines = reader.json(folder).where(F.col("format").isNull()).drop("format")
    kind = F.when(F.col(_TORN).isNotNull(), _TORN).otherwise(F.coalesce("event", F.lit(_TORN)))
    lines = lines.withColumns(
        {"event": kind, "file": F.when(kind == _TORN, F.col("_metadata.file_path")), "locks": _locks()}
    )
    known = runs.select("run", "scenario", "seed", "live", "edges")
    lines = lines.join(F.broadcast(known), "run", "left")
    at_edge = F.array_contains("edges", F.col("daemon"))
    return lines.withColumn("at_edge", F.coalesce(at_edge, F.lit(False))).drop("edges")


def _locks() -> "Column":
    """The locks of a record, as lists of structs: name, holder, fence, waiting."""
    from pyspark.sql import functions as F

    return F.transform(
        "locks",
        lambda lock: F.struct(
            lock[0].alias("name"),
            lock[1].alias("holder"),
            lock[2].cast("bigint").alias("fence"),
            F.from_json(lock[3], "array<string>").alias("waiting"),
        ),
    )


LOCKS = "array<struct<name:string,holder:string,fence:bigint,waiting:array<string>>>"
"""The type of the column `locks`."""


def _defaults() -> "dict[str, Column]":
    """What a record means by the fields that it leaves out."""
    from pyspark.sql import functions as F

    schema = event_schema()

    def otherwise(names: str, value: object) -> "dict[str, Column]":
        return {
            name: F.coalesce(F.col(name), F.lit(value).cast(schema[name].dataType)) for name in names.split()
        }

    empty = F.array()
    lists = "groups views members transitional changed incarnations links destinations parts"
    return {
        **otherwise("process daemon service delivery resilience cause state reason peer call person", ""),
        **otherwise("checksum minimum incarnation daemon_view lts place bound_us", 0),
        **otherwise("count", 1),
        **otherwise("self_discard is_loose", False),
        **otherwise("views_wanted has_quorum", True),
        **{name: F.coalesce(F.col(name), empty.cast(schema[name].dataType)) for name in lists.split()},
        "locks": F.coalesce(F.col("locks"), empty.cast(LOCKS)),
    }


# Which runs there are -------------------------------------------------------------------------------------


def _headers(spark: "SparkSession", folder: str) -> "DataFrame":
    """One row per run, from the first lines of all files."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        lines = _files(spark).text(folder).withColumn("file", F.col("_metadata.file_path"))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise UsageError(f"there is no folder {folder}") from None
        raise
    files = set(lines.inputFiles())
    told = lines.where(F.col("value").startswith(HEADER_START))
    headers = told.select("file", F.from_json("value", _header_schema()).alias("header"))
    headers = headers.select("file", "header.*").fillna(False, ["live"])
    found = _checked({_plain(file) for file in files}, headers.collect(), folder)
    return spark.createDataFrame(*_runs(found))


def _checked(files: set[str], headers: list[Any], folder: str) -> list[Any]:
    """The headers of all files, if each has a good one; UsageError otherwise."""
    if not files:
        raise UsageError(f"no traces in {folder}: expected files that end in .jsonl, or a folder {EVENTS}")
    good = {header.file for header in headers if header.format == FORMAT and header.version == VERSION}
    _refuse(files - {_plain(file) for file in good}, _STRANGE)
    _refuse_doubles(headers)
    return headers


def _runs(headers: list[Any]) -> tuple[list[Any], Any]:
    """One row per run, and their schema. There is one header a file, so they are brought together here: every
    line of every file was looked at to find them, and would be again."""
    from pyspark.sql.types import StructType

    schema = _header_schema()
    names = ("run", "scenario", "seed", "live", "daemons", "sites", "edges")
    runs: dict[str, dict[str, Any]] = {}
    for header in headers:
        known = runs.setdefault(header.run, dict.fromkeys(names))
        for name in names:
            value = getattr(header, name)
            if name == "edges":  # each edge of a live run writes files of its own, and names itself alone
                value = sorted({*(known[name] or ()), *(value or ())})
            # In a live run not every process knows all of it: a client is told of its own daemon only.
            if known[name] is None or (isinstance(value, list) and len(value) > len(known[name])):
                known[name] = value
    rows = [tuple(known[name] for name in names) for known in runs.values()]
    return rows, StructType([schema[name] for name in names])


def _few(spark: "SparkSession", rows: list[Any], schema: Any) -> "DataFrame":
    """A table of a few rows, as one value in the plan: no job is needed to have it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    told = json.dumps([dict(zip(schema.names, row, strict=True)) for row in rows])
    return spark.range(1).select(F.inline(F.from_json(F.lit(told), ArrayType(schema))))


def _header_schema() -> Any:
    """The columns of the first line of a file."""
    from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

    text, texts = StringType(), ArrayType(StringType())
    columns = {
        "format": text, "version": LongType(), "run": text, "scenario": text, "seed": LongType(),
        "daemons": texts, "sites": texts, "live": BooleanType(), "edges": texts,
    }  # fmt: skip
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def _plain(file: str) -> str:
    """The plain path of a file, however Spark writes it."""
    return unquote(file).replace("file:///", "/").replace("file:/", "/")


def _refuse(files: set[str], why: str) -> None:
    if files:
        names = ", ".join(Path(file).name for file in sorted(files)[:_NAMED_MAX])
        more = f" and {len(files) - _NAMED_MAX} more" if len(files) > _NAMED_MAX else ""
        raise UsageError(f"{names}{more}: {why}")


def _refuse_doubles(headers: list[Any]) -> None:
    """A simulated run is one file. Two of one name would be read as one run, and make no sense."""
    files: dict[str, set[str]] = {}
    for header in headers:
        if not header.live:
            files.setdefault(header.run, set()).add(header.file)
    for run, places in files.items():
        if len(places) > 1:
            _refuse(places, f"these are traces of one and the same run, {run}")


def _refuse_broken(lines: "DataFrame") -> None:
    """Refuse files with lines that are not JSON, but for one torn line at the very end of a file.

    A process that is killed tears the last line that it writes. Any other line that cannot be read means that
    the file is not what it should be, and that no verdict can rely on it.
    """
    from pyspark.sql import functions as F

    torn = lines.where(F.col("event") == _TORN).select("file", _TORN).limit(_TORN_MAX).collect()
    texts: dict[str, list[str]] = {}
    for row in torn:
        texts.setdefault(row.file, []).append(row[_TORN] or "")
    spark = lines.sparkSession
    broken = {file for file, found in texts.items() if len(found) > 1 or not _is_end(spark, file, found[0])}
    _refuse(broken, "not a trace: a line is not JSON")


def _is_end(spark: "SparkSession", file: str, text: str) -> bool:
    """Whether `file` ends in `text`, without a line end after it."""
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(file)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    size = min(len(text.encode()) + 1, system.getFileStatus(path).getLen())
    stream = system.open(path)
    try:
        stream.seek(system.getFileStatus(path).getLen() - size)
        tail = bytes(java.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
    return bool(text) and tail.endswith(text.encode())
