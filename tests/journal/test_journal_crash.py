"""Journals that are killed, cut off and followed elsewhere: no row twice, no row silently missing."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest
from journal_stories import (
    Cluster,
    as_rows,
    cluster,
    journal_process,
    readable,
    recording,
    rows_in,
    wait_member,
    wait_until,
)

import antiphon.blocking
from antiphon import Service, View
from antiphon.config import Settings
from antiphon.core.effects import Datagram
from antiphon.journal.anchors import Anchor
from antiphon.journal.errors import NoSuchPlace
from antiphon.journal.log import Log
from antiphon.journal.reader import Journals
from antiphon.runtime.udp import UdpSocket

pytestmark = pytest.mark.timeout(300)


class Flood:
    """A session that sends numbers to the group `flood` until it is stopped."""

    def __init__(self, address: str, name: str, service: Service) -> None:
        self._session = antiphon.blocking.connect(address, name=name)
        self._service = service
        self._over = threading.Event()
        self._name = name
        self.sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            numbers = range(self.sent, self.sent + 25)
            self._session.send_many(
                "flood", [f"{self._name} {number}".encode() for number in numbers], self._service
            )
            self.sent += 25
            time.sleep(0.002)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._session.close()


@contextmanager
def flood(address: str, name: str, service: Service = Service.AGREED) -> Iterator[Flood]:
    running = Flood(address, name, service)
    try:
        yield running
    finally:
        running.stop()


def messages(rows: list[dict[str, Any]]) -> list[str]:
    return [row["payload"].decode() for row in rows if row["kind"] == "message"]


def everything(journals: Journals) -> list[dict[str, Any]]:
    have = journals.positions()
    return as_rows(journals.read(have.earliest, have.latest, journal=have.journal))


def runs_of(rows: list[dict[str, Any]]) -> list[list[int]]:
    """The numbers of one flood, cut where the rows have a gap."""
    runs: list[list[int]] = [[]]
    for row in rows:
        if row["kind"] == "gap":
            runs.append([])
        elif row["kind"] == "message":
            runs[-1].append(int(row["payload"].split()[1]))
    return runs


def test_a_journal_that_is_killed_in_a_flood_has_every_row_once(tmp_path: Path) -> None:
    with cluster(tmp_path, 1) as daemons, flood(daemons.address("d1"), "alice") as alice:
        known: list[dict[str, Any]] = []
        names = set()
        for life in range(2):
            with journal_process(
                tmp_path / "j", daemons.address("d1"), "--segment-bytes", "100000"
            ) as process:
                journals = readable([process.endpoint])
                names.add(journals.positions().journal)
                if life:
                    assert process.next_event("gap")["why"].startswith("the journal was killed")
                goal = journals.positions().latest + 2_000
                wait_until(lambda: journals.positions().latest > goal)  # noqa: B023
                rows = everything(journals)
                assert rows[: len(known)] == known, "what could be read before the kill is the same after it"
                known = rows
                process.kill()
        sent = alice.sent
        with journal_process(tmp_path / "j", daemons.address("d1")) as process:
            journals = readable([process.endpoint])
            goal = journals.positions().latest + 500
            wait_until(lambda: journals.positions().latest > goal)
            rows = everything(journals)
    assert len(names) == 1
    assert rows[: len(known)] == known
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    runs = runs_of(rows)
    assert len(runs) == 3
    for run in runs:
        assert run == list(range(run[0], run[-1] + 1)), "between gaps nothing is missing and nothing twice"
    assert all(before[-1] < after[0] for before, after in pairwise(runs))
    assert runs[-1][-1] > sent
    gaps = [row["offset"] for row in rows if row["kind"] == "gap"]
    assert all(rows[offset + 1]["kind"] == "view" for offset in gaps)


def test_two_journals_agree_and_a_reader_goes_on_at_the_other(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as daemons:
        one = journal_process(tmp_path / "one", daemons.address("d1"))
        other = journal_process(tmp_path / "other", daemons.address("d2"))
        with one as first, other as second:
            journals = readable([first.endpoint, second.endpoint], patience_s=1.0)
            there = readable([second.endpoint])
            wait_until(lambda: there.positions().latest > 0 and journals.positions().latest > 0)
            with (
                flood(daemons.address("d1"), "alice") as alice,
                flood(daemons.address("d2"), "bob", Service.SAFE) as bob,
                flood(daemons.address("d2"), "carol", Service.FIFO),
            ):
                name = journals.positions().journal
                seen, place, offset = read_some(journals, name, rounds=3)
                first.kill()
                name, offset = journals.resume(name, offset, place)
                assert name == there.positions().journal
                more, place, offset = read_some(journals, name, rounds=3, start=offset)
                seen += more
                total = alice.sent + bob.sent
            wait_until(lambda: len(ordered(everything(there))) >= total)
            seen += as_rows(journals.read(offset, journals.positions().latest, journal=name))
            whole = everything(there)
        with journal_process(tmp_path / "one", daemons.address("d1")) as again:
            killed = everything(readable([again.endpoint]))
    assert ordered(seen) == ordered(whole), "no ordered message twice or missing, and in one order"
    common = ordered(killed)
    assert ordered(whole)[: len(common)] == common, "both wrote one order"


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return messages([row for row in rows if row["service"] in ("agreed", "safe")])


def read_some(
    journals: Journals, name: str, rounds: int, start: int = 0
) -> tuple[list[dict[str, Any]], Anchor, int]:
    """Follow a journal for a while; what was read, and the place after it."""
    rows: list[dict[str, Any]] = []
    for _ in range(rounds):
        end = start
        while end < start + 300:
            end = journals.positions(journal=name).latest
        rows += as_rows(journals.read(start, end - 7, journal=name))
        start = end - 7
    return rows, journals.anchor(start, journal=name), start


def test_a_journal_that_was_too_slow_comes_back_and_says_so(tmp_path: Path) -> None:
    settings = Settings(output_soft_bytes=65_536, output_hard_bytes=1_000_000)
    with (
        cluster(tmp_path, 1, settings) as daemons,
        journal_process(tmp_path / "j", daemons.address("d1"), "--reconnect", "--name", "jrn") as process,
        antiphon.blocking.connect(daemons.address("d1"), name="alice") as alice,
    ):
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 1)
        process.process.send_signal(signal.SIGSTOP)
        alice.join("flood")
        number = 0
        while not is_gone(alice, "#jrn#d1"):
            alice.send("flood", b"%d %s" % (number, bytes(50_000)))
            number += 1
        process.process.send_signal(signal.SIGCONT)
        gap = process.next_event("gap")
        assert "slow" in gap["why"], gap
        alice.send("flood", b"%d after" % number)
        wait_until(lambda: everything(journals)[-1]["payload"] == b"%d after" % number)
        rows = everything(journals)
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert [row["kind"] for row in rows].count("gap") == 1
    numbers = [int(row["payload"].split()[0]) for row in rows if row["kind"] == "message"]
    assert numbers == [*range(len(numbers) - 1), number]
    assert len(numbers) - 1 < number, "some were missed, and the gap stands there"


def is_gone(session: antiphon.blocking.Session, member: str) -> bool:
    """Whether the session has been told, by now, that a member was disconnected."""
    with contextlib.suppress(TimeoutError):
        events = session.receive_many(0.01)
        return any(isinstance(event, View) and member not in event.members for event in events)
    return False


def test_a_journal_whose_disk_is_full_ends_with_a_line(tmp_path: Path) -> None:
    with cluster(tmp_path, 1) as daemons, flood(daemons.address("d1"), "alice"):
        limited = journal_process(tmp_path / "j", daemons.address("d1"), file_max_blocks=200)
        with limited as process:
            assert process.process.wait(60) == 1
            assert process.errors().startswith("antiphon: cannot write to ")
            assert process.errors().count("\n") == 1
        with journal_process(tmp_path / "j", daemons.address("d1")) as process:
            assert process.serving["cut"] == []
            process.next_event("gap")
            rows = everything(readable([process.endpoint]))
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    first, second = runs_of(rows)
    assert first == list(range(first[0], first[-1] + 1))
    assert first[-1] < second[0] if second else first


def test_a_reader_that_never_reads_does_not_keep_a_journal_from_ending(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, 1) as daemons,
        journal_process(tmp_path / "j", daemons.address("d1")) as process,
        antiphon.blocking.connect(daemons.address("d1"), name="alice") as alice,
    ):
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 1)
        alice.send_many("flood", [bytes(100_000)] * 500)
        wait_until(lambda: journals.positions().latest == 501)
        client = flight.FlightClient(process.endpoint)
        stream = client.do_get(flight.Ticket(b'{"start": 0, "end": 501}'))
        stream.read_chunk()
        assert process.stop() == 0
        del stream, client
    log = Log(tmp_path / "j")
    log.close()
    assert (log.was_clean, log.latest) == (True, 501)


class Cut:
    """Daemons of this process that do not hear each other while `is_cut`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_cut = False
        real = UdpSocket.send

        def send(udp: UdpSocket, datagram: Datagram) -> None:
            if not self.is_cut:
                real(udp, datagram)

        monkeypatch.setattr(UdpSocket, "send", send)


