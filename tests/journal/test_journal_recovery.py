"""What a crash leaves on disk: a torn tail is cut off, other damage is told, an index is made again."""

import os
import shutil
from itertools import accumulate
from pathlib import Path

import pytest
from journal_stories import bundle, fill, rows_in, rows_of, view

from antiphon.journal import lookup, sealing
from antiphon.journal import segment as journal_segment
from antiphon.journal.errors import JournalError, OffsetsRemoved
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.sealing import METADATA_MAX_BYTES, Seal, state_of_stream
from antiphon.journal.segment import mapped, read_index, scan, walk
from antiphon.journal.state import JournalState

SETTINGS = LogSettings(Fsync.NEVER)
SMALL = LogSettings(Fsync.NEVER, segment_bytes=4_096)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a journal that was killed after three batches of ten rows, in one segment."""
    log = Log(tmp_path / "running", SETTINGS)
    log.state = JournalState("#jrn#d1", ("tea",), {"tea": "v0"})
    fill(log, 3)
    shutil.copytree(log.path, tmp_path / "killed")
    log.close()
    return tmp_path / "killed"


def segment(folder: Path) -> Path:
    (path,) = folder.glob("*.arrows")
    return path


def ends_of_batches(folder: Path) -> list[int]:
    """The positions after the head and after each batch of a folder with one segment that is whole."""
    data = mapped(segment(folder))
    position = state_of_stream(memoryview(data))[1]
    lengths = [seal.length for seal, _ in walk(data, position, data.size)]
    return list(accumulate(lengths, initial=position))


def recovered_rows(folder: Path) -> tuple[list[int], Log]:
    log = Log(folder, SETTINGS)
    log.close()
    return [row["offset"] for row in rows_in(log)], log


def batches_before(ends: list[int], length: int) -> int:
    """How many whole batches the first `length` bytes have."""
    return max((number for number, end in enumerate(ends) if end <= length), default=0)


def test_every_truncation_is_seen(killed: Path) -> None:
    data = segment(killed).read_bytes()
    ends = ends_of_batches(killed)
    for length in range(len(data), ends[0] - 1, -1):
        os.truncate(segment(killed), length)
        found = scan(segment(killed), ends[0], 0)
        assert found.summary.next_offset == 10 * batches_before(ends, length), length
        assert found.summary.size_bytes == ends[batches_before(ends, length)], length
        assert (found.fault is not None) == found.is_torn == (length not in ends), length


def test_every_flipped_byte_is_seen(killed: Path) -> None:
    ends = ends_of_batches(killed)
    with segment(killed).open("r+b", buffering=0) as file:
        for position in range(ends[2], ends[3]):
            (byte,) = os.pread(file.fileno(), 1, position)
            os.pwrite(file.fileno(), bytes((byte ^ (1 << position % 8),)), position)
            found = scan(segment(killed), ends[0], 0)
            assert found.summary.next_offset == 20, position
            assert found.fault is not None, position
            os.pwrite(file.fileno(), bytes((byte,)), position)


def test_a_journal_begins_again_after_any_truncation(killed: Path, tmp_path: Path) -> None:
    data = segment(killed).read_bytes()
    ends = ends_of_batches(killed)
    name = segment(killed).name
    for length in [
        *range(0, len(data), 499),
        *ends,
        *(end - 1 for end in ends),
        *(end + 1 for end in ends[:-1]),
    ]:
        folder = tmp_path / "cut"
        shutil.copytree(killed, folder)
        (folder / name).write_bytes(data[:length])
        offsets, log = recovered_rows(folder)
        assert offsets == list(range(10 * batches_before(ends, length))), length
        assert log.latest == len(offsets)
        assert bool(log.cut) is (length not in ends), length
        assert log.journal_before == "", "nobody can have read a batch that was not written as a whole"
        assert not list(folder.glob("*.damaged"))
        shutil.rmtree(folder)


def test_damage_is_kept_aside_and_changes_the_name(killed: Path, tmp_path: Path) -> None:
    data = bytearray(segment(killed).read_bytes())
    ends = ends_of_batches(killed)
    data[ends[2] + 1_000] ^= 1
    segment(killed).write_bytes(data)
    before = Log(tmp_path / "running", SETTINGS)
    offsets, log = recovered_rows(killed)
    assert offsets == list(range(20))
    assert log.journal != before.journal == log.journal_before
    assert [path.read_bytes() for path in killed.glob("*.damaged")] == [bytes(data[ends[2] :])]
    before.close()


@pytest.mark.parametrize("tail", [b"\0" * 4_096, b"\xff" * 64, b"\xff\xff\xff\xff" + b"\xff\xff\xff\x7f"])
def test_what_a_loss_of_power_leaves_is_cut_off(killed: Path, tail: bytes) -> None:
    with segment(killed).open("ab") as file:
        file.write(tail)
    offsets, log = recovered_rows(killed)
    assert offsets == list(range(30))
    assert log.cut


def test_a_segment_whose_start_is_wrong_is_set_aside(killed: Path) -> None:
    data = bytearray(segment(killed).read_bytes())
    data[3] = 0
    segment(killed).write_bytes(data)
    offsets, log = recovered_rows(killed)
    assert offsets == []
    assert "start is wrong" in log.cut[0]
    assert [path.read_bytes() for path in killed.glob("*.damaged")] == [bytes(data)]


def test_writing_goes_on_after_a_torn_tail(killed: Path) -> None:
    data = segment(killed).read_bytes()
    segment(killed).write_bytes(data[:-10])
    log = Log(killed, SETTINGS)
    fill(log, 1, first=20)
    assert [row["payload"] for row in rows_in(log)] == [b"%d" % number for number in range(30)]
    log.close()
    assert recovered_rows(killed)[0] == list(range(30))


# The index ------------------------------------------------------------------------------------------------


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """The folder of a journal that ended in order, with several segments."""
    log = Log(tmp_path / "closed", SMALL)
    fill(log, 12)
    log.close()
    assert len(list((tmp_path / "closed").glob("*.index"))) > 3
    return tmp_path / "closed"


@pytest.mark.parametrize("fault", ["missing", "empty", "flipped", "cut", "of another"])
def test_an_index_that_is_no_good_is_made_again(closed: Path, fault: str) -> None:
    first, second, *_ = sorted(closed.glob("*.index"))
    data = first.read_bytes()
    match fault:
        case "missing":
            first.unlink()
        case "empty":
            first.write_bytes(b"")
        case "flipped":
            first.write_bytes(data[:40] + bytes((data[40] ^ 1,)) + data[41:])
        case "cut":
            first.write_bytes(data[:-9])
        case "of another":
            first.write_bytes(second.read_bytes())
    offsets, log = recovered_rows(closed)
    assert offsets == list(range(120))
    assert (log.cut, log.journal_before) == ((), "")
    assert first.read_bytes() == data
    assert read_index(first.with_suffix(".arrows")) is not None


def test_a_half_written_index_is_removed(closed: Path) -> None:
    (closed / "00000000000000000000.index.new").write_bytes(b"half")
    assert recovered_rows(closed)[0] == list(range(120))
    assert not list(closed.glob("*.new"))


# Damage in the middle -------------------------------------------------------------------------------------


def test_damage_in_the_middle_is_told_and_left_alone(closed: Path) -> None:
    first = min(closed.glob("*.arrows"))
    first.with_suffix(".index").unlink()
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged at byte"):
        Log(closed, SETTINGS)
    assert first.read_bytes() == bytes(data)
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    assert recovered_rows(closed)[0] == list(range(120)), "the folder can be used again"


def test_a_segment_whose_start_was_damaged_later_does_not_keep_a_journal_from_beginning(closed: Path) -> None:
    path = min(closed.glob("*.arrows"))
    data = bytearray(path.read_bytes())
    data[0] ^= 0xFF
    path.write_bytes(data)
    log = Log(closed, SMALL)
    try:
        fill(log, 1)
        assert log.latest > log.earliest
    finally:
        log.close()


def test_a_missing_segment_is_told(closed: Path) -> None:
    second = sorted(closed.glob("*.arrows"))[1]
    second.unlink()
    with pytest.raises(JournalError, match=r"the rows from .* are missing between"):
        Log(closed, SETTINGS)


def test_a_folder_without_its_name_is_told(closed: Path) -> None:
    (closed / "journal.json").unlink()
    with pytest.raises(JournalError, match=r"no journal\.json"):
        Log(closed, SETTINGS)


@pytest.mark.parametrize("text", ["", "{", '{"format": 99, "journal": "x", "boot": "", "is_clean": true}'])
def test_a_name_that_cannot_be_read_is_told(closed: Path, text: str) -> None:
    (closed / "journal.json").write_text(text)
    with pytest.raises(JournalError):
        Log(closed, SETTINGS)


# What was before ------------------------------------------------------------------------------------------


def test_a_restart_knows_the_views_of_before(killed: Path, tmp_path: Path) -> None:
    log = Log(killed, SETTINGS)
    assert log.before == JournalState("#jrn#d1", ("tea",), {"tea": "v0"})
    log.append(rows_of(view(5)))
    fill(log, 2, first=31)
    shutil.copytree(killed, tmp_path / "again")
    log.close()
    again = Log(tmp_path / "again", SETTINGS)
    assert again.before.views == {"tea": "9.0.5.1"}
    again.close()


def test_the_state_of_many_groups_fits(tmp_path: Path) -> None:
    groups = tuple(f"{number:0>31}" for number in range(1_000))
    view_name = ".".join(["9" * 19] * 4)
    log = Log(tmp_path, SETTINGS)
    log.state = JournalState("#jrn#d1", groups, dict.fromkeys(groups, view_name))
    assert len(log.state.encode()) < METADATA_MAX_BYTES
    fill(log, 1)
    log.close()
    again = Log(tmp_path, SETTINGS)
    assert again.before == log.state
    again.close()


# Damage that comes after the index was made ---------------------------------------------------------------

LARGE = b"x" * 40_000
"""With such payloads, ten rows are a block of their own."""


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """The folder of a journal that ended in order, with one segment of five blocks."""
    log = Log(tmp_path / "indexed", SETTINGS)
    fill(log, 5, payload=LARGE)
    assert len(log.index(log.segments()[0]).blocks) == 5
    log.close()
    return tmp_path / "indexed"


def offsets_read(log: Log, start: int, end: int) -> tuple[list[int], str]:
    """The offsets that a reader gets, and the error that it ends with."""
    found: list[int] = []
    try:
        for batch in lookup.read(log, start, end):
            found += batch.column("offset").to_pylist()
    except JournalError as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("fault", ["flipped", "another batch"])
def test_damage_behind_a_good_index_is_told_by_whoever_reads_there(indexed: Path, fault: str) -> None:
    path = segment(indexed)
    good = path.read_bytes()
    known = read_index(path)
    assert known is not None
    ends = [*(block.position for block in known[1]), known[0].size_bytes]
    log = Log(indexed, SETTINGS)
    bad = bytearray(good)
    if fault == "flipped":
        bad[(ends[2] + ends[3]) // 2] ^= 1
    else:  # whole in itself, and not the one that belongs here
        bad[ends[2] : ends[3]] = good[ends[1] : ends[2]]
    path.write_bytes(bad)
    found, told = offsets_read(log, 0, 50)
    assert found == list(range(20)), "what comes before is read"
    assert told.startswith(f"{path} is damaged at byte {ends[2]} (")
    assert "): the rows from 20 on cannot be read" in told
    assert offsets_read(log, 30, 50) == (list(range(30, 50)), ""), "and so is what comes after"
    with pytest.raises(JournalError, match=f"damaged at byte {ends[2]}"):
        lookup.anchor(log, 25)
    path.write_bytes(good)
    assert offsets_read(log, 0, 50) == (list(range(50)), ""), "the file was put back"
    log.close()


def test_a_segment_that_was_cut_is_not_taken_for_one_that_was_removed(indexed: Path) -> None:
    log = Log(indexed, SETTINGS)
    good = segment(indexed).read_bytes()
    segment(indexed).write_bytes(good[:-100])
    with pytest.raises(JournalError, match="does not fit its index") as error:
        list(lookup.read(log, 0, 50))
    assert not isinstance(error.value, OffsetsRemoved)
    segment(indexed).write_bytes(good)
    assert offsets_read(log, 0, 50) == (list(range(50)), "")
    log.close()


def test_a_block_is_checked_once(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []

    def check_seal(data: memoryview) -> Seal:
        seal = sealing.check_seal(data)
        checked.append(seal.offset)
        return seal

    log = Log(indexed, SETTINGS)
    monkeypatch.setattr(journal_segment, "check_seal", check_seal)
    assert offsets_read(log, 13, 25) == (list(range(13, 25)), "")
    assert checked == [10, 20], "only what is read"
    assert offsets_read(log, 0, 30) == (list(range(30)), "")
    assert checked == [10, 20, 0]
    log.append(rows_of(*bundle(50, 2)))
    log.append(rows_of(*bundle(52, 2)))
    assert offsets_read(log, 50, 52) == ([50, 51], "")
    log.append(rows_of(*bundle(54, 2)))
    assert offsets_read(log, 50, 56) == (list(range(50, 56)), "")
    assert checked[3:] == [50, 52, 54], "of a block that grows, what is new"
    log.close()


def test_damage_in_what_a_restart_must_know_is_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "views", SETTINGS)
    log.append(rows_of(view(5)))
    log.close()
    path = segment(log.path)
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged at byte"):
        Log(log.path, SETTINGS)
