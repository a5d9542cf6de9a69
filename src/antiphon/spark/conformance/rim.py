"""Edges, and what their members were told: the tables that *edges* asks for.

A *stretch* is one member of one group, from a view with which the group began to flow until the next gap, the
end of the membership, or the end of the run. The *course* of an edge are the daemon views through which its
feed goes. What daemons delivered in a daemon view before they went on in one way stands on a *sheet*. These
words are those of the simulator's oracle, which is the specification.

What happened at one edge and at its processes has one order, in live runs, too: the edge writes it down, in
one file. Only such positions are compared here.
"""

from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model, private_name
from antiphon.spark.conformance.sequences import by_group
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEMBER = ("run", "process", "group")
STRETCH = (*MEMBER, "life")
"""What names a stretch: `life` counts the memberships of a process in a group, and what follows gaps."""
EVERY_WAY = "*"
"""The sheet of all that the daemons of a view delivered there, however they went on."""
_PRIVATE = "#"
_KINDS = (
    Event.VIEW, Event.LEFT, Event.GAP, Event.JOIN, Event.LEAVE, Event.TRANSSIG, Event.DELIVER, Event.HANDED,
    Event.UNSURE, Event.UNSENT, Event.DISCONNECT, Event.PART, Event.BASE, Event.RECOVER, Event.CRASH,
    Event.DETACH,
)  # fmt: skip


