"""Rows become messages: each part of a batch over a session of its own, stamped so that a copy is recognised.

Spark repeats a batch, or a part of one, whenever it does not know that all of it arrived: an executor died,
or the query was killed and goes on from its checkpoint. The stamps of the repeated messages are the same, and
receivers drop those that they had; see `antiphon.client.batches`. For that, a part must have the
same rows in the same order again. The shape in the stamp is a checksum of the part's first message: a part
that was cut otherwise is delivered as new rather than taken for a copy.

`write` returns when every message is at every daemon that must have it; only then does Spark go on to the
next batch. A daemon that takes no more for a while holds up the `write`, and so the query.
"""

import time
import uuid
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from antiphon import blocking, limits
from antiphon.errors import AntiphonError, ConnectError, Disconnected, NotAllowed, Refused, UsageError
from antiphon.service import Service
from antiphon.spark.catalog import NOT_KEPT
from antiphon.spark.options import Writing
from antiphon.spark.plainly import plainly
from antiphon.types import BatchStamp

UNACCEPTED_MAX_BYTES = 32 * 1024 * 1024
"""What is kept until it is accepted, to be sent again through another daemon; more waits for that."""
PIECE_MAX_BYTES = 8 * 1024 * 1024
"""Given to the session in one call."""
LOSSES_MAX = 8
"""Connections lost without anything being accepted, after which the part fails: perhaps it is our fault."""
FIRST_WAIT_S = 0.05
LAST_WAIT_S = 2.0
"""The waits between two attempts to find a daemon; the wait doubles from the first to the last."""
_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"
"""Under these names Spark tells a task to which query, by its checkpoint, and to which batch it belongs."""
_MASTER_PROPERTY = "spark.master"
_ATTEMPTS_PROPERTY = "spark.task.maxFailures"
ATTEMPTS_DEFAULT = 4
"""How often Spark tries a task on a cluster where it is not told."""
_TEXTS = (StringType, BinaryType)
_NUMBERS = (ByteType, ShortType, IntegerType, LongType)

Key = tuple[tuple[str, ...], Service, int]
"""Groups, service and tag: what the messages of one bundle share."""


@dataclass
class Written(WriterCommitMessage):
    """What a part did, or why it could not."""

    messages: int
    failure: str = ""


class Chunk(Struct, frozen=True):
    """Messages that were sent and are not known to be accepted."""

    key: Key
    payloads: list[bytes]
    index: int
    """The index of the first row in its part."""


