"""What a journal that begins again knows of the batches that it has had."""

import logging
from pathlib import Path

import pytest
from journal_stories import bundle, fill, rows_in, rows_of

from antiphon import BatchMemory
from antiphon.journal import memory as memories
from antiphon.journal.errors import JournalError
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.memory import remembered
from antiphon.types import BatchStamp

SMALL = LogSettings(Fsync.NEVER, segment_bytes=4_096)


def test_what_came_of_a_batch_is_remembered(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    stamp = BatchStamp("daily", 7, 0, 2, 0)
    log.append(rows_of(*bundle(0, 10)))
    log.append(rows_of(*bundle(10, 10, batch=stamp)))
    log.append(rows_of(*bundle(20, 10, batch=stamp.moved(10))[3:6], *bundle(30, 5)))  # its rest came before
    assert [row["batch"] for row in rows_in(log)][9:12] == [None, "daily/7/0/2/0", "daily/7/0/2/1"]
    log.close()
    again = Log(tmp_path, SMALL)
    memory = remembered(again)
    assert memory.missing(stamp, 20) == [(10, 13), (16, 20)]
    assert memory.is_new(BatchStamp("other", 0, 0, 1, 0), 1)
    again.close()


def daily(batch: int) -> BatchStamp:
    return BatchStamp("daily", batch, 0, 2, 0)


def with_days(folder: Path, *days: int) -> Path:
    """A journal that has a message of each day, with others between, and has ended."""
    log = Log(folder, SMALL)
    for place, day in enumerate(days):
        first = place * 20
        log.append(rows_of(*bundle(first, 1, batch=daily(day)), time_us=first * 1_000))
        log.append(rows_of(*bundle(first + 10, 10, payload=bytes(2_000)), time_us=first * 1_000 + 500))
    log.close()
    return folder


def with_two_days_far_apart(folder: Path) -> Path:
    """A journal that has days 16 and 17, and 400 KB between them."""
    log = Log(folder, SMALL)
    log.append(rows_of(*bundle(0, 1, batch=daily(16))))
    fill(log, 20, payload=bytes(2_000), first=1)
    log.append(rows_of(*bundle(300, 1, batch=daily(17))))
    log.close()
    return folder


def memory_of(folder: Path) -> BatchMemory:
    log = Log(folder)
    try:
        return remembered(log)
    finally:
        log.close()


def test_every_batch_is_remembered_and_one_that_never_came_is_new(tmp_path: Path) -> None:
    memory = memory_of(with_days(tmp_path, 16, 17, 14))
    assert [day for day in range(10, 20) if memory.take(daily(day), 1)] == [10, 11, 12, 13, 15, 18, 19]
    assert memory.doubtful == 0


def test_batches_are_remembered_far_back_where_most_rows_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read is bounded, not how far from the end it stands."""
    monkeypatch.setattr(memories, "REACH_BYTES", 100_000)
    memory = memory_of(with_two_days_far_apart(tmp_path))
    assert not memory.is_new(daily(16), 1)
    memory.take(daily(15), 1)
    assert memory.doubtful == 0


def test_batches_beyond_what_is_read_or_kept_are_recorded_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_days(tmp_path, *range(10, 20))
    with monkeypatch.context() as patch:
        patch.setattr(memories, "REACH_BYTES", 20_000)
        beyond = memory_of(tmp_path)
    sorted(tmp_path.glob("*.arrows"))[0].unlink()
    removed = memory_of(tmp_path)
    for memory in (beyond, removed):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert memory.take(daily(19), 1) == []
            assert memory.take(daily(20), 1) == [(0, 1)]
            assert (memory.doubtful, caplog.text) == (0, "")
            assert memory.take(daily(10), 1) == [(0, 1)]
        assert memory.doubtful == 1
        assert "batch 10 of query daily may have come before" in caplog.text


def test_damage_far_back_costs_only_the_memory_of_what_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_two_days_far_apart(tmp_path)
    first = sorted(tmp_path.glob("*.arrows"))[0]
    data = bytearray(first.read_bytes())
    data[-200] ^= 1
    first.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged at byte"):
        memory_of(tmp_path)
    monkeypatch.setattr(memories, "REACH_BYTES", 100_000)
    with caplog.at_level(logging.WARNING):
        memory = memory_of(tmp_path)
    assert "batches that came before are not remembered" in caplog.text
    assert first.name in caplog.text
    assert not memory.is_new(daily(17), 1)
    memory.take(daily(16), 1)
    assert memory.doubtful == 1
