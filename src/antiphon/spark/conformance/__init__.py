"""Conformance: traces of any number of runs, simulated or real, checked against the promises by Spark jobs.

The simulator's oracle (`antiphon.simulator.oracle`) judges one run in one process and is the specification;
here the same properties are jobs over tables. No job joins deliveries with deliveries: properties are windows
along one process, groups by view or message, and joins with tables of views.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from antiphon.spark.conformance.edges import PROPERTIES as EDGES
from antiphon.spark.conformance.membership_properties import MEMBERSHIP
from antiphon.spark.conformance.message_properties import MESSAGES
from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.source import Source, held_source, tables_source
from antiphon.spark.conformance.verdict import Outcome, Property, Violation, judge
from antiphon.spark.small import INTERPRETED, ONE_PART, is_held, settings
from antiphon.spark.traces import ingest_traces, is_ingested
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


def check(
    spark: "SparkSession",
    folder: str,
    work: str,
    properties: Iterable[Property] = PROPERTIES,
    heard: Callable[[Outcome], None] = lambda outcome: None,
    keep_tables: bool = False,
) -> list[Outcome]:
    """Hold all runs in a folder of traces, or of tables made of them, against `properties`.

    `heard` gets each outcome as it is known. Tables are written below `work`, which every worker must be able
    to read and write; not those of few traces, which are held in memory, unless they are to be kept.
    """
    if is_held(folder) and not keep_tables:
        with settings(spark, {**ONE_PART, **INTERPRETED}):
            return _check(spark, held_source(spark, folder), work, properties, heard)
    if is_ingested(spark, folder):
        return check_tables(spark, folder, work, properties, heard)
    ingest_traces(spark, folder, f"{work}/tables")
    return check_tables(spark, f"{work}/tables", work, properties, heard)


def check_tables(
    spark: "SparkSession",
    tables: str,
    work: str,
    properties: Iterable[Property] = PROPERTIES,
    heard: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """The outcomes for traces that were ingested to `tables`."""
    return _check(spark, tables_source(spark, tables), work, properties, heard)


def _check(
    spark: "SparkSession",
    source: Source,
    work: str,
    properties: Iterable[Property],
    heard: Callable[[Outcome], None],
) -> list[Outcome]:
    wanted = list(properties)
    is_small = source.size <= WHOLE_EVENTS
    chosen = {**(ONE_PART if is_small else {}), **(INTERPRETED if source.size <= COMPILED_EVENTS else {})}
    model = Model(spark, source, f"{work}/model", is_whole=is_small)
    outcomes: dict[str, Outcome] = {}
    with settings(spark, chosen):
        for together in _families(wanted) if is_small else ([prop] for prop in wanted):
            for outcome in judge(model, together):
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
