"""Batches: what is stamped, what is dropped when it comes again, what is never dropped."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_daemon import ScriptedDaemon

import antiphon
from antiphon import BatchMemory, BatchStamp, Message, Service, errors, limits
from antiphon.blocking import Session, connect
from antiphon.client._ledger import Ledger
from antiphon.client._send_queue import SendQueue
from antiphon.errors import BadFrame, Disconnected, UsageError
from antiphon.wire import bundle, frames

STAMP = BatchStamp("query", batch=3, partition=1, shape=2, index=0)


def stamp(index: int = 0, *, batch: int = 3, partition: int = 1, shape: int = 2) -> BatchStamp:
    return BatchStamp("query", batch, partition, shape, index)


def messages_until(session: Session, last: bytes) -> list[Message]:
    """The messages up to and with the one whose payload is `last`."""
    found: list[Message] = []
    while not found or found[-1].payload != last:
        event = session.receive(timeout_s=30)
        if isinstance(event, Message):
            found.append(event)
    return found


# Stamps ---------------------------------------------------------------------------------------------------


def test_a_stamp_is_a_text_and_back():
    assert str(STAMP) == "query/3/1/2/0"
    assert BatchStamp.parse(str(STAMP)) == STAMP
    slashed = BatchStamp("a/b", 0, 0, 1, 7)
    assert BatchStamp.parse(str(slashed)) == slashed


@pytest.mark.parametrize(
    "text",
    [
        *("", "query", "query/1/0/1", "/1/0/1/0", "q/1/999999999/1/0", "q/-1/0/1/0", "q/1/0/4294967296/0"),
        *("q /1/0/1/0", "q" * (limits.BATCH_QUERY_MAX_BYTES + 1) + "/1/0/1/0", "q/1/0/1/" + "9" * 19),
        *("q/\u0661/0/1/0"),
    ],
)
def test_another_text_is_no_stamp(text: str):
    with pytest.raises(UsageError):
        BatchStamp.parse(text)


# Memory ---------------------------------------------------------------------------------------------------


def test_a_part_that_comes_again_is_not_new():
    memory = BatchMemory()
    assert memory.take(stamp(0), 10) == [(0, 10)]
    assert memory.take(stamp(0), 10) == []
    assert memory.take(stamp(10), 5) == [(0, 5)]
    assert memory.take(stamp(12), 5) == [(3, 5)]
    assert memory.take(stamp(0, partition=0), 3) == [(0, 3)], "the other part"
    assert memory.dropped == 13


def test_what_was_overtaken_is_still_new():
    """Reliable messages have no order: a later bundle may come first."""
    memory = BatchMemory()
    assert memory.take(stamp(10), 10) == [(0, 10)]
    assert memory.take(stamp(0), 30) == [(0, 10), (20, 30)]


def test_another_shape_is_delivered_with_a_warning(caplog: pytest.LogCaptureFixture):
    memory = BatchMemory()
    memory.note(stamp(0, partition=0, shape=2), 5)
    with caplog.at_level(logging.WARNING):
        assert memory.take(stamp(0, partition=0, shape=3), 5) == [(0, 5)]
    assert "comes again in another shape" in caplog.text
    assert memory.take(stamp(0, partition=0, shape=3), 5) == []


def test_queries_do_not_know_each_other_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BATCH_QUERIES_KEPT", 2)
    memory = BatchMemory()
    for query in "ab":
        assert memory.take(BatchStamp(query, 0, 0, 1, 0), 1) == [(0, 1)]
    memory.note(BatchStamp("a", 0, 0, 1, 1), 1)
    memory.note(BatchStamp("c", 0, 0, 1, 0), 1)
    assert not memory.is_new(BatchStamp("a", 0, 0, 1, 0), 2)
    assert memory.is_new(BatchStamp("b", 0, 0, 1, 0), 1)


def test_jobs_without_a_name_do_not_make_a_daily_one_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BATCH_QUERIES_KEPT", 4)
    memory = BatchMemory()
    for batch in (1, 2):
        memory.note(stamp(batch=batch), 1)
    for job in range(20):
        memory.note(BatchStamp(f"job {job}", 0, 0, 1, 0), 1)
        assert len(memory._queries) <= 4
    assert not memory.is_new(stamp(batch=1), 1)
    assert not memory.is_new(BatchStamp("job 19", 0, 0, 1, 0), 1)
    for query in "abcd":
        for batch in (1, 2):
            memory.note(BatchStamp(query, batch, 0, 1, 0), 1)
    assert memory.is_new(stamp(batch=1), 1), "all have several batches: the least recent one is forgotten"


def test_a_query_in_use_is_kept_although_it_has_one_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BATCH_QUERIES_KEPT", 4)
    memory = BatchMemory()
    for query in "abc":
        for batch in (1, 2):
            memory.note(BatchStamp(query, batch, 0, 1, 0), 1)
    for query in "de":
        memory.note(BatchStamp(query, 1, 0, 1, 0), 1)
    assert not memory.is_new(BatchStamp("d", 1, 0, 1, 0), 1)
    assert memory.is_new(BatchStamp("a", 1, 0, 1, 0), 1)


def test_ranges_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BATCH_RANGES_KEPT", 10)
    memory = BatchMemory()
    memory.note(BatchStamp("other", 0, 0, 1, 0), 1)
    for index in range(0, 200, 2):
        memory.note(stamp(index), 1)
        assert memory._range_count <= 10
    assert memory.is_new(BatchStamp("other", 0, 0, 1, 0), 1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=30))
def test_each_message_is_new_once(pieces: list[tuple[int, int]]):
    memory = BatchMemory()
    had: list[int] = []
    for start, count in pieces:
        had += [start + place for low, high in memory.take(stamp(start), count) for place in range(low, high)]
    assert len(had) == len(set(had))
    assert set(had) == {start + place for start, count in pieces for place in range(count)}


# Batches in any order -------------------------------------------------------------------------------------


@pytest.fixture
def few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches are remembered."""
    monkeypatch.setattr(limits, "BATCHES_KEPT", 3)


