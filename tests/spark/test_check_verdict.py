"""What is said of runs that break a property: all are counted, some are told in words."""

from typing import Any

import pytest
from pyspark.sql import functions as F

from antiphon.spark.conformance import PROPERTIES, Outcome, Property
from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.source import Source
from antiphon.spark.conformance.verdict import RUNS_MAX, VIOLATIONS_MAX, findings, judge
from antiphon.trace import Event
from antiphon.trace.promises import Promise

RUNS = RUNS_MAX + 50
WHOLE = pytest.mark.parametrize("is_whole", [True, False])


def broken(spark: Any, title: str, runs: int, each: int) -> Property:
    """A property that every run breaks `each` times, at positions from the last to the first."""

    def look(model: Model) -> Any:
        number = F.col("id")
        rows = spark.range(runs * each).select(
            F.format_string("run-%04d", (number % runs)).alias("run"), (1_000_000 - number).alias("position")
        )
        return findings(rows, F.lit("a fault"), processes=[F.lit("#a#d0")], positions=["position"])

    return Property(Promise("2.5", title, "a promise"), (Event.SEND,), look)


def nothing(spark: Any, is_whole: bool) -> Model:
    """A model of no events at all."""
    empty = spark.range(0)
    return Model(spark, Source(empty, empty, {}, is_held=False), "none", is_whole)


@WHOLE
def test_the_verdict_on_each_run_is_exact_however_many_are_broken(spark: Any, is_whole: bool) -> None:
    many, few, none = judge(
        nothing(spark, is_whole),
        [broken(spark, "many", RUNS, 3), broken(spark, "few", 2, 9), broken(spark, "none", 1, 0)],
    )
    assert many.by_run == {f"run-{number:04}": 3 for number in range(RUNS)}
    assert (many.violations, many.runs) == (3 * RUNS, RUNS)
    assert len({violation.run for violation in many.told}) == RUNS_MAX
    assert few.by_run == {"run-0000": 9, "run-0001": 9}
    assert (none.violations, none.runs, none.by_run, none.told) == (0, 0, {}, ())


@WHOLE
def test_the_first_of_a_run_are_told_in_order(spark: Any, is_whole: bool) -> None:
    (outcome,) = judge(nothing(spark, is_whole), [broken(spark, "few", 2, 9)])
    assert [one.positions[0] for one in outcome.told if one.run == "run-0000"] == sorted(
        1_000_000 - number for number in range(18) if number % 2 == 0
    )[:VIOLATIONS_MAX]
    assert {one.processes for one in outcome.told} == {("#a#d0",)}


def test_events_that_nobody_judges_are_not_called_checked() -> None:
    """In a live run nobody is known to stay, so three promises to clients say nothing of it."""
    counts = {(event.value, live, False): 100 if live else 1 for event in Event for live in (True, False)}

    def checked(name: str) -> Outcome:
        return next(prop for prop in PROPERTIES if prop.promise.name == name).outcome([], counts)

    assert checked("2.10 reliable messages").checked == 1
    assert checked("2.15 self delivery").checked == 1
    assert checked("2.17 termination").checked == 3
    assert checked("2.10 reliable messages (daemons)").checked == 101
