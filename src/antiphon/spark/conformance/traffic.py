"""Messages and bundles, each with all who got it and all who lack it: what the properties of messages ask.

The tables of the model have a row for every delivery. Here they are brought together by message, by message
and view, and by bundle, each in one aggregation. What follows is about messages, of which there are as many
times fewer as a message has receivers, and about those deliveries that are missing, of which there should be
few. So no delivery is ever compared with another delivery.
"""

from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.traces import each_message
from antiphon.trace import (
    CAUSAL_SERVICES,
    FIFO_SERVICES,
    ORDERED_SERVICES,
    RELIABLE_SERVICES,
    Event,
    delivered_as,
)
from antiphon.trace.records import DELIVERED_AS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def is_ordered(service: "Column | str" = "service") -> "Column":
    """Whether a service is agreed or safe."""
    return _column(service).isin(*sorted(ORDERED_SERVICES))


def is_causal(service: "Column | str" = "service") -> "Column":
    """Whether a service is causal or better."""
    return _column(service).isin(*sorted(CAUSAL_SERVICES))


def is_reliable(service: "Column | str" = "service") -> "Column":
    """Whether a service is reliable or better."""
    return _column(service).isin(*sorted(RELIABLE_SERVICES))


def came_as(service: "Column", delivery: "Column") -> "Column":
    """The service as which a member gets a message, as `antiphon.trace.delivered_as` says."""
    found = service
    for choice, most in DELIVERED_AS.items():
        stronger = sorted(one for one in RELIABLE_SERVICES if delivered_as(one, choice) != one)
        found = F.when((delivery == choice) & service.isin(*stronger), most).otherwise(found)
    return found


def is_in_order(delivery: "Column | str" = "delivery") -> "Column":
    """Whether ordered messages come in their order by this choice, or without one."""
    return ~_column(delivery).isin("fifo", "arrival")


def daemon_of(process: "Column | str") -> "Column":
    """The daemon at which a process is: `d1` for `#alice#d1`."""
    return F.substring_index(_column(process), "#", -1)


def end_of() -> "Column":
    """How a term ends: "view", "left", "cut" (it is cut short) or "end" (with the run)."""
    return F.when(F.col("is_cut_short"), "cut").otherwise(F.coalesce("end_event", F.lit("end")))


