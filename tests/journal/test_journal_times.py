"""Times of sending that no calendar has: a journal survives whoever sends them, and readers whoever wrote
them."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from journal_stories import bundle, rows_in, rows_of
from msgspec.structs import replace

from antiphon import limits
from antiphon.journal import lookup, rows
from antiphon.journal.log import Log
from antiphon.journal.memory import remembered
from antiphon.journal.schema import SCHEMA
from antiphon.types import BatchStamp, Message

LAST_YEAR = 2199


def sent_at(sent_us: int, first: int) -> list[Message]:
    """A bundle of two messages that say so."""
    messages = bundle(first, 2)
    envelope = replace(messages[0].envelope, sent_us=sent_us)
    return [replace(message, envelope=envelope) for message in messages]


@pytest.mark.parametrize("sent_us", [2**64 - 1, 2**63, 2**63 - 1, limits.SENT_MAX_US + 1])
def test_any_time_of_sending_becomes_a_row_beside_honest_ones(tmp_path: Path, sent_us: int) -> None:
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*bundle(0, 2), *sent_at(sent_us, 2), *bundle(4, 2)))
        years = [row["sent"].year for row in rows_in(log)]
    assert years == [1970, 1970, *[LAST_YEAR if sent_us < 2**63 else 1970] * 2, 1970, 1970]


def test_a_journal_that_was_written_before_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "sane_sent_us", lambda sent_us: sent_us)
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*bundle(0, 2), *sent_at(2**63 - 1, 2)))
        log.append(rows_of(*sent_at(-(2**63), 4)))
        found = rows_in(log)
    assert [row["sent"].year for row in found] == [1970, 1970, LAST_YEAR, LAST_YEAR, 1970, 1970]
    assert [row["payload"] for row in found] == [b"%d" % number for number in range(6)]


def test_a_stamp_that_cannot_be_one_does_not_keep_a_journal_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamps(self: Any) -> list[str | None]:
        return ["q/1/0/1/1000000000000000000"] * self.count

    stamp = BatchStamp("q", 1, 0, 1, 0)
    with closing(Log(tmp_path / "j")) as log:
        with monkeypatch.context() as patched:
            patched.setattr(rows.Rows, "_stamps", stamps)
            log.append(rows_of(*bundle(0, 2, batch=stamp)))
        log.append(rows_of(*bundle(2, 3, batch=stamp)))
        memory = remembered(log)
    assert memory.missing(stamp, 5) == [(3, 5)]


def test_readers_are_handed_the_columns_of_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "sane_sent_us", lambda sent_us: sent_us)
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*sent_at(2**63 - 1, 0)))
        (batch,) = lookup.read(log, 0, 2)
    assert isinstance(batch, pa.RecordBatch) and batch.schema.equals(SCHEMA)


def test_places_of_a_journal_that_was_written_before_have_anchors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "sane_sent_us", lambda sent_us: sent_us)
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*sent_at(2**63 - 1, 0)))
        assert lookup.locate(log, lookup.anchor(log, 2)) == 2
