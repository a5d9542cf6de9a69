"""*quorum*: of the parts of a group of which a member wishes a quorum, at most one has it.

The same rule as the simulator's oracle has, which is the specification. Which views a view follows is a
question about the whole past of a group, so the views of each group of which a member wishes a quorum are
brought together in one row, and judged by a function in Python; there are few of them. Messages play no part.

Who leaves counts no more. When a process left is compared with when others were told of a view, and that only
clocks tell: who may have left in time counts as having left.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import FOUND, Property, none_found
from antiphon.trace import Event, ViewNumber, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class GroupView(Struct, frozen=True):
    """One view of a group."""

    number: ViewNumber
    before: tuple[ViewNumber, ...]
    """The views from which its members came."""
    process: str
    """One that was told of it."""
    position: int
    """Of its record."""
    members: tuple[str, ...]
    has_quorum: bool
    is_wished: bool
    """Whether a member wishes a quorum."""
    since_us: int
    """When the first process was told of it."""
    until_us: int
    """When the last one was."""


Goings = dict[str, list[int | None]]
"""When each process left, or ended; None: it is unknown when, as of a live process whose file just ends."""


def _look(model: Model) -> "DataFrame":
    joins = model.of(Event.JOIN).select("run", F.explode("groups").alias("group"), "process", "minimum")
    wishing = joins.where("minimum != 0")
    if wishing.limit(1).count() == 0:
        return none_found(model)
    key = ["run", "group"]
    wishes = wishing.groupBy(*key).agg(F.collect_set("process").alias("wishing"))
    views = _views(model, wishes).groupBy(*key).agg(F.collect_list("one").alias("views"))
    goings = _goings(model, joins).groupBy(*key).agg(F.collect_list("going").alias("goings"))
    both = model.parts(views.join(goings, key, "left"))
    return both.mapInPandas(_judge_all, FOUND)


def _views(model: Model, wishes: "DataFrame") -> "DataFrame":
    """run, group, one: a view of a group of which a member wishes a quorum, as `GroupView` has it."""
    told = F.struct(
        "process", F.col("start_position").alias("position"), "members", "has_quorum",
        F.arrays_overlap("members", "wishing").alias("is_wished"),
    )  # fmt: skip
    found = (
        model.terms.where("knows_views")
        .join(wishes, ["run", "group"])
        .groupBy("run", "group", "view")
        .agg(
            F.collect_set("previous").alias("before"),
            F.min_by(told, F.struct("start_time_us", "process")).alias("told"),
            F.min("start_time_us").alias("since_us"),
            F.max("start_time_us").alias("until_us"),
        )
    )
    one = F.struct(F.col("view").alias("number"), "before", "told.*", "since_us", "until_us")
    return found.select("run", "group", one.alias("one"))


def _goings(model: Model, joins: "DataFrame") -> "DataFrame":
    """run, group, going (process, time_us, null if it is unknown): who left the group, or ended."""
    going = F.struct("process", "time_us").alias("going")
    left = model.of(Event.LEAVE).select("run", F.explode("groups").alias("group"), going)
    ends = model.of(Event.DISCONNECT).select("run", "process", "time_us")
    untold = model.processes.where(F.col("live") & F.col("disconnect_position").isNull())
    untold = untold.select("run", "process", F.lit(None).cast("bigint").alias("time_us"))
    members = joins.select("run", "group", "process").distinct()
    ended = members.join(ends.unionByName(untold), ["run", "process"]).select("run", "group", going)
    return left.unionByName(ended)


def _judge_all(frames: Iterable[Any]) -> Iterator[Any]:
    """What is found in each row of frames of Pandas, as frames of findings."""
    import pandas

    columns = ("run", "what", "group", "view", "processes", "messages", "positions")
    for frame in frames:
        found: list[tuple[Any, ...]] = []
        for row in frame.itertuples():
            goings: Goings = {}
            for one in row.goings if row.goings is not None else ():
                known = one["time_us"] is not None
                goings.setdefault(one["process"], []).append(int(one["time_us"]) if known else None)
            for earlier, later in apart(list(map(_group_view, row.views)), goings):
                found.append(
                    (
                        row.run,
                        f"view {_words(earlier)} and view {_words(later)} of {row.group} have quorum, and "
                        "neither follows the other",
                        row.group, _words(later), [earlier.process, later.process], [],
                        [earlier.position, later.position],
                    )
                )  # fmt: skip
        yield pandas.DataFrame(found, columns=columns)


def apart(views: Sequence[GroupView], goings: Goings) -> Iterator[tuple[GroupView, GroupView]]:
    """Any two views of a group that have quorum although neither follows the other, and the members of the
    later one are not more than half of those of the earlier one who were members before the two were parted
    and have not left."""
    in_order = sorted(views, key=lambda view: view.number)  # at one process, later views are greater
    wished = {view.number for view in views if view.is_wished}
    past: dict[ViewNumber, frozenset[ViewNumber]] = {}
    for view in in_order:
        past[view.number] = frozenset(view.before).union(
            *(past.get(before, frozenset()) for before in view.before)
        )
    members = {view.number: view.members for view in views}
    having = [view for view in in_order if view.is_wished and view.has_quorum]
    for place, later in enumerate(having):
        for earlier in having[:place]:
            shared = past[earlier.number] & past[later.number]
            if earlier.number in past[later.number] or wished.isdisjoint(shared):
                continue
            last = shared.difference(*(past.get(number, frozenset()) for number in shared))
            known = {process for number in last for process in members.get(number, ())}
            if not _is_outvoted(earlier, later, known, goings):
                yield earlier, later


def _is_outvoted(earlier: GroupView, later: GroupView, known: set[str], goings: Goings) -> bool:
    here = set(later.members)
    staying = {
        process
        for process in known.intersection(earlier.members)
        if process in here
        or not any(
            gone_us is None or earlier.since_us <= gone_us <= later.until_us
            for gone_us in goings.get(process, ())
        )
    }
    return 2 * len(staying & here) > len(staying)


def _group_view(one: Any) -> GroupView:
    return GroupView(
        _number(one["number"]), tuple(map(_number, one["before"])), one["process"], int(one["position"]),
        tuple(one["members"]), bool(one["has_quorum"]), bool(one["is_wished"]), int(one["since_us"]),
        int(one["until_us"]),
    )  # fmt: skip


def _number(numbers: Any) -> ViewNumber:
    epoch, branch, lts, daemon = map(int, numbers)
    return (epoch, branch, lts, daemon)


def _words(view: GroupView) -> str:
    return ".".join(map(str, view.number))


PROPERTIES = (Property(promises.QUORUM, (Event.JOIN, Event.VIEW), _look),)
