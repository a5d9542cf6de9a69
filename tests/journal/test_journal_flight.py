"""A journal on the network: what a Flight client gets, and what a reader with replicas makes of failures."""

import json
import multiprocessing
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from journal_stories import as_rows, bundle, fill, readable, rows_of, view

from antiphon.errors import UsageError
from antiphon.journal.anchors import Anchor, anchor_from
from antiphon.journal.errors import (
    JournalError,
    JournalUnavailable,
    NoSuchPlace,
    OffsetsRemoved,
    OtherJournal,
)
from antiphon.journal.guard import Guard
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.reader import Journals
from antiphon.journal.schema import SCHEMA
from antiphon.journal.server import JournalServer, check_endpoint
from antiphon.service import Service

SMALL = LogSettings(Fsync.NEVER, segment_bytes=4_096)


class Served:
    """A log and its server."""

    def __init__(
        self, folder: Path, settings: LogSettings = SMALL, location: str = "grpc://127.0.0.1:0"
    ) -> None:
        self.log = Log(folder, settings)
        self.server = JournalServer(self.log, location, ("tea", "milk"))
        self.endpoint = self.server.endpoint
        self._running = True

    def stop(self) -> None:
        if self._running:
            self._running = False
            self.server.shutdown()
            self.log.close()


@contextmanager
def serving(folder: Path, *arguments: Any) -> Iterator[Served]:
    served = Served(folder, *arguments)
    try:
        yield served
    finally:
        served.stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A journal of twelve batches of ten rows."""
    with serving(tmp_path / "journal") as served:
        fill(served.log, 12)
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    client = flight.FlightClient(served.endpoint)
    yield client
    client.close()


def closed_port() -> str:
    """An endpoint where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"grpc://127.0.0.1:{probe.getsockname()[1]}"


# As any Flight client sees it -----------------------------------------------------------------------------


def test_flights_are_listed_and_can_be_read(served: Served, client: Any) -> None:
    flights = list(client.list_flights())
    assert [info.descriptor.path for info in flights] == [[], [b"tea"], [b"milk"]]
    table = client.do_get(flights[0].endpoints[0].ticket).read_all()
    assert table.schema.equals(SCHEMA)
    assert table.column("offset").to_pylist() == list(range(120))
    assert flights[0].total_records == 120
    info = client.get_flight_info(flight.FlightDescriptor.for_path("milk"))
    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 0
    command = flight.FlightDescriptor.for_command(b'{"start": 5, "end": 8}')
    info = client.get_flight_info(command)
    assert client.do_get(info.endpoints[0].ticket).read_all().column("offset").to_pylist() == [5, 6, 7]
    assert client.get_schema(command).schema.equals(SCHEMA)


def test_actions_are_listed_and_answer_in_json(served: Served, client: Any) -> None:
    assert {action.type for action in client.list_actions()} == {
        "positions",
        "offset_at",
        "offset_before",
        "anchor",
        "locate",
        "gaps",
    }
    (result,) = client.do_action(flight.Action("positions", b""))
    assert json.loads(result.body.to_pybytes()) == {
        "journal": served.log.journal,
        "earliest": 0,
        "latest": 120,
        "groups": ["tea", "milk"],
    }


@pytest.mark.parametrize(
    "ticket",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"start": 0}',
        b'{"start": "a", "end": 2}',
        b'{"start": 0, "end": 121}',
        b'{"start": 3, "end": 2}',
        b'{"start": -3, "end": 2}',
        b'{"start": 0, "end": 2, "journal": "another"}',
        b'{"start": 99999999999999999999999999, "end": 2}',
    ],
)
def test_a_bad_ticket_is_refused_in_words(served: Served, client: Any, ticket: bytes) -> None:
    with pytest.raises(flight.FlightServerError) as caught:
        client.do_get(flight.Ticket(ticket)).read_all()
    assert "Traceback" not in str(caught.value)
    assert json.loads(caught.value.extra_info)["text"]
    good = client.do_get(flight.Ticket(b'{"start": 0, "end": 2}')).read_all()
    assert good.num_rows == 2


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("positions", b"{"),
        ("frobnicate", b"{}"),
        ("anchor", b"{}"),
        ("anchor", b'{"offset": 121}'),
        ("anchor", b'{"offset": -1}'),
        ("locate", b'{"anchor": {"kind": "nonsense"}}'),
        ("offset_at", b'{"time_us": null}'),
    ],
)
def test_a_bad_question_is_refused_in_words(client: Any, action: str, body: bytes) -> None:
    with pytest.raises(flight.FlightServerError) as caught:
        list(client.do_action(flight.Action(action, body)))
    assert json.loads(caught.value.extra_info)["text"]


