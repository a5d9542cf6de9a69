"""Journals as a source of rows, for streams and for batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from antiphon.errors import AntiphonError, UsageError
from antiphon.spark.options import Reading
from antiphon.spark.places import Position, Replicas, position_from, replicas
from antiphon.spark.plainly import plainly
from antiphon.spark.pushdown import Pushing

PART_ROWS = 10_000
"""A part of a micro-batch with fewer rows than this is not worth a task of its own."""


@dataclass
class Part(InputPartition):
    """What one task reads: the rows between two places."""

    start: Position
    end: Position


class Reader(DataSourceReader):
    """`spark.read.format("antiphon")`: the rows from `start` to `end`, as they are when the job begins."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        # Not a method: see `Pushing`.
        self._pushing = Pushing()
        self.pushFilters = self._pushing  # type: ignore[method-assign]

    @plainly
    def partitions(self) -> list[InputPartition]:
        """Where each task reads."""
        journals = replicas(self._reading)
        start = journals.named(self._reading.start)
        end = journals.named(self._reading.end)
        if start.journal == end.journal and start.offset > end.offset:
            raise UsageError(f"antiphon: start {start.offset} is after end {end.offset}")
        conditions = self._pushing.conditions
        journals.check_groups(conditions.groups)
        return list(_parts(self._reading, *journals.narrowed(start, end, conditions)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In an executor: the rows of one part."""
        groups = self._pushing.conditions.groups_among(self._reading.groups)
        return _read(replace(self._reading, groups=groups), partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("antiphon")`: micro-batches that begin where the last one ended."""

    def __init__(self, reading: Reading, fault: AntiphonError | None = None) -> None:
        """With a `fault`, every question is answered with it."""
        self._reading = reading
        self._fault = fault
        self._target: Position | None = None
        """Where a run that reads what is there, and then ends, will end."""
        self._end: Position | None = None
        """Where the newest micro-batch ends."""
        self._has_groups = False
        """Whether the journal is known to record the groups that are wanted."""

    def _replicas(self) -> Replicas:
        """The journals, of which one records what is wanted."""
        if self._fault is not None:
            raise self._fault
        journals = replicas(self._reading)
        if not self._has_groups:
            journals.check_groups()
            self._has_groups = True
        return journals

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        if self._reading.end != "latest":
            raise UsageError("antiphon: the option end is for spark.read; a stream goes on")
        return self._replicas().named(self._reading.start).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a micro-batch may have."""
        max_rows = self._reading.max_rows
        return ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream: rows that come later are not read."""
        self._target = self._replicas().named("latest")

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the micro-batch that begins at `start` ends; exactly `start` if there is nothing new."""
        begin = position_from(start)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._end = self._replicas().advance(begin, max_rows, self._target)
        return start if self._end == begin else self._end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far the journal is, and how far behind it the newest micro-batch ends, for the query's
        progress; None if the journal does not say. Spark asks after each `latestOffset`."""
        return None if self._end is None else replicas(self._reading).lag(self._end)

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Where each task of a micro-batch reads; also of one that was begun before a restart."""
        return list(_parts(self._reading, position_from(start), position_from(end)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In an executor: the rows of one part."""
        return _read(self._reading, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what a journal keeps is for its retention to say."""

    def stop(self) -> None:
        """Nothing to do: connections end with their process."""


def _read(reading: Reading, partition: InputPartition) -> Iterator[Any]:
    if not isinstance(partition, Part):  # what Spark makes of no parts at all
        return iter(())
    return replicas(reading).read(partition.start, partition.end)


def _parts(reading: Reading, start: Position, end: Position) -> Iterator[Part]:
    """The range cut into parts of about the same size, each between places that any journal knows."""
    places = replicas(reading).cut(start, end, reading.partitions, PART_ROWS)
    for begin, stop in pairwise(places):
        yield Part(begin, stop)
