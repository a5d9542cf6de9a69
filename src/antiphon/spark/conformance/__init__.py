"""Conformance: traces of any number of runs, simulated or real, checked against the promises by Spark jobs.

The simulator's oracle (`antiphon.simulator.oracle`) judges one run in one process and is the specification;
here the same properties are jobs over tables. No job joins deliveries with deliveries: properties are windows
along one process, groups by view or message, and joins with tables of views.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING

from antiphon.spark.conformance.edges import PROPERTIES as EDGES
from antiphon.spark.conformance.membership_properties import MEMBERSHIP
from antiphon.spark.conformance.message_properties import MESSAGES
from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Outcome, Property, Violation, judge
from antiphon.spark.traces import ingest_traces, is_ingested, read_traces
from antiphon.trace import promises
from antiphon.trace.promises import in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PROPERTIES", "Model", "Outcome", "Property", "Violation", "check", "check_tables"]

PROPERTIES: tuple[Property, ...] = in_order((*MEMBERSHIP, *MESSAGES, *EDGES))
LEFT_OUT = frozenset(
    (
        promises.TIME, promises.NEEDLESS, promises.CHOICES, promises.REPAIRS, promises.SEALED,
        promises.NONSENSE,
    )
)  # fmt: skip
"""Promises that the oracle alone checks: only a simulated run knows what the time was, that what a daemon
does takes none (so that waiting for more than a member chose can be told from being busy), which edges asked
one another for what, and what strangers and broken daemons send."""
WHOLE_EVENTS = 1_000_000
"""Up to so many events every table is one part, and properties are checked together: what each of many small
tasks costs is then more than what it does."""
COMPILED_EVENTS = 200_000
"""Up to so many, Java code made for a job takes longer to compile than the job takes without it."""
_WHOLE = {
    # A table that is sent to all tasks would be a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Where rows are exchanged all the same, they stay together, and no plan is made anew after each stage.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def check(
    spark: "SparkSession",
    folder: str,
    work: str,
    properties: Iterable[Property] = PROPERTIES,
    heard: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Hold all runs in a folder of traces, or of tables made of them, against `properties`.

    `heard` gets each outcome as it is known. Tables are written below `work`, which every worker must be able
    to read and write.
    """
    tables = folder
    if not is_ingested(spark, folder):
        tables = f"{work}/tables"
        ingest_traces(spark, folder, tables)
    return check_tables(spark, tables, work, properties, heard)


def check_tables(
    spark: "SparkSession",
    tables: str,
    work: str,
    properties: Iterable[Property] = PROPERTIES,
    heard: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """The outcomes for traces that were ingested to `tables`."""
    rows = read_traces(spark, tables).groupBy("event", "live", "at_edge").count().collect()
    counts = {(row.event, row.live, row.at_edge): row["count"] for row in rows}
    wanted = list(properties)
    events = sum(counts.values())
    is_small = events <= WHOLE_EVENTS
    settings = {**(_WHOLE if is_small else {}), **(_INTERPRETED if events <= COMPILED_EVENTS else {})}
    model = Model(spark, tables, f"{work}/model", is_whole=is_small)
    outcomes: dict[str, Outcome] = {}
    with _set(spark, settings):
        for together in _families(wanted) if is_small else ([prop] for prop in wanted):
            for outcome in judge(model, together, counts):
                outcomes[outcome.name] = outcome
                heard(outcome)
    return [outcomes[prop.promise.name] for prop in wanted]


def _families(properties: Sequence[Property]) -> Iterator[list[Property]]:
    """Those that ask for the same tables, to be checked by one job."""
    for kind in product((True, False), repeat=2):
        yield [
            prop
            for prop in properties
            if not prop.is_of_edges and (prop in MEMBERSHIP, prop.is_of_daemons) == kind
        ]
    yield [prop for prop in properties if prop.is_of_edges]


@contextmanager
def _set(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """These settings of the session, for a while."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, found in before.items():
            spark.conf.set(name, str(found))
