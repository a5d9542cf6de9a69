"""`df.write` and `df.writeStream` to groups."""

import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from recorded_groups import Room, numbered, room

from antiphon import Service
from antiphon.errors import ConnectError, UsageError
from antiphon.spark import sink
from antiphon.spark.options import QUERY_MAX_BYTES, Writing, check_options
from antiphon.spark.sink import Sender, check_columns, messages_of, stream_identity
from antiphon.types import BatchStamp, check_stamp

AGREED = Service.AGREED


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room")) as found:
        yield found


def writer(frame: Any, place: Room, **options: Any) -> Any:
    options = {"address": place.addresses[0], **options}
    return frame.write.format("antiphon").options(**options).mode("append")


# Rows -----------------------------------------------------------------------------------------------------


def test_rows_that_share_their_way_go_together() -> None:
    rows = pa.record_batch(
        {
            "group": ["a", "a", None, "b", "b"],
            "payload": ["1", "2", "3", "4", "5"],
            "tag": pa.array([1, 1, None, 2, 2], pa.int32()),
            "service": [None, None, None, "Safe", "safe"],
        }
    )
    found = list(messages_of(rows, Writing(groups=("other",))))
    assert found == [
        ((("a",), AGREED, 1), [b"1", b"2"]),
        ((("other",), AGREED, 0), [b"3"]),
        ((("b",), Service.SAFE, 2), [b"4"]),
        ((("b",), Service.SAFE, 2), [b"5"]),
    ]


def test_a_list_of_groups_is_a_message_to_all_of_them() -> None:
    rows = pa.record_batch({"groups": [["a", "b"], []], "group": ["c", "c"], "payload": [b"1", b"2"]})
    assert [key[0] for key, _ in messages_of(rows, Writing())] == [("a", "b"), ("c",)]


def test_a_row_without_a_payload_or_a_group_is_an_error() -> None:
    with pytest.raises(UsageError, match="a row has no payload"):
        list(messages_of(pa.record_batch({"payload": pa.array([b"1", None])}), Writing(groups=("a",))))
    rows = pa.record_batch({"payload": [b"1"], "group": pa.array([None], pa.string())})
    with pytest.raises(UsageError, match="a row names no group"):
        list(messages_of(rows, Writing()))


def test_columns_must_fit() -> None:
    payload = StructField("payload", BinaryType())
    check_columns(StructType([payload, StructField("tag", LongType()), StructField("else", LongType())]))
    for wrong in ("group", "service", "groups"):
        with pytest.raises(UsageError, match=f"the column {wrong} must be"):
            check_columns(StructType([payload, StructField(wrong, LongType())]))
    with pytest.raises(UsageError, match="the column tag must be a whole number"):
        check_columns(StructType([payload, StructField("tag", StringType())]))
    with pytest.raises(UsageError, match="needs a column payload"):
        check_columns(StructType([StructField("payload", LongType())]))


def test_a_stream_is_known_by_its_checkpoint_whatever_its_name() -> None:
    told = {"sql.streaming.queryId": "0b5e", "streaming.sql.batchId": "7"}
    assert stream_identity(Writing(), told.get) == ("0b5e", 7)
    assert stream_identity(Writing(query="copy"), told.get) == ("copy@0b5e", 7)
    assert stream_identity(Writing(query="copy"), {}.get) is None


def test_the_name_of_a_query_leaves_room_for_its_checkpoint() -> None:
    _, writing = check_options({"query": "q" * QUERY_MAX_BYTES})
    told = {"sql.streaming.queryId": str(uuid.uuid4()), "streaming.sql.batchId": "7"}
    found = stream_identity(writing, told.get)
    assert found is not None
    check_stamp(BatchStamp(*found, 0, 0, 0))
    with pytest.raises(UsageError, match=f"1 to {QUERY_MAX_BYTES} visible ASCII characters"):
        check_options({"query": "q" * (QUERY_MAX_BYTES + 1)})


# Senders, without Spark -----------------------------------------------------------------------------------