def say(daemons: Cluster, daemon: str, text: str) -> None:
    with antiphon.blocking.connect(daemons.address(daemon)) as session:
        session.send("tea", text.encode(), Service.SAFE)


def test_histories_of_two_sides_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut(monkeypatch)
    with cluster(tmp_path, 2) as daemons:
        one = recording(["tea"], tmp_path / "one", address=daemons.address("d1"), name="jrn1")
        other = recording(["tea"], tmp_path / "other", address=daemons.address("d2"), name="jrn2")
        with one as here, other as there:
            wait_member(here)
            wait_member(there)
            say(daemons, "d1", "together")
            wait_for_text(here, there, text="together")
            cut.is_cut = True
            daemons.wait_formed(["d1"])
            daemons.wait_formed(["d2"])
            say(daemons, "d1", "here")
            say(daemons, "d2", "there")
            wait_for_text(here, text="here")
            wait_for_text(there, text="there")
            readers = readable([here.endpoint]), readable([there.endpoint])
            for mine, others in (readers, readers[::-1]):
                latest = mine.positions().latest
                for offset in (latest, latest - 1):  # after a message, and after a view, of one side
                    with pytest.raises(NoSuchPlace):
                        others.locate(mine.anchor(offset))
            cut.is_cut = False
            daemons.wait_formed(["d1", "d2"])
            say(daemons, "d2", "again")
            wait_for_text(here, there, text="again")
            mine, others = readers
            assert texts_after(others, mine.anchor(place_of(here, "together"))) == ["there", "again"]
            with pytest.raises(NoSuchPlace):
                others.locate(mine.anchor(place_of(here, "here")))
            assert texts_after(others, mine.anchor(place_of(here, "again"))) == []
            kinds = [row["kind"] for row in rows_in(here.log)]
            causes = [row["cause"] for row in rows_in(here.log) if row["cause"]]
    assert kinds.count("signal") == 1
    assert causes[-2:] == ["network", "merge"]


def wait_for_text(*journals: Any, text: str) -> None:
    for journal in journals:
        wait_until(lambda: text in messages(rows_in(journal.log)), text)  # noqa: B023


def place_of(journal: Any, text: str) -> int:
    """The offset after the message."""
    return 1 + next(row["offset"] for row in rows_in(journal.log) if row["payload"] == text.encode())


def texts_after(journals: Journals, anchor: Anchor) -> list[str]:
    return messages(as_rows(journals.read(journals.locate(anchor), journals.positions().latest)))
