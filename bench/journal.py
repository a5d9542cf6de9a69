"""How fast a journal writes and is read, beside the plain writing and reading of the same bytes.

    .venv/bin/python bench/journal.py [--json] [--rows 400000] [--size 1000] [--live-seconds 5]

- `plain write`: the same bytes, in pieces of the same size, with `os.write` to a file
- `append`: rows that are at hand become Arrow columns, are sealed and written
- `plain read`: the bytes of the segments, read and thrown away
- `flight, first time`: the rows over Arrow Flight, by a reader in a process of its own; a journal that reads
  something for the first time checks it
- `flight, 1 and 2 readers`: the same rows again, which are known to be good now
- `read, first time` and `read`: the rows as batches, in this process; only the check touches payloads
- `live`: from a sender through a daemon to a journal, all of them processes, until the rows can be read

Ratios are to the plain writing or reading of the same run. Machines are noisy: compare within a run.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import antiphon.blocking
from antiphon.config import as_toml
from antiphon.journal import lookup
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.reader import Journals
from antiphon.journal.recorder import BATCH_BYTES, BATCH_ROWS, bundles
from antiphon.journal.rows import Rows
from antiphon.journal.server import JournalServer
from antiphon.runtime.local import local_config
from antiphon.service import Service
from antiphon.types import Envelope, Message

BUNDLE_BYTES = 60_000
SENT_US = 1_700_000_000_000_000


def made(rows: int, size_bytes: int) -> list[Message]:
    """Messages in bundles as a busy sender makes them."""
    each = max(1, BUNDLE_BYTES // size_bytes)
    messages: list[Message] = []
    payload = bytes(size_bytes)
    for first in range(0, rows, each):
        envelope = Envelope(
            "#bench#d1", ("bench",), Service.AGREED, 0, 1, 7, 1, first, (first + 1) << 10, SENT_US
        )  # fmt: skip
        messages += [Message(payload, envelope, index) for index in range(min(each, rows - first))]
    return messages


def timed(work: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


def appended_s(log: Log, rows: int, size_bytes: int) -> float:
    messages = made(rows, size_bytes)
    return timed(lambda: append_all(log, messages))


def append_all(log: Log, messages: list[Message]) -> None:
    rows = Rows()
    for run in bundles(messages):
        rows.add_messages(run, "bench", "1.0.1.1", SENT_US)
        if rows.count >= BATCH_ROWS or rows.size_bytes >= BATCH_BYTES:
            log.append(rows)
    if rows.count:
        log.append(rows)


def write_plainly(path: Path, total_bytes: int) -> None:
    piece = bytes(4 * 1024 * 1024)
    with path.open("wb", buffering=0) as file:
        for _ in range(total_bytes // len(piece)):
            os.write(file.fileno(), piece)


def read_plainly(paths: list[Path]) -> None:
    space = bytearray(4 * 1024 * 1024)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(space):
                pass


def read_here(log: Log, rows: int) -> int:
    return sum(batch.num_rows for batch in lookup.read(log, 0, rows))


def read_range(endpoint: str, start: int, end: int) -> int:
    """In a process of its own: the rows of a range over Flight."""
    return sum(batch.num_rows for batch in Journals([endpoint]).read(start, end))


def read_over_flight(endpoint: str, rows: int, readers: int) -> float:
    parts = [(endpoint, rows * n // readers, rows * (n + 1) // readers) for n in range(readers)]
    with multiprocessing.get_context("spawn").Pool(readers) as pool:
        pool.starmap(read_range, [(endpoint, 0, 1)] * readers)  # imports and connections
        return timed(lambda: pool.starmap(read_range, parts, chunksize=1))


def live(folder: Path, size_bytes: int, seconds: float) -> float:
    """Rows a second from a sender to readers of the journal."""
    config = local_config(1, folder)
    ((_, place),) = config.daemons()
    file = folder / "cluster.toml"
    file.write_text(as_toml(config))
    command = [sys.executable, "-m", "antiphon"]
    running = [subprocess.Popen([*command, "daemon", "--config", str(file), "--name", place.name], stderr=-3)]
    try:
        sender = connected(place.clients[0])
        words = ["journal", "--json", "--dir", str(folder / "live"), "--address", place.clients[0]]
        journal = subprocess.Popen([*command, *words, "--groups", "bench"], stdout=-1, text=True)
        running.append(journal)
        assert journal.stdout is not None
        journals = Journals([json.loads(journal.stdout.readline())["endpoint"]])
        while journals.positions().latest < 1:
            time.sleep(0.05)
        payloads = [bytes(size_bytes)] * 500
        sent = 0
        started_s = time.perf_counter()
        while time.perf_counter() < started_s + seconds:
            sender.send_many("bench", payloads)
            sent += len(payloads)
        while journals.positions().latest < sent + 1:
            time.sleep(0.01)
        rate = sent / (time.perf_counter() - started_s)
        sender.close()
        return rate
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def connected(address: str) -> antiphon.blocking.Session:
    """A session, once the daemon listens."""
    while True:
        try:
            return antiphon.blocking.connect(address)
        except antiphon.errors.ConnectError:
            time.sleep(0.1)


def measure(folder: Path, rows: int, size_bytes: int, seconds: float) -> list[dict[str, Any]]:
    log = Log(folder / "journal", LogSettings(Fsync.NEVER))
    server = JournalServer(log)
    appending_s = appended_s(log, rows, size_bytes)
    total_bytes = sum(part.size_bytes for part in log.segments())
    writing_s = timed(lambda: write_plainly(folder / "plain", total_bytes))
    paths = [part.path for part in log.segments()]
    reading_s = timed(lambda: read_plainly(paths))
    found = [
        ("plain write", writing_s, writing_s),
        ("append", appending_s, writing_s),
        ("plain read", reading_s, reading_s),
        ("flight, first time", read_over_flight(server.endpoint, rows, 1), reading_s),
        ("flight, 1 reader", read_over_flight(server.endpoint, rows, 1), reading_s),
        ("flight, 2 readers", read_over_flight(server.endpoint, rows, 2), reading_s),
    ]
    server.shutdown()
    log.close()
    log = Log(folder / "journal", LogSettings(Fsync.NEVER))  # one that has not read anything yet
    found.append(("read, first time", timed(lambda: read_here(log, rows)), reading_s))
    found.append(("read", timed(lambda: read_here(log, rows)), reading_s))
    log.close()
    results = [
        {
            "what": what,
            "rows_per_s": round(rows / took_s),
            "megabytes_per_s": round(total_bytes / took_s / 1e6),
            "ratio": round(plain_s / took_s, 3),
        }
        for what, took_s, plain_s in found
    ]
    row_bytes = total_bytes / rows
    rate = live(folder, size_bytes, seconds)
    results.append(
        {
            "what": "live",
            "rows_per_s": round(rate),
            "megabytes_per_s": round(rate * row_bytes / 1e6),
            "ratio": round(rate * writing_s / rows, 3),
        }
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--live-seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), wanted.rows, wanted.size, wanted.live_seconds)
    if wanted.json:
        print(json.dumps({"rows": wanted.rows, "size_bytes": wanted.size, "results": results}))
        return
    print(f"{wanted.rows:,} rows with payloads of {wanted.size:,} bytes")
    for line in results:
        print(
            f"{line['what']:18} {line['rows_per_s']:>12,} rows/s {line['megabytes_per_s']:>8,} MB/s "
            f"ratio {line['ratio']:.3f}"
        )


if __name__ == "__main__":
    main()
