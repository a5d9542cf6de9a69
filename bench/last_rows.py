"""What it costs Spark to read the last 1 % of a journal, beside reading all of it, in one run.

    .venv/bin/python bench/last_rows.py [--json] [--rows 1000000] [--size 100] [--rounds 3]

- `all`: every row
- `last, by offset` and `last, by time`: a condition on `offset` or `delivered` in the query
- `last, not pushed`: the same condition in a session that does not show it to the source, Spark's default
- `two columns`: every row, with `columns` = "offset, payload"
- `one row`: the last one, which is what any query costs: planning, workers, a job, a connection

Seconds are of the whole query into nothing, the least of the rounds; so are processor seconds, of journal,
Spark and its workers together, which other work on the machine disturbs less; `above` is these without those
of `one row`. Rows and bytes are what the journal sent. `journal` is the same without Spark, by the reader of
this process.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from antiphon.journal import lookup
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.reader import Journals
from antiphon.journal.recorder import BATCH_BYTES, BATCH_ROWS, bundles
from antiphon.journal.rows import Rows
from antiphon.journal.server import JournalServer
from antiphon.spark.session import PUSHDOWN, spark_session
from journal import SENT_US, made

CHUNK_ROWS = 100_000


class Sent:
    """Counts what the journal sends."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0
        read = lookup.read

        def counted(*arguments: Any) -> Iterator[pa.RecordBatch]:
            for batch in read(*arguments):
                self.rows += batch.num_rows
                self.bytes += batch.nbytes
                yield batch

        lookup.read = counted  # type: ignore[assignment]

    def take(self) -> tuple[int, int]:
        """What was sent since the last time."""
        found = (self.rows, self.bytes)
        self.rows = self.bytes = 0
        return found


def processor_s() -> float:
    """Of this process and all below it since their starts, with those that have ended."""
    spent_ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(entry.parent.name)
        parents[process] = int(fields[1])
        spent_ticks[process] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while found := {one for one, parent in parents.items() if parent in ours and one not in ours}:
        ours |= found
    return sum(spent_ticks[one] for one in ours) / os.sysconf("SC_CLK_TCK")


def fill(log: Log, count: int, size_bytes: int) -> None:
    """So many rows, one delivered every microsecond."""
    rows = Rows()
    for first in range(0, count, CHUNK_ROWS):
        number = first
        for run in bundles(made(min(CHUNK_ROWS, count - first), size_bytes)):
            rows.add_messages(run, "bench", "1.0.1.1", SENT_US + number)
            number += len(run)
            if rows.count >= BATCH_ROWS or rows.size_bytes >= BATCH_BYTES:
                log.append(rows)
    if rows.count:
        log.append(rows)


def cases(spark: Any, endpoint: str, count: int) -> dict[str, Callable[[], None]]:
    """What is measured, by name."""
    first = count - count // 100
    then = datetime.fromtimestamp((SENT_US + first) / 1_000_000, UTC)
    by_offset = f"offset >= {first}"

    def query(condition: str = "true", *, pushed: bool = True, **options: Any) -> Callable[[], None]:
        def run() -> None:
            spark.conf.set(PUSHDOWN, str(pushed).lower())
            rows = spark.read.format("antiphon").options(endpoint=endpoint, **options).load()
            rows.where(condition).write.format("noop").mode("overwrite").save()

        return run

    journals = Journals([endpoint])

    def read(start: int) -> Callable[[], None]:
        def run() -> None:
            assert sum(batch.num_rows for batch in journals.read(start, count)) == count - start

        return run

    return {
        "one row": query(f"offset = {count - 1}"),
        "all": query(),
        "two columns": query(columns="offset, payload"),
        "last, not pushed": query(by_offset, pushed=False),
        "last, by offset": query(by_offset),
        "last, by time": query(f"delivered >= timestamp'{then:%Y-%m-%d %H:%M:%S.%fZ}'"),
        "journal: all": read(0),
        "journal: last": read(first),
    }


def measured(work: dict[str, Callable[[], None]], sent: Sent, rounds: int) -> list[dict[str, Any]]:
    """The least time of each, after one round to warm up, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    processor: dict[str, list[float]] = {name: [] for name in work}
    counts: dict[str, tuple[int, int]] = {}
    for number in range(rounds + 1):
        for name, run in work.items():
            sent.take()
            started_s, before_s = time.perf_counter(), processor_s()
            run()
            spent_s, worked_s = time.perf_counter() - started_s, processor_s() - before_s
            counts[name] = sent.take()
            print(f"round {number}: {name}: {spent_s:.2f} s", file=sys.stderr, flush=True)
            if number:
                seconds[name].append(spent_s)
                processor[name].append(worked_s)
    least = {name: min(each) for name, each in processor.items()}
    return [
        {
            "case": name,
            "seconds": round(min(seconds[name]), 3),
            "processor_s": round(least[name], 2),
            "above_s": round(least[name] - least["one row"], 3) if "journal" not in name else None,
            "rows": counts[name][0],
            "bytes": counts[name][1],
        }
        for name in work
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=3, help="the best one counts, after one to warm up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        log = Log(folder, LogSettings(fsync=Fsync.NEVER))
        stack.callback(log.close)
        print(f"writing a journal of {options.rows:,} rows", file=sys.stderr, flush=True)
        fill(log, options.rows, options.size)
        sent = Sent()
        server = JournalServer(log)
        stack.callback(server.end)
        spark = spark_session("bench", "local[2,4]")
        stack.callback(spark.stop)
        results = measured(cases(spark, server.endpoint, options.rows), sent, options.rounds)
    if options.json:
        print(json.dumps({"rows": options.rows, "size_bytes": options.size, "results": results}))
        return
    print(f"{options.rows:,} rows of {options.size} bytes, best of {options.rounds} rounds")
    print(f"{'':18} {'seconds':>9} {'processor':>9} {'above':>9} {'rows sent':>12} {'MB sent':>9}")
    for one in results:
        above = "" if one["above_s"] is None else f"{one['above_s']:.2f}"
        size = f"{one['bytes'] / 1e6:.1f}"
        times = f"{one['seconds']:9.3f} {one['processor_s']:9.2f} {above:>9}"
        print(f"{one['case']:18} {times} {one['rows']:12,} {size:>9}")


if __name__ == "__main__":
    main()
