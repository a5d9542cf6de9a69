"""The door `journal`: segments, indexes and identities of a journal's folder, torn or changed.

A journal opens such a folder as it does after a crash, or refuses it; then readers look into all that is
left. Each row that they get must be the one that was written at that offset.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from antiphon.journal import lookup
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.rows import Rows
from antiphon.journal.segment import INDEX_SUFFIX, SEGMENT_SUFFIX
from antiphon.lab.fuzz.mutate import Mutant, mutate_bytes
from antiphon.lab.fuzz.readers import Finding, Reader
from antiphon.service import Service
from antiphon.types import Cause, Envelope, Message, View, ViewId

SETTINGS = LogSettings(Fsync.NEVER, segment_bytes=6_000)
BATCHES = 9
EACH = 4
TORN_SHARE = 0.3
IDENTITY = "journal.json"


def _fill(log: Log, batches: int) -> None:
    """So many batches of messages, and now and then a view."""
    for batch in range(batches):
        rows = Rows()
        time_us = 1_000_000 * (batch + 1)
        if batch % 3 == 0:
            members = ("#ada#d1", f"#bob{batch}#d2")
            view = View("tea", ViewId(9, 0, (batch + 1) << 12, 1), members, members, Cause.JOIN, members[-1:])
            rows.add_view(view, time_us)
        lts = (batch + 1 << 12) + 1024
        envelope = Envelope("#ada#d1", ("tea",), Service.AGREED, 0, 1, 7, 3, batch * EACH, lts, 1_000 + batch)
        bodies = [b"%d " % (batch * EACH + place) * 40 for place in range(EACH)]
        rows.add_messages(
            [Message(body, envelope, place) for place, body in enumerate(bodies)], "tea", "v", time_us
        )
        log.append(rows)


class Journal:
    """One file of a journal's folder."""

    def __init__(
        self, genuine: Path, work: Path, rows: list[dict[str, Any]], choose: Callable[[Path], str]
    ) -> None:
        self._genuine = genuine
        self._work = work
        self._rows = rows
        self._name = choose(genuine)
        self._data = (genuine / self._name).read_bytes()

    def mutant(self, random: Random) -> Mutant:
        """Changed, or cut off as a killed writer leaves it."""
        if random.random() < TORN_SHARE:
            size = random.randrange(len(self._data))
            return Mutant(self._data[:size], f"torn after {size} of {len(self._data)} bytes")
        return mutate_bytes(random, self._data)

    def read(self, data: bytes) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._genuine, self._work)
        (self._work / self._name).write_bytes(data)
        if self._name.endswith(SEGMENT_SUFFIX) and self._is_last:
            (self._work / self._name).with_suffix(INDEX_SUFFIX).unlink()  # it was being written
        log = Log(self._work, SETTINGS)
        try:
            self._look_at(log)
            _fill(log, 1)  # it goes on
        finally:
            log.close()

    @property
    def _is_last(self) -> bool:
        return self._name == max(path.name for path in self._genuine.glob(f"*{SEGMENT_SUFFIX}"))

    def _look_at(self, log: Log) -> None:
        offset = log.earliest
        for batch in lookup.read(log, log.earliest, log.latest):
            for row in batch.to_pylist():
                if row["offset"] != offset or row != self._rows[offset]:
                    raise Finding(f"the row at {offset} is not the one that was written")
                offset += 1
        if offset != log.latest:
            raise Finding(f"rows up to {offset} were handed out, of {log.latest}")
        lookup.gaps(log, log.earliest, log.latest)
        lookup.offset_at(log, 4_000_000)
        lookup.locate(log, lookup.anchor(log, log.latest))


def journal_readers(folder: Path) -> dict[str, Reader]:
    """By kind; their files are in the folder."""
    genuine = folder / "genuine"
    log = Log(genuine, SETTINGS)
    _fill(log, BATCHES)
    rows = [row for batch in lookup.read(log, 0, log.latest) for row in batch.to_pylist()]
    log.close()

    def segment(place: int) -> Callable[[Path], str]:
        return lambda path: sorted(found.name for found in path.glob(f"*{SEGMENT_SUFFIX}"))[place]

    def index(path: Path) -> str:
        return sorted(found.name for found in path.glob(f"*{INDEX_SUFFIX}"))[0]

    chosen: dict[str, Callable[[Path], str]] = {
        "last-segment": segment(-1),
        "segment": segment(0),
        "index": index,
        "identity": lambda _: IDENTITY,
    }
    return {kind: Journal(genuine, folder / "work", rows, choose) for kind, choose in chosen.items()}
