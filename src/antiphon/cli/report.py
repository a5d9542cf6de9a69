"""The verb `report`: what traces tell about latency, throughput, views and links, as one page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from antiphon.cli.options import Json, Master, look_for_traces, make_folder
from antiphon.cli.screen import progress, working
from antiphon.errors import UsageError
from antiphon.plots.page import need_libraries
from antiphon.words import counted

if TYPE_CHECKING:
    from antiphon.spark.report.figures import Run


def report(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of traces, or of tables made by `ingest`.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = "",
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="NAME", help="Only this run; may be repeated."),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Compute latency, throughput, views, pauses and links from traces, and write them as one HTML page.

    The page needs no other file, no network and no script. With --json the figures are printed, too.

    \b
    Examples:
      antiphon report traces --out report.html
      antiphon report traces --run swarm-17 --json
      antiphon report hdfs://namenode/traces --master yarn
    """
    from antiphon.spark.session import spark_session
    from antiphon.spark.small import session_settings

    if not out.name:
        raise UsageError(f"--out {out} is not the name of a file")
    look_for_traces(folder)
    need_libraries("spark")
    make_folder(out.parent)
    with working("starting Spark", 15, in_logs=True):
        is_local = master is None or master.startswith("local")
        spark = spark_session("antiphon report", master, session_settings(folder) if is_local else {})
    from antiphon.spark.report.job import STEPS, report_of
    from antiphon.spark.report.page import page_of

    with progress(f"reporting on {folder}", STEPS, in_logs=True) as advance:
        found = report_of(spark, folder, run or (), lambda what: advance(1))
    out.write_text(page_of(found, title), encoding="utf-8")
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{_told(found.runs)}: {out}")


def _told(runs: "Sequence[Run]") -> str:
    """How much was reported on."""
    return f"{counted(len(runs), 'run')}, {counted(sum(run.sent for run in runs), 'message')}"
