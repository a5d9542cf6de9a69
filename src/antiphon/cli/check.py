"""The verb `check`: traces of any runs, simulated or real, checked against the promised properties on
Spark."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from antiphon.cli.options import Json, Master, look_for_traces, make_folder
from antiphon.cli.screen import progress, working
from antiphon.errors import UsageError
from antiphon.extras import how_to_get
from antiphon.short_views import with_short_views
from antiphon.words import counted

if TYPE_CHECKING:
    from antiphon.spark.conformance import Outcome, Property

_DETAILED_RUNS = 5
"""Violations of more runs than these, per property, are only counted; `--json` and `--out` tell more."""
_VERDICT = "verdict.jsonl"
_DRIVER_MEMORY = "4g"
"""Memory for everything that Spark does on this machine; what does not fit goes to the disk."""
_PARTITIONS_PER_CORE = 8
"""Enough parts that a task has memory for its part of tens of millions of events; Spark joins tiny parts."""


def check(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of traces, or of tables made by `ingest`.")
    ],
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NUMBER", help="Check only this property, for example 2.7; may be repeated."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Keep the tables, and the verdict as JSON lines, in this folder."
        ),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Check the traces in DIR against the properties of Extended Virtual Synchrony.

    Exits 0 if all are kept; otherwise 1, with the broken property, the run and the process.

    \b
    Examples:
      antiphon simulate --seeds 0-99 --trace traces; antiphon check traces
      antiphon check traces --property 2.7 --property 2.13
      antiphon check hdfs:///traces --master yarn --out hdfs:///verdict
    """
    is_local = master is None or master.startswith("local")
    if not is_local and out is None:
        raise UsageError("on a cluster, --out must name a folder that all of its machines can write")
    look_for_traces(folder)
    try:
        from antiphon.spark import conformance
        from antiphon.spark.session import spark_session
    except ImportError:
        raise UsageError(f"this needs PySpark: {how_to_get('spark')}") from None

    wanted = _wanted(conformance.PROPERTIES, properties or [])
    with working("starting Spark", 15, in_logs=True):
        spark = spark_session("antiphon check", master, _settings(folder) if is_local else {})
    with _work_folder(out) as work, progress(f"checking {folder}", len(wanted), in_logs=True) as advance:
        outcomes = conformance.check(
            spark, _absolute(folder), work, wanted, lambda outcome: advance(1), keep_tables=out is not None
        )
        if out is not None and "://" not in out:
            Path(out, _VERDICT).write_text("\n".join(_lines(outcomes)) + "\n", encoding="utf-8")
    print("\n".join(_lines(outcomes) if json else _told(outcomes)))
    if any(outcome.violations for outcome in outcomes):
        raise typer.Exit(1)


def _settings(folder: str) -> dict[str, str]:
    from antiphon.spark.small import session_settings

    settings = {"spark.sql.shuffle.partitions": str(_PARTITIONS_PER_CORE * (os.cpu_count() or 1))}
    if "SPARK_DRIVER_MEMORY" not in os.environ:
        settings["spark.driver.memory"] = _DRIVER_MEMORY
    return {**settings, **session_settings(folder)}


def _absolute(folder: str) -> str:
    return folder if "://" in folder else str(Path(folder).absolute())


@contextmanager
def _work_folder(out: str | None) -> Iterator[str]:
    """Where the tables are written: what the user named, or a folder that is gone afterwards."""
    if out is not None:
        if "://" not in out:
            make_folder(Path(out))
        yield _absolute(out)
        return
    with tempfile.TemporaryDirectory(prefix="antiphon-check-") as folder:
        yield folder


def _wanted(known: "tuple[Property, ...]", numbers: list[str]) -> "tuple[Property, ...]":
    names = {prop.promise.number for prop in known}
    for number in numbers:
        if number not in names:
            listed = ", ".join(dict.fromkeys(prop.promise.number for prop in known))
            raise UsageError(f"there is no property {number}; there are {listed}")
    return tuple(prop for prop in known if not numbers or prop.promise.number in numbers)


# Reports --------------------------------------------------------------------------------------------------


def _lines(outcomes: "list[Outcome]") -> list[str]:
    """A JSON object for each property, and one for each violation that is told."""
    found: list[dict[str, Any]] = []
    for outcome in outcomes:
        fields = msgspec.to_builtins(outcome)
        told = fields.pop("told")
        found.append({"kind": "property", **fields})
        found += [{"kind": "violation", **violation} for violation in told]
    return [msgspec.json.encode(one).decode() for one in found]


def _told(outcomes: "list[Outcome]") -> Iterator[str]:
    """A line for each property, then the violations in words, then the verdict."""
    for outcome in outcomes:
        verdict = "kept" if outcome.checked else "nothing to check"
        if outcome.runs:
            verdict = f"{counted(outcome.violations, 'violation')} in {counted(outcome.runs, 'run')}"
        yield f"{outcome.number:>8} {outcome.title:<40} {outcome.checked:>13,} events  {verdict}"
    for outcome in outcomes:
        runs = list(dict.fromkeys(violation.run for violation in outcome.told))[:_DETAILED_RUNS]
        for run in runs:
            told = next(violation for violation in outcome.told if violation.run == run)
            yield with_short_views(str(told))
        if outcome.runs > len(runs):
            yield f"... and in {counted(outcome.runs - len(runs), 'more run')}"
    broken = [outcome.name for outcome in outcomes if outcome.violations]
    idle = sum(not outcome.checked for outcome in outcomes)
    kept = f"every property was kept; {idle} had nothing to check" if idle else "every property was kept"
    yield f"broken: {', '.join(broken)}" if broken else kept
