"""Where a query stands when its journal is gone, has a gap, or has removed what is needed; without Spark."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_groups import Room, RunningJournal, numbered, room

from antiphon import Service
from antiphon.errors import UsageError
from antiphon.journal.errors import JournalError, JournalUnavailable, OffsetsRemoved
from antiphon.journal.log import LogSettings
from antiphon.spark import places
from antiphon.spark.options import Reading
from antiphon.spark.places import Position, Replicas, position_from


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Room]:
    with room(tmp_path, daemons=2) as found:
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that is stopped is known to be: do not wait for it."""
    monkeypatch.setattr(places, "AWAY_S", 0.3)


def reading(*journals: RunningJournal, **options: Any) -> Reading:
    return Reading(
        endpoints=tuple(journal.endpoint for journal in journals), **{"timeout_s": 20.0, **options}
    )


def messages(replicas: Replicas, start: Position, end: Position) -> list[bytes]:
    return [
        row["payload"]
        for batch in replicas.read(start, end)
        for row in batch.to_pylist()
        if row["kind"] == "message"
    ]


def with_a_gap(pair: Room) -> tuple[RunningJournal, RunningJournal, Position]:
    """Two journals of messages 0 to 149, the first of which lacks 50 to 99, and where a query began that
    read the first one before it was stopped."""
    first, second = pair.journal("one", "tea"), pair.journal("two", "tea", daemon=1)
    pair.send("tea", numbered(0, 50))
    for journal in (first, second):
        journal.wait_for(b"49")
    start = Replicas(reading(first, second)).named("earliest")
    first.stop()
    pair.send("tea", numbered(50, 50))
    again = pair.journal("one", "tea", listen=first.endpoint)
    pair.send("tea", numbered(100, 50))
    for journal in (again, second):
        journal.wait_for(b"149")
    return again, second, start


def test_a_position_survives_json(pair: Room) -> None:
    journal = pair.journal("one", "tea")
    pair.send("tea", numbered(0, 10))
    journal.wait_for(b"9")
    position = Replicas(reading(journal)).named("latest")
    assert position_from(position.as_json()) == position
    assert list(position.as_json()) == ["journal", "offset", "anchor"]
    with pytest.raises(UsageError, match="no position of this source"):
        position_from({"offset": 3})


def test_places_have_names(pair: Room) -> None:
    journal = pair.journal("one", "tea")
    pair.send("tea", numbered(0, 10))
    journal.wait_for(b"9")
    replicas = Replicas(reading(journal))
    assert (replicas.named("earliest").offset, replicas.named("latest").offset) == (0, 11)
    assert replicas.named(5).offset == 5
    fifth = journal.rows()[5]["delivered"]
    first_then = next(row["offset"] for row in journal.rows() if row["delivered"] >= fifth)
    assert replicas.named(fifth).offset == first_then
    with pytest.raises(UsageError, match="no offset 12; the journal has 0 up to 11"):
        replicas.named(12)


def test_nothing_new_is_exactly_where_it_began(pair: Room) -> None:
    journal = pair.journal("one", "tea")
    replicas = Replicas(reading(journal))
    start = replicas.named("latest")
    assert replicas.advance(start, None, None) is start
    pair.send("tea", numbered(0, 10))
    journal.wait_for(b"9")
    assert replicas.advance(start, 4, None).offset == start.offset + 4
    assert replicas.advance(start, None, replicas.position(start.journal, start.offset + 3)).offset == 4


def test_another_journal_goes_on_at_the_same_message(pair: Room) -> None:
    """The second began later, so that its offsets are others; the first is stopped in the middle."""
    first = pair.journal("one", "tea", "news")
    pair.send("tea", numbered(0, 50))
    second = pair.journal("two", "tea", "news", daemon=1)
    pair.send("tea", numbered(50, 50))
    for journal in (first, second):
        journal.wait_for(b"99")
    replicas = Replicas(reading(first, second))
    start = replicas.named("earliest")
    end = replicas.advance(start, 80, None)
    assert end.journal == first.id
    read = messages(replicas, start, end)
    first.stop()
    pair.send("tea", numbered(100, 50))
    second.wait_for(b"149")
    beyond = replicas.advance(end, None, None)
    assert beyond.journal == second.id
    assert read + messages(replicas, end, beyond) == numbered(0, 150)


def test_a_batch_that_was_begun_is_the_same_in_another_journal(pair: Room) -> None:
    """Both of its ends were planned in a journal that is gone when it is run again."""
    first, second = pair.journal("one", "tea"), pair.journal("two", "tea", daemon=1)
    pair.send("tea", numbered(0, 100))
    for journal in (first, second):
        journal.wait_for(b"99")
    replicas = Replicas(reading(first, second))
    begin = replicas.named("earliest")
    start = replicas.advance(begin, 33, None)
    end = replicas.advance(start, 33, None)
    before = messages(replicas, start, end)
    first.stop()
    assert messages(Replicas(reading(first, second)), start, end) == before == numbered(31, 33)


