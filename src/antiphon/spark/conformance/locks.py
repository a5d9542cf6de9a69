"""*locks*: a lock has one holder at most, none without quorum, passes on in the order of asking, and every
grant has a greater number than those before; all members see the same.

The same rule as the simulator's oracle has, which is the specification. Along one process, each state of a
lock is held against the one before; by view, all who were in it are to be told the same: they all are if the
least and the greatest are equal, and so it is for the first change of each, the second and so on.
"""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import (
    Place,
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

_OF_PROCESS = ("run", "process", "group")


def _look(model: Model) -> "DataFrame":
    if not model.has_locks:
        return none_found(model)
    told = _told(model)
    states = _states(told)
    parts = (
        findings(
            told.where(~F.col("is_member")),
            text("told of a lock of %s while it is no member", "group"),
            group="group", processes=["process"], positions=["position"],
        ),
        either(states, *_cases()),
        _two_holders(states),
        _different_starts(told),
        _different_changes(told),
    )  # fmt: skip
    return reduce(lambda one, other: one.unionByName(other), parts)


def _told(model: Model) -> "DataFrame":
    """The views and changes of locks that processes were told of.

    run, process, group, position, event, locks, changed, cause; is_member (it is, as far as it knows), term
    (counts its views), life (counts its memberships), was_member (it was in a view before this event), start
    (of its view: position, view, members, has_quorum), is_signalled (its view is about to end), next_view.
    """
    event = F.col("event")
    is_view, is_left = event == Event.VIEW, event == Event.LEFT
    marks = model.lock_marks.where(~is_view | F.col("view").isNotNull())
    in_order = Window.partitionBy(*_OF_PROCESS).orderBy("position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    after = in_order.rowsBetween(1, Window.unboundedFollowing)
    is_step = is_view | is_left
    is_in = F.when(is_step, is_view)
    start = F.struct("position", "view", "members", "has_quorum")
    signal = F.when(event == Event.TRANSSIG, F.col("position"))
    told = marks.withColumns(
        {
            "term": F.sum(is_view.cast("long")).over(so_far),
            "life": F.sum(is_left.cast("long")).over(so_far),
            "is_member": F.coalesce(F.last(is_in, ignorenulls=True).over(so_far), F.lit(False)),
            "was_member": F.coalesce(F.last(is_in, ignorenulls=True).over(before), F.lit(False)),
            "start": F.last(F.when(is_view, start), ignorenulls=True).over(so_far),
            "signal": F.last(signal, ignorenulls=True).over(so_far),
            "next": F.first(F.when(is_step, F.struct("event", "view")), ignorenulls=True).over(after),
        }
    ).where(is_view | (event == Event.LOCK))
    is_signalled = F.coalesce(F.col("signal") > F.col("start.position"), F.lit(False))
    next_view = F.when(F.col("next.event") == Event.VIEW, F.col("next.view"))
    return model.landed(
        "told_of_locks",
        told.select(
            *_OF_PROCESS, "position", "event", "locks", "changed", "cause", "is_member", "term", "life",
            "was_member", "start", is_signalled.alias("is_signalled"), next_view.alias("next_view"),
        ),
    )  # fmt: skip


# Along one process ----------------------------------------------------------------------------------------


def _states(told: "DataFrame") -> "DataFrame":
    """Each state of a lock that a process was told: those of `told` but locks; name, holder, fence, waiting;
    had_holder, had_fence and had_waiting of the state before (nobody's, if there was none); newest (the
    greatest grant that it knew)."""
    each = told.where("is_member").withColumn("lock", F.explode("locks")).select("*", "lock.*")
    each = each.drop("locks", "lock")
    in_order = Window.partitionBy(*_OF_PROCESS, "name").orderBy("position")
    in_life = Window.partitionBy(*_OF_PROCESS, "name", "life").orderBy("position")
    grant = F.when(F.col("holder") != "", F.col("fence"))
    each = each.withColumns(
        {
            "last": F.lag(F.struct("term", "holder", "fence", "waiting")).over(in_order),
            "newest": F.max(grant).over(in_life.rowsBetween(Window.unboundedPreceding, -1)),
        }
    )
    # A view has all locks: what it does not name is nobody's, whatever was told before it.
    is_view = F.col("event") == Event.VIEW
    distance = F.when(is_view, 1).otherwise(0)
    is_known = (F.col("last.term") + distance == F.col("term")) & (~is_view | F.col("was_member"))
    had = F.when(is_known, F.col("last"))
    return each.withColumns(
        {
            "had_holder": F.coalesce(had["holder"], F.lit("")),
            "had_fence": F.coalesce(had["fence"], F.lit(0)),
            "had_waiting": F.coalesce(had["waiting"], F.array().cast("array<string>")),
            "newest": F.coalesce("newest", F.lit(0)),
        }
    )


def _cases() -> "Iterator[tuple[Column, Column]]":
    """What can be wrong with the state of a lock, in the light of the one before. After the signal, no lock
    is granted in a group with a quorum."""
    members, holder, waiting = F.col("start.members"), F.col("holder"), F.col("waiting")
    is_held, has_quorum = holder != "", F.col("start.has_quorum")
    is_change = F.col("event") == Event.LOCK
    asker = F.get("changed", F.lit(0))

    def at(what: "Column") -> "Column":
        return finding(what, group="group", view="start.view", processes=["process"], positions=["position"])

    yield (
        is_held & ~has_quorum,
        at(text("lock %s has a holder although the group has no quorum", "name")),
    )
    is_strange = (F.size(F.array_except(waiting, members)) > 0) | (
        is_held & ~F.array_contains(members, holder)
    )
    yield is_strange, at(text("lock %s is held or waited for by one who is no member", "name"))
    is_twice = F.array_contains(waiting, holder) | (F.size(F.array_distinct(waiting)) < F.size(waiting))
    yield is_twice, at(text("a session holds lock %s and waits for it, or waits twice", "name"))
    yield (
        ~is_held & (F.size(waiting) > 0) & has_quorum & ~F.col("is_signalled"),
        at(text("no session holds lock %s, and some wait for it", "name")),
    )
    passes = (
        (is_change | F.col("was_member"))
        & (F.col("cause") != "merge")
        & is_held
        & (holder != F.col("had_holder"))
    )
    is_kept = F.array_contains(members, F.col("had_holder")) & (asker != F.col("had_holder"))
    yield (
        passes & is_change & (F.col("had_holder") != "") & is_kept,
        at(text("lock %s passes on although its holder has not given it back", "name")),
    )
    is_given_up = is_change & (F.col("cause") == "released")
    queue = F.filter(
        "had_waiting", lambda one: F.array_contains(members, one) & ~(is_given_up & (one == asker))
    )
    first = F.get(queue, F.lit(0))
    yield (
        F.coalesce(passes & (first != holder), F.lit(False)),
        at(text("lock %s goes to %s, not to %s, who has waited longer", "name", holder, first)),
    )
    is_new = (holder != F.col("had_holder")) | (F.col("fence") != F.col("had_fence"))
    yield (
        is_held & is_new & (F.col("fence") <= F.col("newest")),
        at(text("grant %s of lock %s comes after %s", "fence", "name", "newest")),
    )


# By grant and by view -------------------------------------------------------------------------------------


def _two_holders(states: "DataFrame") -> "DataFrame":
    held = states.where("holder != ''")
    found = _differing(held, ["run", "group", "name", "fence"], F.col("holder"))
    return findings(
        found,
        text("grant %s of lock %s of %s is %s's and %s's", "fence", "name", "group", "least", "greatest"),
        **_of_both(),
    )


def _different_starts(told: "DataFrame") -> "DataFrame":
    starts = told.where(F.col("event") == Event.VIEW).withColumn("view", F.col("start.view"))
    what = F.struct("locks", "start.has_quorum")
    return findings(
        _differing(starts, ["run", "group", "view"], what),
        F.lit("they begin one view with different locks, or quorum"),
        **_of_both("view"),
    )


def _different_changes(told: "DataFrame") -> "DataFrame":
    """Those who went on together saw the same changes, and all others the same before the signal: of any two,
    one saw the first few of what the other one saw."""
    in_view = told.where("is_member").withColumn("view", F.col("start.view"))
    is_change = F.col("event") == Event.LOCK
    said = F.struct("locks", "cause", "changed")
    changes = (
        in_view.where(F.col("next_view").isNotNull())
        .groupBy(*_OF_PROCESS, "term", "view", "next_view")
        .agg(
            F.sort_array(F.collect_list(F.when(is_change, F.struct("position", said.alias("said"))))).alias(
                "changes"
            ),
            F.min("position").alias("position"),
        )
    )
    what = F.transform("changes", lambda one: one["said"])
    apart = findings(
        _differing(changes, ["run", "group", "view", "next_view"], what),
        F.lit("they went on together and saw different locks"),
        **_of_both("view"),
    )
    before = in_view.where(is_change & ~F.col("is_signalled"))
    in_order = Window.partitionBy(*_OF_PROCESS, "term").orderBy("position")
    before = before.withColumn("number", F.row_number().over(in_order))
    return apart.unionByName(
        findings(
            _differing(before, ["run", "group", "view", "number"], said),
            F.lit("they saw different locks before the signal"),
            **_of_both("view"),
        )
    )


def _differing(rows: "DataFrame", key: list[str], what: "Column") -> "DataFrame":
    """Where two rows with the same key say different things: the key; least and greatest of what they say;
    one and other, who says so (process, position)."""
    witness = F.struct("process", "position")
    return (
        rows.withColumn("what", what)
        .groupBy(*key)
        .agg(
            F.min("what").alias("least"),
            F.max("what").alias("greatest"),
            F.min_by(witness, "what").alias("one"),
            F.max_by(witness, "what").alias("other"),
        )
        .where(F.col("least") != F.col("greatest"))
    )


def _of_both(view: str | None = None) -> Place:
    return {
        "group": "group",
        "view": view,
        "processes": ["one.process", "other.process"],
        "positions": ["one.position", "other.position"],
    }


PROPERTIES = (Property(promises.LOCKS, (Event.VIEW, Event.LOCK), _look),)
