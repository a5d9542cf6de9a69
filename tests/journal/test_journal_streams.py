"""A journal's server has a bounded number of streams and of bytes on their way; the surplus tries again."""

import contextlib
import os
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.flight as flight
import pytest
from journal_stories import as_rows, bundle, cluster, fill, journal_process, readable, rows_of, wait_until

import antiphon
from antiphon.journal import lookup, streams
from antiphon.journal.errors import JournalUnavailable
from antiphon.journal.log import Log
from antiphon.journal.reader import Journals
from antiphon.journal.server import JournalServer, Ticket
from antiphon.journal.streams import Busy, Streams


def test_a_host_has_half_of_the_streams() -> None:
    some = Streams(4)
    first = [some.open("a"), some.open("a")]
    with pytest.raises(Busy, match="busy, try again: this host"):
        some.open("a")
    others = [some.open("b"), some.open("b")]
    with pytest.raises(Busy, match="busy, try again: the journal"):
        some.open("c")
    first.pop().end()
    others += [some.open("c")]
    assert (some.count, some.refused) == (4, 2)
    first.clear()  # forgotten without an end
    others.clear()
    assert (some.count, some.bytes) == (0, 0)


def test_pieces_wait_for_room_and_give_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ROOM_S", 0.01)
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*bundle(0, 4, payload=bytes(1_000))))
        (batch,) = streams_of(log)
    some = Streams(8, most_bytes=2 * batch.nbytes + 10)
    one, other, third = some.open("a"), some.open("a"), some.open("b")
    sending = one.pieces(iter([batch, batch]))
    next(sending)
    with pytest.raises(Busy, match="too many bytes"):
        next(other.pieces(iter([batch])))
    assert next(third.pieces(iter([batch]))) is batch  # another host has its half
    assert some.bytes == 2 * batch.nbytes
    next(sending)  # the first piece is out
    one.end()
    assert next(other.pieces(iter([batch]))) is batch


def streams_of(log: Log) -> list[Any]:
    have = lookup.positions(log)
    return list(lookup.read(log, have.earliest, have.latest))


def test_large_batches_are_sent_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PIECE_BYTES", 5_000)
    with closing(Log(tmp_path / "j")) as log:
        log.append(rows_of(*bundle(0, 100, payload=bytes(1_000))))
        (batch,) = streams_of(log)
    pieces = list(streams.cut(batch))
    assert all(piece.nbytes <= 5_000 for piece in pieces)
    assert [row for piece in pieces for row in piece.to_pylist()] == batch.to_pylist()


def test_readers_try_again_until_a_stream_is_free(tmp_path: Path) -> None:
    with closing(Log(tmp_path / "j")) as log:
        fill(log, 12)
        server = JournalServer(log, streams=Streams(2))  # one for each host
        held = server.streams.open("ipv4:127.0.0.1")
        found: list[dict[str, Any]] = []
        reading = threading.Thread(
            target=lambda: found.extend(as_rows(readable([server.endpoint]).read(0, 120)))
        )
        reading.start()
        wait_until(lambda: server.streams.refused > 2, "refusals")
        assert not found
        held.end()
        reading.join()
        assert [row["offset"] for row in found] == list(range(120))
        wait_until(lambda: server.streams.count == 0, "the end of the stream")
        server.shutdown()


def test_a_reader_without_patience_is_told_that_the_journal_is_busy(tmp_path: Path) -> None:
    with closing(Log(tmp_path / "j")) as log:
        fill(log, 1)
        server = JournalServer(log, streams=Streams(2))
        held = server.streams.open("ipv4:127.0.0.1")
        with pytest.raises(JournalUnavailable, match="busy, try again"):
            list(Journals([server.endpoint], patience_s=0.02).read(0, 10))
        held.end()
        server.shutdown()


def test_unread_streams_take_bounded_memory_and_others_are_served(tmp_path: Path) -> None:
    """300 streams of which only the first piece is read: they took more than 2 GB."""
    with (
        cluster(tmp_path, 1) as daemons,
        journal_process(tmp_path / "j", daemons.address("d1")) as process,
        antiphon.blocking.connect(daemons.address("d1"), name="alice") as alice,
        ExitStack() as stack,
    ):
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 1)
        alice.send_many("flood", [bytes(100_000)] * 200)
        wait_until(lambda: journals.positions().latest == 201)
        before_bytes = resident_bytes(process.process.pid)
        ticket = flight.Ticket(msgspec.json.encode(Ticket(0, 201)))
        opened, refused = [], 0
        for _ in range(30):
            client = stack.enter_context(contextlib.closing(flight.FlightClient(process.endpoint)))
            for _ in range(10):
                try:
                    stream = client.do_get(ticket)
                    stream.read_chunk()
                    opened.append(stream)
                except flight.FlightUnavailableError as error:
                    assert "busy, try again" in str(error)
                    refused += 1
        assert refused  # how many depends on how many the network takes as a whole: they make room for others
        assert resident_bytes(process.process.pid) - before_bytes < 500 * 2**20
        assert journals.positions().latest == 201  # questions are answered
        for stream in opened:
            stream.cancel()
        assert len(as_rows(journals.read(0, 201))) == 201


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
