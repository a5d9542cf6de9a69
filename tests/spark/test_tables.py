"""`antiphon ingest`: journals and traces as Parquet tables."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_groups import Room, numbered, room

from antiphon import Service
from antiphon.cli import main
from antiphon.errors import UsageError
from antiphon.simulator.run import run_seed
from antiphon.spark import tables
from antiphon.spark.traces import read_traces


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room")) as found:
        yield found


def payloads(spark: Any, folder: Path) -> list[tuple[int, str, bytes]]:
    rows = tables.read_messages(spark, folder).orderBy("offset").collect()
    return [(row.offset, row.group, bytes(row.payload)) for row in rows]


@pytest.mark.timeout(300)
def test_a_journal_is_landed_and_what_is_new_is_added_once(spark: Any, place: Room, tmp_path: Path) -> None:
    journal = place.journal("landed", "tea", "2026")
    place.send("tea", numbered(0, 300))
    journal.wait_for(b"299")
    messages, views = tables.ingest_journal(spark, journal.endpoint, tmp_path, max_rows=200)
    assert messages == tables.Ingested("messages", 300, 300)
    assert views.added == views.rows == 2  # one view a group

    place.send("2026", numbered(300, 50), Service.SAFE)
    journal.wait_for(b"349")
    messages, views = tables.ingest_journal(spark, journal.endpoint, tmp_path)
    assert messages == tables.Ingested("messages", 50, 350)
    assert views.added == 0

    landed = payloads(spark, tmp_path)
    assert [payload for _, _, payload in landed] == numbered(0, 350)
    assert {group for _, group, _ in landed} == {"tea", "2026"}  # a name that is a number stays a name
    assert {path.name for path in (tmp_path / "messages").glob("group=*")} == {"group=tea", "group=2026"}
    assert list((tmp_path / "messages" / "group=tea").glob("date=*"))
    kinds = {row.kind for row in tables.read_views(spark, tmp_path).collect()}
    assert kinds == {"view"}


@pytest.mark.timeout(300)
def test_traces_are_landed_and_a_second_time_changes_nothing(spark: Any, tmp_path: Path) -> None:
    for seed in (1, 2):
        run_seed(seed, "crash", tmp_path / "traces")
    first = tables.ingest_folder(spark, tmp_path / "traces", tmp_path / "tables")
    again = tables.ingest_folder(spark, tmp_path / "traces", tmp_path / "tables")
    assert [one.rows for one in again] == [one.rows for one in first]
    assert [one.added for one in again] == [0, 0, 0]
    lines = [line for path in (tmp_path / "traces").iterdir() for line in path.read_text().splitlines()]
    runs, table, links = (one.rows for one in first)
    assert (runs, table) == (2, len(lines) - 2)  # a file begins with the header of its run
    events = [json.loads(line) for line in lines if "event" in json.loads(line)]
    assert read_traces(spark, tmp_path / "tables").count() == len(events)

    samples = [event for event in events if event["event"] == "link"]
    assert links == len(samples) > 0
    landed = spark.read.parquet(str(tmp_path / "tables" / "links"))
    assert {row.run for row in landed.select("run").distinct().collect()} == {"crash-1", "crash-2"}
    total = landed.selectExpr("sum(packets)").first()[0]
    assert total == sum(sample["link"]["packets"] for sample in samples)
    assert not (tmp_path / "tables" / "draft").exists()


def test_the_command(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_seed(3, "chain", tmp_path / "traces")
    words = ["ingest", str(tmp_path / "traces"), "--out", str(tmp_path / "tables"), "--json"]
    assert main.exit_code(words) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["table"] for one in told] == ["runs", "events", "links"]
    assert told[1]["rows"] == told[1]["added"] > 0


def test_wrong_use_is_told_in_one_line(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.exit_code(["ingest"]) == 2
    assert main.exit_code(["ingest", str(tmp_path / "nothing"), "--out", str(tmp_path / "tables")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert "no folder" in told[1]
    with pytest.raises(UsageError, match="no table"):
        tables.read_messages(spark, tmp_path)


def test_a_journal_that_does_not_answer_is_told_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tables, "FIRST_ANSWER_S", 0.2)
    monkeypatch.setattr("antiphon.spark.session.spark_session", lambda *_: pytest.fail("Spark was started"))
    words = ["ingest", "--endpoint", "grpc://127.0.0.1:1", "--out", str(tmp_path)]
    assert main.exit_code(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("antiphon: no journal answered within 0.2 s: grpc://127.0.0.1:1: cannot connect")
    with room(tmp_path) as place:
        words[2] = place.journal("journal", "tea").endpoint
        assert main.exit_code([*words, "--groups", "nwes"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "antiphon: option groups: the journal has no rows of group nwes; it records tea"
