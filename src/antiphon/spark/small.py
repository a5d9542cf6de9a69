"""Few traces: one task and no compiled code, because there is less to do than to plan.

What most jobs cost on a few megabytes is not their rows: it is Java that is compiled for them, plans that
are made anew after each stage, rows that are exchanged between tasks, files that are written and read again.
So few traces are read once and held in memory, every table is one part, and plans are carried out as they
are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.spark.headers import trace_files
from antiphon.spark.session import QUICK_JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD_BYTES = 12_000_000
"""Traces up to this size, some 50,000 events, are held in memory. Others become tables on the disk, of which
less is read each time: with twice as much, both cost the same."""
_QUICK_BYTES = 100_000_000
"""Traces up to this size are few enough that Java need not become fast first."""
ONE_PART = {
    # A table that is sent to all tasks would be a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Where rows are exchanged all the same, they stay together, and no plan is made anew after each stage.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for tables that are one part each."""
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # These make plans that read less, and take longer to make than there is to read.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
"""Settings for so few rows that it takes longer to make code for a job than to do without."""


def trace_bytes(folder: str | Path) -> int:
    """The size of the trace files in a folder of this machine; 0 if there are none, if there are tables that
    were made of them, or if it is elsewhere."""
    if "://" in str(folder) or Path(folder, "events").is_dir():
        return 0
    return sum(path.stat().st_size for path in trace_files(Path(folder)))


def is_held(folder: str | Path) -> bool:
    """Whether there are trace files in a folder, and few enough to be held in memory."""
    return 0 < trace_bytes(folder) <= HELD_BYTES


def session_settings(folder: str) -> dict[str, str]:
    """Settings for a session on this machine that is made to judge or to describe the traces in `folder`."""
    settings = {
        # The lines of this program that made a plan tell its users nothing.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if 0 < trace_bytes(folder) <= _QUICK_BYTES:
        settings["spark.driver.extraJavaOptions"] = QUICK_JAVA_OPTIONS
    return settings


def held(frame: "DataFrame") -> "DataFrame":
    """`frame` as one part in memory, worked out now; what does not fit goes to the disk."""
    return frame.coalesce(1).localCheckpoint()


@contextmanager
def settings(spark: "SparkSession", wanted: Mapping[str, str]) -> Iterator[None]:
    """These settings of the session, for a while."""
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, found in before.items():
            spark.conf.set(name, str(found))
