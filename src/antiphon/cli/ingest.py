"""The verb `ingest`: what a journal delivered and what traces tell, as Parquet tables."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.cli.options import Json, Master, look_for_traces
from antiphon.cli.screen import working
from antiphon.errors import UsageError


def ingest(
    folder: Annotated[
        str | None, typer.Argument(metavar="DIR", help="Folder of traces.", show_default=False)
    ] = None,
    out: Annotated[str, typer.Option("--out", metavar="TABLES", help="Folder of the tables.")] = "tables",
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint", metavar="URL", help="Where a journal serves: grpc://HOST:PORT; commas for replicas."
        ),
    ] = "",
    groups: Annotated[
        str, typer.Option("--groups", metavar="G,G", help="Only these groups of the journal.")
    ] = "",
    start: Annotated[
        str,
        typer.Option("--start", help="Where the first run begins: earliest, latest, an offset or a time."),
    ] = "earliest",
    master: Master = None,
    json: Json = False,
) -> None:
    """Write the messages and views of a journal, or the events and link samples of traces, to Parquet tables.

    Run it again to add new rows of the journal; no row is added twice. Tables of traces are made anew.

    \b
    Examples:
      antiphon ingest traces --out tables
      antiphon ingest --endpoint grpc://127.0.0.1:4900 --out tables
    """
    from antiphon.spark.session import spark_session
    from antiphon.spark.tables import ingest_folder, ingest_journal, look_for_journal

    if folder is None and not endpoint:
        raise UsageError("a folder of traces, or --endpoint of a journal, is needed")
    if folder is not None:
        look_for_traces(folder)
    if endpoint:
        look_for_journal(endpoint, groups)
    if "://" not in out:
        out = str(Path(out).absolute())
    with working("starting Spark", 15, in_logs=True):
        spark = spark_session("antiphon ingest", master)
    found = []
    if folder is not None:
        with working(f"reading {folder}", 30, in_logs=True):
            found += ingest_folder(spark, folder, out)
    if endpoint:
        with working(f"reading {endpoint}", 30, in_logs=True):
            found += ingest_journal(spark, endpoint, out, groups, start)
    for one in found:
        if json:
            print(msgspec.json.encode(one).decode())
        else:
            print(f"{out}/{one.table}: {one.rows:,} rows, {one.added:+,}")
