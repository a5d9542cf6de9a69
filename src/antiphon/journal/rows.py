"""Events as rows: what the client hands out becomes Arrow columns, at a cost per bundle where that is
possible.

All messages of a bundle share their envelope, so most columns are made with one value for each bundle and
spread over its rows by Arrow. Only the payload, the place and the sequence are touched for every message.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from antiphon.journal.schema import GAP, MESSAGE, SCHEMA, SIGNAL, VIEW
from antiphon.journal.sealing import HAS_BATCHES, HAS_EVENTS, Seal
from antiphon.types import BatchStamp, Envelope, Message, TransitionalSignal, View
from antiphon.wire.bundle import sane_sent_us

_SHARED = (
    "kind", "group", "groups", "sender", "service", "view", "sequence", "sent", "delivered", "daemon",
    "incarnation", "session", "lts", "tag", "members", "transitional", "changed", "cause",
)  # fmt: skip
"""Columns with one value for all rows of a bundle; the sequence is that of its first message."""
ROW_BYTES = 200
"""What a row is taken to need besides its payload, for bounds."""


class Run(Struct):
    """Consecutive rows that share all but a few columns."""

    kind: str
    delivered: int
    group: str | None = None
    groups: Sequence[str] | None = None
    sender: str | None = None
    service: str | None = None
    view: str | None = None
    sequence: int | None = None
    sent: int | None = None
    daemon: int | None = None
    incarnation: int | None = None
    session: int | None = None
    lts: int | None = None
    tag: int | None = None
    members: Sequence[str] | None = None
    transitional: Sequence[str] | None = None
    changed: Sequence[str] | None = None
    cause: str | None = None
    batch: BatchStamp | None = None
    """The stamp of the bundle's first message."""
    first_row: int = 0


class Rows:
    """Collects rows; `take` makes a batch of them and begins anew."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.payload_bytes = 0
        self._runs: list[Run] = []
        self._payloads: list[bytes | None] = []
        self._places: list[int | None] = []
        self._lts_min = self._lts_max = 0
        self._flags = 0

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._payloads)

    @property
    def size_bytes(self) -> int:
        """About how large the batch will be."""
        return self.payload_bytes + ROW_BYTES * len(self._payloads)

    # Adding -----------------------------------------------------------------------------------------------

    def add_messages(
        self, messages: Sequence[Message], group: str, view: str | None, delivered_us: int
    ) -> None:
        """Messages of one bundle that were delivered in this view of `group`."""
        self._begin_bundle(messages[0].envelope, group, view, delivered_us)
        payloads = [message.payload for message in messages]
        self._payloads += payloads
        self._places += [message.index for message in messages]
        self.payload_bytes += sum(map(len, payloads))

    def _begin_bundle(self, envelope: Envelope, group: str, view: str | None, delivered_us: int) -> None:
        self._add_run(
            Run(
                MESSAGE,
                delivered_us,
                group,
                envelope.groups,
                envelope.sender,
                envelope.service.name.lower(),
                view,
                envelope.sequence,
                sane_sent_us(envelope.sent_us),
                envelope.daemon,
                envelope.incarnation,
                envelope.session,
                envelope.lts,
                envelope.tag,
                batch=envelope.batch,
            )
        )
        if envelope.service.is_ordered:
            self._saw_lts(envelope.lts)
        if envelope.batch is not None:
            self._flags |= HAS_BATCHES

    def add_view(self, view: View, delivered_us: int) -> None:
        """A view of a group."""
        self._add_event(
            Run(
                VIEW,
                delivered_us,
                view.group,
                (view.group,),
                view=str(view.id),
                daemon=view.id.daemon,
                lts=view.id.lts,
                members=view.members,
                transitional=view.transitional,
                changed=view.changed,
                cause=view.cause.value,
            )
        )
        self._saw_lts(view.id.lts)

    def add_signal(self, signal: TransitionalSignal, delivered_us: int) -> None:
        """A transitional signal of a group."""
        self._add_event(Run(SIGNAL, delivered_us, signal.group, (signal.group,), view=str(signal.id)))

    def add_gap(self, groups: Sequence[str], cause: str, payload: bytes, delivered_us: int) -> None:
        """What was sent before this row, and after the one before it, may be missing."""
        self._add_event(Run(GAP, delivered_us, groups=groups, cause=cause), payload)

    def _add_event(self, run: Run, payload: bytes | None = None) -> None:
        self._flags |= HAS_EVENTS
        self._add_run(run)
        self._payloads.append(payload)
        self._places.append(None)
        self.payload_bytes += len(payload or b"")

    def _add_run(self, run: Run) -> None:
        run.first_row = len(self._payloads)
        self._runs.append(run)

    def _saw_lts(self, lts: int) -> None:
        self._lts_max = max(self._lts_max, lts)
        self._lts_min = min(self._lts_min, lts) if self._lts_min else lts

    # Taking -----------------------------------------------------------------------------------------------

    def take(self, first_offset: int) -> tuple[pa.RecordBatch, Seal]:
        """The rows as a batch, numbered from `first_offset` on, and the facts about them."""
        count = self.count
        columns = self._shared_columns()
        columns["offset"] = pa.array(range(first_offset, first_offset + count), pa.int64())
        columns["payload"] = pa.array(self._payloads, pa.binary())
        columns["place"] = pa.array(self._places, pa.int64())
        columns["sequence"] = pc.add(columns["sequence"], columns["place"])
        columns["batch"] = pa.array(self._stamps(), pa.string())
        batch = pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
        times_us = [run.delivered for run in self._runs]
        seal = Seal(
            first_offset, count, min(times_us), max(times_us), self._lts_min, self._lts_max, self._flags
        )
        self._begin()
        return batch, seal

    def _shared_columns(self) -> dict[str, Any]:
        runs = self._runs
        columns = {
            name: pa.array([getattr(run, name) for run in runs], SCHEMA.field(name).type) for name in _SHARED
        }
        if len(runs) == self.count:
            return columns
        run_of_row = array("i")
        for number, run in enumerate(runs):
            run_of_row.extend(array("i", (number,)) * self._rows_of(number, run))
        spread = pa.Array.from_buffers(pa.int32(), self.count, [None, pa.py_buffer(run_of_row)])
        return {name: column.take(spread) for name, column in columns.items()}

    def _rows_of(self, number: int, run: Run) -> int:
        after = self._runs[number + 1].first_row if number + 1 < len(self._runs) else self.count
        return after - run.first_row

    def _stamps(self) -> list[str | None]:
        """The stamp of each row; of most journals there is none at all."""
        stamps: list[str | None] = [None] * self.count
        if self._flags & HAS_BATCHES:
            for number, run in enumerate(self._runs):
                if run.batch is not None:
                    for row in range(run.first_row, run.first_row + self._rows_of(number, run)):
                        stamps[row] = str(run.batch.moved(self._places[row] or 0))
        return stamps
