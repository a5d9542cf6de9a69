"""The door `traces`: files of runs, simulated and live, torn or changed; live ones are merged."""

from functools import cache
from pathlib import Path
from random import Random

import msgspec

from antiphon.lab.fuzz.mutate import Mutant, Unencodable, mutate, mutate_bytes
from antiphon.lab.fuzz.readers import Reader
from antiphon.simulator.play import play
from antiphon.simulator.scenarios import plan_of
from antiphon.trace import Trace
from antiphon.trace.files import LIVE, SUFFIX, live_run
from antiphon.trace.merging import merge
from antiphon.trace.records import Header, Record
from antiphon.trace.runs import read

SCENARIO = "partition"
RECORDS_MAX = 60
"""Of each file: enough for every kind of event that comes early."""
FILES_MAX = 2
"""Of daemons, and of sessions."""


def _line(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (OverflowError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Unencodable from error


class TraceFile:
    """One file of a run beside the others, and what reads them."""

    def __init__(self, path: Path, header: Header, records: list[Record], *, is_live: bool) -> None:
        self._path = path
        self._header = header
        self._records = records
        self._is_live = is_live
        self._lines = [_line(header), *map(_line, records)]
        self._write(b"\n".join([*self._lines, b""]))

    def _write(self, data: bytes) -> None:
        self._path.write_bytes(data)

    def mutant(self, random: Random) -> Mutant:
        """A record or the header with other values, or the whole file as bytes."""
        way = random.randrange(4)
        if way == 0:
            return mutate_bytes(random, b"\n".join([*self._lines, b""]))
        lines = list(self._lines)
        if way == 1:
            changed = mutate(random, self._header, _line)
            lines[0] = changed.data
        else:
            place = random.randrange(len(self._records))
            changed = mutate(random, self._records[place], _line, self._records)
            lines[1 + place] = changed.data
        return Mutant(b"\n".join([*lines, b""]), changed.what)

    def read(self, data: bytes) -> None:
        self._write(data)
        if self._is_live:
            merge(self._path.parent)
        else:
            read(self._path)


@cache
def _run() -> tuple[tuple[str, ...], list[Record]]:
    """The daemons and the records of one run, which takes seconds."""
    stage = play(plan_of(SCENARIO, 0))
    return tuple(daemon.name for daemon in stage.plan.daemons()), stage.world.records


def trace_readers(folder: Path) -> dict[str, Reader]:
    """By kind; their files are in the folder."""
    daemons, records = _run()
    one = Trace(SCENARIO, 0, daemons, records[:RECORDS_MAX])
    path = one.write(folder)
    header = msgspec.json.decode(path.read_bytes().split(b"\n")[0], type=Header)
    return {
        "simulated": TraceFile(path, header, one.records, is_live=False),
        **_live_readers(folder / "live", header, records),
    }


def _few(by_file: dict[str, list[Record]]) -> list[tuple[str, list[Record]]]:
    """The files of some daemons and of some sessions."""
    sessions = [name for name in by_file if name.startswith("#")][:FILES_MAX]
    daemons = [name for name in by_file if not name.startswith("#")][:FILES_MAX]
    return [(name, by_file[name]) for name in (*daemons, *sessions)]


def _live_readers(folder: Path, header: Header, records: list[Record]) -> dict[str, Reader]:
    """A daemon's file and a session's, with those of all others beside them."""
    folder.mkdir()
    live = msgspec.structs.replace(header, run=live_run("fuzz"), scenario=LIVE, live=True)
    by_file: dict[str, list[Record]] = {}
    for record in records:
        if record.daemon:
            by_file.setdefault(record.process or record.daemon, []).append(record)
    files = {
        name: TraceFile(folder / f"{number}{SUFFIX}", live, some[:RECORDS_MAX], is_live=True)
        for number, (name, some) in enumerate(_few(by_file))
    }
    daemon = next(name for name in files if not name.startswith("#"))
    session = next(name for name in files if name.startswith("#"))
    return {"daemon": files[daemon], "session": files[session]}
