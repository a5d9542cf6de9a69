"""A program for tests to kill: journals into Parquet files, or into a group, for as long as it lives.

Arguments: the endpoints, the folder of the table and the checkpoint, rows per micro-batch; for a group, the
address of a daemon and the group.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from antiphon.spark.session import spark_session

SLOW_ROWS = 50
SLOW_S = 0.05
"""A slow query takes so long for so many rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--slow", action="store_true")
    wanted = parser.parse_args()
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    if wanted.slow:
        settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(SLOW_ROWS)
    spark = spark_session("killed", wanted.master, settings)
    start_query(spark, *wanted.arguments, is_slow=wanted.slow).awaitTermination()


def start_query(
    spark: Any,
    endpoint: str,
    folder: str,
    max_rows: str,
    address: str = "",
    group: str = "",
    *,
    is_slow: bool = False,
    **trigger: Any,
) -> Any:
    """The query, from where its checkpoint says. A group gets rows in one part, so that their order stays."""
    options = {"endpoint": endpoint, "maxRowsPerTrigger": max_rows, "partitions": 1 if group else 2}
    rows = spark.readStream.format("antiphon").options(**options).load()
    if group:
        messages = rows.where("kind = 'message'").select("payload")
        if is_slow:
            messages = messages.mapInArrow(slowly, "payload binary")
        writer = messages.writeStream.format("antiphon").options(address=address, group=group)
    else:
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows, a few at a time, so that a test can meet a batch half-way."""
    for batch in batches:
        for first in range(0, batch.num_rows, SLOW_ROWS):
            time.sleep(SLOW_S)
            yield batch.slice(first, SLOW_ROWS)


if __name__ == "__main__":
    main()
