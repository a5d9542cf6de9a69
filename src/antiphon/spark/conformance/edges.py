"""*edges*: a member at an edge has an image of the core's one order, all gaps told.

The same rule as the simulator's oracle has, which is the specification. What is owed to a stretch is a join
of its daemon views with the sheets of these (see `rim`), from which is taken what its process has. Where
daemons went several ways from one daemon view to another, a function in Python looks for the one on which the
least is missing; those that went straight, with nothing missing, never come to it.

What comes before what at edges and in the core is compared in simulated runs only. So in a live run a message
is owed from the base of its group, or from the first message that came, whenever it was sent. Views, signals
and the one order are judged in `edge_views`, what clients hand over in `edge_sends`.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.edge_sends import look_at_sends
from antiphon.spark.conformance.edge_views import look_at_views
from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.rim import EVERY_WAY, STRETCH, Rim, is_member_of, rim
from antiphon.spark.conformance.verdict import (
    FOUND,
    Property,
    either,
    finding,
    findings,
    none_found,
    text,
)
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LACKING_TOLD = 3
"""Messages that are told of one stretch and daemon view."""


def _look(model: Model) -> "DataFrame":
    tables = rim(model)
    if not tables.is_there:
        return none_found(model)
    parts = (
        _deliveries(tables), _order(tables), *_whole(model, tables), _others_alone(tables), _untold(tables),
        _end(tables),
        *look_at_views(model, tables), *look_at_sends(model, tables),
    )  # fmt: skip
    return reduce(lambda one, other: one.unionByName(other), parts)


# What comes, and in which order ---------------------------------------------------------------------------


def _at(what: "Column", **place: Any) -> "Column":
    return finding(what, processes=["process"], messages=["message"], positions=["position"], **place)


def _deliveries(tables: Rim) -> "DataFrame":
    live, sent = F.col("live"), F.col("sent")
    again = Window.partitionBy("run", "process", "message")
    members = (
        tables.marks.where(F.col("event") == Event.DELIVER)
        .join(
            tables.stretches.select(*STRETCH, "start_position", "end_position"), [*STRETCH], "left"
        )
        .where(F.col("start_position") < F.col("position"))
        .where(F.coalesce(F.col("position") < F.col("end_position"), F.lit(True)))
        .select("run", "process", "position", F.lit(True).alias("is_member"))
        .distinct()
    )  # fmt: skip
    session = F.slice("message", 1, 3).alias("session")
    traced = tables.model.sends.where("live").select("run", session).distinct()
    traced = traced.withColumn("is_traced", F.lit(True))
    told = (
        tables.deliveries.withColumns({"first": F.min("position").over(again), "session": session})
        .join(members, ["run", "process", "position"], "left")
        .join(traced, ["run", "session"], "left")
        .join(tables.runs.select("run", "is_told"), "run", "left")
    )
    is_known = ~live | F.coalesce("is_traced", F.lit(False))
    same = (
        (sent["checksum"] == F.col("checksum"))
        & (sent["groups"] == F.col("groups"))
        & (sent["service"] == F.col("service"))
    )
    is_late = F.coalesce(~live & (sent["position"] > F.col("position")), F.lit(False))
    is_own = F.coalesce(F.col("giver") == F.col("process"), F.lit(False))
    is_named = is_member_of(F.col("process"), F.col("groups"))
    taken = F.col("taken_position")
    return either(
        told,
        (
            is_known & (sent.isNull() | is_late),
            _at(F.lit("delivered, but not sent before")),
        ),
        (~same & ~is_late, _at(F.lit("not as it was sent: payload, groups or service differ"))),
        (sent["self_discard"] & is_own, _at(F.lit("came back to a sender that did not want it"))),
        (
            F.col("is_member").isNull() & ~is_named,
            _at(F.lit("delivered to a process at an edge that is a member of none of its groups")),
        ),
        (F.col("first") < F.col("position"), _at(F.lit("delivered twice"))),
        (
            (F.col("service") != "unreliable")
            & sent.isNotNull()
            & ((taken.isNull() & F.col("is_told")) | (~live & (taken > F.col("position")))),
            _at(F.lit("delivered before any daemon of the core delivered it")),
        ),
    )


def _order(tables: Rim) -> "DataFrame":
    """Ascending places, in the daemon views of the feed; anew after a gap."""
    so_far = Window.partitionBy("run", "process").orderBy("position")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    delivered = tables.deliveries.where((F.col("service") != "unreliable") & F.col("ranks").isNotNull())
    marks = delivered.select(
        "run", "process", "position", "message", "lts", "feed_view", F.col("bundle")[0].alias("view")
    ).unionByName(tables.of(Event.GAP).select("run", "process", "position"), allowMissingColumns=True)
    is_gap = F.col("message").isNull()
    marks = tables.model.parts(marks).withColumn("part", F.sum(is_gap.cast("long")).over(so_far))
    in_part = Window.partitionBy("run", "process", "part").orderBy("position")
    newest = F.lag(F.when(~is_gap, F.struct("view", "lts", "message", "position"))).over(in_part)
    return either(
        marks.withColumn("newest", newest).where(~is_gap),
        (
            F.col("view") != F.col("feed_view"),
            _at(
                text("of daemon view %s, while the feed of its edge is in %s", "view", "feed_view"),
                view="view",
            ),
        ),
        (
            (F.col("newest.view") == F.col("view")) & (F.col("lts") < F.col("newest.lts")),
            finding(
                text(
                    "%s delivered at place %s of daemon view %s after place %s",
                    "process", "lts", "view", "newest.lts",
                ),
                view="view", processes=["process"], messages=[F.col("newest.message"), F.col("message")],
                positions=[F.col("newest.position"), F.col("position")],
            ),
        ),
    )  # fmt: skip


# Nothing is left out --------------------------------------------------------------------------------------


def _whole(model: Model, tables: Rim) -> "Iterator[DataFrame]":
    """What is missing in stretches."""
    checked = _checked(model, tables)
    is_of = F.col("kind")
    yield _missing(checked.where(is_of == "end"))
    least = F.min_by("few", "lacking")
    last = checked.where((is_of == "last") & F.col("has_newest")).groupBy(*_SUBJECT, "at")
    yield _missing(last.agg(least.alias("few")))
    between = checked.where(is_of == "between")
    straight = (F.col("at") == F.col("view")) & (F.col("to") == F.col("next_view")) & (F.col("lacking") == 0)
    move = F.when(F.col("view").isNotNull(), F.struct("view", "next_view", "lacking", "few"))
    asked = (
        between.groupBy(*_SUBJECT, "at", "to", "is_told")
        .agg(F.bool_or(straight).alias("is_whole"), F.collect_list(move).alias("moves"))
        .where(~F.coalesce("is_whole", F.lit(False)))
    )
    yield model.parts(asked).mapInPandas(_judge_all, FOUND)


_SUBJECT = ("run", "daemon", "process", "group", "life", "start_position", "end_event")


def _pairs(tables: Rim) -> "DataFrame":
    """The stretches but their views, for each daemon view in which they do not end: at (this one) and to (the
    next one in the course)."""
    steps = F.transform(
        F.slice("course", F.lit(1), F.size("course") - 1),
        lambda at, place: F.struct(at.alias("at"), F.get("course", place + 1).alias("to")),
    )
    longer = tables.stretches.drop("view").where(F.size("course") > 1)
    return longer.withColumn("pair", F.explode(steps)).select("*", "pair.*").drop("pair")


def _on_the_way(tables: Rim) -> "DataFrame":
    """run, at, to, view, next_view: how daemons may have gone from one daemon view to another."""
    moves = tables.moves.withColumnRenamed("run", "r")
    between = (
        (F.col("run") == F.col("r"))
        & (F.col("view") >= F.col("at"))
        & (F.col("next_view") <= F.col("to"))
    )  # fmt: skip
    return _pairs(tables).select("run", "at", "to").distinct().join(moves, between).drop("r")


def _demands(model: Model, tables: Rim) -> "DataFrame":
    """What has to be held against which sheets.

    Those of the stretch; kind: "between" (from the daemon view `at` to `to`, by a way from `view` to
    `next_view`, both null if no daemons went there), "end" (all that any daemon delivered in `view`) or
    "last" (what stands before the newest message that came, on the sheets that have it); way (null: any);
    newest (bundle) and up_to (place), since (after which place everything has to come; null: what was sent
    later has to).
    """
    pairs, known = _pairs(tables), _on_the_way(tables)
    between = pairs.join(known, ["run", "at", "to"], "left").withColumns(
        {"kind": F.lit("between"), "way": F.col("next_view").cast("string")}
    )
    at_end = tables.stretches.drop("view").withColumns(
        {
            "at": F.try_element_at("course", F.lit(-1)),
            "view": F.try_element_at("course", F.lit(-1)),
            "kind": F.when(F.col("goes_on"), "end").otherwise("last"),
            "way": F.when(F.col("goes_on"), EVERY_WAY),
        }
    )
    came = _came(tables)
    both = model.parts(between.unionByName(at_end, allowMissingColumns=True))
    both = both.join(came, [*STRETCH, "view"], "left")
    is_gap_here = F.col("gap.daemon_view") == F.col("view")
    up_to = F.greatest("newest.lts", F.when(is_gap_here, F.col("gap.lts")))
    # Of which daemon view a stretch without a base has the end, its first message tells.
    is_first = F.col("start_view") == F.col("view")
    since = F.when(
        F.col("base").isNotNull(),
        F.when(F.col("base.daemon_view") == F.col("view"), F.col("base.place")).otherwise(0),
    ).otherwise(F.when(is_first, F.col("first_lts")).otherwise(0))
    return both.withColumns(
        {
            "up_to": F.when(F.col("kind") == "last", up_to),
            "newest": F.when(F.col("kind") == "last", F.col("newest.bundle")),
            "since": since,
        }
    ).where((F.col("kind") != "last") | F.col("newest").isNotNull())


def _came(tables: Rim) -> "DataFrame":
    """Of each stretch and daemon view: first_lts (of what came first) and newest (lts, bundle), as far as it
    came before the edge was told of a gap."""
    gaps = tables.stretches.select(*STRETCH, "start_position", F.col("gap.position").alias("gap_position"))
    delivered = tables.marks.where(
        (F.col("event") == Event.DELIVER) & (F.col("service") != "unreliable") & F.col("bundle").isNotNull()
    ).join(tables.taken.select("run", "bundle"), ["run", "bundle"], "left_semi")
    is_before = F.coalesce(F.col("position") < F.col("gap_position"), F.lit(True))
    return (
        delivered.select(*STRETCH, "position", "lts", "bundle")
        .join(gaps, [*STRETCH])
        .where(F.col("start_position") < F.col("position"))
        .groupBy(*STRETCH, F.col("bundle")[0].alias("view"))
        .agg(
            F.min_by("lts", "position").alias("first_lts"),
            F.max(F.when(is_before, F.struct("lts", "bundle"))).alias("newest"),
        )
    )


def _checked(model: Model, tables: Rim) -> "DataFrame":
    """The demands, each with each sheet that it is held against: lacking (how many bundles), few (the first
    of these: position, daemon, view, rank, message), has_newest (whether this sheet has the newest one)."""
    demands = _demands(model, tables)
    sheets = tables.sheets.where(F.col("service") != "unreliable")
    sheets = sheets.withColumn("group", F.explode(F.array_distinct("groups"))).select(
        F.col("run").alias("r"), F.col("view").alias("v"), F.col("group").alias("g"),
        F.col("way").alias("sheet"), "bundle", "message", F.col("count").alias("messages"), "rank",
        "self_discard", "send_position", "giver", F.col("position").alias("place_told"),
        F.col("daemon").alias("told_by"),
    )  # fmt: skip
    is_way = F.when(F.col("way").isNull(), F.col("sheet") != EVERY_WAY).otherwise(
        F.col("way") == F.col("sheet")
    )
    on_sheet = (
        (F.col("run") == F.col("r")) & (F.col("view") == F.col("v")) & (F.col("group") == F.col("g")) & is_way
    )
    has = (
        tables.deliveries.where(F.col("bundle").isNotNull())
        .groupBy("run", "process", "bundle")
        .agg(F.count_distinct("message").alias("has"))
    )
    is_unwanted = F.col("self_discard") & (F.col("giver") == F.col("process"))
    is_later = ~F.col("live") & (F.col("send_position") > F.col("start_position"))
    is_owed = F.coalesce(is_later, F.lit(False)) | F.coalesce(F.col("rank") > F.col("since"), F.lit(False))
    is_lacking = (
        F.col("bundle").isNotNull()
        & (F.coalesce("has", F.lit(0)) < F.col("messages"))
        & F.coalesce(F.col("rank") <= F.col("up_to"), F.lit(True))
        & ~F.coalesce(is_unwanted, F.lit(False))
        & is_owed
    )
    one = F.struct(
        F.col("place_told").alias("position"), F.col("told_by").alias("daemon"), "view", "rank", "message"
    )
    found = (
        demands.join(sheets, on_sheet, "left")
        .join(has, ["run", "process", "bundle"], "left")
        .withColumn("is_lacking", is_lacking)
        .groupBy(*_SUBJECT, "kind", "at", "to", "view", "next_view", "sheet", "is_told")
        .agg(
            F.count_if("is_lacking").alias("lacking"),
            F.slice(F.sort_array(F.collect_list(F.when(F.col("is_lacking"), one))), 1, _LACKING_TOLD)
            .alias("few"),
            F.coalesce(F.bool_or(F.col("bundle") == F.col("newest")), F.lit(False)).alias("has_newest"),
        )
    )  # fmt: skip
    return model.landed("edge_checked", found)


def _missing(lacking: "DataFrame") -> "DataFrame":
    one = F.col("one")
    end = F.coalesce(F.concat(F.lit("its "), "end_event"), F.lit("the end of the run"))
    return findings(
        lacking.withColumn("one", F.explode("few")),
        text(
            "%s never got it, which %s delivered in daemon view %s at place %s; %s flowed from the first "
            "position to %s",
            "process", one["daemon"], one["view"], one["rank"], "group", end,
        ),
        group="group", view=one["view"], processes=["process"], messages=[one["message"]],
        positions=[F.col("start_position"), one["position"]],
    )  # fmt: skip


Move = tuple[int, int, list[Any]]
"""From one daemon view to the next, and what is missing on that way; of that the number, and the first."""


def _judge_all(frames: Iterable[Any]) -> Iterator[Any]:
    """What is found in each row of frames of Pandas, as frames of findings."""
    import pandas

    columns = ("run", "what", "group", "view", "processes", "messages", "positions")
    for frame in frames:
        found: list[tuple[Any, ...]] = []
        for row in frame.itertuples():
            moves = {
                (int(one["view"]), int(one["next_view"])): (int(one["lacking"]), list(one["few"]))
                for one in row.moves
            }
            at, to = int(row.at), int(row.to)
            way = least({move: lacking for move, (lacking, _) in moves.items()}, at, to)
            if way is None:
                if row.is_told:
                    found.append(
                        (
                            row.run,
                            f"the feed of {row.daemon} went from daemon view {at} to {to} while {row.group} "
                            "flowed, and no daemons did",
                            row.group, str(to), [row.process], [], [row.start_position],
                        )
                    )  # fmt: skip
                continue
            few = [one for move in way for one in moves[move][1]]
            for one in sorted(few, key=lambda one: int(one["position"]))[:_LACKING_TOLD]:
                found.append(
                    (
                        row.run,
                        f"{row.process} never got it, which {one['daemon']} delivered in daemon view "
                        f"{one['view']} at place {one['rank']}; {row.group} flowed from the first position "
                        f"to {'its ' + row.end_event if row.end_event else 'the end of the run'}",
                        row.group, str(one["view"]), [row.process], [list(map(int, one["message"]))],
                        [row.start_position, int(one["position"])],
                    )
                )  # fmt: skip
        yield pandas.DataFrame(found, columns=columns)


def least(moves: dict[tuple[int, int], int], at: int, to: int) -> Sequence[tuple[int, int]] | None:
    """The moves by which one comes from a daemon view to another, with the least sum of what is given for
    each; None if there is no way. Daemon views that follow are greater.

    >>> least({(1, 2): 0, (2, 4): 1, (1, 4): 2}, 1, 4)
    ((1, 2), (2, 4))
    >>> least({(1, 2): 0}, 1, 4) is None
    True
    """
    best: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {at: (0, ())}
    for view, next_view in sorted(moves):
        if view in best and next_view <= to:
            cost, way = best[view]
            through = (cost + moves[view, next_view], (*way, (view, next_view)))
            if next_view not in best or through < best[next_view]:
                best[next_view] = through
    return best[to][1] if to in best else None


def _others_alone(tables: Rim) -> "DataFrame":
    """What came of a daemon view that ended was delivered by daemons that went on in the same way, or by one
    that had not signalled: that may have come before the edge went over to those. Of daemon views in which
    nothing came between the two, the edge was not told."""
    move = F.struct("view", "next_view")
    # Later views are greater, so one look from the last to the first finds all that lead there.
    leads = F.aggregate(
        F.sort_array("moves", asc=False),
        F.array("to"),
        lambda known, one: F.when(
            F.array_contains(known, one["next_view"]), F.array_union(known, F.array(one["view"]))
        ).otherwise(known),
    )
    ways = (
        _on_the_way(tables)
        .groupBy("run", "at", "to")
        .agg(F.collect_list(move).alias("moves"))
        .withColumn("leads", leads)
        .withColumn(
            "ways",
            F.transform(
                F.filter(
                    "moves",
                    lambda one: (one["view"] == F.col("at")) & F.array_contains("leads", one["next_view"]),
                ),
                lambda one: one["next_view"].cast("string"),
            ),
        )
        .where(F.size("ways") > 0)
        .select("run", "at", "to", "ways")
    )
    ended = _pairs(tables).where("is_told").select(*STRETCH, "start_position", "at", "to")
    every = tables.sheets.groupBy("run", "bundle", F.col("view").alias("at"))
    taken = every.agg(F.collect_set("way").alias("taken"))
    strange = (
        tables.marks.where((F.col("event") == Event.DELIVER) & (F.col("service") != "unreliable"))
        .withColumn("at", F.col("bundle")[0])
        .join(ended, [*STRETCH, "at"])
        .where(F.col("start_position") < F.col("position"))
        .join(ways, ["run", "at", "to"])
        .join(taken, ["run", "bundle", "at"])
        .where(~F.arrays_overlap("ways", "taken"))
    )
    strange = tables.model.landed("edge_strange", strange)
    return findings(
        strange.join(tables.certain(strange), ["run", "bundle", "group"], "left_anti"),
        text(
            "from daemon view %s, from which the feed of its edge went on to %s; only others delivered it",
            "at", "to",
        ),
        group="group", view="at", processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip


def _untold(tables: Rim) -> "DataFrame":
    gaps = tables.stretches.where(F.col("gap").isNotNull()).select(
        *STRETCH, F.col("gap.position").alias("gap_position")
    )
    delivered = tables.marks.where((F.col("event") == Event.DELIVER) & (F.col("service") != "unreliable"))
    late = delivered.join(gaps, [*STRETCH]).where(
        (F.col("gap_position") < F.col("position")) & ~F.col("is_elsewhere")
    )
    return findings(
        late,
        F.lit("delivered after a gap of its group, which was not told"),
        group="group", processes=["process"], messages=["message"], positions=["position"],
    )  # fmt: skip


def _end(tables: Rim) -> "DataFrame":
    """Whoever wants to be a member when all is over is one."""
    event, position = F.col("event"), F.col("position")
    is_wish = event.isin(Event.JOIN.value, Event.LEAVE.value)
    told = tables.of(Event.JOIN, Event.LEAVE, Event.VIEW, Event.LEFT, Event.GAP)
    ends = tables.of(Event.DISCONNECT).select("run", "process")
    wanted = (
        told.withColumn("group", F.get("groups", F.lit(0)))
        .groupBy("run", "daemon", "process", "group")
        .agg(
            F.max(F.when(is_wish, F.struct("position", "event"))).alias("wish"),
            F.max(F.when(~is_wish, F.struct(position, event))).alias("state"),
        )
        .where(F.col("wish.event") == Event.JOIN)
        .where(~F.coalesce(F.col("state.event") == Event.VIEW, F.lit(False)))
        .join(ends, ["run", "process"], "left_anti")
        .join(tables.runs.select("run", "in_reach"), "run")
        .where(F.array_contains("in_reach", F.col("daemon")))
    )
    return findings(
        wanted,
        text("%s asked to join %s, and is no member in the end", "process", "group"),
        group="group", processes=["process"], positions=["wish.position"],
    )  # fmt: skip


PROPERTIES = (
    Property(
        promises.EDGES,
        (Event.DELIVER, Event.VIEW, Event.TRANSSIG, Event.GAP, Event.HANDED),
        _look,
        is_of_edges=True,
    ),
)