def check_columns(schema: StructType) -> None:
    """UsageError unless rows of this schema can become messages. Columns of other names are left alone."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if not isinstance(kinds.get("payload"), _TEXTS):
        raise UsageError("antiphon: a sink needs a column payload of type binary or string")
    for name in ("group", "service"):
        if name in kinds and not isinstance(kinds[name], StringType):
            raise UsageError(f"antiphon: the column {name} must be a string")
    groups = kinds.get("groups")
    if groups is not None and not (
        isinstance(groups, ArrayType) and isinstance(groups.elementType, StringType)
    ):
        raise UsageError("antiphon: the column groups must be an array of strings")
    if "tag" in kinds and not isinstance(kinds["tag"], _NUMBERS):
        raise UsageError("antiphon: the column tag must be a whole number")


class _Writer(ABC):
    """What the two kinds of writer share. Spark makes one on the driver and copies it to the executors.

    What is written is where it belongs before it commits, and what was sent before a part failed cannot be
    taken back. A part that fails in vain, so that another attempt would, too, does not fail for Spark, which
    would repeat it and show the error each time: it hands in its reason, and the commit fails with it, once.
    """

    def __init__(self, writing: Writing, schema: StructType) -> None:
        check_columns(schema)
        if not writing.groups and not {"group", "groups"} & set(schema.fieldNames()):
            raise UsageError(
                "antiphon: where to? Give the option group, or a column group or groups. "
                f"If this is a table that was created with it: {NOT_KEPT}"
            )
        self._writing = writing
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In an executor: send what one part of the batch has."""
        context = TaskContext.get()
        assert context is not None
        if failure := _failures.get(self._job):  # of another part, of which this process knows
            return Written(0, failure)
        try:
            return self._send(iterator, context)
        except AntiphonError as error:
            if not isinstance(error, UsageError | NotAllowed) and not _is_last(context):
                raise
            _failures.clear()
            _failures[self._job] = str(error)
            return Written(0, str(error))

    def _send(self, iterator: Iterator[pa.RecordBatch], context: TaskContext) -> Written:
        query, batch = self._identity(context)
        sender = Sender(self._writing, query, batch, context.partitionId())
        try:
            for rows in iterator:
                for key, payloads in messages_of(rows, self._writing):
                    sender.send(key, payloads)
            sender.finish()
        finally:
            sender.close()
        return Written(sender.sent)

    @staticmethod
    def _check(messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: AntiphonError if a part failed."""
        reasons = [
            message.failure for message in messages if isinstance(message, Written) and message.failure
        ]
        if reasons:
            told = "; ".join(dict.fromkeys(reasons))
            raise AntiphonError(f"{told} ({len(reasons)} of {len(messages)} parts were not written)")

    @abstractmethod
    def _identity(self, context: TaskContext) -> tuple[str, int]:
        """The query and the number of the batch: the same when Spark repeats it."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("antiphon")`: a batch is known by the query of the checkpoint and its number."""

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do but to tell of parts that failed."""
        self._check(messages)

    def _identity(self, context: TaskContext) -> tuple[str, int]:
        found = stream_identity(self._writing, context.getLocalProperty)
        if found is None:
            raise UsageError("antiphon: Spark does not tell which query and batch this task belongs to")
        return found


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("antiphon")`: only what is repeated within this job is known to be a copy, unless the
    options query and batch (or, in `foreachBatch`, the stream's batch) tell more."""

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to do but to tell of parts that failed."""
        self._check(messages)

    def _identity(self, context: TaskContext) -> tuple[str, int]:
        writing = self._writing
        if not writing.query:
            return self._job, 0
        of_stream = stream_identity(writing, context.getLocalProperty)
        if of_stream is not None and writing.batch in (None, of_stream[1]):
            return of_stream
        if writing.batch is None:
            raise UsageError("antiphon: the option query needs the option batch, too, outside of a stream")
        return writing.query, writing.batch


_failures: dict[str, str] = {}
"""The last job of which a part failed in this process, and why: its other parts would wait in vain, too."""


def _is_last(context: TaskContext) -> bool:
    """Whether Spark will not try this task again, or only on the same machine."""
    if (context.getLocalProperty(_MASTER_PROPERTY) or "").startswith("local"):
        return True
    most = context.getLocalProperty(_ATTEMPTS_PROPERTY) or ATTEMPTS_DEFAULT
    return context.attemptNumber() + 1 >= int(most)


def stream_identity(writing: Writing, local_property: Callable[[str], str | None]) -> tuple[str, int] | None:
    """The query and the batch of the stream that a task belongs to; None if it belongs to none.

    Spark numbers the batches of each checkpoint from 0 on. So its identifier is part of the query whatever
    name the query was given: with a new checkpoint, it is another one.
    """
    checkpoint, batch = local_property(_QUERY_PROPERTY), local_property(_BATCH_PROPERTY)
    if not checkpoint or batch is None:
        return None
    return f"{writing.query}@{checkpoint}" if writing.query else checkpoint, int(batch)


def messages_of(rows: pa.RecordBatch, writing: Writing) -> Iterator[tuple[Key, list[bytes]]]:
    """The messages of a batch of rows: consecutive ones that share groups, service and tag together."""
    payloads = _column(rows, "payload", pa.binary())
    if payloads.null_count:
        raise UsageError(
            "antiphon: a row has no payload; of journal rows, only those of kind message have one"
        )
    values = payloads.to_pylist()
    keys = [_column(rows, name, kind) for name, kind in _KEY_COLUMNS if name in rows.schema.names]
    if not keys:
        yield _key(writing), values
        return
    names = [name for name, _ in _KEY_COLUMNS if name in rows.schema.names]
    start = 0
    for given, run in groupby(zip(*(column.to_pylist() for column in keys), strict=True)):
        end = start + sum(1 for _ in run)
        yield _key(writing, **dict(zip(names, given, strict=True))), values[start:end]
        start = end


_KEY_COLUMNS = (
    ("group", pa.string()),
    ("groups", pa.list_(pa.string())),
    ("service", pa.string()),
    ("tag", pa.int64()),
)


def _column(rows: pa.RecordBatch, name: str, kind: Any) -> Any:
    column = rows.column(rows.schema.get_field_index(name))
    return column if column.type == kind else column.cast(kind)


def _key(
    writing: Writing,
    group: str | None = None,
    groups: list[str] | None = None,
    service: str | None = None,
    tag: int | None = None,
) -> Key:
    """What a row says of itself, and for the rest what the options say."""
    if groups:
        where = tuple(groups)
    elif group:
        where = (group,)
    else:
        where = writing.groups
    if not where:
        raise UsageError("antiphon: a row names no group, and there is no option group")
    return where, Service.parse(service) if service else writing.service, tag or 0


class Sender:
    """Sends one part of a batch; goes on through another daemon when one dies."""

    def __init__(self, writing: Writing, query: str, batch: int, partition: int) -> None:
        self.sent = 0
        self._writing = writing
        self._stamp = BatchStamp(query, batch, partition, 0, 0)
        self._session: blocking.Session | None = None
        self._unaccepted: deque[Chunk] = deque()
        self._unaccepted_bytes = 0

    def send(self, key: Key, payloads: list[bytes]) -> None:
        """Send these; waits while the daemon takes no more."""
        if not self.sent and payloads:
            self._stamp = BatchStamp(
                self._stamp.query, self._stamp.batch, self._stamp.partition, _checksum(key, payloads[0]), 0
            )
        for piece in _pieces(payloads):
            chunk = Chunk(key, piece, self.sent)
            self.sent += len(piece)
            self._unaccepted.append(chunk)
            self._unaccepted_bytes += sum(map(len, piece)) + limits.BATCH_QUERY_MAX_BYTES
            self._insist([chunk], waits=self._unaccepted_bytes >= UNACCEPTED_MAX_BYTES)

    def finish(self) -> None:
        """Wait until everything is accepted."""
        if self._unaccepted:
            self._insist([], waits=True)

    def close(self) -> None:
        """Let go of the connection; nothing is lost with it once `finish` has returned."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Disconnected):  # it is not for the closing to confirm anything
                session.close()

    def _insist(self, chunks: Iterable[Chunk], *, waits: bool) -> None:
        """Send `chunks`, the newest of the unaccepted ones, and perhaps wait until all is accepted; where a
        connection breaks, send over another whatever is not known to have been accepted."""
        losses = 0
        while True:
            try:
                session = self._session
                if session is None:
                    session = self._session = self._connect()
                    chunks = self._unaccepted
                for chunk in chunks:
                    groups, service, tag = chunk.key
                    session.send_many(
                        groups, chunk.payloads, service, tag=tag, batch=self._stamp.moved(chunk.index)
                    )
                if waits:
                    session.wait_accepted()
                    for reason in session.denied.values():
                        raise NotAllowed(reason)
                    self._unaccepted.clear()
                    self._unaccepted_bytes = 0
                return
            except Disconnected:
                self.close()
                losses += 1
                if losses >= LOSSES_MAX:
                    raise
                time.sleep(min(FIRST_WAIT_S * 2**losses, LAST_WAIT_S))

    def _connect(self) -> blocking.Session:
        """A session with any of the daemons, as soon as one takes it."""
        writing = self._writing
        deadline_s = time.monotonic() + writing.timeout_s
        name = f"{writing.name}-{self._stamp.partition % 1_000}" if writing.name else ""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                return blocking.connect(
                    writing.addresses,
                    name=name,
                    views=False,
                    tls=writing.files.tls if _uses_tls(writing.addresses) else None,
                    token=Path(writing.files.token_file) if writing.files.token_file else None,
                )
            except Refused as error:
                # A part that is repeated may find the session of its forerunner still open.
                failure: AntiphonError = error
                name = ""
            except ConnectError as error:
                failure = error
            if time.monotonic() + wait_s > deadline_s:
                raise ConnectError(f"no daemon took the messages within {writing.timeout_s:g} s: {failure}")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LAST_WAIT_S)


def _checksum(key: Key, payload: bytes) -> int:
    groups, service, tag = key
    return zlib.crc32(payload, zlib.crc32(f"{' '.join(groups)} {int(service)} {tag}".encode()))


def _pieces(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """`payloads` in lists that are bounded in messages and, but for single large messages, in bytes."""
    piece: list[bytes] = []
    size_bytes = 0
    for payload in payloads:
        size_bytes += len(payload)
        if piece and (size_bytes > PIECE_MAX_BYTES or len(piece) >= limits.BUNDLE_MESSAGES_MAX):
            yield piece
            piece = []
            size_bytes = len(payload)
        piece.append(payload)
    if piece:
        yield piece


def _uses_tls(addresses: tuple[str, ...] | None) -> bool:
    """Whether a session is opened with TLS, as far as the options say; otherwise the environment does."""
    return any(address.startswith(("tls:", "cluster:")) for address in addresses or ())
