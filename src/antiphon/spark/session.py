"""One Spark session with the settings that this pipeline relies on."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.errors import UsageError
from antiphon.extras import how_to_get
from antiphon.spark.java import ensure_java
from antiphon.spark.lookups import remember_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*,4]"
"""All cores of this machine; a task may fail three times before its job does."""

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Spark's setting without which it shows no conditions of queries to sources in Python; false by default."""
_ALWAYS = {
    PUSHDOWN: "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_ONLY = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Small tables and few cores: the default of 200 shuffle partitions would only cost.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    # No checksum files and no `chmod` processes for each checkpoint file on a local disk.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = f"-Djdk.lang.Process.launchMechanism=VFORK -Dlog4j2.configurationFile=file:{_LOGGING}"
"""Processes are cheap to start, and only errors are told."""
QUICK_JAVA_OPTIONS = (
    f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
)
"""Options for short work: compile little, collect simply, and have room from the start for the classes and
the code that Spark always has. Work of many minutes would be slower."""


def spark_session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The session of this process, made if there is none; its settings are those of whoever makes it.

    `master` is Spark's URL of a cluster; without it everything runs in this process's own JVM.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(f"this needs PySpark: {how_to_get('spark')}") from None
    ensure_java()
    # Workers are to use this interpreter, which has this package, whatever else is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = master or LOCAL
    builder = SparkSession.builder.appName(name).master(where)
    chosen = {
        **_ALWAYS,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        **(_LOCAL_ONLY if where.startswith("local") else {}),
        **(settings or {}),
    }
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_classes(session)
    return session