def test_batches_come_in_any_order_each_of_them_once():
    memory = BatchMemory()
    for batch in (20261116, 20261117, 20261115):
        assert memory.take(stamp(batch=batch), 10) == [(0, 10)], "it has not come before"
    for batch in (20261115, 20261116, 20261117):
        assert memory.take(stamp(batch=batch), 10) == []
    assert (memory.dropped, memory.doubtful) == (30, 0)


def test_an_older_batch_of_which_a_part_came_is_completed():
    memory = BatchMemory()
    memory.note(stamp(0, batch=3), 5)
    memory.note(stamp(0, batch=4), 5)
    assert memory.take(stamp(0, batch=3), 8) == [(5, 8)]


def test_a_batch_that_is_forgotten_is_delivered_and_told(few_batches: None, caplog: pytest.LogCaptureFixture):
    memory = BatchMemory()
    for batch in (1, 2, 3, 4):
        memory.note(stamp(batch=batch), 10)
    with caplog.at_level(logging.WARNING):
        assert memory.take(stamp(batch=1), 6) == [(0, 6)]
        assert memory.take(stamp(6, batch=1), 4) == [(0, 4)]
    assert memory.doubtful == 10
    assert [record.getMessage() for record in caplog.records] == [
        "batch 1 of query query may have come before: what came of it is not remembered any more, so what is "
        "a copy cannot be told, and all of it is delivered"
    ]
    assert memory.take(stamp(batch=1), 10) == [], "now it is remembered"
    assert memory.dropped == 10


