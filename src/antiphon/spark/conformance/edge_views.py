"""*edges*, its second part: what members at edges are told of views and signals, and the one order of all.

The oracle lays side by side what all saw and looks for a circle. Here, as in `one_order`, the order is that
of places: what a member at an edge gets after an ordered message or a view stands after it, and an ordered
message has the same place there as in the core.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model, private_name
from antiphon.spark.conformance.rim import MEMBER, STRETCH, Rim
from antiphon.spark.conformance.traffic import is_ordered, is_reliable, traffic
from antiphon.spark.conformance.verdict import either, finding, findings, text
from antiphon.trace import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def look_at_views(model: Model, tables: Rim) -> "Iterator[DataFrame]":
    """What is wrong with views, signals and the one order."""
    told = model.landed("edge_views", _views(tables))
    yield from _members(model, told)
    moves = model.landed("edge_moves", _moves(model, tables, told))
    yield _steps(model, moves)
    yield from _signals(model, tables, moves)
    yield _out_of_order(model, tables)
    yield _elsewhere(tables)


def _views(tables: Rim) -> "DataFrame":
    """Each view in a stretch: those that name the stretch, live, position, view, members, number (of the view
    in its stretch, from 1), signals (structs: position, view; those that follow it, up to the next view)."""
    marks = tables.marks.where(F.col("event").isin(Event.VIEW.value, Event.TRANSSIG.value))
    is_view = F.col("event") == Event.VIEW
    in_order = Window.partitionBy(*STRETCH).orderBy("position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        marks.withColumn("number", F.sum(is_view.cast("long")).over(so_far))
        .where(F.col("number") > 0)
        .groupBy(*STRETCH, "number", "live")
        .agg(
            F.min(F.when(is_view, F.struct("position", "view", "members"))).alias("told"),
            F.sort_array(F.collect_list(F.when(~is_view, F.struct("position", "view")))).alias("signals"),
        )
        .select(*STRETCH, "number", "live", "told.*", "signals")
    )


# Who is in them -------------------------------------------------------------------------------------------


def _names(members: "Column") -> "Column":
    """Names, in the place of processes, in live runs: there an edge tells the names alone."""
    return F.when(F.col("live"), F.transform(members, private_name)).otherwise(members)


def _members(model: Model, told: "DataFrame") -> "Iterator[DataFrame]":
    known = model.views.where(F.col("view").isNotNull()).groupBy("run", "group", "view").agg(
        F.min_by("members", "position").alias("known")
    )  # fmt: skip
    views = told.where((F.size("members") > 0) & F.col("view").isNotNull())
    views = views.join(known, ["run", "group", "view"], "left")
    yield findings(
        views.where(_names(F.col("known")) != _names(F.col("members"))),
        text("view %s of %s has other members than in the core", "view", "group"),
        group="group", view="view", processes=["process"], positions=["position"],
    )  # fmt: skip
    wishes = model.wishes.where(F.col("event") != Event.LEFT).select(
        "run", "group", F.col("process").alias("member")
    )
    staying = model.processes.where(F.col("knows_views") & ~F.col("is_over")).select(
        "run", F.col("process").alias("member")
    )
    strange = (
        views.where(F.col("known").isNull())
        .withColumn("member", F.explode("members"))
        .join(staying, ["run", "member"], "left_semi")
        .join(wishes, ["run", "group", "member"], "left_anti")
    )
    yield findings(
        strange,
        text("view %s of %s has %s, who never got it", "view", "group", "member"),
        group="group", view="view", processes=["process"], positions=["position"],
    )  # fmt: skip


# From one view to the next --------------------------------------------------------------------------------


def _moves(model: Model, tables: Rim, told: "DataFrame") -> "DataFrame":
    """From one view of a stretch to the next: those that name the stretch, live, position and view, the
    signals between, next_position and next_view; moved: how the first member of the core did the same, null
    if none did (struct: process, start_position, has_signal)."""
    in_order = Window.partitionBy(*STRETCH).orderBy("number")
    moves = told.withColumns(
        {
            "next_position": F.lead("position").over(in_order),
            "next_view": F.lead("view").over(in_order),
        }
    ).where(F.col("next_view").isNotNull() & F.col("view").isNotNull())
    return moves.join(_core_moves(model), ["run", "group", "view", "next_view"], "left")


def _core_moves(model: Model) -> "DataFrame":
    """From one view to the next, as members of the core went: run, group, view, next_view, moved."""
    first = model.processes.select("run", "process", "connect_position")
    moved = F.struct("process", "start_position", (F.col("signals") > 0).alias("has_signal"))
    terms = model.terms.where("knows_views").where(F.col("end_event") == Event.VIEW)
    return (
        terms.where(F.col("next_view").isNotNull())
        .join(first, ["run", "process"])
        .groupBy("run", "group", "view", "next_view")
        .agg(F.min_by(moved, F.struct("connect_position", "start_position")).alias("moved"))
    )


def _steps(model: Model, moves: "DataFrame") -> "DataFrame":
    signals = F.col("signals")
    is_strange = (F.size(signals) > 1) | F.exists(signals, lambda one: ~one["view"].eqNullSafe(F.col("view")))
    has_signal = F.size(signals) > 0
    is_other = F.col("view") != F.col("next_view")
    in_order = Window.partitionBy(*MEMBER).orderBy("position")
    numbered = (
        model.views.join(
            model.processes.where("knows_views").select("run", "process"), ["run", "process"], "left_semi"
        )
        .withColumn("place", F.row_number().over(in_order))
        .groupBy(*MEMBER, "view")
        .agg(F.min("place").alias("place"))
    )
    both = (
        moves.where(is_other)
        .select("run", "group", "view", "next_view")
        .distinct()
        .join(numbered, ["run", "group", "view"])
        .join(
            numbered.select(*MEMBER, F.col("view").alias("next_view"), F.col("place").alias("next_place")),
            [*MEMBER, "next_view"],
        )
        .groupBy("run", "group", "view", "next_view")
        .agg((F.min(F.col("next_place") - F.col("place")) > 1).alias("is_skipped"))
    )
    return either(
        moves.join(both, ["run", "group", "view", "next_view"], "left"),
        (~is_other, _next(text("view %s of %s comes again, and no gap was told", "view", "group"))),
        (
            F.col("is_skipped"),
            _next(text("a view of %s between this and %s is left out", "group", "view")),
        ),
        (
            is_other & is_strange,
            _next(text("a signal of %s that is not of the present view, or a second", "group")),
        ),
        (
            is_other & (F.col("moved.has_signal") != has_signal),
            _next(
                text(
                    "%s has %s signal between views %s and %s, unlike members", "process",
                    F.when(has_signal, F.lit("a")).otherwise(F.lit("no")), "view", "next_view",
                )
            ),
        ),
    )  # fmt: skip


def _next(what: "Column") -> "Column":
    return finding(what, group="group", view="next_view", processes=["process"], positions=["next_position"])


def _signals(model: Model, tables: Rim, moves: "DataFrame") -> "Iterator[DataFrame]":
    """A signal comes between the same ordered messages. But what another daemon had delivered before any
    signal the edge may have had from there, when it comes to one that had not."""
    signalled = moves.where(
        F.col("moved.has_signal") & (F.size("signals") > 0) & (F.col("view") != F.col("next_view"))
    ).select(
        *STRETCH, "view", F.col("signals")[0]["position"].alias("signal_position"), "next_position",
        F.col("moved.process").alias("one"), F.col("moved.start_position").alias("one_start"),
    )  # fmt: skip
    told = model.term_deliveries.where(is_ordered()).select(
        "run", F.col("process").alias("one"), "group", "view", F.col("start_position").alias("one_start"),
        "message", "is_after_signal",
    )  # fmt: skip
    here = tables.marks.where((F.col("event") == Event.DELIVER) & is_ordered())
    here = here.select(*STRETCH, "message", "position", "bundle")
    both = signalled.join(told, ["run", "one", "group", "view", "one_start"]).join(
        here, [*STRETCH, "message"]
    )
    early = F.col("is_after_signal") & (F.col("position") < F.col("signal_position"))
    late = (
        ~F.col("is_after_signal")
        & (F.col("signal_position") < F.col("position"))
        & (F.col("position") < F.col("next_position"))
    )
    wrong = model.landed("edge_signals", both.withColumn("is_early", early).where(early | late))
    yield findings(
        wrong.where(~F.col("is_early")),
        F.lit("comes after the signal, and before it in the core"),
        group="group", view="view", processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip
    certain = tables.certain(wrong.where("is_early"))
    yield findings(
        wrong.where("is_early").join(certain, ["run", "bundle", "group"], "left_anti"),
        F.lit("comes before the signal, and after it in the core"),
        group="group", view="view", processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip


# The one order --------------------------------------------------------------------------------------------


def _out_of_order(model: Model, tables: Rim) -> "DataFrame":
    """Along each process, anew after a gap, without views that it got when they were old."""
    delivered = tables.deliveries.where(is_reliable()).select(
        "run", "process", "position", "message", "lts", is_ordered().alias("is_ordered"),
        F.slice("message", 1, 3).alias("session"),
    )  # fmt: skip
    in_order = Window.partitionBy(*STRETCH).orderBy("position")
    views = tables.marks.where((F.col("event") == Event.VIEW) & F.col("view").isNotNull()).select(
        *STRETCH, "position", F.lag("view").over(in_order).alias("before"), "view"
    )
    moves = _core_moves(model).select("run", "group", F.col("view").alias("before"), "next_view")
    views = views.join(
        moves.withColumnRenamed("next_view", "view"), ["run", "group", "before", "view"], "left_semi"
    ).select("run", "process", "position", F.col("view")[2].alias("lts"), F.lit(True).alias("is_ordered"))
    gaps = tables.of(Event.GAP).select("run", "process", "position", F.lit(True).alias("is_gap"))
    both = delivered.unionByName(views, allowMissingColumns=True).unionByName(gaps, allowMissingColumns=True)
    so_far = Window.partitionBy("run", "process").orderBy("position")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_gap = F.coalesce("is_gap", F.lit(False))
    both = model.parts(both).withColumn("part", F.sum(is_gap.cast("long")).over(so_far))
    earlier = Window.partitionBy("run", "process", "part").orderBy("position")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    newest = F.max(F.when(F.col("is_ordered"), F.struct("lts", "session", "message", "position")))
    seen = both.withColumn("newest", newest.over(earlier))
    later, this = F.col("newest.lts"), F.col("lts")
    shared = (later == this) & (F.col("newest.session") != F.col("session"))
    is_unplaced = F.col("is_loose").isNotNull()
    is_free = F.col("is_loose") | (is_unplaced & (later == this))
    found = (
        seen.where((later > this) | F.coalesce(shared, F.lit(False)))
        .join(traffic(model).unplaced, ["run", "message"], "left")
        .where(~F.coalesce(is_free, F.lit(False)))
    )
    return findings(
        found,
        text("what has place %s came after an ordered message or a view with place %s", this, later),
        processes=["process"],
        messages=[F.col("message"), F.col("newest.message")],
        positions=[F.col("newest.position"), F.col("position")],
    )


def _elsewhere(tables: Rim) -> "DataFrame":
    """Ordered messages that have another place than in the core."""
    wrong = is_ordered() & F.col("ranks").isNotNull() & ~F.array_contains("ranks", F.col("lts"))
    return findings(
        tables.deliveries.where(wrong),
        text("it has place %s, and others in the core: %s", "lts", "ranks"),
        processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip
