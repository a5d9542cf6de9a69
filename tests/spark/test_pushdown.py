"""What a query needs of a journal is all that it asks for."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from recorded_groups import Room, RunningJournal, numbered, room

from antiphon.journal import lookup
from antiphon.spark.pushdown import Conditions, Span, conditions_of
from antiphon.spark.session import PUSHDOWN

TEA = 30_000
NEWS = 300
LATEST = 2 + TEA + NEWS
"""Two views, and the messages."""
OFFSET, GROUP, DELIVERED = ("offset",), ("group",), ("delivered",)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with room(tmp_path_factory.mktemp("room")) as found:
        yield found


@pytest.fixture(scope="module")
def journal(place: Room) -> RunningJournal:
    found = place.journal("shared", "tea", "news")
    place.send("tea", numbered(0, TEA))
    place.send("news", numbered(TEA, NEWS))
    found.wait_for(b"%d" % (TEA + NEWS - 1))
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the journal, which is in this process, is asked for from here on: range, groups, columns."""
    found: list[tuple[Any, ...]] = []
    read = lookup.read

    def noted(log: Any, start: int, end: int, groups: Any = None, columns: Any = None) -> Any:
        found.append((start, end, groups, columns))
        return read(log, start, end, groups, columns)

    monkeypatch.setattr(lookup, "read", noted)
    return found


def load(spark: Any, journal: RunningJournal, **options: Any) -> Any:
    return spark.read.format("antiphon").options(endpoint=journal.endpoint, partitions=1, **options).load()


# Conditions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([GreaterThan(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], Conditions(offsets=Span(6, 9))),
        ([GreaterThanOrEqual(OFFSET, 5), LessThan(OFFSET, 9)], Conditions(offsets=Span(5, 8))),
        ([In(OFFSET, (7, 3, 5)), LessThan(OFFSET, 6)], Conditions(offsets=Span(3, 5))),
        ([EqualTo(OFFSET, 5), EqualTo(GROUP, "tea")], Conditions(Span(5, 5), groups=frozenset(["tea"]))),
        ([In(GROUP, ("a", "b")), In(GROUP, ("b", "c"))], Conditions(groups=frozenset("b"))),
        ([GreaterThan(DELIVERED, NOON)], Conditions(times_us=Span(NOON_US + 1))),
        ([LessThan(DELIVERED, NOON)], Conditions(times_us=Span(None, NOON_US - 1))),
    ],
)  # fmt: skip
def test_conditions_are_understood(filters: list[Any], found: Conditions) -> None:
    assert conditions_of([IsNotNull(OFFSET), *filters]) == found


@pytest.mark.parametrize(
    "filter",
    [
        Not(EqualTo(OFFSET, 5)),
        Not(EqualTo(GROUP, "tea")),
        Not(GreaterThan(DELIVERED, NOON)),
        In(OFFSET, (5, None)),
        EqualTo(OFFSET, None),
        EqualTo(OFFSET, 5.5),
        EqualTo(GROUP, None),
        StringStartsWith(GROUP, "t"),
        GreaterThan(DELIVERED, NOON.replace(tzinfo=None)),
        EqualTo(("sender",), "#a#d1"),
        EqualTo(("sequence",), 5),
    ],
)
def test_conditions_that_cannot_be_looked_up_are_left_to_spark(filter: Any) -> None:
    assert conditions_of([filter]) == Conditions()


# Spark ----------------------------------------------------------------------------------------------------


def test_a_range_of_offsets_is_all_that_is_read(
    spark: Any, journal: RunningJournal, asked: list[tuple[Any, ...]]
) -> None:
    frame = load(spark, journal).where(f"offset >= {LATEST - 100} and offset < {LATEST - 50}")
    assert frame.count() == 50
    assert asked == [(LATEST - 100, LATEST - 50, None, None)]


def test_a_range_of_times_is_all_that_is_read(
    spark: Any, journal: RunningJournal, asked: list[tuple[Any, ...]]
) -> None:
    times = [row["delivered"] for row in journal.rows()]
    asked.clear()
    middle, last = times[TEA // 2], times[-1]
    first = times.index(middle)
    end = len(times) - times[::-1].index(middle)
    assert load(spark, journal).where(f"delivered = timestamp'{middle:%Y-%m-%d %H:%M:%S.%fZ}'").count() > 0
    after = last + timedelta(days=1)
    assert load(spark, journal).where(f"delivered > timestamp'{after:%Y-%m-%d %H:%M:%S.%fZ}'").count() == 0
    assert asked == [(first, end, None, None)], "nothing is delivered tomorrow, and nothing asked for"


def test_a_group_is_all_that_is_read(
    spark: Any, journal: RunningJournal, asked: list[tuple[Any, ...]]
) -> None:
    assert load(spark, journal).where("group = 'news' and kind = 'message'").count() == NEWS
    assert load(spark, journal, groups="tea").where("group = 'news'").count() == 0, "both must hold"
    assert asked == [(0, LATEST, ("news",), None), (0, LATEST, ("tea",), None)]


def test_chosen_columns_are_all_that_is_read(
    spark: Any, journal: RunningJournal, asked: list[tuple[Any, ...]]
) -> None:
    rows = load(spark, journal, start=LATEST - 1, columns="payload, group").collect()
    assert [row.asDict() for row in rows] == [{"payload": b"%d" % (TEA + NEWS - 1), "group": "news"}]
    frame = spark.read.format("antiphon").schema("lts long, offset long").options(endpoint=journal.endpoint)
    assert frame.options(start=LATEST - 1).load().first().offset == LATEST - 1
    sent = [columns for _, _, _, columns in asked]
    assert sent == [("payload", "group", "offset"), ("lts", "offset")], "offsets say where to go on"


def test_a_session_that_pushes_no_filters_reads_the_same(
    spark: Any, journal: RunningJournal, asked: list[tuple[Any, ...]]
) -> None:
    """It is the default of Spark, which refuses sources that insist on filters."""
    spark.conf.set(PUSHDOWN, "false")
    try:
        assert load(spark, journal).where(f"offset >= {LATEST - 100}").count() == 100
    finally:
        spark.conf.set(PUSHDOWN, "true")
    assert asked == [(0, LATEST, None, None)]