def test_a_part_goes_on_through_another_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its daemon stops in the middle: what is not known to be accepted is sent again, and nothing twice."""
    monkeypatch.setattr(sink, "PIECE_MAX_BYTES", 50_000)
    payloads = [number.zfill(1_000) for number in numbered(0, 3_000)]
    with room(tmp_path, daemons=2) as place, place.listening("tea") as listener:
        sender = Sender(Writing(addresses=tuple(reversed(place.addresses))), "query", 0, 0)
        sender.send((("tea",), AGREED, 0), payloads[:2_000])
        place.daemons[1].stop()
        sender.send((("tea",), AGREED, 0), payloads[2_000:])
        sender.finish()
        sender.close()
        place.send("tea", [b"end"], daemon=0)
        assert [message.payload for message in listener.take_until(b"end")] == payloads


def test_a_part_that_is_sent_again_by_another_task_is_dropped(place: Room) -> None:
    payloads = numbered(0, 1_000)
    with place.listening("twice") as listener:
        for count in (700, 1_000):
            sender = Sender(Writing(addresses=tuple(place.addresses), name="spark"), "query", 7, 3)
            sender.send((("twice",), AGREED, 0), payloads[:count])
            sender.finish()
            sender.close()
        place.send("twice", [b"end"])
        messages = listener.take_until(b"end")
        assert [message.payload for message in messages] == payloads
        assert {message.sender.rpartition("#")[0] for message in messages} == {"#spark-3"}


def test_a_part_whose_first_row_is_another_one_is_no_copy(place: Room) -> None:
    with place.listening("shape") as listener:
        for first in (0, 1):
            sender = Sender(Writing(addresses=tuple(place.addresses)), "query", 8, 3)
            sender.send((("shape",), AGREED, 0), numbered(first, 3))
            sender.finish()
            sender.close()
        assert [message.payload for message in listener.take(6)] == numbered(0, 3) + numbered(1, 3)


def test_a_daemon_that_takes_no_more_holds_up_the_part(place: Room) -> None:
    """A member does not take what it is sent: everything up to the sender waits, and nothing is lost."""
    payloads = [bytes([number]) * 1_000_000 for number in range(100)]
    sender = Sender(Writing(addresses=tuple(place.addresses)), "query", 9, 0)

    def send() -> None:
        sender.send((("slow",), AGREED, 0), payloads)
        sender.finish()

    with place.listening("slow") as listener:
        sending = threading.Thread(target=send)
        sending.start()
        sending.join(2.0)
        assert sending.is_alive(), "100 MB were taken although nobody reads them"
        found = [message.payload[0] for message in listener.take(100)]
        sending.join(60)
        assert not sending.is_alive()
        assert found == list(range(100))
    sender.close()


def test_without_a_daemon_a_part_fails_in_words(tmp_path: Path) -> None:
    sender = Sender(Writing(addresses=(f"unix:{tmp_path}/none",), timeout_s=0.3), "query", 0, 0)
    with pytest.raises(ConnectError, match="no daemon took the messages within"):
        sender.send((("tea",), AGREED, 0), [b"1"])


# Spark ----------------------------------------------------------------------------------------------------


def test_rows_become_messages(spark: Any, place: Room) -> None:
    frame = spark.range(0, 5_000, numPartitions=2).select(
        F.col("id").cast("string").alias("payload"),
        F.when(F.col("id") % 2 == 0, "even").otherwise("odd").alias("group"),
        F.lit("safe").alias("service"),
        F.lit(7).alias("tag"),
    )
    with place.listening("even", "odd") as listener:
        writer(frame, place).save()
        messages = listener.take(5_000)
    assert {(message.service, message.tag) for message in messages} == {(Service.SAFE, 7)}
    for partition, numbers in enumerate((range(2_500), range(2_500, 5_000))):
        part = [m for m in messages if m.batch is not None and m.batch.partition == partition]
        assert [int(message.payload) for message in part] == list(numbers)
        assert [message.batch.index for message in part] == list(range(2_500))
    assert all(m.group == ("odd" if int(m.payload) % 2 else "even") for m in messages)


def test_a_job_with_a_name_and_a_number_is_done_once(spark: Any, place: Room) -> None:
    frame = spark.range(0, 100, numPartitions=1).selectExpr("cast(id as string) as payload")
    with place.listening("daily") as listener:
        for batch in (1, 1, 2):
            writer(frame, place, group="daily", query="daily", batch=batch).save()
        place.send("daily", [b"end"])
        messages = listener.take_until(b"end")
    assert [(m.batch.batch, int(m.payload)) for m in messages] == [(b, n) for b in (1, 2) for n in range(100)]


def test_a_backfill_is_delivered_once(spark: Any, place: Room) -> None:
    """The day before the first one comes last; days that were written are dropped, in whatever order."""
    frame = spark.range(0, 10, numPartitions=2).selectExpr("cast(id as string) as payload")
    with place.listening("daily-totals") as listener:
        for batch in (20261116, 20261117, 20261115, 20261116, 20261115):
            writer(frame, place, group="daily-totals", query="daily-totals", batch=batch).save()
        place.send("daily-totals", [b"end"])
        messages = listener.take_until(b"end")
    days = (20261116, 20261117, 20261115)
    assert [m.batch.batch for m in messages] == [day for day in days for _ in range(10)]
    for day in days:
        assert sorted(m.payload for m in messages if m.batch.batch == day) == numbered(0, 10)


def to_group(rows: Any, address: str, group: str) -> Any:
    """A stream into a group, as a query with a name."""
    return rows.writeStream.format("antiphon").options(address=address, group=group, query="copy")


def to_group_by_hand(rows: Any, address: str, group: str, *, with_number: bool = False) -> Any:
    """The same with `foreachBatch`."""

    def write(frame: Any, batch: int) -> None:
        options: dict[str, Any] = {"address": address, "group": group, "query": "copy"}
        if with_number:
            options["batch"] = batch
        frame.write.format("antiphon").options(**options).mode("append").save()

    return rows.writeStream.foreachBatch(write)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(to_group, id="stream"),
        pytest.param(to_group_by_hand, id="by-hand"),
        pytest.param(partial(to_group_by_hand, with_number=True), id="by-hand-with-number"),
    ],
)
def test_a_stream_with_a_name_and_a_new_checkpoint_is_delivered(
    spark: Any, place: Room, tmp_path: Path, write: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    """Batches count from 0 again, and rows that begin with the same one are no copies; a batch that is run
    again from its checkpoint is."""
    group = request.node.callspec.id

    def run(checkpoint: str, name: str, *lines: str) -> None:
        source = tmp_path / name
        source.mkdir(exist_ok=True)
        (source / "rows.txt").write_text("".join(f"{line}\n" for line in lines))
        rows = spark.readStream.schema("value string").text(str(source)).selectExpr("value as payload")
        query = write(rows, place.addresses[0], group).option("checkpointLocation", tmp_path / checkpoint)
        assert query.trigger(availableNow=True).start().awaitTermination(120)

    with place.listening(group) as listener:
        run("first", "old", "beat", "one")
        (tmp_path / "first" / "commits" / "0").unlink()
        run("first", "old", "beat", "one")
        run("second", "new", "beat", "two")
        place.send(group, [b"end"])
        messages = listener.take_until(b"end")
    assert [m.payload for m in messages] == [b"beat", b"one", b"beat", b"two"]
    assert [m.batch.batch for m in messages] == [0, 0, 0, 0]
    assert {m.batch.query.partition("@")[0] for m in messages} == {"copy"}


def test_what_cannot_be_written_is_told(spark: Any, place: Room) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as payload")
    with pytest.raises(AnalysisException, match="where to"):
        writer(frame, place).save()
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        writer(frame, place, group="tea").mode("overwrite").save()


def test_a_dead_address_is_told_once(spark: Any, tmp_path: Path) -> None:
    """No part fails for Spark, which would try each of them four times and show its traceback each time."""
    frame = spark.range(8).selectExpr("cast(id as string) as payload").repartition(5)
    options = {"address": f"unix:{tmp_path}/none", "group": "tea", "timeoutSeconds": "0.3"}
    told = r"no daemon took the messages within 0.3 s: .*\(\d of 5 parts were not written\)"
    context = spark.sparkContext
    context.setJobGroup("dead", "writes to a dead address")
    try:
        with pytest.raises(AnalysisException, match=told):
            frame.write.format("antiphon").options(**options).mode("append").save()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("dead")]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    assert sum(stage.numFailedTasks for stage in stages if stage) == 0


def test_a_stream_to_a_dead_address_is_told_once(spark: Any, tmp_path: Path) -> None:
    """And its batch is not taken for written."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.txt").write_text("one\n")
    rows = spark.readStream.schema("value string").text(str(tmp_path / "in")).selectExpr("value as payload")
    query = to_group(rows, f"unix:{tmp_path}/none", "tea").option("timeoutSeconds", "0.3")
    running = query.option("checkpointLocation", tmp_path / "checkpoint").trigger(availableNow=True).start()
    with pytest.raises(
        StreamingQueryException, match=r"took the messages .* \(1 of 1 parts were not written\)"
    ):
        running.awaitTermination(120)
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))