def test_a_batch_that_never_came_is_new_however_old_it_is(
    few_batches: None, caplog: pytest.LogCaptureFixture
):
    """A backfill of more batches than are remembered is no reason to doubt any of them."""
    memory = BatchMemory()
    with caplog.at_level(logging.WARNING):
        for batch in (50, *range(10, 20), *range(40, 30, -1)):
            assert memory.take(stamp(batch=batch), 10) == [(0, 10)]
    assert (memory.doubtful, caplog.records) == (0, [])


def test_the_batch_that_is_being_sent_is_not_forgotten(few_batches: None):
    """Not the lowest number is forgotten, but what has not been used for the longest time."""
    memory = BatchMemory()
    for batch in (5, 6, 7, 1):
        assert memory.take(stamp(batch=batch), 10) == [(0, 10)]
    assert memory.take(stamp(batch=1), 20) == [(10, 20)]
    for batch in (8, 9):
        memory.note(stamp(0, batch=1), 1)
        memory.note(stamp(batch=batch), 10)
    assert memory.take(stamp(batch=1), 20) == []
    assert memory.doubtful == 0


def test_numbers_of_forgotten_batches_are_bounded_and_then_doubted(few_batches: None):
    memory = BatchMemory()
    for batch in range(0, 200, 2):
        assert memory.take(stamp(batch=batch), 1) == [(0, 1)]
        assert len(memory._queries["query"].forgotten) <= 3
    assert memory.doubtful == 0
    memory.take(stamp(batch=101), 1)
    assert memory.doubtful == 1, "whether it came is forgotten, too"
    memory.take(stamp(batch=191), 1)
    assert memory.doubtful == 1, "it is known not to have come"


def test_a_memory_that_is_not_whole_doubts_what_is_older(caplog: pytest.LogCaptureFixture):
    memory = BatchMemory()
    memory.note(stamp(batch=7), 5)
    memory.doubt_older()
    with caplog.at_level(logging.WARNING):
        assert memory.take(stamp(batch=7), 6) == [(5, 6)]
        assert memory.take(stamp(batch=8), 5) == [(0, 5)]
        assert (memory.doubtful, caplog.text) == (0, "")
        assert memory.take(stamp(batch=6), 5) == [(0, 5)]
    assert memory.doubtful == 5
    assert "batch 6 of query query may have come before" in caplog.text


