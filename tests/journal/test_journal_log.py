"""The log on disk: rows come back as they went in, whatever happens between."""

import errno
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from journal_stories import bundle, fill, rows_in, rows_of, view

from antiphon.errors import UsageError
from antiphon.journal import folder as folders
from antiphon.journal import log as logs
from antiphon.journal import lookup
from antiphon.journal.errors import JournalError, OffsetsRemoved
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.schema import SCHEMA
from antiphon.service import Service
from antiphon.types import TransitionalSignal, ViewId

SMALL = LogSettings(Fsync.NEVER, segment_bytes=4_096)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "journal", LogSettings(Fsync.NEVER))
    yield log
    log.close()


def reopened(path: Path, settings: LogSettings = SMALL) -> Log:
    return Log(path, settings)


def killed_copy(log: Log, to: Path) -> Path:
    """The folder as a killed journal leaves it: without the last words of `close`."""
    shutil.copytree(log.path, to)
    return to


def offsets(log: Log) -> list[int]:
    return [row["offset"] for row in rows_in(log)]


# Rows -----------------------------------------------------------------------------------------------------


def test_a_message_is_a_row(log: Log) -> None:
    messages = bundle(5, 2, groups=("tea", "milk"), service=Service.SAFE, payload=b"\x00\xff")
    log.append(rows_of(*messages, time_us=1_700_000_000_000_001))
    first, second = rows_in(log)
    assert first["offset"] == 0
    assert first["kind"] == "message"
    assert (first["group"], first["groups"]) == ("tea", ["tea", "milk"])
    assert (first["sender"], first["service"], first["view"]) == ("#alice#d1", "safe", "v")
    assert (first["sequence"], first["place"], first["lts"]) == (5, 0, 6 << 10)
    assert (first["daemon"], first["incarnation"], first["session"], first["tag"]) == (1, 7, 3, 0)
    assert first["delivered"].timestamp() == pytest.approx(1_700_000_000.000_001, abs=1e-6)
    assert first["sent"].timestamp() == pytest.approx(0.001_005)
    assert first["payload"] == b"\x00\xff5"
    assert [first[name] for name in ("members", "transitional", "changed", "cause", "batch")] == [None] * 5
    assert (second["offset"], second["sequence"], second["place"]) == (1, 6, 1)
    assert second["payload"] == b"\x00\xff6"


def test_a_view_a_signal_and_a_gap_are_rows(log: Log) -> None:
    rows = rows_of(view(77, members=("#a#d1", "#b#d1")))
    rows.add_signal(TransitionalSignal("tea", ViewId(9, 0, 77, 1)), 5)
    rows.add_gap(("tea",), "restart", b"{}", 6)
    log.append(rows)
    shown, signal, gap = rows_in(log)
    assert (shown["kind"], shown["group"], shown["view"], shown["lts"]) == ("view", "tea", "9.0.77.1", 77)
    assert (shown["members"], shown["changed"], shown["cause"]) == (["#a#d1", "#b#d1"], ["#b#d1"], "join")
    assert (signal["kind"], signal["group"], signal["view"]) == ("signal", "tea", "9.0.77.1")
    assert (gap["kind"], gap["groups"], gap["payload"], gap["cause"]) == ("gap", ["tea"], b"{}", "restart")


def test_bundles_of_any_size_share_a_batch(log: Log) -> None:
    sizes = [1, 3, 1, 1, 50, 2]
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    messages = [message for start, size in zip(starts, sizes, strict=True) for message in bundle(start, size)]
    log.append(rows_of(*messages))
    rows = rows_in(log)
    assert [row["payload"] for row in rows] == [b"%d" % number for number in range(sum(sizes))]
    assert [row["sequence"] for row in rows] == list(range(sum(sizes)))
    assert [row["place"] for row in rows] == [place for size in sizes for place in range(size)]
    assert len({row["lts"] for row in rows}) == len(sizes)


def test_a_segment_is_an_arrow_stream(log: Log) -> None:
    fill(log, 3)
    path = log.segments()[0].path
    while_written = pa.ipc.open_stream(path.read_bytes()).read_all()
    log.close()
    whole = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert while_written.schema.equals(SCHEMA)
    assert while_written.num_rows == whole.num_rows == 30


def test_an_empty_log_has_nothing(log: Log) -> None:
    assert lookup.positions(log) == lookup.Positions(log.journal, 0, 0)
    assert rows_in(log) == []
    assert lookup.offset_at(log, 0) == 0


# Segments -------------------------------------------------------------------------------------------------


