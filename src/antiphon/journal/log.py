"""The log itself: batches of rows in segments, appended by one thread and read by many.

What is safe when. A batch that `append` has written survives the death of this process, whatever the policy:
the system has it. Whether it survives a loss of power is the policy's: with ALWAYS each batch is on disk
before a reader can get it; with INTERVAL all but the last moments are; with NEVER the system decides.
Readers see a batch as soon as `append` returns, and never half of one. A disk that is full ends the append
with an error and leaves the log as it was.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

from msgspec import Struct

from antiphon.journal.errors import JournalError
from antiphon.journal.folder import Endpoint, Folder, new_journal, this_boot
from antiphon.journal.recovery import groups_of, last_state, recover
from antiphon.journal.rows import Rows
from antiphon.journal.sealing import END_OF_STREAM, seal_batch, start_of_stream
from antiphon.journal.segment import (
    Block,
    Index,
    Summary,
    add_to_blocks,
    path_of,
    read_index,
    sync_folder,
    write_index,
)

INDEXES_KEPT = 64
"""Full segments whose blocks stay in memory after a lookup in them."""
BUFFERS_MAX = 512
"""Buffers in one scatter-gather write; systems allow at least this many."""


class Fsync(Enum):
    """When written rows are forced to disk."""

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


class LogSettings(Struct, frozen=True):
    """How a log is kept."""

    fsync: Fsync = Fsync.INTERVAL
    fsync_ms: int = 1_000
    segment_bytes: int = 128 * 1024 * 1024
    keep_bytes: int | None = None
    """Full segments are removed, the oldest first, while all together are larger; None: never."""
    keep_age_s: float | None = None
    """Full segments whose last row is older are removed; None: never."""


class Log:
    """A journal on disk. One thread appends; any thread reads, see `antiphon.journal.lookup`."""

    def __init__(self, path: Path, settings: LogSettings | None = None) -> None:
        self.settings = settings or LogSettings()
        self._folder = Folder(path)
        try:
            self._recover()
        except BaseException:
            self._folder.release()
            raise
        self._lock = threading.Lock()
        """Guards the segments and blocks that readers look at."""
        self._indexes: OrderedDict[Path, Index] = OrderedDict()
        self._writing: _Writing | None = None
        self._failure: str | None = None
        self._closed = False
        self._syncing = threading.Lock()
        """Guards the descriptor of the segment that is being written against being closed while it syncs."""
        self._wake = threading.Event()
        self._syncer: threading.Thread | None = None
        if self.settings.fsync is Fsync.INTERVAL:
            self._syncer = threading.Thread(
                target=self._sync_often, name="antiphon-journal-sync", daemon=True
            )
            self._syncer.start()

    def _recover(self) -> None:
        known = self._folder.identity()
        recovered = recover(self._folder.path)
        self._full = recovered.segments
        self.cut = recovered.cut
        """What the recovery had to cut off, in words."""
        self.before = last_state(recovered.segments)
        """What the journal was a member of when the last row was written."""
        self.groups_before = groups_of(recovered.segments, self.before)
        """The groups that its rows may be of, as far as they were written before this start."""
        self.was_clean = known is None or known.is_clean
        self.state = self.before
        """What it is a member of now; stands at the start of each new segment."""
        self.journal_before = ""
        """The name that the journal had, if rows that a reader may have got can have been lost since."""
        if known is None and recovered.segments:
            raise JournalError(
                f"{self._folder.path} has segments but no journal.json to say whose they are; put it back"
            )
        # Without any row it is unknown which offsets were given out before.
        journal = new_journal() if known is None or not recovered.segments else known.journal
        if known is not None:
            lost_power = not known.is_clean and not known.is_synced and known.boot != this_boot()
            if recovered.is_damaged or lost_power:
                self.journal_before, journal = known.journal, new_journal()
        is_synced = self.settings.fsync is Fsync.ALWAYS
        self._identity = self._folder.begin(journal, is_synced=is_synced)
        self._latest = self._full[-1].next_offset if self._full else 0

    @property
    def journal(self) -> str:
        """The name that makes offsets of this journal different from those of others."""
        return self._identity.journal

    @property
    def path(self) -> Path:
        return self._folder.path

    @property
    def latest(self) -> int:
        """One past the last offset."""
        return self._latest

    @property
    def earliest(self) -> int:
        """The first offset that is left."""
        segments = self.segments()
        return segments[0].first_offset if segments else self._latest

    @property
    def last_us(self) -> int:
        """When the last row was delivered, as far as the segments tell; 0 in an empty journal."""
        segments = self.segments()
        return segments[-1].last_us if segments else 0

    def announce(self, endpoint: str, groups: tuple[str, ...]) -> None:
        """Say in the folder where this journal serves."""
        self._folder.announce(Endpoint(endpoint, self.journal, groups, os.getpid()))

    # Looking ----------------------------------------------------------------------------------------------

    def segments(self) -> list[Summary]:
        """The segments as they are at this moment, in order; rows written later are not in them."""
        with self._lock:
            writing = self._writing
            return [*self._full, writing.summary] if writing is not None and writing.blocks else [*self._full]

    def index(self, summary: Summary) -> Index:
        """The index of a segment; it may tell of more than `summary` does of the one that is being written.

        FileNotFoundError if retention has removed it; JournalError if something else was done to it.
        """
        with self._lock:
            writing = self._writing
            if writing is not None and writing.summary.path == summary.path:
                return writing.index
            index = self._indexes.get(summary.path)
            if index is not None:
                self._indexes.move_to_end(summary.path)
                return index
        indexed = read_index(summary.path)
        if indexed is None:
            if summary.path.exists():
                raise JournalError(f"{summary.path} does not fit its index; put back good copies of both")
            raise FileNotFoundError(summary.path)
        with self._lock:
            index = self._indexes.setdefault(summary.path, Index(summary.path, indexed[1]))
            while len(self._indexes) > INDEXES_KEPT:
                self._indexes.popitem(last=False)
        return index

    # Appending --------------------------------------------------------------------------------------------

    def append(self, rows: Rows) -> int:
        """Write the rows; returns the offset of the first. JournalError if that cannot be done."""
        if self._failure is not None:
            raise JournalError(self._failure)
        writing = self._writing
        if writing is not None and writing.summary.size_bytes >= self.settings.segment_bytes:
            self._finish()
            writing = None
        if writing is None:
            writing = self._begin()
        offset = self._latest
        batch, facts = rows.take(offset)
        buffers, seal = seal_batch(batch, facts)
        position = writing.summary.size_bytes
        with self._writes(writing.summary.path, writing.descriptor, position):
            _write_all(writing.descriptor, buffers)
            if self.settings.fsync is Fsync.ALWAYS:
                os.fdatasync(writing.descriptor)
        writing.is_dirty = True
        with self._lock:
            writing.summary = writing.summary.with_batch(seal)
            add_to_blocks(writing.blocks, seal, position)
            self._latest = seal.offset + seal.rows
        return offset

    def _begin(self) -> "_Writing":
        """Open the segment that comes next."""
        path = path_of(self.path, self._latest)
        start = start_of_stream(self.state.encode())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise JournalError(f"cannot make {path}: {error.strerror}") from None
        try:
            with self._writes(path, descriptor, 0):
                _write_all(descriptor, [start])
                if self.settings.fsync is not Fsync.NEVER:
                    sync_folder(self.path)
        except JournalError:
            os.close(descriptor)
            path.unlink()
            raise
        summary = Summary(path, len(start), len(start), self._latest, self._latest)
        writing = _Writing(descriptor, summary)
        with self._lock:
            self._writing = writing
        return writing

    def _finish(self) -> None:
        """The segment is full: end the stream, put its index beside it, and begin no other yet."""
        writing = self._writing
        if writing is None:
            return
        sync = self.settings.fsync is not Fsync.NEVER
        if writing.blocks:
            position = writing.summary.size_bytes
            with self._writes(writing.summary.path, writing.descriptor, position):
                _write_all(writing.descriptor, [END_OF_STREAM])
                if sync:
                    os.fdatasync(writing.descriptor)
                write_index(writing.summary, writing.blocks, sync=sync)
        with self._syncing, self._lock:
            if writing.blocks:
                self._full.append(writing.summary)
            self._writing = None
            os.close(writing.descriptor)
        if not writing.blocks:
            writing.summary.path.unlink()
        self._retain(time.time_ns() // 1_000)

    @contextmanager
    def _writes(self, path: Path, descriptor: int, position: int) -> Iterator[None]:
        """What cannot be written as a whole is not written at all."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, position)
            raise JournalError(
                f"cannot write to {path}: {error.strerror}; what was written before is safe"
            ) from None

    # Retention --------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Remove what is too old, and end a segment that has old rows. To be called regularly."""
        now_us = time.time_ns() // 1_000
        age_s = self.settings.keep_age_s
        writing = self._writing
        if (
            age_s is not None
            and writing is not None
            and writing.blocks
            and writing.summary.first_us < now_us - age_s * 1_000_000
        ):
            self._finish()
        else:
            self._retain(now_us)

    def _retain(self, now_us: int) -> None:
        """Remove full segments that are too many or too old, the oldest first."""
        keep_bytes, age_s = self.settings.keep_bytes, self.settings.keep_age_s
        if keep_bytes is None and age_s is None:
            return
        total_bytes = sum(summary.size_bytes for summary in self.segments())
        while self._full:
            oldest = self._full[0]
            too_many = keep_bytes is not None and total_bytes > keep_bytes
            too_old = age_s is not None and oldest.last_us < now_us - age_s * 1_000_000
            has_others = len(self._full) > 1 or (self._writing is not None and self._writing.blocks)
            if not (too_many or too_old) or not has_others:  # the last row says which offset comes next
                return
            with self._lock:
                del self._full[0]
                self._indexes.pop(oldest.path, None)
            # The rows first: an index without rows is removed at the next start, rows without index are kept.
            oldest.path.unlink(missing_ok=True)
            oldest.index_path.unlink(missing_ok=True)
            total_bytes -= oldest.size_bytes

    # Syncing and the end ----------------------------------------------------------------------------------

    def _sync_often(self) -> None:
        while not self._wake.wait(self.settings.fsync_ms / 1_000):
            with self._syncing:
                writing = self._writing
                if writing is None or not writing.is_dirty:
                    continue
                writing.is_dirty = False
                try:
                    os.fdatasync(writing.descriptor)
                except OSError as error:
                    self._failure = f"cannot sync {writing.summary.path}: {error.strerror}"

    def close(self, *, is_clean: bool = True) -> None:
        """End the last segment and let go of the folder; closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            self._finish()
        except JournalError:
            is_clean = False
            raise
        finally:
            self._folder.end(self._identity, is_clean=is_clean)


class _Writing:
    """The segment that is being written."""

    def __init__(self, descriptor: int, summary: Summary) -> None:
        self.descriptor = descriptor
        self.summary = summary
        self.blocks: list[Block] = []
        self.index = Index(summary.path, self.blocks)
        self.is_dirty = True


def _write_all(descriptor: int, buffers: list[memoryview | bytes]) -> None:
    """Write all of the buffers, however many calls that takes."""
    views = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while views:
        written = os.writev(descriptor, views[:BUFFERS_MAX])
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]
