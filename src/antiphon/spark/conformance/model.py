"""The tables that several properties ask for, derived once from the events and kept as Parquet.

Everything is keyed by `run`, so that one job checks thousands of small runs or one that is huge. `position`
is compared only between events of one process, or of one life of a daemon. What a row of each table is:

- `runs`: one run.
- `processes`: one session, from its connect to its disconnect.
- `views`: one view event of a process; `lock_marks`: one event that tells of locks, or bounds what does.
- `terms`: one process in one view of a group, from the event that installed it to the one that ended it.
- `wishes`: one join, leave or left of a process.
- `sends`: one message that was sent, with the bundle that carried it.
- `deliveries`: one message that a process delivered, reliable or better or not.
- `term_deliveries`: one delivery for each group to which it was addressed and in a view of which its process
  was.
- `lives`: one incarnation of a daemon.
- `daemon_terms`: one life of a daemon in one view of daemons.
- `bundle_sends`, `bundle_deliveries`: one ssend or sdeliver, with the daemon term in which it happened.
- `holds`: one hold.

Big tables (`sends`, `deliveries`, bundles) meet small ones (terms, lives) by equality only. An event says in
which view it happened, so its term is found by that name and confirmed by its position, without sorting all
events; only the few whose words do not fit are looked up by order.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.live import runs_with_heirs, with_processes, without_unread
from antiphon.spark.conformance.sequences import by_group, stretches
from antiphon.spark.conformance.source import Source
from antiphon.spark.small import held
from antiphon.spark.traces import each_message, refused
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LATER = (1 << 62) - 1
"""Position of what has not happened by the end of the run."""
_VIEW_COLUMNS = (
    "run", "live", "process", "daemon", "position", "time_us", "event", "groups", "views", "members",
    "transitional", "changed", "cause", "delivery", "has_quorum", "locks",
)  # fmt: skip


class Model:
    """The events of a folder of tables (see `antiphon.spark.traces`), and what follows from them.

    Tables are made when they are first asked for, and written below `work`, so that memory stays bounded and
    plans short. All are DataFrames that read Parquet: they can be asked again and again.
    """

    def __init__(self, spark: "SparkSession", source: Source, work: str, is_whole: bool = False) -> None:
        """`is_whole`: every table is one part. A job is then one task, and no rows are exchanged between
        tasks: for few events that is most of what a job costs."""
        self.spark = spark
        self.source = source
        self._work = work
        self.is_whole = is_whole

    def landed(self, name: str, frame: "DataFrame") -> "DataFrame":
        """`frame`, worked out once: in memory if all traces are, else on disk under a name of its own."""
        if self.source.is_held:
            return held(frame)
        path = f"{self._work}/{name}"
        self.parts(frame).write.mode("overwrite").parquet(path)
        return self.parts(self.spark.read.schema(frame.schema).parquet(path))

    def parts(self, frame: "DataFrame") -> "DataFrame":
        """`frame` in as many parts as tables have here."""
        return frame.coalesce(1) if self.is_whole else frame

    @cached_property
    def events(self) -> "DataFrame":
        """All events, as `read_traces` gives them, but for those at edges, of which one property alone
        speaks. What processes at edges send is in it, as sent by sessions of their attachments."""
        return self.parts(self.source.events).where(~F.col("at_edge"))

    def of(self, *events: Event) -> "DataFrame":
        """All events of some kinds."""
        return self.parts(self.source.of(*events)).where(~F.col("at_edge"))

    def at_edges(self, *events: Event) -> "DataFrame":
        """All events of some kinds at edges and at their processes."""
        return self.parts(self.source.of(*events)).where(F.col("at_edge"))

    @cached_property
    def runs(self) -> "DataFrame":
        """run, scenario, seed, live, daemons (names by number), edges (names); has_places (some bundles got
        their places later than they were born, or got none)."""
        placed = self.of(Event.SDELIVER).where((F.col("place") > 0) | F.col("is_loose")).select("run")
        told = placed.distinct().withColumn("has_places", F.lit(True))
        runs = self.source.runs.join(told, "run", "left")
        return self.landed("runs", runs.fillna(False, ["has_places"]))

    # Processes --------------------------------------------------------------------------------------------

    @cached_property
    def processes(self) -> "DataFrame":
        """run, process, live, daemon, connect_position, knows_views, disconnect_position, disconnect_cause,
        is_over (it disconnected, or it is unknown: the file of a live process that was killed just ends)."""
        is_end = F.col("event") == Event.DISCONNECT
        found = (
            self.of(Event.CONNECT, Event.DISCONNECT)
            .groupBy("run", "process", "live")
            .agg(
                F.any_value("daemon").alias("daemon"),
                _when(Event.CONNECT, F.col("position")).alias("connect_position"),
                F.bool_and("views_wanted").alias("knows_views"),
                _when(Event.DISCONNECT, F.col("position")).alias("disconnect_position"),
                F.min(F.when(is_end, F.struct("position", "cause")))["cause"].alias("disconnect_cause"),
            )
        )
        both = found.withColumn("is_over", F.col("live") | F.col("disconnect_position").isNotNull())
        return self.landed("processes", both)

    @cached_property
    def _has_live(self) -> bool:
        return self.source.has_live

    @cached_property
    def _told_events(self) -> "DataFrame":
        """View and lock events, in which processes stand for the names that they bear."""
        told = self.of(Event.VIEW, Event.LOCK).select(*_VIEW_COLUMNS)
        names = runs_with_heirs(self.of(Event.CONNECT)) if self._has_live else []
        if not names:
            return told
        others = self.of(Event.CONNECT, Event.LEFT).select(*_VIEW_COLUMNS)
        return self.landed("told_events", with_processes(told, others, names))

    @property
    def _view_events(self) -> "DataFrame":
        return self._told_events.where(F.col("event") == Event.VIEW)

    @cached_property
    def views(self) -> "DataFrame":
        """run, live, process, daemon, position, time_us, group, view, members, transitional, changed,
        cause."""
        return self._view_events.select(
            "run", "live", "process", "daemon", "position", "time_us", _first("groups").alias("group"),
            _first("views").alias("view"), "members", "transitional", "changed", "cause",
        )  # fmt: skip

    @cached_property
    def has_locks(self) -> bool:
        """Whether any group has locks, or lacks a quorum."""
        if self.source.has(Event.LOCK):
            return True
        told = (F.col("event") == Event.LOCK) | (F.size("locks") > 0) | ~F.col("has_quorum")
        return self.of(Event.VIEW, Event.LOCK).where(told).limit(1).count() > 0

    @cached_property
    def lock_marks(self) -> "DataFrame":
        """The views, locks, signals and ends of memberships of all groups that have locks, or lack a quorum,
        at the processes that are told of views: run, process, group, position, event, view, members,
        has_quorum, locks, changed, cause."""
        marks = self._told_events.unionByName(self.of(Event.LEFT, Event.TRANSSIG).select(*_VIEW_COLUMNS))
        marks = self.parts(marks).select(
            "run", "process", _first("groups").alias("group"), "position", "event",
            _first("views").alias("view"), "members", "has_quorum", "locks", "changed", "cause",
        )  # fmt: skip
        told = marks.where((F.col("event") == Event.LOCK) | (F.size("locks") > 0) | ~F.col("has_quorum"))
        unknowing = self.processes.where(~F.col("knows_views")).select("run", "process")
        found = marks.join(told.select("run", "group").distinct(), ["run", "group"], "left_semi").join(
            unknowing, ["run", "process"], "left_anti"
        )
        return self.landed("lock_marks", found)

    @cached_property
    def wishes(self) -> "DataFrame":
        """run, process, group, position, event: join, leave or left (when a leave took effect)."""
        return self.of(Event.JOIN, Event.LEAVE, Event.LEFT).select(
            "run", "process", _first("groups").alias("group"), "position", "event"
        )

    @cached_property
    def terms(self) -> "DataFrame":
        """One process in one view of a group.

        run, live, process, daemon, group, view, start_position, start_time_us, members, transitional,
        changed, cause, delivery (what it chose when it joined, or ""), has_quorum; previous (the view from
        which it came, or null), previous_members (as it was told itself); signals (how many),
        signal_position and signal_view of the first; end_event (view, left, disconnect, or null if the run
        ended first), end_position (never null: beyond everything if there is no end), end_time_us, end_cause,
        end_transitional, next_view (also if it had left with it), is_cut_short (it disconnected in this
        view, or its trace just ends), knows_views (it is told of views).
        """
        return self.landed("terms", self._terms())

    def _terms(self) -> "DataFrame":
        key = ["run", "process", "group"]
        marks = self._view_events.unionByName(self.of(Event.LEFT, Event.TRANSSIG).select(*_VIEW_COLUMNS))
        marks = self.parts(marks).select(
            "run", "live", "process", "daemon", "position", "time_us", "event",
            _first("groups").alias("group"), _first("views").alias("view"), "members", "transitional",
            "changed", "cause", "delivery", "has_quorum",
        )  # fmt: skip
        is_step = F.col("event") != Event.TRANSSIG
        marks = marks.where(~is_step | (F.col("event") == Event.LEFT) | F.col("view").isNotNull())
        step = F.struct(
            "position", "time_us", "event", "live", "daemon", "view", "members", "transitional", "changed",
            "cause", "delivery", "has_quorum",
        )  # fmt: skip
        steps = stretches(
            marks, key, is_step, step,
            F.count(F.when(~is_step, True)).alias("signals"),
            F.min(F.when(~is_step, F.struct("position", "view"))).alias("signal"),
        ).where(F.col("step.event") == Event.VIEW)  # fmt: skip
        was_view = F.col("before.event") == Event.VIEW
        found = steps.select(
            *key, "step.*", "signals", F.col("signal.position").alias("signal_position"),
            F.col("signal.view").alias("signal_view"),
            F.when(was_view, F.col("before.view")).alias("previous"),
            F.when(was_view, F.col("before.members")).alias("previous_members"),
            F.col("after.event").alias("end_event"), F.col("after.position").alias("end_position"),
            F.col("after.time_us").alias("end_time_us"), F.col("after.cause").alias("end_cause"),
            F.col("after.transitional").alias("end_transitional"), F.col("after.view").alias("next_view"),
        ).join(
            self.processes.select("run", "process", "knows_views", "disconnect_position", "is_over"),
            ["run", "process"],
            "left",
        )  # fmt: skip
        ends_here = F.col("end_event").isNull()
        return found.select(
            "run", "live", "process", "daemon", "group", "view",
            F.col("position").alias("start_position"), F.col("time_us").alias("start_time_us"),
            "members", "transitional", "changed", "cause", "delivery", "has_quorum", "previous",
            "previous_members",
            "signals", "signal_position", "signal_view",
            F.when(ends_here & F.col("disconnect_position").isNotNull(), Event.DISCONNECT.value)
            .otherwise(F.col("end_event")).alias("end_event"),
            F.coalesce("end_position", "disconnect_position", F.lit(_LATER)).alias("end_position"),
            "end_time_us", "end_cause", "end_transitional", "next_view",
            (ends_here & F.coalesce("is_over", F.lit(False))).alias("is_cut_short"),
            F.coalesce("knows_views", F.lit(True)).alias("knows_views"),
        )  # fmt: skip

    # Messages ---------------------------------------------------------------------------------------------

    @cached_property
    def sent(self) -> "DataFrame":
        """The send events, without those of messages that daemons refused."""
        sent = self.of(Event.SEND)
        unsent = refused(self.of(Event.UNSENT)) if self.source.has(Event.UNSENT) else None
        return sent if unsent is None else sent.join(unsent, ["run", "message"], "left_anti")

    @cached_property
    def sends(self) -> "DataFrame":
        """run, live, process, daemon, position, time_us, groups, views, message, service, checksum,
        self_discard; bundle and bundle_lts of the bundle that carried it (null if none did), bundle_daemon
        (name of the daemon that sent the bundle)."""
        sent = self.sent.where(F.col("message").isNotNull()).select(
            "run", "live", "process", "daemon", "position", "time_us", "groups", "views", "message",
            "service", "checksum", "self_discard",
        )  # fmt: skip
        carried = sent.join(self.carriers, ["run", "message"], "left")
        if self._has_live:
            carried = without_unread(carried, self.processes, self.deliveries)
        return self.landed("sends", carried)

    @property
    def carriers(self) -> "DataFrame":
        """run, message, bundle, bundle_lts, bundle_daemon: each message of a client in a bundle, once."""
        carried = self.of(Event.SSEND).select(
            "run", "bundle", F.col("lts").alias("bundle_lts"), F.col("daemon").alias("bundle_daemon"),
            "position", "message", "count",
        )  # fmt: skip
        return (
            each_message(carried)
            .groupBy("run", "message")
            .agg(
                F.max_by(F.struct("bundle", "bundle_lts", "bundle_daemon"), "position").alias("carrier"),
            )
            .select("run", "message", "carrier.*")
        )

    @cached_property
    def deliveries(self) -> "DataFrame":
        """run, live, process, daemon, position, time_us, groups, views, message, service, checksum, lts,
        delivery (the choice by which it came, or ""; then `service` is the one as which it came)."""
        return self.of(Event.DELIVER).select(
            "run", "live", "process", "daemon", "position", "time_us", "groups", "views", "message",
            "service", "checksum", "lts", "delivery",
        )  # fmt: skip

    @cached_property
    def term_deliveries(self) -> "DataFrame":
        """run, live, process, group, view, start_position (of the term: with the three before it its key),
        position, message, service, lts, delivery, is_after_signal. Deliveries outside of any view are not in
        it: see `stray_deliveries`."""
        placed = self._placed_deliveries.where(F.col("start_position").isNotNull())
        return placed.select(
            "run", "live", "process", "group", "view", "start_position", "position", "message", "service",
            "lts", "delivery",
            F.coalesce(F.col("position") > F.col("signal_position"), F.lit(False)).alias("is_after_signal"),
        )  # fmt: skip

    @cached_property
    def stray_deliveries(self) -> "DataFrame":
        """run, process, group, view, position, message: deliveries that say they happened in a view in which
        their process was not."""
        stray = self._placed_deliveries.where(F.col("start_position").isNull() & F.col("view").isNotNull())
        return stray.select("run", "process", "group", "view", "position", "message")

    @cached_property
    def _placed_deliveries(self) -> "DataFrame":
        each = by_group(self.deliveries).select(
            "run", "live", "process", "position", "message", "service", "lts", "delivery", "group", "view"
        )
        each = each.where(F.col("view").isNotNull())
        terms = self.terms.select(
            F.col("run").alias("r"), F.col("process").alias("p"), F.col("group").alias("g"),
            F.col("view").alias("v"), "start_position", "end_position", "signal_position",
        )  # fmt: skip
        same = (
            (F.col("run") == F.col("r"))
            & (F.col("process") == F.col("p"))
            & (F.col("group") == F.col("g"))
            & (F.col("view") == F.col("v"))
            & F.col("position").between(F.col("start_position"), F.col("end_position"))
        )
        joined = each.join(terms, same, "left").drop("r", "p", "g", "v", "end_position")
        return self.landed("placed_deliveries", joined)

    # Daemons ----------------------------------------------------------------------------------------------

    @cached_property
    def peace(self) -> "DataFrame":
        """run, position, time_us, parts, bound_us: the last word on which daemons are together, if any."""
        word = F.struct("position", "time_us", "parts", "bound_us")
        return (
            self.of(Event.RESTORED)
            .groupBy("run")
            .agg(F.max_by(word, "position").alias("word"))
            .select("run", "word.*")
        )

    @cached_property
    def daemon_marks(self) -> "DataFrame":
        """The few events of daemons that begin and end lives and terms; `life` counts lives.

        run, live, daemon, position, time_us, event (recover, crash, sview or stranssig), life, incarnation,
        daemon_view, members, incarnations, links, transitional, groups."""
        marks = self.of(Event.RECOVER, Event.CRASH, Event.SVIEW, Event.STRANSSIG).select(
            "run", "live", "daemon", "position", "time_us", "event", "incarnation", "daemon_view", "members",
            "incarnations", "links", "transitional", "groups",
        )  # fmt: skip
        in_order = Window.partitionBy("run", "daemon").orderBy("position")
        begins = (F.col("event") == Event.RECOVER).cast("long")
        return self.landed("daemon_marks", marks.withColumn("life", F.sum(begins).over(in_order)))

    @cached_property
    def lives(self) -> "DataFrame":
        """run, live, daemon, life (from 1), incarnation, recover_position, recover_time_us, crash_position
        (null if the trace tells of none), is_over (it crashed, or it is unknown: the file of a live daemon
        that was killed just ends), is_last (of its daemon in the run)."""
        found = (
            self.daemon_marks.where(F.col("life") > 0)
            .groupBy("run", "live", "daemon", "life")
            .agg(
                _when(Event.RECOVER, F.col("incarnation")).alias("incarnation"),
                _when(Event.RECOVER, F.col("position")).alias("recover_position"),
                _when(Event.RECOVER, F.col("time_us")).alias("recover_time_us"),
                _when(Event.CRASH, F.col("position")).alias("crash_position"),
            )
        )
        newest = Window.partitionBy("run", "daemon").orderBy(F.desc("life"))
        found = found.withColumns(
            {
                "is_over": F.col("live") | F.col("crash_position").isNotNull(),
                "is_last": F.row_number().over(newest) == 1,
            }
        )
        return self.landed("lives", found)

    @cached_property
    def daemon_terms(self) -> "DataFrame":
        """One life of a daemon in one view of daemons.

        run, live, daemon, life, incarnation, is_last_life, view (number), start_position, start_time_us,
        members, incarnations, links, transitional; previous (view, null for the first of a life),
        previous_members; signals (array of structs: position, daemon_view, groups, transitional, members; in
        order), general_signal_position (null if none), end_event (sview, crash or null), end_position (never
        null), end_members, end_transitional, next_view (null at a crash and at the end), is_cut_short (it
        crashed in this view, or its trace just ends).
        """
        return self.landed("daemon_terms", self._daemon_terms())

    def _daemon_terms(self) -> "DataFrame":
        key = ["run", "daemon", "life"]
        marks = self.daemon_marks.where((F.col("life") > 0) & (F.col("event") != Event.RECOVER))
        is_step = F.col("event").isin(Event.SVIEW.value, Event.CRASH.value)
        signal = F.struct("position", "daemon_view", "groups", "transitional", "members")
        is_general = ~is_step & (F.size("groups") == 0)
        step = F.struct(
            "position", "time_us", "event", "live", "daemon_view", "members", "incarnations", "links",
            "transitional",
        )  # fmt: skip
        steps = stretches(
            marks, key, is_step, step,
            F.sort_array(F.collect_list(F.when(~is_step, signal))).alias("signals"),
            F.min(F.when(is_general, F.col("position"))).alias("general_signal_position"),
        ).where(F.col("step.event") == Event.SVIEW)  # fmt: skip
        is_next = F.col("after.event") == Event.SVIEW
        steps = steps.select(
            *key, "step.*", "signals", "general_signal_position",
            F.col("before.daemon_view").alias("previous"), F.col("before.members").alias("previous_members"),
            F.col("after.event").alias("end_event"), F.col("after.position").alias("end_position"),
            F.when(is_next, F.col("after.members")).alias("end_members"),
            F.when(is_next, F.col("after.transitional")).alias("end_transitional"),
            F.when(is_next, F.col("after.daemon_view")).alias("next_view"),
        )  # fmt: skip
        lives = self.lives.select(*key, "incarnation", F.col("is_last").alias("is_last_life"), "is_over")
        found = steps.join(lives, key)
        return found.select(
            "run", "live", "daemon", "life", "incarnation", "is_last_life",
            F.col("daemon_view").alias("view"), F.col("position").alias("start_position"),
            F.col("time_us").alias("start_time_us"), "members", "incarnations", "links", "transitional",
            "previous", "previous_members", "signals",
            "general_signal_position", "end_event",
            F.coalesce("end_position", F.lit(_LATER)).alias("end_position"), "end_members",
            "end_transitional", "next_view",
            ((F.col("end_event") == Event.CRASH) | (F.col("end_event").isNull() & F.col("is_over")))
            .alias("is_cut_short"),
        ).fillna(False, ["is_cut_short"])  # fmt: skip

    @cached_property
    def bundle_sends(self) -> "DataFrame":
        """run, live, daemon, position, time_us, bundle, message, count, service, lts, place, rank, is_loose
        (see `bundle_deliveries`), resilience, groups, destinations; of the term in which it was sent (null if
        its daemon was in no view): life, incarnation, term_view, start_position, next_view, is_cut_short."""
        return self.landed("bundle_sends", self._placed_bundles(Event.SSEND))

    @cached_property
    def bundle_deliveries(self) -> "DataFrame":
        """run, live, daemon, position, time_us, bundle, message, count, service, lts, place (0 if it
        is the lts), rank (the place, whichever it is), is_loose (it has none), resilience (empty if none was
        asked for), groups, destinations; of the term in which it was delivered (null if its daemon was in no
        view): life, incarnation, term_view, start_position, next_view, is_cut_short; is_after_signal (the
        general one, or an early one for one of its groups)."""
        return self.landed("bundle_deliveries", self._placed_bundles(Event.SDELIVER))

    @cached_property
    def holds(self) -> "DataFrame":
        """run, live, daemon, position, bundle, message, count."""
        return self.of(Event.HOLD).select("run", "live", "daemon", "position", "bundle", "message", "count")

    def _placed_bundles(self, event: Event) -> "DataFrame":
        """Bundles with their terms: by the view that they name, or else by the order of events."""
        bundles = self.of(event).select(
            "run", "live", "daemon", "position", "time_us", "bundle", "message", "count", "service",
            "lts", "place", F.when(F.col("place") > 0, F.col("place")).otherwise(F.col("lts")).alias("rank"),
            "is_loose", "resilience", "groups", "destinations",
        )  # fmt: skip
        early = F.flatten(F.transform("signals", lambda one: one["groups"]))
        terms = self.daemon_terms.select(
            F.col("run").alias("r"), F.col("daemon").alias("d"), "life", "incarnation",
            F.col("view").alias("term_view"), "start_position", "end_position", "next_view",
            "is_cut_short", "signals", "general_signal_position", F.size(early).alias("early_signals"),
        )  # fmt: skip
        here = (
            (F.col("run") == F.col("r"))
            & (F.col("daemon") == F.col("d"))
            & (F.col("position") > F.col("start_position"))
            & (F.col("position") < F.col("end_position"))
        )
        named = bundles.join(terms, here & (F.col("bundle")[0] == F.col("term_view")), "left")
        is_lost = F.col("term_view").isNull()
        rest = named.where(is_lost).select(*bundles.columns).join(terms, here, "left")
        placed = self.parts(named.where(~is_lost).unionByName(rest))
        too_late = F.exists(
            "signals",
            lambda one: (one["position"] < F.col("position")) & F.arrays_overlap(one["groups"], "groups"),
        )
        after = F.coalesce(F.col("general_signal_position") < F.col("position"), F.lit(False)) | F.coalesce(
            (F.col("early_signals") > 0) & too_late, F.lit(False)
        )
        return placed.withColumn("is_after_signal", after).drop(
            "r", "d", "end_position", "signals", "general_signal_position", "early_signals"
        )


def private_name(process: "Column") -> "Column":
    """The name by which a process can be addressed: `#alice#d1` for `#alice!2#d1`."""
    return F.regexp_replace(process, "![0-9]+#", "#")


def _first(name: str) -> "Column":
    """The first of a list, or null."""
    return F.get(F.col(name), F.lit(0))


def _when(event: Event, column: "Column") -> "Column":
    """The value in the first of several events that is of one kind."""
    return F.min(F.when(F.col("event") == event, column))
