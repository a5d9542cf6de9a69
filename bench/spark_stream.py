"""Rows per second from a journal into Spark and from Spark into a group, against the most that Spark can do.

The ceiling is measured in the same run: ready-made Arrow batches from a plain TCP server, and Arrow batches
into one. So a ratio says what the journal, Flight, the daemon and the stamps cost, whatever the machine.

    python bench/spark_stream.py
    python bench/spark_stream.py --rows 400000 --payload 1000 --rounds 3 --json
"""

import argparse
import json
import multiprocessing
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from antiphon import blocking
from antiphon.journal.reader import Journals
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.spark.session import spark_session

PLAIN = StructType(
    [
        StructField("seq", LongType()),
        StructField("group", StringType()),
        StructField("sender", StringType()),
        StructField("ts", TimestampType()),
        StructField("tags", ArrayType(StringType())),
        StructField("payload", BinaryType()),
    ]
)
BATCH_ROWS = 8_192


# The ceiling: a plain TCP server ---------------------------------------------------------------------------


def serve(listener: socket.socket, payload_bytes: int) -> None:
    """Answer each connection in a process of its own: rows of a range, or an end to the rows that came."""
    while True:
        connection, _ = listener.accept()
        process = multiprocessing.get_context("fork").Process(
            target=answer, args=(connection, payload_bytes), daemon=True
        )
        process.start()
        connection.close()


def answer(connection: socket.socket, payload_bytes: int) -> None:
    file = connection.makefile("rwb")
    request = json.loads(file.readline())
    if request["op"] == "read":
        with pa.ipc.new_stream(pa.PythonFile(file, mode="w"), to_arrow_schema(PLAIN, timezone="UTC")) as out:
            batch = plain_batch(BATCH_ROWS, payload_bytes)
            left = request["rows"]
            while left:
                count = min(left, BATCH_ROWS)
                out.write_batch(batch.slice(0, count))
                left -= count
    else:
        for _ in pa.ipc.open_stream(pa.PythonFile(file, mode="r")):
            pass
        file.write(b"ok\n")
    file.flush()
    connection.close()


def plain_batch(count: int, payload_bytes: int) -> pa.RecordBatch:
    """Rows like those of SPARK's measurement."""
    now_us = time.time_ns() // 1_000
    return pa.record_batch(
        [
            pa.array(range(count), pa.int64()),
            pa.array(["orders"] * count),
            pa.array(["#sender#d1"] * count),
            pa.array([now_us] * count, pa.timestamp("us", tz="UTC")),
            pa.array([["a", "b"]] * count, pa.list_(pa.string())),
            pa.array([bytes(payload_bytes)] * count, pa.binary()),
        ],
        schema=to_arrow_schema(PLAIN, timezone="UTC"),
    )


def ask(port: int, **request: Any) -> Any:
    file = socket.create_connection(("127.0.0.1", port), timeout=60).makefile("rwb")
    file.write(json.dumps(request).encode() + b"\n")
    file.flush()
    return file


@dataclass
class Rows(InputPartition):
    """How many rows a task reads."""

    count: int


