"""Trace files: a header, then one record a line."""

from pathlib import Path

import msgspec

from antiphon import limits
from antiphon.errors import UsageError
from antiphon.trace.records import FORMAT, VERSION, Event, Header, Record
from antiphon.wire.decoding import NOT_A_VALUE

SUFFIX = ".jsonl"
LIVE = "live"
"""The scenario of live runs."""


def live_run(cluster: str) -> str:
    """What a live run is called: the same in every file that a daemon or client of the cluster writes.

    >>> live_run("antiphon")
    'live-antiphon'
    """
    return f"{LIVE}-{cluster}"


def read_header(path: Path) -> Header:
    """The first line of a file; UsageError if that is no trace, or one that is too old."""
    try:
        with path.open("rb") as file:
            return _header(path, file.readline())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def read_records(path: Path) -> tuple[Header, list[Record]]:
    """All of a file. UsageError if it is not a trace.

    The writer of a file of a live run may have been killed while it wrote a line: the last line is left out
    if it has no end.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    header = _header(path, lines[0])
    if not lines[-1] or header.live:
        lines.pop()
    decode = msgspec.json.Decoder(Record).decode
    records = []
    for number, line in enumerate(lines[1:], 2):
        try:
            record = decode(line)
        except NOT_A_VALUE as error:
            raise UsageError(f"{path}, line {number}: not a record of a trace: {error}") from None
        fault = _fault_of(record)
        if fault:
            raise UsageError(f"{path}, line {number}: not a record of a trace: {fault}")
        records.append(record)
    return header, records


def _fault_of(record: Record) -> str:
    """What no record has that we write; empty if it is as it should be. Whoever looks into a trace relies on
    the rest."""
    if record.message is not None and not 0 < record.count <= limits.BUNDLE_MESSAGES_MAX:
        return f"count: no bundle has {record.count} messages"
    if record.event in _OF_A_GROUP and not record.groups:
        return f"groups: there is no group in this {record.event.value}"
    if record.event is Event.VIEW and not record.views:
        return "views: there is no view in this view"
    if record.event is Event.SVIEW and len(record.incarnations) != len(record.members):
        return "incarnations: there are not as many as members"
    return ""


_OF_A_GROUP = (Event.JOIN, Event.LEAVE, Event.LEFT, Event.LOCK, Event.VIEW)


def _header(path: Path, line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except NOT_A_VALUE as error:
        raise UsageError(f"{path}: not a trace: {error}") from None
    if header.format != FORMAT or not header.run.isprintable():
        raise UsageError(f"{path}: not a trace")
    if header.version != VERSION:
        raise UsageError(
            f"{path}: a trace of format version {header.version}, of which this program reads version "
            f"{VERSION} only; make the trace again"
        )
    return header
