"""*calls*: what is answered was executed, once; nobody executes what it has worked at, or what was answered.

The same rule as the simulator's oracle has, which is the specification. What happened to a call is brought
together by its identity; who knew an answer before a view is a join with the few who got that answer.

Only simulated runs tell of calls. In these, positions are places in one order, so they are compared between
processes here; what a live run says of calls is not judged.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, either, finding, findings, none_found, text
from antiphon.trace import REFUSED, Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EVENTS = (Event.CALLED, Event.EXECUTED, Event.ANSWERED, Event.FINISHED)


def _look(model: Model) -> "DataFrame":
    told = model.of(*_EVENTS).where(~F.col("live"))
    if not model.source.has(*_EVENTS) or told.limit(1).count() == 0:
        return none_found(model)
    marks = _marks(model, told)
    parts = (
        _executions(marks), _ends(marks), _without_quorum(model, marks), _knew_itself(marks),
        _was_known(model, marks),
    )  # fmt: skip
    return reduce(lambda one, other: one.unionByName(other), parts)


def _marks(model: Model, told: "DataFrame") -> "DataFrame":
    """What happened to calls: run, process, position, event, group, view, call, person, checksum, service,
    peer, state; called (when and by whom the call was made, null if it was not), works (its executions)."""
    of_call = Window.partitionBy("run", "call")
    mark = F.struct("position", "person")
    work = F.struct("position", "checksum", "person")
    return model.landed(
        "calls",
        told.select(
            "run", "process", "position", "event", F.get("groups", F.lit(0)).alias("group"),
            F.get("views", F.lit(0)).alias("view"), "call", "person", "checksum", "service", "peer", "state",
        ).withColumns(
            {
                "called": F.max(F.when(_is(Event.CALLED), mark)).over(of_call),
                "works": F.collect_list(F.when(_is(Event.EXECUTED), work)).over(of_call),
            }
        ),
    )  # fmt: skip


def _is(event: Event) -> "Column":
    return F.col("event") == event


def _first(event: Event, *key: str) -> "Column":
    """The position of the first event of this kind with the same values of `key`."""
    return F.min(F.when(_is(event), F.col("position"))).over(Window.partitionBy("run", "call", *key))


def _at(what: "Column", *positions: str) -> "Column":
    return finding(
        what, group="group", view="view", processes=["process"], positions=positions or ["position"]
    )


def _executions(marks: "DataFrame") -> "DataFrame":
    works = marks.where(_is(Event.EXECUTED)).withColumn("first", _first(Event.EXECUTED, "person"))
    return either(
        works,
        (
            F.coalesce(F.col("called.position") > F.col("position"), F.lit(True)),
            _at(text("%s executed the call %s, which was never made", "person", "call")),
        ),
        (
            F.col("first") < F.col("position"),
            _at(text("%s executed the call %s twice", "person", "call"), "first", "position"),
        ),
    )


def _ends(marks: "DataFrame") -> "DataFrame":
    """How calls ended: with answers, or in another way, which `state` tells."""
    of_call = Window.partitionBy("run", "call")
    ends = marks.where(_is(Event.FINISHED)).withColumns(
        {
            "end": F.min(F.struct("position", "state")).over(of_call),
            "first": F.min(F.when(F.col("state") == "", F.col("position"))).over(
                Window.partitionBy("run", "call", "peer")
            ),
        }
    )
    was_executed = F.exists(
        "works",
        lambda work: (work["checksum"] == F.col("checksum")) & (work["position"] < F.col("position")),
    )
    is_answer = F.col("state") == ""
    is_second = (F.col("end.position") < F.col("position")) & ~(is_answer & (F.col("end.state") == ""))
    found = either(
        ends,
        (
            F.coalesce(F.col("called.person") != F.col("person"), F.lit(True)),
            _at(text("%s has an end of %s, which it has not called", "person", "call")),
        ),
        (is_second, _at(text("the call %s ended although it was over", "call"), "end.position", "position")),
        (
            is_answer & ~was_executed,
            _at(text("the answer to %s is from a session that did not execute it", "call")),
        ),
        (
            is_answer & (F.col("first") < F.col("position")),
            _at(text("the call %s was answered twice", "call"), "first", "position"),
        ),
    )
    refused = ends.where(F.col("state") == REFUSED).withColumn("work", F.explode("works"))
    return found.unionByName(
        findings(
            refused,
            text("%s executed the call %s, which was refused", "work.person", "call"),
            group="group", view="view", processes=["process"], positions=["work.position", "position"],
        )
    )  # fmt: skip


def _own(marks: "DataFrame") -> "DataFrame":
    """Executions by members that were to answer."""
    is_own = (F.col("service") == "one") & (F.col("state") == "own") & F.col("view").isNotNull()
    return marks.where(_is(Event.EXECUTED) & is_own)


def _without_quorum(model: Model, marks: "DataFrame") -> "DataFrame":
    stopped = model.terms.where("not live and not has_quorum").select("run", "group", "view").distinct()
    return findings(
        _own(marks).join(stopped, ["run", "group", "view"]),
        text("it executed the call %s although its group has no quorum", "call"),
        group="group", view="view", processes=["process"], positions=["position"],
    )  # fmt: skip


def _knew_itself(marks: "DataFrame") -> "DataFrame":
    known = marks.withColumn("known", _first(Event.ANSWERED, "process"))
    return findings(
        _own(known).where(F.col("known") < F.col("position")),
        text("it executed the call %s after it had got the answer", "call"),
        group="group", view="view", processes=["process"], positions=["position"],
    )  # fmt: skip


def _was_known(model: Model, marks: "DataFrame") -> "DataFrame":
    """Executions by members of a view in which another one knew the answer when it came into the view. One
    that has left knows the answer, and tells it to nobody: it comes back as a new member."""
    answers = (
        marks.where(_is(Event.ANSWERED))
        .groupBy("run", "call", F.col("process").alias("knower"))
        .agg(F.min(F.struct("position", "group")).alias("known"))
    )
    views = (
        model.views.where("not live")
        .groupBy("run", "group", "view", F.col("process").alias("knower"))
        .agg(F.min("position").alias("installed"))
    )
    ends = (
        model.wishes.where(_is(Event.LEFT))
        .groupBy("run", "group", F.col("process").alias("knower"))
        .agg(F.collect_list("position").alias("gone"))
    )
    has_left = F.exists(
        F.coalesce("gone", F.array()),
        lambda gone: (F.col("known.position") < gone) & (gone < F.col("installed")),
    )
    found = (
        _own(marks)
        .join(answers, ["run", "call"])
        .where(F.col("known.group") == F.col("group"))
        .join(views, ["run", "group", "view", "knower"])
        .where(F.col("known.position") <= F.col("installed"))
        .join(ends, ["run", "group", "knower"], "left")
        .where(~has_left)
    )
    return findings(
        found,
        text(
            "%s executed the call %s, of which %s had the answer before their view",
            "process", "call", "knower",
        ),
        group="group", view="view", processes=["process", "knower"],
        positions=["known.position", "position"],
    )  # fmt: skip


PROPERTIES = (Property(promises.CALLS, _EVENTS, _look),)
