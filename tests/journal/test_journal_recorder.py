"""A journal as a member of real daemons: what it writes, in which order, and how it tells what it missed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from journal_stories import (
    Cluster,
    as_rows,
    bundle,
    cluster,
    journal_process,
    readable,
    recording,
    rows_in,
    wait_member,
    wait_until,
)

import antiphon.blocking
from antiphon import Event, Service
from antiphon.cli.main import EXIT_USAGE, exit_code
from antiphon.errors import ConnectError, UsageError
from antiphon.extras import how_to_get
from antiphon.journal.errors import JournalError
from antiphon.journal.folder import read_endpoint
from antiphon.journal.log import Fsync, Log, LogSettings
from antiphon.journal.recorder import Recorder
from antiphon.journal.running import Journal
from antiphon.journal.state import Gap
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.local import local_config
from antiphon.types import BatchStamp


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 1) as daemons:
        yield daemons


def messages(rows: list[dict[str, object]]) -> list[object]:
    return [row["payload"] for row in rows if row["kind"] == "message"]


def test_messages_views_and_signals_stand_in_the_order_of_delivery(single: Cluster, tmp_path: Path) -> None:
    address = single.address("d1")
    with (
        recording(["tea", "milk"], tmp_path / "j", address=address, name="jrn") as journal,
        antiphon.blocking.connect(address, name="alice") as alice,
    ):
        wait_member(journal)
        alice.send("tea", b"before", Service.SAFE)
        alice.join("tea")
        alice.send_many("tea", [b"%d" % number for number in range(5_000)], tag=7)
        alice.send(["coffee", "milk", "tea"], b"to three", Service.FIFO)
        alice.leave("tea")
        alice.send("#jrn#d1", b"to the journal alone")
        alice.send("coffee", b"to others")
        alice.send("milk", b"last")
        wait_until(lambda: messages(rows_in(journal.log))[-1:] == [b"last"])
        rows = rows_in(journal.log)
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert messages(rows) == [b"before", *(b"%d" % number for number in range(5_000)), b"to three", b"last"]
    views = {row["view"]: row["group"] for row in rows if row["kind"] == "view"}
    assert all(views[row["view"]] == row["group"] for row in rows if row["kind"] == "message")
    to_three = rows[-3]
    assert (to_three["group"], to_three["groups"]) == ("milk", ["coffee", "milk", "tea"])
    assert [row["cause"] for row in rows if row["group"] == "tea" and row["cause"]] == [
        "join",
        "join",
        "leave",
    ]
    kinds = [row["kind"] for row in rows]
    assert kinds[:2] == ["view", "view"]
    assert {row["tag"] for row in rows if row["kind"] == "message"} == {0, 7}
    order = [(row["lts"], row["place"] or 0) for row in rows if row["service"] != "fifo"]
    assert order == sorted(order)


def test_a_restart_goes_on_and_marks_the_gap(single: Cluster, tmp_path: Path) -> None:
    address = single.address("d1")
    gaps: list[Gap] = []
    with antiphon.blocking.connect(address, name="alice") as alice:
        with recording(["tea"], tmp_path / "j", address=address, name="jrn") as journal:
            wait_member(journal)
            alice.send("tea", b"one")
            wait_until(lambda: journal.log.latest == 2)
            view_before = rows_in(journal.log)[0]["view"]
        alice.send("tea", b"nobody hears this")
        with recording(
            ["tea", "milk"], tmp_path / "j", address=address, name="jrn", told=gaps.append
        ) as journal:
            wait_until(lambda: journal.log.latest == 5)
            alice.send("tea", b"two")
            wait_until(lambda: journal.log.latest == 6)
            rows = rows_in(journal.log)
    assert [row["kind"] for row in rows] == ["view", "message", "gap", "view", "view", "message"]
    gap = json.loads(rows[2]["payload"])
    assert gap["why"] == "the journal was stopped"
    assert gap["last_offset"] == 1
    assert gap["last_delivered_us"] == round(rows[1]["delivered"].timestamp() * 1e6)
    assert gap["before"] == {"name": "#jrn#d1", "groups": ["tea"], "views": {"tea": view_before}}
    assert gap["after"]["groups"] == ["tea", "milk"]
    assert gap["after"]["views"] == {"tea": rows[3]["view"], "milk": rows[4]["view"]}
    assert rows[2]["cause"] == "restart"
    assert rows[2]["groups"] == ["tea", "milk"]
    assert [told.last_offset for told in gaps] == [1]


def test_a_journal_that_loses_its_daemon_goes_on_at_another(tmp_path: Path) -> None:
    noted: list[Any] = []
    with cluster(tmp_path, 2) as daemons:
        places = [daemons.address("d2"), daemons.address("d1")]
        options = {"name": "jrn", "reconnect": True, "noted": noted.append}
        with (
            recording(["tea"], tmp_path / "j", address=places, **options) as journal,
            antiphon.blocking.connect(daemons.address("d1"), name="alice") as alice,
        ):
            wait_member(journal)
            alice.send("tea", b"one", Service.SAFE)
            wait_until(lambda: journal.log.latest == 2)
            daemons.daemons["d2"].stop()
            wait_member(journal, lives=2)
            lost, back = noted
            assert isinstance(lost, str) and lost == back.reason
            assert (back.old_name, back.name) == ("#jrn#d2", "#jrn#d1")
            alice.send("tea", b"two")
            wait_until(lambda: b"two" in messages(rows_in(journal.log)))
            rows = rows_in(journal.log)
    gap = next(row for row in rows if row["kind"] == "gap")
    told = json.loads(gap["payload"])
    assert gap["cause"] == "reconnect"
    assert told["why"]
    assert (told["before"]["name"], told["after"]["name"]) == ("#jrn#d2", "#jrn#d1")
    after = rows[gap["offset"] + 1]
    assert (after["kind"], after["cause"], after["view"]) == ("view", "join", told["after"]["views"]["tea"])


def test_a_batch_that_comes_again_is_written_once(single: Cluster, tmp_path: Path) -> None:
    address = single.address("d1")
    stamp = BatchStamp("query", 3, 0, 1, 0)
    payloads = [b"%d" % number for number in range(2_000)]
    with antiphon.blocking.connect(address, name="alice") as alice:
        for life in range(3):
            with recording(["tea"], tmp_path / "j", address=address, name="jrn") as journal:
                wait_member(journal, lives=life + 1)
                alice.send_many("tea", payloads[: 1_000 * life or 500], batch=stamp)
                alice.send("tea", b"end of %d" % life)
                wait_until(lambda: b"end of %d" % life in messages(rows_in(journal.log)))  # noqa: B023
                rows = rows_in(journal.log)
    stamped = [row for row in rows if row["batch"]]
    assert [row["payload"] for row in stamped] == payloads
    assert [row["batch"] for row in stamped] == [str(stamp.moved(index)) for index in range(2_000)]


def test_a_backfill_is_written_once_also_after_a_restart(single: Cluster, tmp_path: Path) -> None:
    address = single.address("d1")
    with antiphon.blocking.connect(address, name="alice") as alice:
        for life, days in enumerate(((16, 17, 15), (15, 16, 14, 17, 14))):
            with recording(["tea"], tmp_path / "j", address=address, name="jrn") as journal:
                wait_member(journal, lives=life + 1)
                for day in days:
                    alice.send_many("tea", [b"%d" % day], batch=BatchStamp("daily", day, 0, 1, 0))
                alice.send("tea", b"end of %d" % life)
                wait_until(lambda: b"end of %d" % life in messages(rows_in(journal.log)))  # noqa: B023
                rows = rows_in(journal.log)
    assert [row["payload"] for row in rows if row["batch"]] == [b"16", b"17", b"15", b"14"]


def test_the_folder_says_where_it_serves_while_it_does(single: Cluster, tmp_path: Path) -> None:
    with recording(["tea"], tmp_path / "j", address=single.address("d1"), name="jrn") as journal:
        told = read_endpoint(tmp_path / "j")
        assert (told.endpoint, told.journal, told.groups) == (journal.endpoint, journal.log.journal, ("tea",))
        assert readable([told.endpoint]).positions().journal == told.journal
    with pytest.raises(JournalError, match="no journal serves"):
        read_endpoint(tmp_path / "j")


def test_a_journal_needs_groups_and_a_daemon(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one group"):
        Journal([], tmp_path / "j")
    with pytest.raises(UsageError, match="group name"):
        Journal(["not a group"], tmp_path / "j")
    with (
        Journal(["tea"], tmp_path / "j", address=f"unix:{tmp_path}/nobody.sock") as journal,
        pytest.raises(ConnectError),
    ):
        journal.run(lambda: False)


def test_retention_works_while_it_records(single: Cluster, tmp_path: Path) -> None:
    address = single.address("d1")
    settings = LogSettings(Fsync.NEVER, segment_bytes=20_000, keep_bytes=60_000)
    with (
        recording(["tea"], tmp_path / "j", settings=settings, address=address, name="jrn") as journal,
        antiphon.blocking.connect(address, name="alice") as alice,
    ):
        wait_member(journal)
        for number in range(50):
            latest = journal.log.latest
            alice.send_many("tea", [b"%d" % number] * 50)
            wait_until(lambda: journal.log.latest >= latest + 50)  # noqa: B023
        journals = readable([journal.endpoint])
        have = journals.positions()
        assert have.earliest > 0
        rows = as_rows(journals.read(have.earliest, have.latest))
        assert [row["offset"] for row in rows] == list(range(have.earliest, have.latest))


# The command ----------------------------------------------------------------------------------------------


def test_the_command_ends_in_order_when_asked(single: Cluster, tmp_path: Path) -> None:
    with journal_process(tmp_path / "j", single.address("d1"), groups=("tea", "milk")) as process:
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 2)
        assert process.stop() == 0
        assert process.process.stdout is not None
        ended = json.loads(process.process.stdout.readlines()[-1])
        assert (ended["event"], ended["latest"]) == ("ended", 2)
        assert process.errors() == ""
    with journal_process(tmp_path / "j", single.address("d1")) as process:
        assert process.serving["latest"] == 2
        assert process.next_event("gap")["why"] == "the journal was stopped"


def test_the_command_ends_with_a_line_when_its_daemon_does(single: Cluster, tmp_path: Path) -> None:
    with journal_process(tmp_path / "j", single.address("d1")) as process:
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 1)
        single.daemons["d1"].stop()
        assert process.process.wait(60) == 1
        assert process.errors().startswith("antiphon: disconnected: ")
        assert process.errors().count("\n") == 1


def test_the_command_ends_while_it_has_no_daemon(single: Cluster, tmp_path: Path) -> None:
    with journal_process(tmp_path / "j", single.address("d1"), "--reconnect") as process:
        journals = readable([process.endpoint])
        wait_until(lambda: journals.positions().latest == 1)
        single.daemons["d1"].stop()
        assert journals.positions().latest == 1, "it serves on"
        wait_until(lambda: "antiphon: lost the daemon, looking for one: " in process.errors())
        assert process.stop() == 0


def test_a_journal_waits_for_its_first_daemon(tmp_path: Path) -> None:
    config = local_config(1, tmp_path)
    place = next(daemon.clients[0] for _, daemon in config.daemons())
    with journal_process(tmp_path / "j", place, "--reconnect", "--name", "jrn") as process:
        assert readable([process.endpoint]).positions().latest == 0, "it serves at once"
        wait_until(lambda: "antiphon: no daemon yet, waiting for one: " in process.errors())
        with Daemon(config, "d1"):
            wait_until(lambda: readable([process.endpoint]).positions().latest == 1)
            wait_until(lambda: "antiphon: there is one now, d1 (" in process.errors())
            assert process.errors().count("\n") == 2
            assert process.stop() == 0


def test_a_journal_that_has_no_daemon_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with journal_process(tmp_path / "j", f"unix:{tmp_path}/nobody.sock", "--reconnect") as process:
        wait_until(lambda: "antiphon: no daemon yet, waiting for one: " in process.errors())
        assert process.stop() == 0


def test_a_journal_whose_first_daemon_refuses_it_says_so_and_ends(single: Cluster, tmp_path: Path) -> None:
    place = single.address("d1")
    with (
        antiphon.blocking.connect(place, name="jrn"),
        journal_process(tmp_path / "j", place, "--reconnect", "--name", "jrn") as process,
    ):
        assert process.process.wait(60) == 1
        assert "jrn" in process.errors() and process.errors().count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--groups", "a b"], "group name"),
        (
            ["--groups", "tea", "--fsync", "sometimes"],
            "unknown policy 'sometimes' for --fsync; known: always",
        ),
        (["--groups", "tea", "--listen", "5000"], "grpc://HOST:PORT"),
        (["--groups", "tea", "--keep-bytes", "0"], "--keep-bytes"),
        ([], "--groups"),
    ],
)
def test_wrong_words_are_told_in_a_line(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["journal", "--dir", str(tmp_path / "j"), *words]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_a_machine_without_arrow_is_told_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.cli.journal.find_spec", lambda name: None)
    assert exit_code(["journal", "--groups", "tea", "--dir", str(tmp_path / "j")]) == EXIT_USAGE
    assert f"a journal needs the package pyarrow: {how_to_get('journal')}\n" in capsys.readouterr().err
    assert not (tmp_path / "j").exists()


class Played:
    """A session whose events a test has chosen."""

    name, loss, groups = "#jrn#e1", None, frozenset({"tea"})

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def receive_many(self, timeout_s: float) -> list[Event]:
        if not self._events:
            raise TimeoutError
        events, self._events = self._events, []
        return events


def test_a_stream_with_a_hole_ends_the_journal_which_says_why(tmp_path: Path) -> None:
    before = bundle(0, 3)
    gap = antiphon.Gap("tea", None, 7, 9, "d2 has forgotten it")
    to_the_journal_alone = antiphon.Gap("#jrn#e1", None, 7, 9, "no matter of the groups")
    log = Log(tmp_path / "j", LogSettings())
    played = Played(to_the_journal_alone, *before, gap, *bundle(5, 1))
    recorder = Recorder(log, cast(antiphon.blocking.Session, played), ["tea"])
    with pytest.raises(JournalError, match=r"messages to tea may be missing.*\(d2 has forgotten it\)"):
        recorder.run(lambda: False)
    assert messages(rows_in(log)) == [b"0", b"1", b"2"]
    log.close()