def test_an_unknown_group_has_no_flight(client: Any) -> None:
    with pytest.raises(flight.FlightServerError, match="no such group"):
        client.get_flight_info(flight.FlightDescriptor.for_path("coffee"))


def test_a_place_that_is_taken_is_a_wrong_use(served: Served, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        JournalServer(served.log, "grpc://203.0.113.1:1", guard=Guard(insecure=True))


# The reader -----------------------------------------------------------------------------------------------


def test_a_reader_gets_what_there_is(served: Served) -> None:
    journals = readable([served.endpoint])
    have = journals.positions()
    assert (have.journal, have.earliest, have.latest) == (served.log.journal, 0, 120)
    assert journals.offset_at(61_000) == 60
    batches = list(journals.read(3, 117))
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    assert [row["offset"] for row in as_rows(iter(batches))] == list(range(3, 117))
    assert list(journals.read(5, 5)) == []
    assert as_rows(journals.read(0, 120, ["milk"])) == []
    fill(served.log, 1, first=120)
    assert journals.positions().latest == 130
    journals.close()
    assert journals.positions().latest == 130


def test_a_reader_gets_the_columns_that_it_wants(served: Served, client: Any) -> None:
    journals = readable([served.endpoint])
    assert journals.offset_before(61_000) == 60
    (batch,) = journals.read(3, 9, columns=["payload", "kind"])
    assert batch.schema.names == ["payload", "kind"]
    assert batch.column("payload").to_pylist() == [b"%d" % number for number in range(3, 9)]
    ticket = flight.Ticket(b'{"start": 3, "end": 9, "columns": ["offset"]}')
    assert client.do_get(ticket).read_all().schema.names == ["offset"], "the others are not sent"
    with pytest.raises(UsageError, match="no column 'size': the columns of a journal are offset, kind"):
        list(journals.read(3, 9, columns=["size"]))


def test_groups_that_were_recorded_before_are_told(tmp_path: Path) -> None:
    log = Log(tmp_path / "journal")
    for group in ("tea", "coffee"):
        log.append(rows_of(view(1, group)))
    log.close()
    with serving(tmp_path / "journal") as again:
        assert readable([again.endpoint]).positions().groups == ("tea", "milk", "coffee")


def test_gaps_are_found_without_reading_the_rest(served: Served) -> None:
    for number in range(3):
        rows = rows_of()
        rows.add_gap(("tea",), "restart", b"{}", 1)
        served.log.append(rows)
        fill(served.log, 5, first=1_000 * number)
    journals = readable([served.endpoint])
    latest = journals.positions().latest
    every = [120, 171, 222]
    assert journals.gaps(0, latest) == every
    assert [row["offset"] for row in as_rows(journals.read(0, latest, ["$"]))] == every
    assert journals.gaps(121, 171) == []
    assert journals.gaps(120, 172) == [120, 171]
    with pytest.raises(JournalError):
        journals.gaps(0, latest + 1)


def test_rows_are_read_while_others_are_written(served: Served) -> None:
    over = threading.Event()

    def write() -> None:
        first = 120
        while not over.is_set():
            fill(served.log, 1, first=first)
            first += 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        journals = readable([served.endpoint])
        seen = 0
        while seen < 2_000:
            latest = journals.positions().latest
            rows = as_rows(journals.read(seen, latest))
            assert [row["payload"] for row in rows] == [b"%d" % number for number in range(seen, latest)]
            seen = latest
    finally:
        over.set()
        writer.join()


def test_removed_offsets_are_told_with_the_earliest(tmp_path: Path) -> None:
    settings = LogSettings(Fsync.NEVER, segment_bytes=4_096, keep_bytes=10_000)
    with serving(tmp_path, settings) as served:
        fill(served.log, 30)
        journals = readable([served.endpoint])
        for call in (lambda: list(journals.read(0, 10)), lambda: journals.anchor(0)):
            with pytest.raises(OffsetsRemoved) as caught:
                call()
            assert caught.value.earliest == served.log.earliest > 0


def test_offsets_of_another_journal_are_refused_at_once(served: Served) -> None:
    journals = readable([served.endpoint])
    for call in (
        lambda: journals.positions(journal="another"),
        lambda: list(journals.read(0, 1, journal="another")),
        lambda: journals.anchor(0, journal="another"),
    ):
        with pytest.raises(OtherJournal, match=served.log.journal):
            call()


def test_nobody_there_is_told_after_the_patience(served: Served) -> None:
    nowhere = closed_port()
    with pytest.raises(JournalUnavailable, match=nowhere):
        readable([nowhere], patience_s=0.3).positions()
    assert readable([nowhere, served.endpoint]).positions().latest == 120
    with pytest.raises(JournalUnavailable):  # the right one may be the one that does not answer
        readable([nowhere, served.endpoint], patience_s=0.3).positions(journal="another")


def test_a_reader_waits_for_a_journal_that_is_restarted(tmp_path: Path) -> None:
    first = Served(tmp_path)
    fill(first.log, 2)
    journals = readable([first.endpoint])
    have = journals.positions()
    first.stop()
    started: list[Served] = []
    timer = threading.Timer(0.5, lambda: started.append(Served(tmp_path, SMALL, first.endpoint)))
    timer.start()
    try:
        assert journals.positions(journal=have.journal) == have
        assert len(as_rows(journals.read(0, 20, journal=have.journal))) == 20
    finally:
        timer.join()
        started[0].stop()


def test_a_stream_that_breaks_goes_on_after_the_last_row(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JournalServer._read
    broken: list[int] = []

    def breaking(self: JournalServer, wanted: Any) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(real(self, wanted)):
            for row in range(0, batch.num_rows, 30):
                if row == 30 and number == 0 and len(broken) < 2:
                    broken.append(wanted.start)
                    raise flight.FlightUnavailableError("the cable is cut")
                yield batch.slice(row, 30)

    monkeypatch.setattr(JournalServer, "_read", breaking)
    rows = as_rows(readable([served.endpoint]).read(0, 120))
    assert [row["offset"] for row in rows] == list(range(120))
    assert broken == [0, 30]


def test_a_stream_that_breaks_without_end_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JournalServer._read

    def breaking(self: JournalServer, wanted: Any) -> Iterator[pa.RecordBatch]:
        yield next(real(self, wanted)).slice(0, 7 if wanted.start == 0 else 0)
        raise flight.FlightUnavailableError("the cable is cut")

    monkeypatch.setattr(JournalServer, "_read", breaking)
    reading = readable([served.endpoint], patience_s=0.3).read(0, 120)
    assert next(reading).num_rows == 7
    with pytest.raises(JournalUnavailable, match="breaks off at offset 7"):
        next(reading)


def test_a_reader_travels_to_other_processes(served: Served) -> None:
    journals = readable([served.endpoint])
    journals.positions()
    copy: Journals = pickle.loads(pickle.dumps(journals))
    assert copy.positions() == journals.positions()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(copy.positions) == journals.positions()


@pytest.mark.parametrize(
    "endpoint", ["", "127.0.0.1:5", "http://a:5", "grpc://a", "grpc://a:b", "grpc://a:70000"]
)
def test_an_endpoint_that_cannot_be_one_is_a_wrong_use(endpoint: str) -> None:
    with pytest.raises(UsageError, match="grpc://HOST:PORT"):
        check_endpoint(endpoint)
    with pytest.raises(UsageError):
        Journals([endpoint])
    with pytest.raises(UsageError):
        Journals([])


# Anchors --------------------------------------------------------------------------------------------------


def both(tmp_path: Path, others_start: int = 0) -> tuple[Log, Log]:
    """Two journals of one history in batches of different sizes; the second has `others_start` more rows
    before it, and its unordered messages come elsewhere."""
    one, other = Log(tmp_path / "one", SMALL), Log(tmp_path / "other", SMALL)
    for number in range(others_start):
        other.append(rows_of(*bundle(10_000 + number, 1, lts=1 + number)))
    ordered = [message for start in range(0, 90, 3) for message in bundle(start, 3, lts=(start + 100) << 10)]
    loose = [message for start in range(500, 505) for message in bundle(start, 1, service=Service.FIFO)]
    for start in range(0, 90, 10):
        one.append(rows_of(*ordered[start : start + 10]))
    one.append(rows_of(*loose))
    other.append(rows_of(*loose))
    for start in range(0, 90, 9):
        other.append(rows_of(*ordered[start : start + 9]))
    for log in (one, other):
        log.append(rows_of(view(200 << 10), *bundle(95, 1, lts=201 << 10)))
    return one, other


def ordered_payloads(journals: Journals, start: int) -> list[bytes]:
    rows = as_rows(journals.read(start, journals.positions().latest))
    return [row["payload"] for row in rows if row["kind"] == "message" and row["service"] != "fifo"]


def test_a_place_in_one_journal_is_found_in_another(tmp_path: Path) -> None:
    for log in both(tmp_path, others_start=7):
        log.close()
    with serving(tmp_path / "one") as one, serving(tmp_path / "other") as other:
        here, there = readable([one.endpoint]), readable([other.endpoint])
        for journals, others in ((here, there), (there, here)):
            have = journals.positions()
            for offset in range(0 if journals is here else 13, have.latest + 1):
                anchor = journals.anchor(offset)
                assert anchor_from(json.loads(json.dumps(msgspec.to_builtins(anchor)))) == anchor
                same = others.locate(anchor)
                assert ordered_payloads(others, same) == ordered_payloads(journals, offset), offset
                assert journals.locate(anchor) <= offset


def test_a_row_that_only_one_side_has_is_not_guessed(tmp_path: Path) -> None:
    for log, lts in zip(both(tmp_path), (301 << 10, 302 << 10), strict=True):
        log.append(rows_of(view(lts), *bundle(lts, 3, lts=lts)))
        log.close()
    with serving(tmp_path / "one") as one, serving(tmp_path / "other") as other:
        here, there = readable([one.endpoint]), readable([other.endpoint])
        latest = here.positions().latest
        for offset in (latest, latest - 1, latest - 3):
            with pytest.raises(NoSuchPlace, match="does not have the"):
                there.locate(here.anchor(offset))
        assert there.locate(here.anchor(latest - 4)) == there.positions().latest - 4
        identity = here.anchor(latest)
        lookalike = msgspec.structs.replace(identity, incarnation=8)
        with pytest.raises(NoSuchPlace):
            here.locate(lookalike)


def test_an_empty_journal_has_a_beginning(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        journals = readable([served.endpoint])
        assert journals.anchor(0) == Anchor("begin")
        assert journals.locate(Anchor("begin")) == 0


def test_the_place_before_everything_that_is_left_is_that_before_the_first_row(tmp_path: Path) -> None:
    settings = LogSettings(Fsync.NEVER, segment_bytes=4_096, keep_bytes=10_000)
    with serving(tmp_path, settings) as served:
        fill(served.log, 30)
        journals = readable([served.endpoint])
        earliest = journals.positions().earliest
        anchor = journals.anchor(earliest)
        assert anchor.side == "before"
        assert journals.locate(anchor) == earliest


def test_a_place_is_resumed_where_it_is_or_elsewhere(tmp_path: Path) -> None:
    for log in both(tmp_path, others_start=7):
        log.close()
    with serving(tmp_path / "one") as one, serving(tmp_path / "other") as other:
        name, other_name = one.log.journal, other.log.journal
        journals = readable([one.endpoint, other.endpoint], patience_s=0.5)
        anchor = journals.anchor(50)
        assert journals.resume(name, 50, anchor) == (name, 50)
        one.stop()
        assert journals.resume(name, 50, anchor) == (other_name, 7 + 5 + 50)
        with pytest.raises(NoSuchPlace):
            journals.resume(name, 50, msgspec.structs.replace(anchor, lts=1))
        other.stop()
        with pytest.raises(JournalUnavailable):
            journals.resume(name, 50, anchor)


def test_errors_of_journals_are_errors_of_antiphon() -> None:
    assert issubclass(OffsetsRemoved, JournalError)
    with pytest.raises(UsageError, match="not an anchor"):
        anchor_from({"kind": "other"})
