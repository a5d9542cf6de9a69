"""The headers of few trace files, read without Spark: a job for one line a file costs more than they do."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

HEADER_START = '{"format":'


class Header(msgspec.Struct):
    """The first line of a trace file, and the file; what a file leaves out is None."""

    file: str = ""
    format: str | None = None
    version: int | None = None
    run: str | None = None
    scenario: str | None = None
    seed: int | None = None
    daemons: list[str] | None = None
    sites: list[str] | None = None
    live: bool | None = False
    edges: list[str] | None = None


def trace_files(folder: Path) -> Iterator[Path]:
    """The trace files in a folder, as Spark finds them: it leaves out hidden files and folders."""
    for path in sorted(folder.rglob("*.jsonl")):
        if not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts):
            yield path


def first_lines(folder: Path) -> tuple[set[str], list[Header]]:
    """The trace files in a folder, and their headers."""
    files, headers = set(), []
    start = HEADER_START.encode()
    for path in trace_files(folder):
        name = str(path.absolute())
        files.add(name)
        with open(path, "rb") as lines:
            headers += [_header(line, name) for line in lines if line.startswith(start)]
    return files, headers


def _header(line: bytes, file: str) -> Header:
    """What a line says; nothing if it is no header."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        header = Header()
    header.file = file
    header.live = bool(header.live)
    return header
