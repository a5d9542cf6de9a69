"""The process that reads mutants of files.

    python -m antiphon.lab.fuzz.reading DOOR FOLDER

It carries out orders until SIGTERM, as those do that send mutants. What a reader does that it must not is
written down in the folder, the first of it only.
"""

import resource
import signal
import sys
import time
from pathlib import Path
from random import Random
from types import FrameType

import msgspec
from msgspec import Struct

from antiphon.lab.fuzz.calls import serve
from antiphon.lab.fuzz.mutate import Mutant
from antiphon.lab.fuzz.orders import Board, Orders, Record
from antiphon.lab.fuzz.readers import Finding, Reader, is_accepted

FINDINGS_MAX = 20
TIME_MAX_S = 1.0
"""Of the processor, for one file: what takes longer hangs."""
MEMORY_MAX_BYTES = 2_000_000_000
"""Of this process: whoever wants more gets a MemoryError, which is a finding."""
REPORT = "report.json"


class Report(Struct):
    """What became of the mutants so far."""

    accepted: dict[str, int] = {}
    refused: dict[str, int] = {}
    """By kind."""
    findings: list[str] = []
    slow: list[str] = []
    slowest_s: float = 0.0


def readers_of(door: str, folder: Path) -> dict[str, Reader]:
    """Those of a door, by kind."""
    if door == "config":
        from antiphon.lab.fuzz.choices_read import config_readers

        return config_readers(folder)
    if door == "journal":
        from antiphon.lab.fuzz.journals_read import journal_readers

        return journal_readers(folder)
    from antiphon.lab.fuzz.traces_read import trace_readers

    return trace_readers(folder)


class Files:
    """A door of files."""

    def __init__(self, door: str, folder: Path) -> None:
        self.report = Report()
        self._path = folder / REPORT
        work = folder / "files"
        work.mkdir()
        self._readers = readers_of(door, work)
        self.rest()

    def carry_out(self, orders: Orders, number: int, random: Random) -> tuple[str, Mutant]:
        """Read the mutant of this number."""
        reader, report, kind = self._readers[orders.kind], self.report, orders.kind
        mutant = reader.mutant(random)
        began_s = time.thread_time()
        try:
            counts = report.accepted if is_accepted(reader, mutant.data) else report.refused
            counts[kind] = counts.get(kind, 0) + 1
        except Finding as found:
            self._note(report.findings, f"{kind} {number} ({mutant.what[:_SHOWN]}): {found}")
        took_s = time.thread_time() - began_s
        report.slowest_s = max(report.slowest_s, took_s)
        if took_s > TIME_MAX_S:
            self._note(report.slow, f"{kind} {number} ({mutant.what[:_SHOWN]}) took {took_s:.1f} s")
        return "", mutant

    def _note(self, where: list[str], words: str) -> None:
        if len(where) < FINDINGS_MAX:
            where.append(words)
            self.rest()

    def rest(self) -> None:
        """Write down what is known."""
        waiting = self._path.with_suffix(".new")
        waiting.write_bytes(msgspec.json.encode(self.report))
        waiting.replace(self._path)


_SHOWN = 80


def main() -> None:
    """Run until SIGTERM."""
    door, folder = sys.argv[1], Path(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    is_over: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        is_over.append(number)

    signal.signal(signal.SIGTERM, stop)
    files = Files(door, folder)
    serve(files, Board(folder, 1), Record(folder / "mutants.jsonl"), is_over)
    files.rest()


if __name__ == "__main__":
    main()