def test_segments_are_named_by_their_first_offset_and_follow_each_other(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 12)
    summaries = log.segments()
    assert len(summaries) > 3
    assert [part.path.name for part in summaries] == [
        f"{part.first_offset:020d}.arrows" for part in summaries
    ]
    assert offsets(log) == list(range(120))
    log.close()
    again = reopened(tmp_path)
    assert offsets(again) == list(range(120))
    fill(again, 1, first=120)
    assert offsets(again) == list(range(130))
    again.close()


def test_any_range_can_be_read_again_and_again(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 12, each=7)
    for start in range(0, 84, 5):
        for end in range(start, 85, 9):
            found = [n for batch in lookup.read(log, start, end) for n in batch.column("offset").to_pylist()]
            assert found == list(range(start, end))
    log.close()


def test_small_batches_reach_a_reader_as_large_ones(tmp_path: Path) -> None:
    log = Log(tmp_path, LogSettings(Fsync.NEVER))
    fill(log, 300, each=1)
    assert [batch.num_rows for batch in lookup.read(log, 0, 300)] == [300]
    log.close()


def test_the_index_of_small_batches_is_small(tmp_path: Path) -> None:
    log = Log(tmp_path, LogSettings(Fsync.NEVER))
    fill(log, 300, each=1)
    size_bytes = log.segments()[0].size_bytes
    assert len(log.index(log.segments()[0]).blocks) <= size_bytes // (64 * 1024) + 1
    log.close()


def test_ranges_outside_are_refused(log: Log) -> None:
    fill(log, 1)
    with pytest.raises(JournalError, match="not written yet: the journal ends before 10"):
        lookup.read(log, 0, 11)
    with pytest.raises(JournalError, match="no range"):
        lookup.read(log, 5, 4)
    with pytest.raises(JournalError, match="no range"):
        lookup.read(log, -1, 4)


def test_groups_are_chosen_and_gaps_always_come(log: Log) -> None:
    log.append(rows_of(view(1, "tea"), view(2, "milk")))
    log.append(rows_of(*bundle(0, 2, groups=("tea",)), *bundle(2, 1, groups=("x", "milk")), group="milk"))
    rows = rows_of()
    rows.add_gap(("tea", "milk"), "restart", b"{}", 3)
    log.append(rows)
    assert [row["offset"] for row in rows_in(log, ["milk"])] == [1, 4, 5]
    assert [row["offset"] for row in rows_in(log, ["tea"])] == [0, 2, 3, 5]
    assert [row["offset"] for row in rows_in(log, ["nobody"])] == [5]


def test_a_time_has_an_offset(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 12)  # batch n is delivered at (10 n + 1) ms
    assert lookup.offset_at(log, 0) == 0
    assert lookup.offset_at(log, 1_000) == 0
    assert lookup.offset_at(log, 1_001) == 10
    assert lookup.offset_at(log, 61_000) == 60
    assert lookup.offset_at(log, 111_001) == log.latest == 120
    assert lookup.offset_before(log, 1_000) == 0
    assert lookup.offset_before(log, 1_001) == 10
    assert lookup.offset_before(log, 61_001) == 70
    assert lookup.offset_before(log, 1_000_000) == 120
    log.close()


def test_a_clock_that_was_set_back_hides_no_row(tmp_path: Path) -> None:
    """Between the first row from a time on and the last one before it is whatever may have been then."""
    log = Log(tmp_path, SMALL)
    for number, time_us in enumerate((1_000, 9_000, 3_000, 8_000)):
        log.append(rows_of(*bundle(10 * number, 10), time_us=time_us))
    assert (lookup.offset_at(log, 2_000), lookup.offset_before(log, 4_000)) == (10, 30)
    log.close()


# Who writes -----------------------------------------------------------------------------------------------


