"""How many streams a journal's server has open, and how many bytes they have in flight: bounds on both.

A stream whose reader does not read cannot be ended from here; it occupies a thread, and what was handed to
the network for it. So there are `limits.JOURNAL_STREAMS_MAX` at most, half of them for one host, and the same
for the bytes of the pieces that they are sending. Beyond that a stream is refused with `Busy`: the rows are
where they were, and a reader tries again.
"""

import threading
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from antiphon import limits
from antiphon.journal.errors import JournalError

PIECE_BYTES = 2 * 1024 * 1024
"""Batches are sent in pieces of about this size, as far as rows allow it."""
ROOM_S = 1.0
"""How long a stream waits for room for its next piece before it is given up."""


class Busy(JournalError):
    """The server has as many streams, or bytes in flight, as it may have: try again."""


class Streams:
    """The streams of one server; used by many threads."""

    def __init__(
        self, most: int = limits.JOURNAL_STREAMS_MAX, most_bytes: int = limits.JOURNAL_STREAM_BYTES_MAX
    ) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.count = 0
        self.bytes = 0
        self.refused = 0
        """Streams that were not opened, or given up, since the start."""
        self._room = threading.Condition(threading.RLock())  # a stream may end where its memory is freed
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def open(self, client: str) -> "Stream":
        """A stream for a client at this host; Busy if there are too many."""
        with self._room:
            if self.count >= self.most or self._counts[client] >= self._half(self.most):
                self.refused += 1
                whose = "this host has" if self.count < self.most else "the journal serves"
                raise Busy(f"busy, try again: {whose} as many streams as it may")
            self.count += 1
            self._counts[client] += 1
        return Stream(self, client)

    def reserve(self, client: str, size: int) -> None:
        """Wait until a piece may be sent; Busy if it takes too long."""
        with self._room:
            if not self._room.wait_for(lambda: self._has_room(client, size), ROOM_S):
                self.refused += 1
                raise Busy("busy, try again: too many bytes are on their way to readers")
            self.bytes += size
            self._bytes[client] += size

    def _has_room(self, client: str, size: int) -> bool:
        return not self.bytes or (
            self.bytes + size <= self.most_bytes and self._bytes[client] + size <= self._half(self.most_bytes)
        )

    def release(self, client: str, size: int, *, is_over: bool) -> None:
        """A piece is out, or the stream has ended."""
        with self._room:
            self.bytes -= size
            self._bytes[client] -= size
            if is_over:
                self.count -= 1
                self._counts[client] -= 1
                if not self._counts[client]:
                    del self._counts[client], self._bytes[client]
            self._room.notify_all()

    @staticmethod
    def _half(most: int) -> int:
        return max(1, most // 2)


class Stream:
    """One open stream; ends when it is forgotten, at the latest."""

    def __init__(self, streams: Streams, client: str) -> None:
        self._streams = streams
        self._client = client
        self._reserved = 0
        self._is_over = False

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of `batches`, in pieces that may be sent; asking for one tells that the one before is
        out."""
        for batch in batches:
            for piece in cut(batch):
                self._release()
                self._streams.reserve(self._client, piece.nbytes)
                self._reserved = piece.nbytes
                yield piece
        self._release()

    def _release(self) -> None:
        reserved, self._reserved = self._reserved, 0
        if reserved:
            self._streams.release(self._client, reserved, is_over=False)

    def end(self) -> None:
        """Nothing more is sent."""
        if not self._is_over:
            self._is_over = True
            reserved, self._reserved = self._reserved, 0
            self._streams.release(self._client, reserved, is_over=True)

    def __del__(self) -> None:
        self.end()  # the only notice of a call that was cancelled before its first row


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in halves, again and again, until each piece is small enough or has one row."""
    if batch.nbytes <= PIECE_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half))
    yield from cut(batch.slice(half))
