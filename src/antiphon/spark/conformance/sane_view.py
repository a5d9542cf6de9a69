"""2.9 and, for daemons, 2.19: no message is delivered in a view older than the one it was sent in, and none
of a sender's earlier life in a view of its later one.

For clients, part 1 speaks of ordered messages only (thesis 2.2.4). Part 2 is about processes that bear the
same name one after the other, and about one that leaves and joins again. Deliveries are first brought
together by message, group and view; so each message is compared with the views in which it was delivered, of
which there are few, and not against its deliveries.

For daemons a bundle is sent in the view that it names (2.18 adds the receivers), and it is delivered in one
that has the incarnation of the daemon that sent it: judged for each view, receiver and source, not for each
bundle.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model, private_name
from antiphon.spark.conformance.sequences import by_group
from antiphon.spark.conformance.traffic import is_causal, is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    delivered = traffic(model).view_messages.select(
        "run", "group", "message", F.col("view").alias("after"), F.col("first_position").alias("position"),
        F.col("takers")[0]["process"].alias("taker"), is_causal().alias("came_causal"),
    )  # fmt: skip
    pairs = _sends(model).join(delivered, ["run", "group", "message"])
    begun = model.daemon_terms.groupBy("run", F.col("view").alias("epoch")).agg(
        F.min("start_position").alias("began")
    )
    pairs = pairs.withColumns({"epoch": F.col("after")[0], "birth_epoch": F.col("birth.view")[0]})
    pairs = pairs.join(begun, ["run", "epoch"], "left").join(
        begun.withColumnsRenamed({"epoch": "birth_epoch", "began": "birth_began"}),
        ["run", "birth_epoch"],
        "left",
    )
    view, birth = F.col("after"), F.col("birth.view")
    # A view of a branch has left the common line at its own lts: what others add to that line later does not
    # come before it.
    is_aside = (view[0] == birth[0]) & (view[1] != 0) & (birth[1] == 0)
    late = (view >= birth) & _are_in_line("after", "birth.view") & (~is_aside | (view[2] >= birth[2]))
    # A daemon that is started anew, alone, may begin with views that are smaller than those of its former
    # life: then numbers do not tell which of the two lines is earlier, but positions may.
    late &= F.col("position") >= F.col("birth.position")
    late &= F.coalesce(F.col("began") >= F.col("birth_began"), F.lit(True))
    reborn = findings(
        pairs.where(F.col("birth").isNotNull() & late),
        text(
            "delivered in view %s of %s, although its sender asked to join, with view %s, only after it had "
            "sent it",
            "after",
            "group",
            "birth.view",
        ),
        group="group",
        view="after",
        processes=["sender", "taker"],
        messages=["message"],
        positions=["send_position", "birth.position", "position"],
    )
    return _too_early(model, pairs).unionByName(reborn)


def _sends(model: Model) -> "DataFrame":
    """Messages that may be delivered in a wrong view: run, group, message, before (the view in which it was
    sent), is_causal, sender, send_position, birth (with which its sender's name joined next, or null)."""
    sends = by_group(model.sends.where(is_reliable()), "before").select(
        "run", "message", F.col("process").alias("sender"), F.col("position").alias("send_position"),
        is_causal().alias("is_causal"), private_name(F.col("process")).alias("name"), "group", "before",
    )  # fmt: skip
    later = F.filter("births", lambda birth: birth["position"] > F.col("send_position"))
    known = sends.join(_births(model), ["run", "name", "group"], "left")
    known = known.withColumn("birth", F.get(later, F.lit(0))).drop("births", "name")
    return known.where(F.col("birth").isNotNull() | (F.col("is_causal") & F.col("before").isNotNull()))


def _births(model: Model) -> "DataFrame":
    """run, name, group, births (position of the join and view, in order): the n-th time that a process
    becomes a member answers its n-th join."""
    key = ["run", "process", "group"]
    joins = model.wishes.where(F.col("event") == Event.JOIN).select(
        *key, "position", F.row_number().over(Window.partitionBy(*key).orderBy("position")).alias("place")
    )
    begun = model.terms.where(F.col("previous").isNull()).select(
        *key, "view", F.row_number().over(Window.partitionBy(*key).orderBy("start_position")).alias("place")
    )
    both = joins.join(begun, [*key, "place"]).withColumn("name", private_name(F.col("process")))
    births = F.sort_array(F.collect_list(F.struct("position", "view"))).alias("births")
    return both.groupBy("run", "name", "group").agg(births)


def _too_early(model: Model, pairs: "DataFrame") -> "DataFrame":
    """Ordered messages that were delivered in an earlier view than the one they were sent in.

    One who has asked to leave speaks as an outsider. Its leave may take effect on its side of a cut: then
    those on the other side never see the view in which it spoke, nor one that follows from it.
    """
    earlier = (F.col("after") < F.col("before")) & _are_in_line("before", "after")
    # By its choice a member may get it as less than causal, and then it is not tied to the view.
    early = pairs.where(F.col("is_causal") & F.col("came_causal") & earlier).drop("birth")
    wishes = model.wishes.where(F.col("event") != Event.JOIN).select(
        "run", "group", F.col("process").alias("sender"), F.col("position").alias("wish_position"),
        F.when(F.col("event") == Event.LEAVE, 1).otherwise(-1).alias("step"),
    )  # fmt: skip
    told = early.join(wishes, ["run", "group", "sender"], "left")
    is_past = F.col("wish_position") < F.col("send_position")
    told = told.groupBy(*early.columns).agg(F.sum(F.when(is_past, F.col("step"))).alias("leaving"))
    same_side = F.slice("before", 1, 2) == F.slice("after", 1, 2)
    wrong = told.where(same_side | (F.coalesce("leaving", F.lit(0)) <= 0))
    return findings(
        wrong,
        text("sent in view %s of %s, delivered in the earlier view %s", "before", "group", "after"),
        group="group",
        view="after",
        processes=["sender", "taker"],
        messages=["message"],
        positions=["send_position", "position"],
    )


def _are_in_line(one: str, other: str) -> "Column":
    """Whether one of two views can be said to be earlier. On the two sides of a cut, neither is: they come
    from the same epoch and belong to different branches."""
    here, there = F.col(one), F.col(other)
    return (here[0] != there[0]) | (here[1] == 0) | (there[1] == 0) | (here[1] == there[1])


def _look_at_daemons(model: Model) -> "DataFrame":
    foreign = F.coalesce(F.col("bundle")[0] != F.col("term_view"), F.col("bundle").isNull())
    strayed = findings(
        model.bundle_sends.where(F.col("term_view").isNotNull() & foreign),
        text("sent %s while in daemon view %s", bundle_name(), "term_view"),
        view="term_view",
        processes=["daemon"],
        positions=["position"],
    )
    early = findings(
        model.bundle_deliveries.where(F.col("bundle")[0] > F.col("term_view")),
        text("delivered %s in the earlier daemon view %s", bundle_name(), "term_view"),
        view="term_view",
        processes=["daemon"],
        positions=["position"],
    )
    return strayed.unionByName(early).unionByName(_wrong_lives(model))


def _wrong_lives(model: Model) -> "DataFrame":
    """Receivers that delivered something of an incarnation which is not in their view."""
    key = ["run", "daemon", "term_view"]
    heard = (
        model.bundle_deliveries.where(F.col("term_view").isNotNull() & F.col("bundle").isNotNull())
        .groupBy(*key, F.col("bundle")[0].alias("view"), F.col("bundle")[1].alias("number"))
        .agg(F.min_by(F.struct("position", "bundle"), "position").alias("first"))
    )
    terms = model.daemon_terms
    sources = terms.groupBy("run", F.col("daemon").alias("source"), "view").agg(
        F.max_by("incarnation", "start_position").alias("sent_by")
    )
    lists = terms.groupBy("run", "daemon", F.col("view").alias("term_view")).agg(
        F.max_by(F.struct("members", "incarnations"), "start_position").alias("list")
    )
    known = (
        heard.join(model.runs.select("run", "daemons"), "run")
        .withColumn("source", F.get("daemons", F.col("number").cast("int")))
        .join(sources, ["run", "source", "view"])
        .join(lists, key)
    )
    place = F.array_position("list.members", F.col("source")).cast("int")
    listed = F.when(place > 0, F.get("list.incarnations", place - 1))
    known = known.withColumn("listed", listed)
    return findings(
        known.where(~F.col("listed").eqNullSafe(F.col("sent_by"))),
        text(
            "delivered %s of incarnation %s of %s in daemon view %s, which has incarnation %s",
            bundle_name("first.bundle"),
            "sent_by",
            "source",
            "term_view",
            "listed",
        ),
        view="term_view",
        processes=["daemon"],
        positions=["first.position"],
    )


PROPERTIES = (
    Property(promises.SANE_VIEW, (Event.DELIVER,), _look),
    Property(promises.SANE_VIEW_OF_DAEMONS, (Event.SSEND, Event.SDELIVER), _look_at_daemons),
)
