"""The job: from a folder of traces to the numbers of a report."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.errors import UsageError
from antiphon.spark.report import latency, links, one_way, traffic, views
from antiphon.spark.report.figures import Report, Run, Story
from antiphon.spark.report.journeys import journeys
from antiphon.spark.small import INTERPRETED, ONE_PART, held, is_held, settings
from antiphon.spark.traces import hold_traces, read_runs, read_traces, refused
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_MAX = 20
"""Rows of a table on the page: what a person reads."""
PAIRS_MAX = 900
STORIES_MAX = 3
SPANS_MAX = 4_000
"""The most spans of one run: a page stays small enough for a phone."""
STEPS = 9
"""How often `told` is called."""
_COLUMNS = (
    "run", "live", "position", "time_us", "event", "daemon", "process", "groups", "message", "count",
    "service", "members", "transitional", "daemon_view", "state", "reason", "peer", "link",
    "bundle", "clock",
)  # fmt: skip


def report_of(
    spark: "SparkSession",
    folder: str | Path,
    runs: Sequence[str] = (),
    told: Callable[[str], None] = lambda what: None,
) -> Report:
    """What the traces in `folder` tell, of all runs or of some; `told` hears what is being worked on."""
    told("reading the traces")
    if not is_held(folder):
        events, headers = read_traces(spark, folder), read_runs(spark, folder)
        return _report(folder, events, headers, runs, told, _stored)
    with settings(spark, {**ONE_PART, **INTERPRETED}):
        events, headers = hold_traces(spark, folder)
        return _report(folder, events, headers, runs, told, held)


def _stored(frame: "DataFrame") -> "DataFrame":
    """`frame`, worked out once: the disk holds what memory does not."""
    from pyspark import StorageLevel

    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _report(
    folder: str | Path,
    events: "DataFrame",
    headers: "DataFrame",
    runs: Sequence[str],
    told: Callable[[str], None],
    kept: "Callable[[DataFrame], DataFrame]",
) -> Report:
    """What `events` tell; `kept` has a table worked out once that is asked for several times."""
    from pyspark.sql import functions as F

    events = events.select(*_COLUMNS)
    if runs:
        events = events.where(F.col("run").isin(*runs))
    events = kept(_taken_back(events))
    all_runs, counts = traffic.runs_of(events)
    unknown = set(runs) - {run.name for run in all_runs}
    if unknown:
        raise UsageError(f"no run {', '.join(sorted(unknown))} in {folder}")
    if not all_runs:
        raise UsageError(f"no events in the traces of {folder}")
    told("following messages")
    ways = kept(journeys(events))
    places, pairs_of = _places(headers, events)
    spreads = latency.spreads_of(ways, places)
    all_runs = tuple(_with_early(run, spreads.early) for run in all_runs)
    starts_us = {run.name: run.start_us for run in all_runs}
    told("parts of the way")
    parts = latency.parts_of_the_way(ways)
    told("one-way latency")
    one_ways = one_way.one_ways_of(events, places)
    told("traffic")
    groups = traffic.groups_of(events)
    talkers = traffic.talkers_of(ways, events, ROWS_MAX)
    told("views")
    spans = kept(views.spans_of(events))
    installations = kept(views.installations_of(events, spans))
    changes, changes_count = views.largest_changes(installations, starts_us, ROWS_MAX)
    told("pauses")
    pauses = views.pauses_of(spans)
    by_reason = views.pauses_by_reason(pauses)
    longest = views.longest_pauses(pauses, starts_us, ROWS_MAX)
    told("links")
    worst, links_count = links.worst_links(links.links_of(events), ROWS_MAX)
    told("what is drawn")
    stories = tuple(_stories(events, spans, installations, all_runs))
    for table in (events, ways, spans, installations):
        table.unpersist()
    return Report(
        folder=str(folder),
        runs=all_runs,
        groups_count=len([group for group in groups if group.name != latency.PRIVATE]),
        events=counts,
        services=spreads.services,
        groups=spreads.groups[:ROWS_MAX],
        pairs=spreads.pairs[:PAIRS_MAX],
        pairs_of=pairs_of,
        one_ways=structs.replace(one_ways, pairs=one_ways.pairs[:PAIRS_MAX]),
        ways=parts,
        talkers=talkers,
        busiest_groups=groups[:ROWS_MAX],
        pauses=longest,
        pauses_count=sum(spread.deliveries for spread in by_reason),
        pauses_by_reason=by_reason,
        installations=changes,
        installations_count=changes_count,
        links=worst,
        links_count=links_count,
        stories=stories,
    )


def _taken_back(events: "DataFrame") -> "DataFrame":
    """`events`, in which messages that daemons refused are not sent."""
    from pyspark.sql import functions as F

    unsent = refused(events)
    if unsent is None:
        return events
    told = events.join(unsent.withColumn("is_refused", F.lit(True)), ["run", "message"], "left")
    is_unsent = (F.col("event") == Event.SEND) & F.col("is_refused").isNotNull()
    event = F.when(is_unsent, Event.UNSENT.value).otherwise(F.col("event"))
    return told.withColumn("event", event).select(*_COLUMNS)


def _with_early(run: Run, early: dict[str, tuple[int, float]]) -> Run:
    times, most_us = early.get(run.name, (0, 0.0))
    return structs.replace(run, early=times, earliest_us=most_us)


def _places(runs: "DataFrame", events: "DataFrame") -> "tuple[DataFrame, str]":
    """Where each daemon of each run is: its site if all headers tell, else the daemon itself."""
    from pyspark.sql import functions as F

    if "sites" in runs.columns and not runs.where(F.size("sites") < F.size("daemons")).count():
        both = runs.select("run", F.explode(F.arrays_zip("daemons", "sites")).alias("both"))
        return both.select(
            "run", F.col("both.daemons").alias("daemon"), F.col("both.sites").alias("place")
        ), "sites"
    daemons = events.select("run", "daemon").where("daemon != ''").distinct()
    return daemons.withColumn("place", F.col("daemon")), "daemons"


def _stories(
    events: "DataFrame", spans: "DataFrame", installations: "DataFrame", runs: Sequence[Run]
) -> Iterable[Story]:
    """The runs with most deliveries, each with what is drawn of it."""
    busiest = sorted(runs, key=lambda run: (-run.delivered, run.name))[:STORIES_MAX]
    chosen = sorted(busiest, key=lambda run: run.name)
    rates = traffic.rates_of(events, chosen)
    drawn = views.spans_in(spans, chosen, SPANS_MAX)
    moments = views.moments_in(installations, chosen)
    for run in chosen:
        yield Story(run.name, traffic.step_of(run), rates[run.name], drawn[run.name], moments[run.name])