class Traffic:
    """Tables about the messages of a model; made when they are first asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model

    # Clients ----------------------------------------------------------------------------------------------

    @cached_property
    def messages(self) -> "DataFrame":
        """One message that was sent or delivered.

        run, live, message; sender (process; null if no process sent it), sender_daemon, send_position,
        groups, views, service, checksum, self_discard, bundle (null if none carried it), bundle_daemon, all
        as it was sent; lts; receivers (processes, each once), deliveries (how many), first_position (of a
        delivery), checksums, contents and stamps (each the least and the greatest that was delivered;
        contents are a hash of groups and service, of deliveries without a choice), chosen (array of structs:
        content, service, delivery; each that came by a choice, once; content is a hash of groups).
        """
        model = self._model
        sent = F.struct(
            F.col("process").alias("sender"), F.col("daemon").alias("sender_daemon"),
            F.col("position").alias("send_position"), "groups", "views", "service", "checksum",
            "self_discard", "bundle", "bundle_daemon", "bundle_lts",
        )  # fmt: skip
        sends = model.sends.select("run", "live", "message", sent.alias("sent"))
        is_chosen = F.col("delivery") != ""
        deliveries = model.deliveries.select(
            "run", "live", "message", F.col("process").alias("receiver"), F.col("position"),
            F.col("checksum").alias("delivered_checksum"),
            F.when(~is_chosen, F.xxhash64("groups", "service")).alias("content"),
            F.when(is_chosen, F.struct(F.xxhash64("groups").alias("content"), "service", "delivery"))
            .alias("choice"),
            F.col("lts").alias("stamp"),
        )  # fmt: skip
        both = model.parts(sends.unionByName(deliveries, allowMissingColumns=True))
        found = both.groupBy("run", "live", "message").agg(
            F.any_value("sent", F.lit(True)).alias("sent"),
            F.collect_set("receiver").alias("receivers"),
            F.count("receiver").alias("deliveries"),
            F.min("position").alias("first_position"),
            F.collect_set("choice").alias("chosen"),
            *(
                F.array(F.min(one), F.max(one)).alias(name)
                for one, name in (
                    ("delivered_checksum", "checksums"), ("content", "contents"), ("stamp", "stamps"),
                )
            ),
        )  # fmt: skip
        found = found.select("*", "sent.*").drop("sent")
        lts = F.coalesce("bundle_lts", F.col("stamps")[1])
        return model.landed("messages", found.withColumn("lts", lts).drop("bundle_lts"))

    @cached_property
    def group_views(self) -> "DataFrame":
        """One view of a group: run, group, view, members, processes (that were in it and are told of views),
        daemons (of its members)."""
        terms = self._model.terms.where("knows_views")
        found = terms.groupBy("run", "group", "view").agg(
            F.min_by("members", "start_position").alias("members"),
            F.collect_set("process").alias("processes"),
        )
        daemons = F.array_distinct(F.transform("members", daemon_of))
        return self._model.landed("group_views", found.withColumn("daemons", daemons))

    @cached_property
    def view_messages(self) -> "DataFrame":
        """One message in one view of a group to which it was sent, for those who are told of views.

        run, live, group, view, message, service (the strongest as which it came to one of them), lts, takers
        (array of structs: process, end (see `end_of`), next_view, is_signalled (in its term),
        is_after_signal, service (as which it came), delivery (the choice by which it came, or ""), choice (of
        its process for this group, which counts if it came by this group alone)), safe_position (of the first
        delivery before a signal as safe, null if there is none), first_position. Reliable or better.
        """
        model = self._model
        key = ["run", "process", "group", "view", "start_position"]
        terms = model.terms.where("knows_views").select(
            *key, end_of().alias("end"), "next_view", (F.col("signals") > 0).alias("is_signalled"),
            F.col("delivery").alias("choice"),
        )  # fmt: skip
        taker = F.struct(
            "process", "end", "next_view", "is_signalled", "is_after_signal", "service", "delivery", "choice"
        )
        is_safe = (F.col("service") == "safe") & ~F.col("is_after_signal")
        found = (
            model.term_deliveries.where(is_reliable())
            .join(terms, key)
            .groupBy("run", "live", "group", "view", "message")
            .agg(
                F.max_by("service", _strength()).alias("service"),
                F.max("lts").alias("lts"),
                F.collect_set(taker).alias("takers"),
                F.min(F.when(is_safe, F.col("position"))).alias("safe_position"),
                F.min("position").alias("first_position"),
            )
        )
        return model.landed("view_messages", found)

    @cached_property
    def lacks(self) -> "DataFrame":
        """One process that did not deliver, in a view, what others delivered there.

        Those of `view_messages`; process: it was in the view, or a member of it by the word of others;
        daemon; is_elsewhere (it delivered the message in another view, or in none); of its term in the view,
        if it had one: end, next_view, is_signalled, choice, start_position, end_transitional, before_lts and
        after_lts (the newest ordered message to the group that it delivered there before and after the
        signal); of the message: sender, self_discard, bundle, send_position. A sender that did not want its
        own message does not lack it.
        """
        model = self._model
        expected = F.array_union("members", "processes")
        missing = F.array_except(expected, F.transform("takers", lambda one: one["process"]))
        views = self.group_views.select("run", "group", "view", "members", "processes")
        found = (
            self.view_messages.join(views, ["run", "group", "view"])
            .withColumn("missing", missing)
            .where(F.size("missing") > 0)
            .drop("members", "processes")
            .join(
                self.messages.select(
                    "run", "message", "sender", "self_discard", "bundle", "send_position", "receivers"
                ),
                ["run", "message"],
            )
            .withColumn("process", F.explode("missing"))
            .drop("missing")
            .where(~(F.coalesce("self_discard", F.lit(False)) & (F.col("process") == F.col("sender"))))
            .withColumn("is_elsewhere", F.array_contains("receivers", F.col("process")))
            .drop("receivers")
        )
        key = ["run", "process", "group", "view"]
        newest = (
            model.term_deliveries.where(is_ordered())
            .groupBy(*key)
            .agg(
                F.max(F.when(~F.col("is_after_signal"), F.col("lts"))).alias("before_lts"),
                F.max(F.when(F.col("is_after_signal"), F.col("lts"))).alias("after_lts"),
            )
        )
        terms = model.terms.where("knows_views").select(
            *key, "start_position", "end_transitional", end_of().alias("end"), "next_view",
            (F.col("signals") > 0).alias("is_signalled"), F.col("delivery").alias("choice"),
        )  # fmt: skip
        found = found.join(terms, key, "left").join(newest, key, "left")
        return model.landed("lacks", found.withColumn("daemon", daemon_of("process")))

    @cached_property
    def stays(self) -> "DataFrame":
        """Who is in a group for good: run, process, daemon, group, settled_at (the position of its last wish,
        or of the last leave that took effect, if that was later; or null), joined_once, entered_at (position
        of the first view of its last membership, null if there is none). Its own private name counts as a
        group that it is in from its connect on. The end of a live run is just where its traces end, so no
        process stays in one."""
        model = self._model
        living = model.processes.where(~F.col("is_over"))
        key = ["run", "process", "group"]
        event = F.col("event")
        is_wish = event != Event.LEFT
        wished = model.wishes.groupBy(*key).agg(
            F.max_by(F.when(is_wish, event), F.when(is_wish, F.col("position"))).alias("last_wish"),
            F.max("position").alias("settled_at"),
            F.count_if(event == Event.JOIN).alias("joins"),
            F.count_if(event == Event.LEAVE).alias("leaves"),
            F.count_if(event == Event.LEFT).alias("lefts"),
        )
        entered = (
            model.terms.where(F.col("previous").isNull())
            .groupBy(*key)
            .agg(F.max("start_position").alias("entered_at"))
        )
        in_groups = (
            wished.where((F.col("last_wish") == Event.JOIN) & (F.col("leaves") == F.col("lefts")))
            .join(living.select("run", "process", "daemon"), ["run", "process"])
            .join(entered, key, "left")
            .select(
                *key, "daemon", "settled_at", "entered_at",
                ((F.col("joins") == 1) & (F.col("leaves") == 0)).alias("joined_once"),
            )
        )  # fmt: skip
        # Of several bearers of one name, those before the last have disconnected, so no more than one lives.
        by_name = living.select(
            "run", "process", F.regexp_replace("process", r"^(#[^!#]*)!\d+#", "$1#").alias("group"),
            "daemon", F.lit(None).cast("bigint").alias("settled_at"),
            F.col("connect_position").alias("entered_at"), F.lit(False).alias("joined_once"),
        )  # fmt: skip
        return model.landed("stays", in_groups.unionByName(by_name))

    # Daemons ----------------------------------------------------------------------------------------------

    @cached_property
    def unplaced(self) -> "DataFrame":
        """Messages that are not ordered and were born without a place: run, message, is_loose (it never had
        one; the others got theirs later, which may be different ones where daemons went apart)."""
        told = self._model.of(Event.SSEND, Event.SDELIVER).where(
            F.col("is_loose") | ((F.col("place") > 0) & ~is_ordered())
        )
        each = each_message(told.select("run", "message", "count", "is_loose"))
        return each.groupBy("run", "message").agg(F.bool_or("is_loose").alias("is_loose"))

    @cached_property
    def bundles(self) -> "DataFrame":
        """One bundle that was sent, held or delivered.

        run, live, bundle, source (name of the daemon that sent it; null if none did), send_position,
        source_end (see `end_of`; null if it was sent in another view than it names) and source_next_view, of
        the term in which it was sent; service, lts, groups, destinations, message and resilience; rank (its
        place in the order; the greatest, if it has several), places (all, if they are not just its lts; else
        null) and is_loose (it has none); holders (array of structs: daemon, position), takers (array of
        structs: daemon, position, is_after_signal, end, next_view of the term), contents (hash of all that
        makes a bundle: as it was sent, the least and the greatest as it was delivered).
        """
        model = self._model
        content = F.xxhash64("lts", "message", "count", "service", "groups")
        said = F.struct("service", "lts", "groups", "destinations", "message", "resilience")
        is_home = F.coalesce(F.col("term_view") == F.col("bundle")[0], F.lit(False))
        end = F.when(F.col("is_cut_short"), "cut").when(F.col("next_view").isNull(), "end").otherwise("view")
        sends = model.bundle_sends.select(
            "run", "live", "bundle", said.alias("said"), content.alias("sent_content"), "is_loose",
            F.struct(
                F.col("daemon").alias("source"), F.col("position").alias("send_position"),
                F.when(is_home, end).alias("source_end"),
                F.when(is_home, F.col("next_view")).alias("source_next_view"),
            ).alias("sent"),
        )  # fmt: skip
        holds = model.holds.select("run", "live", "bundle", F.struct("daemon", "position").alias("holder"))
        taker = F.struct("daemon", "position", "is_after_signal", end.alias("end"), "next_view")
        deliveries = model.bundle_deliveries.select(
            "run", "live", "bundle", said.alias("said"), taker.alias("taker"), content.alias("content"),
            "place", "rank", "is_loose",
        )  # fmt: skip
        everything = model.parts(
            sends.unionByName(holds, allowMissingColumns=True).unionByName(
                deliveries, allowMissingColumns=True
            )
        )
        found = (
            everything.where(F.col("bundle").isNotNull())
            .groupBy("run", "live", "bundle")
            .agg(
                F.any_value("sent", F.lit(True)).alias("sent"),
                F.any_value("said", F.lit(True)).alias("said"),
                F.collect_list("holder").alias("holders"),
                F.collect_list("taker").alias("takers"),
                F.array(F.max("sent_content"), F.min("content"), F.max("content")).alias("contents"),
                F.when(F.max("place") > 0, F.collect_set("rank")).alias("places"),
                F.coalesce(F.bool_or("is_loose"), F.lit(False)).alias("is_loose"),
            )
            .withColumn("rank", F.coalesce(F.array_max("places"), F.col("said.lts")))
        )
        return model.landed("bundles", found.select("*", "sent.*", "said.*").drop("sent", "said"))

    @cached_property
    def bundle_lacks(self) -> "DataFrame":
        """One daemon that did not deliver a bundle that was for it.

        Those of `bundles` but holders and contents; view (the bundle's); daemon; of its term in that view, if
        it had one: end, next_view, signals, general_signal_position, end_transitional, before_rank (of the
        newest ordered bundle that it delivered there before a signal) and newest_rank (of all).
        """
        model = self._model
        view = F.col("bundle")[0]
        missing = F.array_except("destinations", F.transform("takers", lambda one: one["daemon"]))
        found = (
            self.bundles.withColumns({"missing": missing, "view": view})
            .where(F.size("missing") > 0)
            .drop("holders", "contents")
            .withColumn("daemon", F.explode("missing"))
            .drop("missing")
        )
        key = ["run", "daemon", "view"]
        newest = (
            model.bundle_deliveries.where(is_ordered())
            .groupBy("run", "daemon", F.col("term_view").alias("view"))
            .agg(
                F.max(F.when(~F.col("is_after_signal"), F.col("rank"))).alias("before_rank"),
                F.max("rank").alias("newest_rank"),
            )
        )
        found = found.join(self.daemon_ends, key, "left").join(newest, key, "left")
        return model.landed("bundle_lacks", found)

    @cached_property
    def daemon_ends(self) -> "DataFrame":
        """How daemons left their views: run, daemon, view, end ("view", "cut" or "end"), next_view, signals,
        general_signal_position, end_transitional."""
        end = F.when(F.col("is_cut_short"), "cut").when(F.col("next_view").isNull(), "end").otherwise("view")
        return self._model.daemon_terms.select(
            "run", "daemon", "view", end.alias("end"), "next_view", "signals", "general_signal_position",
            "end_transitional",
        )  # fmt: skip


_TRAFFIC: "WeakKeyDictionary[Model, Traffic]" = WeakKeyDictionary()


def traffic(model: Model) -> Traffic:
    """The tables about the messages of a model, the same for all who ask."""
    found = _TRAFFIC.get(model)
    if found is None:
        found = _TRAFFIC[model] = Traffic(model)
    return found


def _strength() -> "Column":
    """Of a service that is reliable or better: the more is promised, the greater."""
    promises = F.lit(0)
    for kind in (FIFO_SERVICES, CAUSAL_SERVICES, ORDERED_SERVICES, frozenset(("safe",))):
        promises = promises + F.col("service").isin(*sorted(kind)).cast("int")
    return promises


def _column(one: "Column | str") -> "Column":
    return F.col(one) if isinstance(one, str) else one