def test_older_batches_make_room_for_the_most_recent_one_of_each_query(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BATCH_OLDER_RANGES_KEPT", 10)
    memory = BatchMemory()
    small = BatchStamp("small", 0, 0, 1, 0)
    for batch in (0, 1):
        memory.note(BatchStamp("small", batch, 0, 1, 0), 1)
    for batch in range(3):
        for partition in range(6):
            assert memory.take(stamp(batch=batch, partition=partition), 1) == [(0, 1)]
            assert memory._range_count <= 10
    assert not memory.is_new(small, 1), "the query with the most ranges gives way"
    assert memory.is_new(stamp(batch=1, partition=5), 1)
    for partition in range(30):
        memory.note(stamp(batch=3, partition=partition), 1)
    assert not any(memory.is_new(stamp(batch=3, partition=partition), 1) for partition in range(30))
    assert memory.is_new(small, 1)
    assert not memory.is_new(BatchStamp("small", 1, 0, 1, 0), 1)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 2), st.integers(0, 8)), max_size=60
    )
)
def test_what_has_not_come_is_never_dropped_and_a_copy_is_never_delivered_untold(
    sent: list[tuple[str, int, int, int]],
):
    """Whatever the order of the batches, and however few of them are remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BATCHES_KEPT", 3)
        patch.setattr(limits, "BATCH_OLDER_RANGES_KEPT", 6)
        memory = BatchMemory()
        had: set[tuple[str, int, int, int]] = set()
        for query, batch, partition, index in sent:
            before = memory.doubtful
            found = memory.take(BatchStamp(query, batch, partition, 1, index), 3)
            places = {index + place for start, end in found for place in range(start, end)}
            wanted = {index + place for place in range(3)}
            assert {place for place in wanted if (query, batch, partition, place) not in had} <= places
            copies = {place for place in places if (query, batch, partition, place) in had}
            assert len(copies) <= memory.doubtful - before
            had |= {(query, batch, partition, place) for place in wanted}
            kept = [one for query_ in memory._queries.values() for one in query_.batches.values()]
            ranges = sum(len(part.ranges) for one in kept for part in one.parts.values())
            assert (memory._batch_count, memory._range_count) == (len(kept), ranges)


# Bytes ----------------------------------------------------------------------------------------------------


def queued(send_queue: SendQueue) -> list[bytes]:
    send_queue.close_bundle()
    data = b"".join(send_queue.buffers())
    return [bytes(frame) for _, frame in frames.split(memoryview(data))[0]]


def test_a_bundle_of_a_batch_begins_with_its_stamp():
    send_queue = SendQueue("#a#d1")
    assert send_queue.add_batch("chat", [b"x", b"y"], Service.SAFE, 4, True, STAMP.moved(7)) == 2
    (frame,) = queued(send_queue)
    header = bundle.parse_from_client(frame)
    assert header.message_count == 3
    messages = bundle.decode(frame)
    assert [(message.payload, str(message.batch)) for message in messages] == [
        (b"x", "query/3/1/2/7"),
        (b"y", "query/3/1/2/8"),
    ]
    assert [message.index for message in messages] == [0, 1]
    assert messages[0].id.sequence == header.sequence + 1, "the stamp is numbered, too"
    assert (messages[0].tag, messages[0].service) == (4, Service.SAFE)


def test_what_does_not_fit_into_a_bundle_is_left():
    send_queue = SendQueue("#a#d1")
    half = bytes(limits.BUNDLE_TARGET_BYTES // 2)
    assert send_queue.add_batch("chat", [half, half, half], Service.AGREED, 0, False, STAMP) == 1
    assert send_queue.add_batch("chat", [half * 3, half], Service.AGREED, 0, False, STAMP) == 1
    small = [b""] * limits.BUNDLE_MESSAGES_MAX
    assert (
        send_queue.add_batch("chat", small, Service.AGREED, 0, False, STAMP) == limits.BUNDLE_MESSAGES_MAX - 1
    )
    for frame in queued(send_queue):
        bundle.parse_from_client(frame)


def test_stamps_are_counted_along_and_have_no_fate_to_tell():
    ledger = Ledger()
    send_queue = SendQueue("#a#d1", ledger=ledger)
    send_queue.add_batch("chat", [b"1", b"2"], Service.AGREED, 0, False, STAMP)
    send_queue.add_batch("chat", [b"3"], Service.AGREED, 0, False, STAMP.moved(2))
    assert send_queue.unaccepted() == 3
    ledger.accept(2)  # the stamp and the first message
    assert send_queue.unaccepted() == 2
    assert [sent.payload for sent in send_queue.unknown()] == [b"2", b"3"]
    ledger.accept(5)
    assert (send_queue.unaccepted(), send_queue.unknown()) == (0, ())


@pytest.mark.parametrize(
    "bodies", [[b"query/3/1/2/0"], [b"no stamp", b"x"], [b"\xff", b"x"], [b"9" * 999, b"x"]]
)
def test_a_daemon_refuses_what_is_no_stamp(bodies: list[bytes]):
    """Or it would cost each receiver its connection."""
    area = bundle.names_area("#a#d1", ["chat"])
    frame = b"".join(bundle.encode(area, 1, Service.AGREED, bodies, flags=bundle.Flag.BATCH))
    with pytest.raises(BadFrame):
        bundle.parse_from_client(frame)
    with pytest.raises(BadFrame):
        bundle.decode(frame)


def test_a_wrong_stamp_or_message_changes_nothing():
    send_queue = SendQueue("#a#d1", message_max_bytes=10)
    with pytest.raises(UsageError, match="part 100000 of a batch"):
        send_queue.add_batch("chat", [b"x"], Service.AGREED, 0, False, stamp(partition=100_000))
    with pytest.raises(errors.MessageTooLarge):
        send_queue.add_batch("chat", [b"x" * 11], Service.AGREED, 0, False, STAMP)
    assert (send_queue.queued_bytes, send_queue.unaccepted()) == (0, 0)


# Sessions -------------------------------------------------------------------------------------------------


def test_a_batch_that_is_sent_again_is_delivered_once(address: str):
    payloads = [b"%d" % number for number in range(10_000)]
    with connect(address, name="reader") as reader:
        reader.join("chat")
        with connect(address, name="first") as sender:
            sender.send_many("chat", payloads[:6_000], batch=STAMP)
            sender.wait_accepted()
        with connect(address, name="second") as sender:
            sender.send_many("chat", payloads, batch=STAMP)
            sender.send("chat", b"end")
        messages = messages_until(reader, b"end")
        assert [message.payload for message in messages] == [*payloads, b"end"]
        assert [message.batch.index for message in messages[:-1] if message.batch] == list(range(10_000))
        assert messages[-1].batch is None
        assert reader.batches.dropped == 6_000


def test_a_backfill_is_delivered_once(address: str):
    with connect(address, name="reader") as reader:
        reader.join("totals")
        for batch in (20261116, 20261117, 20261115, 20261115, 20261116):
            with connect(address, name="job") as sender:
                sender.send_many("totals", [b"%d" % batch], batch=BatchStamp("daily-totals", batch, 0, 1, 0))
                sender.wait_accepted()
        reader.send("totals", b"end")
        found = [message.payload for message in messages_until(reader, b"end")]
        assert found == [b"20261116", b"20261117", b"20261115", b"end"]
        assert reader.batches.dropped == 2


def test_a_memory_can_be_brought_along(address: str):
    memory = BatchMemory()
    memory.note(STAMP, 2)
    with connect(address, name="reader", batches=memory) as reader:
        reader.join("chat")
        reader.send_many("chat", [b"0", b"1", b"2"], batch=STAMP)
        assert [message.payload for message in messages_until(reader, b"2")] == [b"2"]


async def test_the_same_with_asyncio(address: str):
    payloads = [b"%d" % number for number in range(1_000)]
    async with antiphon.connect(address, name="reader") as reader:
        await reader.join("chat")
        for _ in range(2):
            await reader.send_many("chat", iter(payloads), Service.SAFE, batch=STAMP)
        await reader.wait_accepted()
        await reader.send("chat", b"end")
        found: list[bytes] = []
        async with asyncio.timeout(30):
            while not found or found[-1] != b"end":
                event = await reader.receive()
                if isinstance(event, Message):
                    found.append(event.payload)
    assert found == [*payloads, b"end"]


def test_wait_accepted_waits_for_the_daemon_to_say_so(tmp_path: Path):
    daemon = ScriptedDaemon(tmp_path)
    try:
        welcomed = threading.Thread(target=daemon.welcome)
        welcomed.start()
        session = connect(daemon.address, name="alice")
        welcomed.join()
        session.send_many("chat", [b"1", b"2"], batch=STAMP)
        waiting = threading.Thread(target=session.wait_accepted)
        waiting.start()
        assert len(daemon.hear_bundle()) == 2
        daemon.say(frames.Accepted(2))
        waiting.join(0.3)
        assert waiting.is_alive(), "one of them is not accepted"
        daemon.say(frames.Accepted(3))
        waiting.join(30)
        assert not waiting.is_alive()
        session.send("chat", b"3")
        daemon.hear_bundle()
        daemon.hang_up()
        with pytest.raises(Disconnected) as told:
            session.wait_accepted()
        assert [sent.payload for sent in told.value.unknown] == [b"3"]
        session.close()
    finally:
        daemon.close()