class PlainReader(DataSourceStreamReader):
    """Two parts of ready-made batches, once."""

    def __init__(self, options: Any) -> None:
        self.options = dict(options)

    def initialOffset(self) -> dict[str, int]:
        return {"seq": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"seq": int(self.options["rows"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        count = end["seq"] - start["seq"]
        return [Rows(count // 2), Rows(count - count // 2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with ask(int(self.options["port"]), op="read", rows=partition.count) as file:
            yield from pa.ipc.open_stream(pa.PythonFile(file, mode="r"))


@dataclass
class Done(WriterCommitMessage):
    """A part is written."""


class PlainWriter(DataSourceArrowWriter):
    """Batches over TCP, and an answer at the end."""

    def __init__(self, options: Any) -> None:
        self.options = dict(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        with ask(int(self.options["port"]), op="write") as file:
            out = None
            for batch in iterator:
                out = out or pa.ipc.new_stream(pa.PythonFile(file, mode="w"), batch.schema)
                out.write_batch(batch)
            if out is not None:
                out.close()
            file.flush()
            file.readline()
        return Done()


class PlainSource(DataSource):
    """The least that a source and a sink can do."""

    @classmethod
    def name(cls) -> str:
        return "plain"

    def schema(self) -> StructType:
        return PLAIN

    def streamReader(self, schema: StructType) -> PlainReader:
        return PlainReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> PlainWriter:
        return PlainWriter(self.options)


# What is measured -----------------------------------------------------------------------------------------


class Bench:
    """A daemon, a journal with rows, a plain server and a session."""

    def __init__(
        self, stack: ExitStack, rows: int, payload_bytes: int, progress: Callable[[str], None]
    ) -> None:
        self.rows = rows
        self.payload_bytes = payload_bytes
        self.folder = Path(tempfile.mkdtemp(prefix="antiphon-bench-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        progress("starting a daemon, a journal and a plain server")
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = listener.getsockname()[1]
        server = multiprocessing.get_context("fork").Process(target=serve, args=(listener, payload_bytes))
        server.start()
        stack.callback(server.kill)
        self.daemon = stack.enter_context(Daemon(local_config(1, self.folder), "d1"))
        self.address = self.daemon.places[0]
        self.endpoint = self._start_journal(stack, "orders")
        self.out = Journals([self._start_journal(stack, "out")])
        progress(f"filling the journal with {rows:,} rows")
        self._fill()
        progress("starting Spark")
        self.spark = spark_session("bench", "local[2,4]")
        stack.callback(self.spark.stop)
        self.spark.dataSource.register(PlainSource)
        self._runs = 0

    def _start_journal(self, stack: ExitStack, group: str) -> str:
        command = [sys.executable, "-m", "antiphon", "journal", "--groups", group, "--dir"]
        command += [str(self.folder / group), "--address", self.address, "--fsync", "never", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["endpoint"])

    def _fill(self) -> None:
        journals = Journals([self.endpoint])
        await_rows(journals, 1)  # the view of its group
        with blocking.connect(self.address) as session:
            payload = bytes(self.payload_bytes)
            for _ in range(0, self.rows, 10_000):
                session.send_many("orders", [payload] * 10_000)
            session.wait_accepted()
        await_rows(journals, 1 + self.rows)

    def stream(self, source: Any, sink: str) -> float:
        """Rows per second of one micro-batch."""
        self._runs += 1
        place = self.folder / f"run{self._runs}"
        writer = (
            source.load().writeStream.format(sink).option("checkpointLocation", str(place / "checkpoint"))
        )
        if sink == "parquet":
            writer = writer.option("path", str(place / "table")).option("compression", "zstd")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [progress for progress in query.recentProgress if progress.numInputRows]
        shutil.rmtree(place)
        spent_ms = sum(progress.durationMs["triggerExecution"] for progress in done)
        return sum(progress.numInputRows for progress in done) / spent_ms * 1_000

    def plain(self) -> Any:
        """The ceiling as a source."""
        return self.spark.readStream.format("plain").options(port=self.port, rows=self.rows)

    def antiphon(self) -> Any:
        """The journal as a source."""
        return self.spark.readStream.format("antiphon").options(endpoint=self.endpoint, partitions=2)

    def generated(self) -> Any:
        """Rows that cost Spark next to nothing to make."""
        payload = f"cast(repeat('x', {self.payload_bytes}) as binary) as payload"
        return self.spark.range(0, self.rows, numPartitions=2).selectExpr(payload)

    def write(self, format: str, **options: Any) -> float:
        """Rows per second of a batch job that writes."""
        begin = time.perf_counter()
        self.generated().write.format(format).options(**options).mode("append").save()
        return self.rows / (time.perf_counter() - begin)

    def write_to_journal(self) -> float:
        """The same, until the journal has written it as well."""
        await_rows(self.out, 1)
        before = self.out.positions().latest
        begin = time.perf_counter()
        self.write("antiphon", address=self.address, group="out")
        await_rows(self.out, before + self.rows)
        return self.rows / (time.perf_counter() - begin)


def await_rows(journals: Journals, count: int) -> None:
    """Until a journal has so many rows."""
    while journals.positions().latest < count:
        time.sleep(0.01)


CASES: list[tuple[str, Callable[[Bench], float], str | None]] = [
    ("ceiling: plain TCP -> noop", lambda bench: bench.stream(bench.plain(), "noop"), None),
    (
        "journal -> noop",
        lambda bench: bench.stream(bench.antiphon(), "noop"),
        "ceiling: plain TCP -> noop",
    ),
    ("ceiling: plain TCP -> Parquet", lambda bench: bench.stream(bench.plain(), "parquet"), None),
    (
        "journal -> Parquet",
        lambda bench: bench.stream(bench.antiphon(), "parquet"),
        "ceiling: plain TCP -> Parquet",
    ),
    ("ceiling: rows -> plain TCP", lambda bench: bench.write("plain", port=bench.port), None),
    (
        "rows -> group without members",
        lambda bench: bench.write("antiphon", address=bench.address, group="nobody"),
        "ceiling: rows -> plain TCP",
    ),
    ("rows -> group -> journal", Bench.write_to_journal, "ceiling: rows -> plain TCP"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--payload", type=int, default=1_000, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=3, help="the best one counts, after one to warm up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        bench = Bench(stack, options.rows, options.payload, progress)
        rates: dict[str, list[float]] = {name: [] for name, _, _ in CASES}
        for number in range(options.rounds + 1):
            for name, measure, _ in CASES:
                rate = measure(bench)
                progress(f"round {number}: {name}: {rate:,.0f} rows/s")
                if number:
                    rates[name].append(rate)
    results = [
        {
            "case": name,
            "rows_per_second": round(max(rates[name])),
            "median_rows_per_second": round(statistics.median(rates[name])),
            "ratio": round(max(rates[name]) / max(rates[ceiling]), 3) if ceiling else None,
        }
        for name, _, ceiling in CASES
    ]
    if options.json:
        print(json.dumps({"rows": options.rows, "payload_bytes": options.payload, "results": results}))
        return
    print(f"{options.rows:,} rows with {options.payload:,} bytes of payload; best of {options.rounds} rounds")
    for result in results:
        ratio = f"{result['ratio']:.2f}" if result["ratio"] is not None else ""
        print(f"{result['case']:34} {result['rows_per_second']:>10,} rows/s  {ratio}")


if __name__ == "__main__":
    main()
