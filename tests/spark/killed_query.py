"""A program for tests to kill: journals into Parquet files, or into a group, for as long as it lives.

Arguments: the endpoints, the folder of the table and the checkpoint, rows per micro-batch; for a group, the
address of a daemon and the group.
"""

import sys
from typing import Any

from antiphon.spark.session import spark_session


def main(*arguments: str) -> None:
    spark = spark_session(
        "killed", "local[2,4]", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    )
    start_query(spark, *arguments).awaitTermination()


def start_query(
    spark: Any,
    endpoint: str,
    folder: str,
    max_rows: str,
    address: str = "",
    group: str = "",
    **trigger: Any,
) -> Any:
    """The query, from where its checkpoint says. A group gets rows in one part, so that their order stays."""
    options = {"endpoint": endpoint, "maxRowsPerTrigger": max_rows, "partitions": 1 if group else 2}
    rows = spark.readStream.format("antiphon").options(**options).load()
    if group:
        messages = rows.where("kind = 'message'").select("payload")
        writer = messages.writeStream.format("antiphon").options(address=address, group=group)
    else:
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
