"""Conformance: traces of any number of runs, simulated or real, held against the promises by Spark jobs.

The simulator's oracle (`antiphon.simulator.oracle`) judges one run in one process and is the specification;
here the same properties are jobs over tables. No job joins deliveries with deliveries: properties are windows
along one process, groups by view or message, and joins with tables of views.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from antiphon.spark.conformance.membership_properties import MEMBERSHIP
from antiphon.spark.conformance.message_properties import MESSAGES
from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Outcome, Property, Violation
from antiphon.spark.traces import ingest_traces, is_ingested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PROPERTIES", "Model", "Outcome", "Property", "Violation", "check", "check_tables"]


def _place(prop: Property) -> tuple[int, str]:
    """Properties of the thesis by number, then our own."""
    _, _, number = prop.number.partition(".")
    return (int(number) if number.isdigit() else 1_000, prop.number)


PROPERTIES: tuple[Property, ...] = tuple(sorted((*MEMBERSHIP, *MESSAGES), key=_place))


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
    """The same for traces that were ingested to `tables`."""
    model = Model(spark, tables, f"{work}/model")
    rows = model.events.groupBy("event", "live").count().collect()
    counts = {(row.event, row.live): row["count"] for row in rows}
    outcomes = []
    for prop in properties:
        outcome = prop.check(model, counts)
        outcomes.append(outcome)
        heard(outcome)
    return outcomes
