"""What a check begins with: the events, the runs, and how many events of each kind there are."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.small import held
from antiphon.spark.traces import hold_traces, read_runs, read_traces
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FREQUENT = (Event.SEND, Event.DELIVER, Event.SSEND, Event.SDELIVER, Event.HOLD)
"""Kinds of which there are events for each message, or each bundle."""
Counts = Mapping[tuple[str, bool, bool], int]
"""How many events there are, by their kind, by whether their run was live, and by whether they happened at
edges."""


@dataclass(frozen=True)
class Source:
    """Traces to be checked."""

    events: "DataFrame"
    runs: "DataFrame"
    counts: Counts
    is_held: bool
    """Whether all of it is in memory, so that what follows from it may be, too."""

    def of(self, *events: Event) -> "DataFrame":
        """All events of some kinds. In memory every look at a table is one at all of its rows and columns, so
        there those of each frequent kind are a table of their own, and all others one together."""
        if not self.is_held:
            return self.events.where(_is_one_of(events))
        frequent = [event for event in events if event in _FREQUENT]
        tables = [self._kinds[event] for event in frequent if self.has(event)]
        rare = [event for event in events if event not in _FREQUENT]
        if rare or not tables:
            tables.append(self._rest.where(_is_one_of(rare)))
        return reduce(lambda one, other: one.unionByName(other), tables)

    @cached_property
    def _kinds(self) -> "Mapping[Event, DataFrame]":
        return {event: held(self.events.where(_is_one_of([event]))) for event in _FREQUENT if self.has(event)}

    @cached_property
    def _rest(self) -> "DataFrame":
        return held(self.events.where(~_is_one_of(_FREQUENT)))

    @property
    def size(self) -> int:
        """How many events there are."""
        return sum(self.counts.values())

    def has(self, *events: Event) -> bool:
        """Whether there are events of any of these kinds. Jobs about others need not be made."""
        kinds = {event.value for event in events}
        return any(kind in kinds for kind, _, _ in self.counts)

    @property
    def has_live(self) -> bool:
        """Whether there are live runs."""
        return any(live for _, live, _ in self.counts)

    @property
    def has_simulated(self) -> bool:
        """Whether there are runs of the simulator."""
        return any(not live for _, live, _ in self.counts)


def _is_one_of(events: Collection[Event]) -> "Column":
    return F.col("event").isin(*(event.value for event in events))


def tables_source(spark: "SparkSession", tables: str) -> Source:
    """Traces that were ingested to `tables`."""
    events = read_traces(spark, tables)
    return Source(events, read_runs(spark, tables), _counts(events), is_held=False)


def held_source(spark: "SparkSession", folder: str) -> Source:
    """The few traces in a folder, held in memory."""
    events, runs = hold_traces(spark, folder)
    return Source(events, runs, _counts(events), is_held=True)


def _counts(events: "DataFrame") -> Counts:
    rows = events.groupBy("event", "live", "at_edge").count().collect()
    return {(row.event, row.live, row.at_edge): row["count"] for row in rows}