class Rim:
    """Tables about the edges of a model; made when they are first asked for."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def is_there(self) -> bool:
        """Whether there are any edges."""
        return self.model.runs.where(F.size("edges") > 0).limit(1).count() > 0

    # The core, as far as it matters for edges -------------------------------------------------------------

    @cached_property
    def runs(self) -> "DataFrame":
        """The runs with edges: run, in_reach (edges that can reach the core in the end), parts (of daemons;
        both null if it is not known), last_view (in which the run ends, if all daemons are in one), is_told
        (whether the trace tells of all daemons)."""
        model = self.model
        traced = model.lives.groupBy("run").agg(F.collect_set("daemon").alias("traced"))
        restored = F.max_by(F.struct("members", "parts"), "position")
        peace = model.of(Event.RESTORED).groupBy("run").agg(restored.alias("restored"))
        last = (
            model.daemon_terms.groupBy("run", "daemon")
            .agg(F.max_by("view", "start_position").alias("view"))
            .groupBy("run")
            .agg(F.map_from_entries(F.collect_list(F.struct("daemon", "view"))).alias("last"))
        )
        found = (
            model.runs.where(F.size("edges") > 0)
            .select("run", "live", "daemons")
            .join(traced, "run", "left")
            .join(peace, "run", "left")
            .join(last, "run", "left")
        )
        part = F.get("restored.parts", F.lit(0))
        views = F.array_distinct(F.transform(part, lambda one: F.coalesce(F.col("last")[one], F.lit(0))))
        is_one = (F.size("restored.parts") == 1) & (F.size(views) == 1)
        is_told = ~F.col("live") | (F.size(F.array_except("daemons", "traced")) == 0)
        return model.landed(
            "edge_runs",
            found.select(
                "run", F.col("restored.members").alias("in_reach"), F.col("restored.parts").alias("parts"),
                F.coalesce(F.when(is_one, F.get(views, F.lit(0))), F.lit(0)).alias("last_view"),
                F.coalesce(is_told, F.lit(False)).alias("is_told"),
            ),
        )  # fmt: skip

    @cached_property
    def moves(self) -> "DataFrame":
        """run, view, next_view: daemons went from one daemon view to another."""
        moves = self.model.daemon_terms.where(F.col("next_view").isNotNull())
        moves = moves.select("run", "view", "next_view").distinct()
        return self.model.landed("daemon_moves", moves.join(self.runs, "run", "left_semi"))

    @cached_property
    def sheets(self) -> "DataFrame":
        """One bundle on one sheet.

        run, view (of daemons), way (the next view; "" if the run ended in this one; of a daemon that crashed
        there "cut" and its name; EVERY_WAY), bundle, message (the first), count, service, groups, rank,
        ranks (all that daemons told), position and daemon of its first delivery; self_discard, send_position
        and giver (process at an edge that handed it over, or null), of the first message.
        """
        deliveries = self.model.bundle_deliveries.where(
            F.col("message").isNotNull() & F.col("bundle").isNotNull() & F.col("term_view").isNotNull()
        ).join(self.runs, "run", "left_semi")
        end = F.coalesce(F.col("next_view").cast("string"), F.lit(""))
        way = F.when(F.col("is_cut_short"), F.concat(F.lit("cut "), "daemon")).otherwise(end)
        sheets = (
            deliveries.withColumn("way", F.explode(F.array(way, F.lit(EVERY_WAY))))
            .groupBy("run", F.col("term_view").alias("view"), "way", "bundle")
            .agg(
                *(F.any_value(name).alias(name) for name in ("message", "count", "service", "groups")),
                F.max("rank").alias("rank"),
                F.collect_set("rank").alias("ranks"),
                F.min(F.struct("position", "daemon")).alias("first"),
            )
        )
        sends = self.model.sends.select(
            "run", "message", "self_discard", F.col("position").alias("send_position")
        )
        givers = self.givers.select("run", "message", F.col("given.process").alias("giver"))
        return self.model.landed(
            "edge_sheets",
            sheets.join(sends, ["run", "message"], "left")
            .join(givers, ["run", "message"], "left")
            .select("*", "first.*")
            .drop("first"),
        )

    @cached_property
    def taken(self) -> "DataFrame":
        """Bundles that daemons delivered: run, bundle, ranks, taken_position (of the first delivery)."""
        all_of_them = self.sheets.where(F.col("way") == EVERY_WAY)
        return all_of_them.groupBy("run", "bundle").agg(
            F.array_distinct(F.flatten(F.collect_list("ranks"))).alias("ranks"),
            F.min("position").alias("taken_position"),
        )

    def certain(self, asked: "DataFrame") -> "DataFrame":
        """Of some bundles to groups (run, bundle, group), those that a daemon delivered before it signalled
        for the group."""
        asked = asked.select("run", "bundle", "group").distinct()
        signals = self.model.daemon_terms.select(
            "run", "daemon", "life", F.col("view").alias("term_view"), "signals"
        )
        taken = (
            self.model.bundle_deliveries.select(
                "run", "daemon", "life", "term_view", "bundle", F.col("position").alias("taken_position")
            )
            .join(asked, ["run", "bundle"])
            .join(signals, ["run", "daemon", "life", "term_view"])
        )
        was_signalled = F.exists(
            "signals",
            lambda one: (
                (one["position"] < F.col("taken_position"))
                & ((F.size(one["groups"]) == 0) | F.array_contains(one["groups"], F.col("group")))
            ),
        )
        return taken.where(~was_signalled).select("run", "bundle", "group").distinct()

    # At edges ---------------------------------------------------------------------------------------------

    @cached_property
    def events(self) -> "DataFrame":
        """What happened at edges, in the order of each edge.

        Those columns of the events that matter here; step (counts the daemon views of the feed), feed_view
        (the daemon view to which the feed has come, 0 before the first), is_step (it has just come to it),
        start (counts the lives of the edge).
        """
        in_order = Window.partitionBy("run", "daemon").orderBy("position")
        so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        before = in_order.rowsBetween(Window.unboundedPreceding, -1)
        is_own = F.col("process") == ""
        is_part = is_own & F.col("event").isin(Event.PART.value, Event.BASE.value)
        view = F.when(is_part, F.col("daemon_view"))
        told = self.model.at_edges(*_KINDS).select(
            "run", "live", "daemon", "process", "position", "event", "groups", "views", "message", "count",
            "service", "checksum", "self_discard", "members", "lts", "place", "daemon_view",
        )  # fmt: skip
        told = told.withColumns(
            {
                "before": F.last(view, ignorenulls=True).over(before),
                "feed_view": F.coalesce(F.last(view, ignorenulls=True).over(so_far), F.lit(0)),
                "start": F.sum((is_own & (F.col("event") == Event.RECOVER)).cast("long")).over(so_far),
            }
        )
        is_step = is_part & ~F.col("before").eqNullSafe(F.col("daemon_view"))
        told = told.withColumn("is_step", is_step).drop("before")
        return self.model.landed(
            "edge_events", told.withColumn("step", F.sum(F.col("is_step").cast("long")).over(so_far))
        )

    @cached_property
    def behind(self) -> "DataFrame":
        """Edges that have been behind another one: run, daemon."""
        peer = F.array_contains("edges", F.col("peer"))
        attached = self.model.at_edges(Event.ATTACH).select("run", "daemon", "peer")
        return attached.join(self.model.runs, "run").where(peer).select("run", attached["daemon"]).distinct()

    def of(self, *events: Event) -> "DataFrame":
        """Some of `events` at processes."""
        kinds = F.col("event").isin(*(event.value for event in events))
        return self.events.where((F.col("process") != "") & kinds)

    @cached_property
    def courses(self) -> "DataFrame":
        """The daemon views of each feed: run, daemon, views (in their order, by step from 1)."""
        steps = self.events.where("is_step").groupBy("run", "daemon")
        in_order = F.array_sort(F.collect_list(F.struct("step", F.col("daemon_view").alias("view"))))
        return steps.agg(F.transform(in_order, lambda one: one["view"]).alias("course"))

    @cached_property
    def handed(self) -> "DataFrame":
        """What clients handed to their edges: run, live, process, daemon, position, message, mark (what
        tells it from all others: the private name, checksum, groups and service), alike (how many have this
        mark; in a live run some may)."""
        mark = F.struct(private_name(F.col("process")).alias("name"), "checksum", "groups", "service")
        alike = Window.partitionBy("run", "mark")
        handed = self.of(Event.HANDED).select(
            "run", "live", "process", "daemon", "position", "message", "service", mark.alias("mark")
        )
        return handed.withColumn("alike", F.count("*").over(alike))

    @cached_property
    def sends(self) -> "DataFrame":
        """What was sent for clients of edges: run, live, process (the session of the attachment), position,
        peer (the client's private name), message, given (struct: process, daemon, position, message, as it
        was handed over; null if it was not, or if it is not known which one it was), alike."""
        mark = F.struct(F.col("peer").alias("name"), "checksum", "groups", "service").alias("mark")
        sent = self.model.sent.where((F.col("peer") != "") & F.col("message").isNotNull()).select(
            "run", "live", "process", "position", "peer", "message", mark
        )
        given = F.struct("process", "daemon", "position", "message")
        handed = self.handed.groupBy("run", "mark").agg(
            F.min("alike").alias("alike"), F.min(F.when(F.col("alike") == 1, given)).alias("given")
        )
        return self.model.landed("edge_sends", sent.join(handed, ["run", "mark"], "left"))

    @cached_property
    def givers(self) -> "DataFrame":
        """run, message, given: of each message that was sent for a client, how it was handed over."""
        return self.sends.where(F.col("given").isNotNull()).select("run", "message", "given")

    @cached_property
    def deliveries(self) -> "DataFrame":
        """What processes at edges delivered: columns of `events`; sent (struct: position, groups, service,
        checksum, self_discard; null if it was not sent), giver, bundle (null if none carried it), ranks and
        taken_position of the bundle (null if no daemon delivered it)."""
        content = F.struct("position", "groups", "service", "checksum", "self_discard").alias("sent")
        sends = self.model.sends.select("run", "message", content)
        carriers = self.model.carriers.select("run", "message", "bundle")
        found = (
            self.of(Event.DELIVER)
            .where(F.col("message").isNotNull())
            .join(sends, ["run", "message"], "left")
            .join(carriers, ["run", "message"], "left")
            .join(
                self.givers.select("run", "message", F.col("given.process").alias("giver")),
                ["run", "message"],
                "left",
            )
            .join(self.taken, ["run", "bundle"], "left")
        )
        return self.model.landed("edge_deliveries", found)

    @cached_property
    def marks(self) -> "DataFrame":
        """What happened to one member of one group, in the order of its edge.

        run, live, daemon, process, group, life, position, event, view, members, message, service, lts,
        bundle, feed_view, step, start; base and told_gap (the newest that the edge was told of the group:
        position, daemon_view, lts, place), joined (where it asked to join; -1 after a gap), is_elsewhere (a
        message that came to another group, too, of which the process was a member).
        """
        others = self.of(Event.VIEW, Event.LEFT, Event.GAP, Event.JOIN, Event.TRANSSIG)
        own = self.events.where((F.col("process") == "") & F.col("event").isin("base", "gap"))
        delivered = self.deliveries.drop("sent", "giver", "ranks", "taken_position")
        every = others.unionByName(own).unionByName(delivered, allowMissingColumns=True)
        every = by_group(self.model.parts(every)).where(~F.col("group").startswith(_PRIVATE))
        views = F.arrays_zip("groups", "views")
        is_elsewhere = F.exists(
            views, lambda one: (one["groups"] != F.col("group")) & one["views"].isNotNull()
        )
        of_edge = Window.partitionBy("run", "daemon", "group").orderBy("position")
        of_member = Window.partitionBy(*MEMBER).orderBy("position")
        so_far = of_edge.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        before = of_member.rowsBetween(Window.unboundedPreceding, -1)
        event, is_own = F.col("event"), F.col("process") == ""
        point = F.struct("position", "daemon_view", "lts", "place")
        is_end = event.isin(Event.LEFT.value, Event.GAP.value)
        joined = F.when(event == Event.JOIN, F.col("position")).when(event == Event.GAP, -1)
        marks = (
            every.withColumns(
                {
                    "is_elsewhere": is_elsewhere,
                    "base": F.last(F.when(is_own & (event == Event.BASE), point), True).over(so_far),
                    "told_gap": F.last(F.when(is_own & (event == Event.GAP), point), True).over(so_far),
                }
            )
            .where(~is_own)
            .withColumns(
                {
                    "life": F.coalesce(F.sum(is_end.cast("long")).over(before), F.lit(0)),
                    "joined": F.coalesce(F.last(joined, True).over(before), F.lit(0)),
                }
            )
        )
        return self.model.landed(
            "edge_marks",
            marks.select(
                "run", "live", "daemon", "process", "group", "life", "position", "event", "view", "members",
                "message", "service", "lts", "bundle", "feed_view", "step", "start", "base", "told_gap",
                "joined", "is_elsewhere",
            ),
        )  # fmt: skip

    @cached_property
    def stretches(self) -> "DataFrame":
        """One member of one group, as long as nothing is missing.

        run, live, daemon, process, group, life; start_position, view (with which it begins), start_view (of
        daemons, to which the feed had come), base (where the group began to flow at the edge, or null if it
        did before this member came), end_event and end_position (null if the run ended first), gap (what the
        edge was told of the one that ends it, or null), goes_on (to the end of the run, in which all daemons
        are together), course (the daemon views through which it goes).
        """
        event = F.col("event")
        is_end = event.isin(Event.LEFT.value, Event.GAP.value)
        first = F.struct("position", "view", "feed_view", "step", "start", "base", "joined")
        found = (
            self.marks.where(is_end | (event == Event.VIEW))
            .groupBy("run", "live", "daemon", "process", "group", "life")
            .agg(
                F.min_by(first, F.when(event == Event.VIEW, F.col("position"))).alias("first"),
                F.min(F.when(is_end, F.struct("position", "event", "step", "told_gap"))).alias("end"),
            )
            .where(F.col("first.view").isNotNull())
        )
        ends = self.of(Event.DISCONNECT).groupBy("run", "process").agg(
            F.min(F.struct("position", "event", "step", F.lit(None).cast(_POINT).alias("told_gap")))
            .alias("gone")
        )  # fmt: skip
        lives = self.events.groupBy("run", "daemon", F.col("start").alias("start_number")).agg(
            F.max("step").alias("last_step")
        )
        in_life = (found["run"] == lives["run"]) & (found["daemon"] == lives["daemon"])
        in_life = in_life & (F.col("first.start") == F.col("start_number"))
        found = (
            found.join(lives, in_life)
            .drop(lives["run"], lives["daemon"])
            .join(ends, ["run", "process"], "left")
            .join(self.courses, ["run", "daemon"], "left")
            .join(self.runs, "run", "left")
            .withColumn("end", F.coalesce("end", "gone"))
        )
        base = F.when(F.col("first.base.position") > F.col("first.joined"), F.col("first.base"))
        gap = F.when(F.col("end.event") == Event.GAP, F.col("end.told_gap"))
        begins = F.greatest(F.col("first.step"), F.lit(1)).cast("int")
        length = F.coalesce("end.step", "last_step").cast("int") - begins + 1
        course = F.coalesce(
            F.slice("course", begins, F.greatest(length, F.lit(0))), F.array().cast("array<bigint>")
        )
        goes_on = (
            F.col("end").isNull()
            & F.coalesce(F.array_contains("in_reach", F.col("daemon")), F.lit(False))
            & (F.col("last_view") > 0)
        )
        found = found.select(
            "run", "live", "daemon", "process", "group", "life",
            F.col("first.position").alias("start_position"), F.col("first.view").alias("view"),
            F.col("first.feed_view").alias("start_view"), base.alias("base"),
            F.col("end.event").alias("end_event"), F.col("end.position").alias("end_position"),
            gap.alias("gap"), goes_on.alias("goes_on"), course.alias("course"), "last_view", "is_told",
        )  # fmt: skip
        stops = F.coalesce(F.array_position("course", F.col("gap.daemon_view")), F.lit(0)).cast("int")
        course = F.when(stops > 0, F.slice("course", 1, stops)).otherwise(F.col("course"))
        found = found.withColumn("course", course)
        is_short = F.col("goes_on") & ~F.try_element_at("course", F.lit(-1)).eqNullSafe(F.col("last_view"))
        longer = F.concat("course", F.array("last_view"))
        found = found.withColumn("course", F.when(is_short, longer).otherwise(F.col("course")))
        return self.model.landed("edge_stretches", found.where(F.size("course") > 0))


_POINT = "struct<position:bigint,daemon_view:bigint,lts:bigint,place:bigint>"
_RIMS: "WeakKeyDictionary[Model, Rim]" = WeakKeyDictionary()


def rim(model: Model) -> Rim:
    """The tables about the edges of a model, the same for all who ask."""
    found = _RIMS.get(model)
    if found is None:
        found = _RIMS[model] = Rim(model)
    return found


def is_member_of(process: "Column", groups: "Column") -> "Column":
    """Whether one of these groups is the private name of a process."""
    return F.array_contains(groups, private_name(process))