@pytest.mark.parametrize(
    ("master", "attempt", "is_last"),
    [("local[2,4]", 0, True), ("spark://a:7077", 0, False), ("spark://a:7077", 3, True), (None, 3, True)],
)
def test_on_a_cluster_another_machine_may_have_a_daemon(
    master: str | None, attempt: int, is_last: bool
) -> None:
    context = TaskContext()
    context._localProperties = {} if master is None else {"spark.master": master}
    context._attemptNumber = attempt
    assert sink._is_last(context) is is_last


def test_a_stream_of_rows_is_delivered_once_although_a_batch_is_repeated(
    spark: Any, place: Room, tmp_path: Path
) -> None:
    """The last batch is run again from its checkpoint, as after a crash before its commit."""
    journal = place.journal("stream", "in")
    place.send("in", numbered(0, 500))
    journal.wait_for(b"499")

    def run() -> None:
        query = (
            spark.readStream.format("antiphon")
            .options(endpoint=journal.endpoint, maxRowsPerTrigger=200)
            .load()
            .where("kind = 'message'")
            .select("payload")
            .writeStream.format("antiphon")
            .options(address=place.addresses[0], group="out", service="safe")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    with place.listening("out") as listener:
        run()
        commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
        commits[-1].unlink()
        place.send("in", numbered(500, 100))
        journal.wait_for(b"599")
        run()
        place.send("out", [b"end"])
        messages = listener.take_until(b"end")
    assert [message.payload for message in messages] == numbered(0, 600)
    assert [m.batch.batch for m in messages] == sorted(m.batch.batch for m in messages)
