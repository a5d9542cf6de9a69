"""`spark.read` and `spark.readStream` of journals."""

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema
from recorded_groups import Room, RunningJournal, numbered, room

from antiphon import Service
from antiphon.errors import UsageError
from antiphon.journal.log import LogSettings
from antiphon.journal.schema import SCHEMA
from antiphon.spark.datasource import AntiphonDataSource
from antiphon.spark.options import check_options
from antiphon.spark.schema import ROWS

TEA = 25_000
NEWS = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room")) as found:
        yield found


@pytest.fixture(scope="module")
def journal(place: Room) -> RunningJournal:
    """Two views, then messages to one group, then to another."""
    found = place.journal("shared", "tea", "news")
    place.send("tea", numbered(0, TEA))
    place.send("news", numbered(TEA, NEWS), Service.SAFE)
    found.wait_for(b"%d" % (TEA + NEWS - 1))
    return found


def read(spark: Any, journal: RunningJournal, **options: Any) -> Any:
    return spark.read.format("antiphon").options(endpoint=journal.endpoint, **options).load()


def payloads(frame: Any) -> list[bytes]:
    rows = frame.where("kind = 'message'").orderBy("offset").select("payload").collect()
    return [bytes(row.payload) for row in rows]


def run(spark: Any, journal: RunningJournal, folder: Path, **options: Any) -> Any:
    """Read what there is into Parquet files, from where the last run ended; the query, which has ended."""
    query = (
        spark.readStream.format("antiphon")
        .options(endpoint=journal.endpoint, **options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def test_the_schema_is_the_journals() -> None:
    assert to_arrow_schema(ROWS, timezone="UTC").equals(SCHEMA)


# Options --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endpoint": "nowhere"}, "option endpoint: 'grpc://nowhere' is not grpc://HOST:PORT"),
        ({"endpoint": ","}, "option endpoint: needs grpc://HOST:PORT or grpc+tls://HOST:PORT"),
        ({"start": "soon"}, "option start: 'soon' is not earliest, latest, an offset, or a time"),
        ({"start": "-1"}, "option start: '-1' is not"),
        ({"maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger: must be more than 0"),
        ({"partitions": "many"}, "option partitions: 'many' is not a whole number"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss: 'no' is neither true nor false"),
        ({"timeoutSeconds": "nan"}, "option timeoutSeconds: 'nan' is not a number of seconds"),
        ({"groups": "a b"}, "option groups: group name 'a b' has the character ' '"),
        ({"service": "good"}, "option service: unknown service 'good'"),
        ({"address": "here"}, "option address: "),
        ({"group": ""}, "option group: 0 groups"),
        ({"name": "far-too-long"}, "option name: session name"),
        ({"query": "a b"}, "option query: the query of a batch needs"),
        ({"maxRowPerTrigger": "5"}, "unknown option 'maxrowpertrigger'; known are address, batch"),
    ],
)
def test_a_wrong_option_is_told(options: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError) as error:
        check_options(options)
    assert str(error.value).startswith(f"antiphon: {told}")


def test_options_have_sense() -> None:
    reading, writing = check_options(
        {
            "Endpoint": "grpc://a:1, b:2",
            "START": "2026-11-16T05:00:00",
            "checkpointLocation": "x",
            "group": "a,b",
        }
    )
    assert reading.endpoints == ("grpc://a:1", "grpc://b:2")
    assert reading.start == datetime(2026, 11, 16, 5, tzinfo=UTC)
    assert (writing.groups, writing.service) == (("a", "b"), Service.AGREED)


def test_the_source_can_be_sent_to_workers() -> None:
    source = AntiphonDataSource({"endpoint": "a:1"})
    assert pickle.loads(pickle.dumps(source)).schema() == ROWS
    pickle.dumps(source.streamReader(ROWS))
    pickle.dumps(source.reader(ROWS))


def test_errors_are_told_at_load(spark: Any) -> None:
    with pytest.raises(AnalysisException, match="the option endpoint is missing"):
        spark.read.format("antiphon").load()
    with pytest.raises(AnalysisException, match="unknown option 'strat'"):
        spark.readStream.format("antiphon").options(endpoint="a:1", strat="1").load()


# Batches --------------------------------------------------------------------------------------------------


def test_a_journal_is_a_table(spark: Any, journal: RunningJournal) -> None:
    frame = read(spark, journal, partitions=3)
    assert frame.rdd.getNumPartitions() == 3
    kinds = {row.kind: row["count"] for row in frame.groupBy("kind").count().collect()}
    assert kinds == {"view": 2, "message": TEA + NEWS}
    assert payloads(frame) == numbered(0, TEA + NEWS)
    row = frame.where("group = 'news' and kind = 'message'").orderBy("offset").first()
    assert (row.service, list(row.groups), row.place, row.tag) == ("safe", ["news"], 0, 0)
    assert row.sender.endswith("#d1")
    assert row.sent.timestamp() <= row.delivered.timestamp()


def test_a_range_and_groups_can_be_chosen(spark: Any, journal: RunningJournal) -> None:
    assert payloads(read(spark, journal, start=102, end="200")) == numbered(100, 98)
    assert payloads(read(spark, journal, groups="news")) == numbered(TEA, NEWS)
    assert read(spark, journal, start="latest").count() == 0
    late = journal.rows()[-1]["delivered"].isoformat()
    assert payloads(read(spark, journal, start=late))[-1] == b"%d" % (TEA + NEWS - 1)
    assert read(spark, journal, start="2100-01-01T00:00:00Z").count() == 0


def test_a_group_that_is_not_recorded_is_told(spark: Any, journal: RunningJournal, tmp_path: Path) -> None:
    told = "the journal has no rows of group nwes; it records tea, news"
    with pytest.raises(AnalysisException, match=told):
        read(spark, journal, groups="tea,nwes").count()
    with pytest.raises(StreamingQueryException, match=told):
        run(spark, journal, tmp_path, groups="nwes")


def test_a_dead_address_is_told_in_one_line(spark: Any) -> None:
    """And not through which functions of ours it was found out."""
    rows = spark.read.format("antiphon").options(endpoint="127.0.0.1:1", timeoutSeconds="0.3").load()
    with pytest.raises(AnalysisException) as error:
        rows.count()
    text = str(error.value)
    assert "no journal answered within 0.3 s: grpc://127.0.0.1:1: cannot connect: Connection refused" in text
    assert "places.py" not in text


# Streams --------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_where_it_ended(spark: Any, place: Room, tmp_path: Path) -> None:
    journal = place.journal("going-on", "going")
    place.send("going", numbered(0, 1_000))
    journal.wait_for(b"999")
    first = run(spark, journal, tmp_path, maxRowsPerTrigger=300)
    assert [progress.numInputRows for progress in first.recentProgress] == [300, 300, 300, 101]
    place.send("going", numbered(1_000, 500))
    journal.wait_for(b"1499")
    run(spark, journal, tmp_path)
    run(spark, journal, tmp_path)
    assert payloads(spark.read.parquet(str(tmp_path / "table"))) == numbered(0, 1_500)


def test_a_query_tells_how_far_behind_it_is(spark: Any, place: Room, tmp_path: Path) -> None:
    journal = place.journal("behind", "behind")
    place.send("behind", numbered(0, 500))
    journal.wait_for(b"499")
    query = run(spark, journal, tmp_path, maxRowsPerTrigger=200)
    sources = [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]
    latest = [source["latestOffset"] for source in sources]
    assert [(one["offset"], one["behind"]) for one in latest] == [(501, 301), (501, 101), (501, 0)]
    assert [source["endOffset"]["offset"] for source in sources] == [200, 400, 501]


def test_a_batch_without_its_commit_is_run_again_and_is_the_same(
    spark: Any, place: Room, tmp_path: Path
) -> None:
    """As after a crash between the work and the note of it. The table knows the batch by its number."""
    journal = place.journal("again", "again")
    place.send("again", numbered(0, 500))
    journal.wait_for(b"499")
    run(spark, journal, tmp_path, maxRowsPerTrigger=200)
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    place.send("again", numbered(500, 100))
    journal.wait_for(b"599")
    run(spark, journal, tmp_path)
    assert payloads(spark.read.parquet(str(tmp_path / "table"))) == numbered(0, 600)


def test_lost_rows_end_a_stream_unless_it_may_lose_them(spark: Any, place: Room, tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=20_000, keep_bytes=60_000)
    journal = place.journal("short", "short", settings=settings)
    run(spark, journal, tmp_path)
    for first in range(0, 2_000, 200):
        place.send("short", [number.zfill(100) for number in numbered(first, 200)])
        journal.wait_latest(1 + first + 200)
    with pytest.raises(StreamingQueryException, match="were removed before they were read"):
        run(spark, journal, tmp_path)
    run(spark, journal, tmp_path, failOnDataLoss="false")
    found = payloads(spark.read.parquet(str(tmp_path / "table")))
    assert 0 < len(found) < 2_000
    assert found == [number.zfill(100) for number in numbered(2_000 - len(found), len(found))]