def test_two_journals_do_not_share_a_folder(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    with pytest.raises(UsageError, match="another journal is writing"):
        Log(tmp_path, SMALL)
    log.close()
    reopened(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_a_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot use"):
        Log(tmp_path / "file" / "journal")


def test_the_name_of_a_journal_lasts(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    name = log.journal
    fill(log, 1)
    log.close()
    again = reopened(tmp_path)
    assert (again.journal, again.was_clean, again.journal_before) == (name, True, "")
    again.close()


def test_a_journal_whose_rows_are_gone_is_another_one(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 1)
    log.close()
    for path in tmp_path.glob("0*"):
        path.unlink()
    again = reopened(tmp_path)
    assert (again.latest, again.journal != log.journal) == (0, True)
    again.close()


def test_a_killed_journal_keeps_its_name_and_its_rows(tmp_path: Path) -> None:
    log = Log(tmp_path / "a", SMALL)
    fill(log, 12)
    copy = killed_copy(log, tmp_path / "b")
    again = reopened(copy)
    assert (again.journal, again.was_clean, again.cut) == (log.journal, False, ())
    assert offsets(again) == list(range(120))
    again.close()
    log.close()


@pytest.mark.parametrize(("policy", "is_same"), [(Fsync.ALWAYS, True), (Fsync.INTERVAL, False)])
def test_a_loss_of_power_changes_the_name_unless_all_was_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Fsync, is_same: bool
) -> None:
    log = Log(tmp_path / "a", LogSettings(policy))
    fill(log, 2)
    copy = killed_copy(log, tmp_path / "b")
    monkeypatch.setattr(logs, "this_boot", lambda: "another boot")
    monkeypatch.setattr(folders, "this_boot", lambda: "another boot")
    again = reopened(copy)
    assert (again.journal == log.journal) is is_same
    assert again.journal_before == ("" if is_same else log.journal)
    again.close()
    log.close()


@pytest.mark.parametrize("policy", list(Fsync))
def test_each_policy_writes_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Fsync
) -> None:
    synced = threading.Event()
    before_latest: list[int] = []
    real = os.fdatasync

    def note(descriptor: int) -> None:
        before_latest.append(log.latest)
        real(descriptor)
        synced.set()

    monkeypatch.setattr(os, "fdatasync", note)
    log = Log(tmp_path, LogSettings(policy, fsync_ms=1))
    fill(log, 3)
    if policy is Fsync.ALWAYS:
        assert before_latest == [0, 10, 20]  # on disk before anybody can read them
    elif policy is Fsync.INTERVAL:
        assert synced.wait(60)
    else:
        assert not before_latest
    assert offsets(log) == list(range(30))
    log.close()
    assert (policy is Fsync.NEVER) is not synced.is_set()


# Retention ------------------------------------------------------------------------------------------------


def test_old_segments_go_by_size(tmp_path: Path) -> None:
    log = Log(tmp_path, LogSettings(Fsync.NEVER, segment_bytes=4_096, keep_bytes=12_000))
    fill(log, 40)
    assert log.earliest > 0
    assert offsets(log) == list(range(log.earliest, 400))
    assert sum(part.size_bytes for part in log.segments()) <= 12_000 + 2 * 4_096
    with pytest.raises(OffsetsRemoved, match=f"begins with {log.earliest} now") as caught:
        lookup.read(log, 0, 400)
    assert caught.value.earliest == log.earliest
    log.close()
    earliest = log.earliest
    assert len(list(tmp_path.glob("*.index"))) == len(list(tmp_path.glob("*.arrows")))
    again = reopened(tmp_path)
    assert (again.earliest, again.latest) == (earliest, 400)
    again.close()


def test_old_segments_go_by_age_and_the_last_row_stays(tmp_path: Path) -> None:
    log = Log(tmp_path, LogSettings(Fsync.NEVER, segment_bytes=4_096, keep_age_s=3_600))
    fill(log, 12)  # delivered in 1970
    log.tick()
    log.tick()
    assert log.latest == 120
    assert 0 < log.earliest < 120
    assert len(log.segments()) == 1
    fill(log, 1, first=120)
    assert offsets(log)[-1] == 129
    log.close()
    again = reopened(tmp_path)
    assert again.latest == 130
    again.close()


def test_a_reader_of_a_removed_segment_is_told_so(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 12)
    reading = lookup.read(log, 0, 120)
    log.segments()[0].path.unlink()
    with pytest.raises(OffsetsRemoved):
        list(reading)
    log.close()


# A full disk ----------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_damages_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, LogSettings(Fsync.NEVER))
    fill(log, 5)
    limit_bytes = log.segments()[0].size_bytes + 1_000  # in the middle of the next batch
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        with pytest.raises(JournalError, match=r"cannot write to .*File too large; what was written before"):
            fill(log, 1, first=50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.segments()[0].path.stat().st_size == log.segments()[0].size_bytes
    assert offsets(log) == list(range(50))
    fill(log, 1, first=50)
    assert offsets(log) == list(range(60))
    log.close()
    again = reopened(tmp_path)
    assert offsets(again) == list(range(60))
    again.close()


def test_a_disk_without_room_for_the_next_segment_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(JournalError):
            fill(log, 5, first=10)
        with pytest.raises(JournalError):
            log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = reopened(tmp_path)
    assert offsets(again) == list(range(again.latest))
    assert again.latest >= 10
    again.close()


def test_a_disk_without_room_for_the_index_is_told_and_damages_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path, SMALL)
    fill(log, 1)

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(logs, "write_index", full)
        for _ in range(2):
            with pytest.raises(JournalError, match="No space left"):
                fill(log, 5, first=log.latest)
        with pytest.raises(JournalError, match="No space left"):
            log.close()
    again = reopened(tmp_path)
    assert (again.journal, again.cut, again.was_clean) == (log.journal, (), False)
    assert offsets(again) == list(range(again.latest))
    again.close()
