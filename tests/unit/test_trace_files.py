"""Files of traces: what is written can be read, and neither a kill nor a disk does harm to anything else."""

import os
from pathlib import Path

import msgspec
import pytest

from antiphon import trace
from antiphon.errors import UsageError
from antiphon.trace import Event, Header, Record
from antiphon.trace.files import live_run, read_records
from antiphon.trace.scrolls import Scroll, daemon_scroll, make_folder, session_scroll
from antiphon.trace.sinks import FileSink, PipeSink, create

DAEMONS = ("d1", "d2")


def header(*, version: int = trace.VERSION, live: bool = True) -> bytes:
    return msgspec.json.encode(Header(trace.FORMAT, version, "a-1", "a", 1, DAEMONS, live)) + b"\n"


def state(reason: str) -> Record:
    return Record(0, 5, Event.STATE, "d1", state="op", reason=reason)


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def test_what_a_daemon_writes_is_read_again(tmp_path: Path) -> None:
    scroll = daemon_scroll(tmp_path, "d1", 255, "tea", DAEMONS, ("east", "west"))
    for number in range(3_000):
        scroll.append(state(f'reason {number} {{"position":'))
        if number % 700 == 0:
            scroll.flush()
    scroll.close()
    (path,) = tmp_path.iterdir()
    assert path.name == "daemon.d1.000000ff.jsonl"
    told, records = read_records(path)
    assert told == Header(
        trace.FORMAT, trace.VERSION, live_run("tea"), "live", 0, DAEMONS, True, ("east", "west")
    )
    assert [record.reason for record in records] == [
        f'reason {number} {{"position":' for number in range(3_000)
    ]
    first = records[0].position
    assert [record.position for record in records] == list(range(first, first + 3_000))
    assert all(msgspec.json.decode(line)["run"] == "live-tea" for line in path.read_bytes().splitlines())


def test_positions_of_a_later_life_are_greater(tmp_path: Path) -> None:
    ends = []
    for incarnation in (1, 2):
        scroll = daemon_scroll(tmp_path, "d1", incarnation, "tea", DAEMONS, ())
        for _ in range(10):
            record = state("")
            scroll.append(record)
            ends.append(record.position)
        scroll.close()
    assert ends == sorted(set(ends))


def test_each_bearer_of_a_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    found = []
    for name in ("#ada#d1", "#ada#d1", "#a/b#d1", "#ada#d2"):
        scroll, process = session_scroll(tmp_path, name, "tea", DAEMONS)
        scroll.close()
        found.append(process)
    assert found == ["#ada#d1", "#ada!2#d1", "#a/b#d1", "#ada#d2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "client.a%2Fb@d1.jsonl",
        "client.ada!2@d1.jsonl",
        "client.ada@d1.jsonl",
        "client.ada@d2.jsonl",
    ]


def test_a_torn_last_line_of_a_live_run_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    whole = b'{"run":"a-1","position":1,"time_us":1,"event":"state","daemon":"d1"}\n'
    for length in range(1, len(whole)):
        path.write_bytes(header() + whole + whole[:length])
        assert len(read_records(path)[1]) == 1
    path.write_bytes(header(live=False) + whole + whole[:20])
    with pytest.raises(UsageError, match=r"one\.jsonl, line 3: not a record"):
        read_records(path)
    path.write_bytes(header() + whole[:20] + b"\n" + whole)
    with pytest.raises(UsageError, match="line 2: not a record"):
        read_records(path)


def test_an_old_trace_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(header(version=2))
    with pytest.raises(UsageError, match=r"old\.jsonl: a trace of format version 2, .* version 3 only"):
        trace.read(path)
    with pytest.raises(UsageError, match="version 2"):
        trace.merge(tmp_path)


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no trace can be written to the folder"):
        make_folder(tmp_path / "file" / "traces")


def test_a_full_disk_ends_the_trace_of_a_session(caplog: pytest.LogCaptureFixture) -> None:
    scroll = Scroll(FileSink(full_disk()), "session #ada#d1", "tea", DAEMONS, ())
    for _ in range(5):
        scroll.append(state(""))
        scroll.flush()
    scroll.close()
    assert scroll.stopped == "No space left on device"
    assert scroll.lost == 4
    assert [record.getMessage() for record in caplog.records] == [
        "the trace of session #ada#d1 has stopped: No space left on device"
    ]


def test_a_full_disk_ends_the_trace_of_a_daemon(caplog: pytest.LogCaptureFixture) -> None:
    sink = PipeSink(full_disk())
    scroll = Scroll(sink, "daemon d1", "tea", DAEMONS, ())
    scroll.append(state(""))
    scroll.flush()
    sink._writer.wait()  # what it was given, it cannot write
    scroll.append(state(""))
    scroll.flush()
    scroll.append(state(""))
    scroll.close()
    assert "is the disk full?" in scroll.stopped
    assert scroll.lost == 1
    assert len(caplog.records) == 1


def test_a_disk_that_hangs_does_not_hold_up_a_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer of the file waits for ever: for a reader of a fifo that never reads."""
    monkeypatch.setattr("antiphon.trace.sinks.BACKLOG_MAX_BYTES", 1_000_000)
    os.mkfifo(tmp_path / "disk")
    reader = os.open(tmp_path / "disk", os.O_RDONLY | os.O_NONBLOCK)
    try:
        scroll = Scroll(PipeSink(os.open(tmp_path / "disk", os.O_WRONLY)), "daemon d1", "tea", DAEMONS, ())
        for _ in range(40):
            for _ in range(1_000):
                scroll.append(state("x" * 50))
            scroll.flush()
        assert scroll.stopped == "the disk does not keep up"
        assert scroll.lost > 10_000
        assert len(caplog.records) == 1
    finally:
        os.close(reader)


def test_what_is_in_the_pipe_survives_its_writer(tmp_path: Path) -> None:
    """As if the daemon had been killed: nobody closes anything, and the descriptor goes with the process."""
    path = tmp_path / "x.jsonl"
    child = os.fork()
    if child == 0:
        try:
            PipeSink(create(path)).write(b"x" * 500_000)
        finally:
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    while path.stat().st_size < 500_000:
        pass  # the test's own time-out is the limit
    assert path.read_bytes() == b"x" * 500_000
