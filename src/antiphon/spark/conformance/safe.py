"""2.14: a safe message is delivered only once all who are to get it have it.

As in the simulator's oracle: at a delivery before the signal the daemon of every member of the view must hold
the message, and every member delivers it unless it disconnects in that view; after the signal, all do who
come along by the word of one who delivered it. *When* a daemon came to hold a message can be told in
simulated runs only, where positions are places in one order. In live runs is asked that it came to hold it at
all, and of those daemons and sessions only that have a trace.

Deliveries at processes that are not told of views are left out: only those who know the view know its
members. What came to a member as less than safe, because it chose so, is no delivery of a safe message.
Between daemons, the members of a view are those daemons in it that are at the bundle's destinations.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    return _too_early(model).unionByName(_not_by_all(model))


def _not_by_all(model: Model) -> "DataFrame":
    """The processes that did not deliver what others delivered as safe, and have no excuse."""
    tables = traffic(model)
    processes = model.processes.select("run", "process", "knows_views", "is_over")
    members = tables.group_views.select("run", "group", "view", "members")
    judged = (
        tables.lacks.where((F.col("service") == "safe") & ~F.col("is_elsewhere"))
        .withColumn("takers", F.filter("takers", lambda one: one["service"] == "safe"))
        .join(members, ["run", "group", "view"])
        .join(processes, ["run", "process"], "left")
    )
    went_away = F.col("is_over") & (~F.col("knows_views") | F.coalesce(F.col("end") == "cut", F.lit(True)))
    # A live process without a trace may have gone at any time.
    is_excused = F.coalesce(went_away, F.col("live"))
    judged = judged.where(~is_excused)
    in_peace = F.array_contains("members", F.col("process")) & F.exists("takers", _is_before)
    key = ["run", "group", "view"]
    ends = model.terms.where(F.col("end_event") == Event.VIEW).select(
        *key, F.col("process").alias("taker"), "end_transitional"
    )
    # By the word of those who delivered it, and went on, who comes along with them.
    after = judged.where(~in_peace).drop("end_transitional").withColumn("taker", F.explode(_after("process")))
    along = after.join(ends, [*key, "taker"]).where(F.array_contains("end_transitional", F.col("process")))
    both = (
        judged.where(in_peace).drop("end_transitional").unionByName(along.drop("end_transitional", "taker"))
    )
    found = model.parts(both).dropDuplicates([*key, "message", "process"])
    witness = F.col("takers")[0]["process"]
    return findings(
        found,
        text(
            "delivered in view %s of %s; %s was a member of it, did not disconnect in it and did not "
            "deliver it",
            "view", "group", "process",
        ),
        group="group",
        view="view",
        processes=[witness, F.col("process")],
        messages=["message"],
        positions=["first_position"],
    )  # fmt: skip


def _is_before(taker: "Column") -> "Column":
    return ~taker["is_after_signal"]


def _after(name: str) -> "Column":
    """The names of those who delivered it after the signal."""
    late = F.filter("takers", lambda one: one["is_after_signal"])
    return F.transform(late, lambda one: one[name])


def _too_early(model: Model) -> "DataFrame":
    """Deliveries before the signal when the daemon of some member did not have the message."""
    tables = traffic(model)
    key = ["run", "group", "view"]
    holders = tables.messages.select("run", "message", "bundle").join(
        tables.bundles.select("run", "bundle", "holders"), ["run", "bundle"], "left"
    )
    judged = (
        tables.view_messages.where(F.col("safe_position").isNotNull())
        .join(tables.group_views.select(*key, "daemons"), key)
        .join(holders, ["run", "message"])
        .join(_traced(model), "run")
    )
    lacking = _lacking(F.array_intersect("daemons", "traced"), F.col("safe_position"))
    found = judged.withColumn("lacking", lacking).where(F.size("lacking") > 0)
    return findings(
        found,
        text(
            "delivered while the daemon of a member of %s did not have it: %s",
            "group", F.array_join("lacking", ", "),
        ),
        group="group",
        view="view",
        processes=[F.col("takers")[0]["process"]],
        messages=["message"],
        positions=["safe_position"],
    )  # fmt: skip


def _traced(model: Model) -> "DataFrame":
    """The daemons of each run that have a trace: run, traced."""
    return model.lives.groupBy("run").agg(F.collect_set("daemon").alias("traced"))


def _lacking(expected: "Column", position: "Column") -> "Column":
    """The daemons among `expected` that did not hold a bundle by `position`, or in live runs at all."""
    in_time = F.filter(
        F.coalesce("holders", F.array()), lambda one: F.col("live") | (one["position"] < position)
    )
    return F.array_except(expected, F.transform(in_time, lambda one: one["daemon"]))


# Daemons --------------------------------------------------------------------------------------------------


def _look_at_daemons(model: Model) -> "DataFrame":
    return _bundles_too_early(model).unionByName(_bundles_not_by_all(model))


def _bundles_too_early(model: Model) -> "DataFrame":
    before = F.filter("takers", lambda one: ~one["is_after_signal"])
    first = F.array_min(F.transform(before, lambda one: one["position"]))
    judged = (
        traffic(model)
        .bundles.where(F.col("service") == "safe")
        .withColumn("before_position", first)
        .where(F.col("before_position").isNotNull())
        .join(_traced(model), "run")
    )
    lacking = _lacking(F.array_intersect("destinations", "traced"), F.col("before_position"))
    found = judged.withColumn("lacking", lacking).where(F.size("lacking") > 0)
    witness = F.filter("takers", lambda one: one["position"] == F.col("before_position"))[0]["daemon"]
    return findings(
        found,
        text("%s delivered %s while others did not have it", witness, bundle_name()),
        view=F.col("bundle")[0],
        processes=F.concat(F.array(witness), "lacking"),
        positions=["before_position"],
    )


def _bundles_not_by_all(model: Model) -> "DataFrame":
    lives = model.lives.groupBy("run", "daemon").agg(F.bool_or("is_over").alias("is_over"))
    judged = (
        traffic(model)
        .bundle_lacks.where((F.col("service") == "safe") & (F.size("takers") > 0))
        .join(lives, ["run", "daemon"], "left")
    )
    is_excused = F.coalesce(F.col("end") == "cut", F.col("is_over"), F.col("live"))
    judged = judged.where(~is_excused)
    in_peace = F.exists("takers", _is_before)
    ends = model.daemon_terms.where(F.col("end_event") == Event.SVIEW).select(
        "run", "view", F.col("daemon").alias("taker"), "end_transitional"
    )
    after = judged.where(~in_peace).drop("end_transitional").withColumn("taker", F.explode(_after("daemon")))
    along = after.join(ends, ["run", "view", "taker"]).where(
        F.array_contains("end_transitional", F.col("daemon"))
    )
    both = (
        judged.where(in_peace).drop("end_transitional").unionByName(along.drop("end_transitional", "taker"))
    )
    found = model.parts(both).dropDuplicates(["run", "bundle", "daemon"])
    witness = F.col("takers")[0]
    return findings(
        found,
        text(
            "%s delivered %s; %s did not, nor did it crash then", witness["daemon"], bundle_name(), "daemon"
        ),
        view="view",
        processes=[witness["daemon"], F.col("daemon")],
        positions=[witness["position"]],
    )


PROPERTIES = (
    Property(promises.SAFE, (Event.DELIVER, Event.HOLD), _look),
    Property(promises.SAFE_OF_DAEMONS, (Event.SDELIVER, Event.HOLD), _look_at_daemons),
)