def test_a_query_goes_around_a_gap_that_another_journal_has_not(pair: Room) -> None:
    again, second, start = with_a_gap(pair)
    assert start.journal == again.id
    replicas = Replicas(reading(again, second))
    before_gap = replicas.advance(start, None, None)
    assert (before_gap.journal, messages(replicas, start, before_gap)) == (start.journal, numbered(0, 50))
    end = replicas.advance(before_gap, None, None)
    assert end.journal == second.id
    assert messages(replicas, before_gap, end) == numbered(50, 100)
    assert "gap" in {row["kind"] for row in again.rows()}


def test_what_one_journal_has_is_not_read_from_another_with_a_gap_there(
    pair: Room, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch was planned in the one journal that has it all, which dies before the batch is read."""
    again, second, start = with_a_gap(pair)
    planning = Replicas(reading(again, second))
    before_gap = planning.advance(start, None, None)
    end = planning.advance(before_gap, None, None)
    assert (before_gap.journal, end.journal) == (again.id, second.id)
    second.stop()
    hasty = Replicas(reading(again, second, timeout_s=1.0))
    with pytest.raises(JournalError, match="has a gap at offset 52, in the middle of what is to be read"):
        messages(hasty, before_gap, end)
    with pytest.raises(JournalError, match="has a gap at offset 52"):
        hasty.cut(before_gap, end, 2, 10)
    careless = Replicas(reading(again, second, timeout_s=1.0, fails_on_data_loss=False))
    with caplog.at_level(logging.WARNING):
        assert messages(careless, before_gap, end) == numbered(100, 50)
    assert "rows may be lost: journal" in caplog.text
    back = pair.journal("two", "tea", daemon=1, listen=second.endpoint)
    assert messages(Replicas(reading(again, back)), before_gap, end) == numbered(50, 100)


def test_a_gap_that_all_journals_have_is_read_as_one(pair: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "CATCH_UP_S", 1.0)
    first, second = pair.journal("one", "tea"), pair.journal("two", "tea", daemon=1)
    pair.send("tea", numbered(0, 10))
    for journal in (first, second):
        journal.wait_for(b"9")
    first.stop()
    second.stop()
    pair.send("tea", numbered(10, 10))
    again = [
        pair.journal("one", "tea", listen=first.endpoint),
        pair.journal("two", "tea", daemon=1, listen=second.endpoint),
    ]
    pair.send("tea", numbered(20, 10))
    for journal in again:
        journal.wait_for(b"29")
    replicas = Replicas(reading(*again))
    found: list[bytes] = []
    at = replicas.named("earliest")
    for _ in range(3):
        end = replicas.advance(at, None, None)
        found += messages(replicas, at, end)
        at = end
    assert found == numbered(0, 10) + numbered(20, 10)


def test_removed_rows_are_an_error_or_are_counted(pair: Room, caplog: pytest.LogCaptureFixture) -> None:
    settings = LogSettings(segment_bytes=20_000, keep_bytes=60_000)
    journal = pair.journal("one", "tea", settings=settings)
    replicas = Replicas(reading(journal))
    start = replicas.named("earliest")
    for first in range(0, 2_000, 100):
        pair.send("tea", [number.zfill(100) for number in numbered(first, 100)])
        journal.wait_latest(1 + first + 100)
    with pytest.raises(OffsetsRemoved, match="failOnDataLoss=false"):
        replicas.advance(start, None, None)
    earliest = -1
    while earliest != journal.reader.positions().earliest:  # what is too old is removed now and then
        earliest = journal.reader.positions().earliest
        careless = Replicas(reading(journal, fails_on_data_loss=False))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            end = careless.advance(start, None, None)
            found = messages(careless, start, end)
    assert earliest > 0
    assert found == [number.zfill(100) for number in numbered(earliest - 1, 2_001 - earliest)]
    assert f"{earliest} rows are lost" in caplog.text


def test_a_single_journal_that_is_gone_is_told_in_one_line(pair: Room) -> None:
    journal = pair.journal("one", "tea")
    options = reading(journal, timeout_s=0.5)
    start = Replicas(options).named("earliest")
    journal.stop()
    with pytest.raises(JournalUnavailable, match="no journal answered within"):
        Replicas(options).find(start)


def test_a_place_that_no_other_journal_has_is_not_guessed(pair: Room) -> None:
    first = pair.journal("one", "tea")
    pair.send("tea", numbered(0, 10))
    first.wait_for(b"9")
    second = pair.journal("two", "tea", daemon=1)
    start = Replicas(reading(first)).named(5)
    first.stop()
    with pytest.raises(JournalError, match="does not have the message"):
        Replicas(reading(first, second, timeout_s=1.0)).find(start)


def test_groups_can_be_chosen(pair: Room) -> None:
    journal = pair.journal("one", "tea", "news")
    pair.send("tea", numbered(0, 10))
    pair.send("news", numbered(10, 10), Service.FIFO)
    journal.wait_for(b"19")
    replicas = Replicas(reading(journal, groups=("news",)))
    assert messages(replicas, replicas.named("earliest"), replicas.named("latest")) == numbered(10, 10)
