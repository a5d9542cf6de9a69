"""2.17: everything that was asked for happened by the end of the run.

The end of a live run is just where its traces end, so this speaks of simulated runs: no process of a live one
is known to have come to the end. There are sets of daemons that can reach one another (`restored` names them;
without it all daemons are one). In each of these, joins and leaves have taken effect, all members of a group
are in one view that has exactly them, no view is about to end, and what was sent in that view is delivered by
all of its members. What a daemon took from a client and still lives to send was sent.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import by_group
from antiphon.spark.conformance.traffic import end_of, is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    last = model.landed("last_terms", model.terms.where(end_of() == "end"))
    parts = (
        _unfulfilled(model, last),
        _about_to_end(last),
        _scattered(model, last),
        _never_sent(model),
        _unreached(model, last),
    )
    return reduce(lambda one, other: one.unionByName(other), parts)


def _unfulfilled(model: Model, last: "DataFrame") -> "DataFrame":
    """Wishes that did not come true."""
    key = ["run", "process", "group"]
    living = model.processes.where(~F.col("is_over")).select("run", "process")
    wishes = (
        model.wishes.where(F.col("event") != Event.LEFT)
        .groupBy(*key)
        .agg(F.max_by("event", "position").alias("wish"), F.max("position").alias("position"))
        .join(living, ["run", "process"])
        .join(last.select(*key, F.lit(True).alias("is_in")).distinct(), key, "left")
    )
    is_in = F.col("is_in").isNotNull()
    fault = F.when(
        (F.col("wish") == Event.JOIN) & ~is_in, text("asked to join %s and never became a member", "group")
    ).when((F.col("wish") == Event.LEAVE) & is_in, text("asked to leave %s and never left", "group"))
    return findings(
        wishes.withColumn("fault", fault).where(F.col("fault").isNotNull()),
        F.col("fault"),
        group="group",
        processes=["process"],
        positions=["position"],
    )


def _about_to_end(last: "DataFrame") -> "DataFrame":
    return findings(
        last.where("signals > 0 and knows_views"),
        text("the signal in %s was not followed by a view", "group"),
        group="group",
        view="view",
        processes=["process"],
        positions=["signal_position"],
    )


def _scattered(model: Model, last: "DataFrame") -> "DataFrame":
    """Members of one group who could be in one view and are not."""
    peace = model.of(Event.RESTORED).groupBy("run").agg(F.max_by("parts", "position").alias("parts"))
    part = peace.select("run", F.posexplode("parts").alias("part", "daemons")).select(
        "run", "part", F.explode("daemons").alias("daemon")
    )
    placed = last.join(part, ["run", "daemon"], "left").withColumn("part", F.coalesce("part", F.lit(-1)))
    together = placed.groupBy("run", "group", "part").agg(
        F.collect_set("process").alias("present"),
        F.min_by(
            F.struct("view", "process", "start_position"), F.when(F.col("knows_views"), F.col("process"))
        ).alias("first"),
    )
    judged = placed.where("knows_views").join(together, ["run", "group", "part"])
    strange = F.array_union(F.array_except("members", "present"), F.array_except("present", "members"))
    judged = judged.withColumn("strange", strange)
    wrong = findings(
        judged.where(F.size("strange") > 0),
        text("at the end its view of %s is not the set of those who are in it", "group"),
        group="group",
        view="view",
        processes=F.concat(F.array("process"), F.sort_array("strange")),
        positions=["start_position"],
    )
    apart = findings(
        judged.where((F.size("strange") == 0) & (F.col("view") != F.col("first.view"))),
        text("at the end they are in different views of %s", "group"),
        group="group",
        view="view",
        processes=[F.col("first.process"), F.col("process")],
        positions=[F.col("first.start_position"), F.col("start_position")],
    )
    return wrong.unionByName(apart)


def _never_sent(model: Model) -> "DataFrame":
    """Messages that a daemon took from its client, lived on, and never sent."""
    alive = model.lives.where(~F.col("is_over")).select(
        "run", F.col("daemon").alias("sender_daemon"), "incarnation"
    )
    found = (
        traffic(model)
        .messages.where(is_reliable() & F.col("bundle").isNull() & F.col("sender").isNotNull())
        .withColumn("incarnation", F.col("message")[1])
        .join(alive, ["run", "sender_daemon", "incarnation"], "left_semi")
    )
    return findings(
        found,
        F.lit("the daemon took it from its client and never sent it"),
        processes=["sender"],
        messages=["message"],
        positions=["send_position"],
    )


def _unreached(model: Model, last: "DataFrame") -> "DataFrame":
    """Messages of the last view that did not reach all members."""
    views = last.where("knows_views").select(
        "run", F.col("process").alias("sender"), "group", "view", "members"
    )
    sent = by_group(traffic(model).messages.where(is_reliable() & F.col("sender").isNotNull())).where(
        F.col("view").isNotNull()
    )
    kept = F.when(F.col("self_discard"), F.array("sender")).otherwise(F.array().cast("array<string>"))
    missing = F.array_except(F.array_except("members", "receivers"), kept)
    found = (
        sent.join(views, ["run", "sender", "group", "view"])
        .withColumn("missing", missing)
        .where(F.size("missing") > 0)
        .withColumn("process", F.explode("missing"))
    )
    return findings(
        found,
        text("sent in the last view of %s, and %s did not deliver it", "group", "process"),
        group="group",
        view="view",
        processes=["sender", "process"],
        messages=["message"],
        positions=["send_position"],
    )


# Daemons --------------------------------------------------------------------------------------------------


def _look_at_daemons(model: Model) -> "DataFrame":
    terms = model.daemon_terms
    is_last = ~F.col("is_cut_short") & F.col("end_event").isNull()
    about_to_end = findings(
        terms.where(is_last & (F.size("signals") > 0)),
        text("the signal in daemon view %s was not followed by a view", "view"),
        view="view",
        processes=["daemon"],
        positions=[F.get("signals", F.lit(0))["position"]],
    )
    missing = findings(
        traffic(model).bundle_lacks.where(F.col("source_end") == "end"),
        text("%s sent %s in its last view, and %s did not deliver it", "source", bundle_name(), "daemon"),
        view="view",
        processes=["source", "daemon"],
        positions=["send_position"],
    )
    key = ["run", "daemon", "life"]
    lonely = model.lives.where(~F.col("is_over")).join(terms.select(*key), key, "left_anti")
    never = findings(
        lonely,
        F.lit("a daemon started and never installed a view"),
        processes=["daemon"],
        positions=["recover_position"],
    )
    return about_to_end.unionByName(missing).unionByName(never)


PROPERTIES = (
    Property(promises.TERMINATION, (Event.JOIN, Event.LEAVE, Event.SEND), _look),
    Property(promises.TERMINATION_OF_DAEMONS, (Event.SSEND,), _look_at_daemons),
)
