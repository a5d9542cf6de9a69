"""A place in the agreed order, in words that every journal of the same groups understands.

Offsets count the rows of one journal. Another journal of the same groups has other offsets, because it began
at another time and may have got reliable and FIFO messages in another order. What both share is the one
order of agreed and safe messages and of views. So a place is named by the last such row before it: a message
by its identity, a view by its group and its name. Where there is none before, the first one after it will
do.

Journals on the two sides of a partition have different histories for a while. A row that only one side has is
not found at the other, and that is the answer: there is no guess.
"""

from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.journal.schema import MESSAGE, VIEW
from antiphon.service import Service
from antiphon.wire.decoding import NOT_A_VALUE

ORDERED = pa.array([service.name.lower() for service in Service if service.is_ordered])


class Anchor(Struct, frozen=True, omit_defaults=True):
    """A row of the agreed order, and on which side of it the place is."""

    kind: Literal["message", "view", "begin"]
    """`begin`: the place is before anything that was ever ordered in the journal that was asked."""
    side: Literal["after", "before"] = "after"
    lts: int = 0
    place: int = 0
    daemon: int = 0
    incarnation: int = 0
    session: int = 0
    sequence: int = 0
    """Identifies a message."""
    group: str = ""
    view: str = ""
    """Identifies a view."""

    def __str__(self) -> str:
        if self.kind == "message":
            return f"message {self.daemon}.{self.incarnation:x}.{self.session}.{self.sequence}"
        return f"view {self.view} of {self.group}" if self.kind == "view" else "the beginning"


def anchor_from(value: object) -> Anchor:
    """The anchor that was turned into JSON, or into what JSON is made of."""
    try:
        if isinstance(value, Anchor):
            return value
        if isinstance(value, str | bytes):
            return msgspec.json.decode(value, type=Anchor)
        return msgspec.convert(value, Anchor)
    except NOT_A_VALUE as error:
        raise UsageError(f"not an anchor: {error}") from None


_NAMED_BY = ["kind", "group", "view", "lts", "place", "daemon", "incarnation", "session", "sequence"]
"""The columns of which an anchor is made; others may hold what Python has no value for."""


def ordered_rows(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows have a place in the agreed order."""
    is_message = pc.equal(batch.column("kind"), MESSAGE)
    is_ordered = pc.fill_null(pc.is_in(batch.column("service"), value_set=ORDERED), False)
    return pc.or_(pc.and_(is_message, is_ordered), pc.equal(batch.column("kind"), VIEW))


def last_anchor(batch: pa.RecordBatch) -> Anchor | None:
    """Just after the last ordered row of a batch, if it has one."""
    rows = batch.filter(ordered_rows(batch))
    return _anchor(rows.slice(rows.num_rows - 1), "after") if rows.num_rows else None


def first_anchor(batch: pa.RecordBatch) -> Anchor | None:
    """Just before the first ordered row of a batch, if it has one."""
    rows = batch.filter(ordered_rows(batch))
    return _anchor(rows.slice(0, 1), "before") if rows.num_rows else None


def offset_in(batch: pa.RecordBatch, anchor: Anchor) -> int | None:
    """The offset of the row that `anchor` names, if it is in the batch."""
    matches = pc.and_(ordered_rows(batch), pc.equal(batch.column("lts"), anchor.lts))
    if anchor.kind == "view":
        wanted: dict[str, int | str] = {"kind": VIEW, "group": anchor.group, "view": anchor.view}
    else:
        wanted = {name: getattr(anchor, name) for name in ("daemon", "incarnation", "session", "sequence")}
        wanted["kind"] = MESSAGE
    for name, value in wanted.items():
        matches = pc.and_(matches, pc.fill_null(pc.equal(batch.column(name), value), False))
    offsets = batch.column("offset").filter(matches)
    return int(offsets[0].as_py()) if len(offsets) else None


def _anchor(rows: pa.RecordBatch, side: Literal["after", "before"]) -> Anchor:
    row = rows.select(_NAMED_BY).to_pylist()[0]
    if row["kind"] == VIEW:
        return Anchor("view", side, row["lts"], group=row["group"], view=row["view"])
    return Anchor(
        "message", side, row["lts"], row["place"],
        row["daemon"], row["incarnation"], row["session"], row["sequence"],
    )  # fmt: skip
