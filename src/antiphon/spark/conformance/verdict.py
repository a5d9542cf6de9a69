"""A property as a Spark job, and what is said when a run breaks it.

A property is a function from the model to a DataFrame of findings, see `findings`. Several properties are one
job: what most jobs cost is not their rows but their plans and stages, and what one property brings together
another one can use. How many findings a run has, and the first few of them, is all that leaves Spark.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from msgspec import Struct
from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.source import Counts
from antiphon.trace import Event, Identity, promises
from antiphon.trace.promises import Promise

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Several = Iterable[Column | str] | Column

VIOLATIONS_MAX = 5
"""Told per property and run: one is enough to fail, a few help to understand."""
RUNS_MAX = 200
"""Runs whose violations are told in words, per property; all are counted."""
SILENT_ON_LIVE = frozenset(
    (
        promises.RELIABLE, promises.SELF_DELIVERY, promises.TERMINATION, promises.TERMINATION_OF_DAEMONS,
        promises.CALLS,
    )
)  # fmt: skip
"""Promises that find nothing to judge in a live run: they speak of those who stay to the end of the run, and
in a live run none is known to; or of calls, of which live runs do not tell. Events of live runs do not count
as checked by them."""


class Violation(Struct, frozen=True):
    """One broken promise, with all that is needed to look at it again."""

    number: str
    title: str
    promise: str
    run: str
    what: str
    group: str
    view: str
    """The view of the group, or of daemons; empty if the finding is not about one view."""
    processes: tuple[str, ...]
    """Sessions, or daemons where the property speaks of daemons."""
    messages: tuple[Identity, ...]
    positions: tuple[int, ...]
    """Positions in the run if it was simulated, in the file of each process if it was real."""

    @property
    def name(self) -> str:
        """As in the verdict of the simulator's oracle."""
        return f"{self.number} {self.title}"

    def __str__(self) -> str:
        facts = {
            "promised": self.promise,
            "group": self.group,
            "view": self.view,
            "processes": ", ".join(self.processes),
            "messages": ", ".join(".".join(map(str, message)) for message in self.messages),
            "positions": ", ".join(map(str, self.positions)),
        }
        lines = [f"property {self.name} broken in {self.run}: {self.what}"]
        return "\n".join(lines + [f"  {word}: {fact}" for word, fact in facts.items() if fact])


class Outcome(Struct, frozen=True):
    """What one property says of all runs."""

    number: str
    title: str
    checked: int
    """How many events were checked; those of live runs only if it judges these."""
    violations: int
    """All of them."""
    runs: int
    """The number of runs with findings."""
    by_run: dict[str, int]
    """Violations of each run that has some, whatever their number: the verdict on a run is exact."""
    told: tuple[Violation, ...]
    """The first few of each run, of `RUNS_MAX` runs."""

    @property
    def name(self) -> str:
        """As in the verdict of the simulator's oracle."""
        return f"{self.number} {self.title}"


class Property(Struct, frozen=True):
    """One promise of the system, and the job that checks traces against it."""

    promise: Promise
    subject: tuple[Event, ...]
    """The events that it is about, of which `checked` counts how many there were."""
    look: Callable[[Model], "DataFrame"]
    """Findings, in the form that `findings` gives them."""
    is_of_edges: bool = False
    """Whether it is about members at edges. They are in no view, and no other property speaks of them."""

    @property
    def is_of_daemons(self) -> bool:
        """Whether it speaks of daemons and bundles, and not of clients and messages."""
        return not {Event.VIEW, Event.TRANSSIG, Event.SEND, Event.DELIVER}.intersection(self.subject)

    def outcome(self, found: Sequence[Any], counts: Counts) -> Outcome:
        """What `found` says: a row for each run that breaks it, with `run`, `total` and `few`."""
        promise = self.promise
        by_run = {row.run: row.total for row in sorted(found, key=lambda row: row.run)}
        named = set(list(by_run)[:RUNS_MAX])
        told = [
            Violation(
                promise.number, promise.title, promise.words, row.run, one.what, one.group, one.view,
                tuple(one.processes), tuple(tuple(message) for message in one.messages), tuple(one.positions),
            )
            for row in sorted(found, key=lambda row: row.run)
            if row.run in named
            for one in sorted(row.few, key=lambda one: (one.positions, one.what))
        ]  # fmt: skip
        kinds = (False,) if promise in SILENT_ON_LIVE else (False, True)
        checked = sum(
            counts.get((event.value, live, self.is_of_edges), 0) for event in self.subject for live in kinds
        )
        return Outcome(
            promise.number, promise.title, checked, sum(by_run.values()), len(by_run), by_run, tuple(told)
        )


def judge(model: Model, properties: Sequence[Property]) -> list[Outcome]:
    """Check several properties of the model in one job."""
    told = F.struct("positions", "what", "group", "view", "processes", "messages").alias("told")
    looks = [
        prop.look(model).select(F.lit(place).alias("property"), "run", told)
        for place, prop in enumerate(properties)
        if model.source.has_simulated or prop.promise not in SILENT_ON_LIVE
    ]
    found = _gathered(model, looks) if looks else []
    return [
        prop.outcome([row for row in found if row.property == place], model.source.counts)
        for place, prop in enumerate(properties)
    ]


def _gathered(model: Model, looks: "Sequence[DataFrame]") -> Sequence[Any]:
    """A row for each property and run with findings: how many there are, and the first few."""
    return (
        model.parts(reduce(lambda one, other: one.unionByName(other), looks))
        .groupBy("property", "run")
        .agg(
            F.count("*").alias("total"),
            F.min_by("told", F.struct("told.positions", "told.what"), VIOLATIONS_MAX).alias("few"),
        )
        .collect()
    )


class Place(TypedDict, total=False):
    """Where something was found.

    `view` is a daemon view's number or a group view's four. Each list is given as its columns (of a message:
    its identity), or as one column that is a list; nulls among them are left out.
    """

    group: "Column | str | None"
    view: "Column | str | None"
    processes: "Several"
    messages: "Several"
    positions: "Several"


def finding(what: "Column", **place: Unpack[Place]) -> "Column":
    """What was found, as one column: a struct of what, group, view, processes, messages, positions."""
    view = place.get("view")
    return F.struct(
        what.alias("what"),
        F.coalesce(_column(place.get("group")), F.lit("")).alias("group"),
        F.coalesce(words(view) if view is not None else F.lit(None), F.lit("")).alias("view"),
        _list(place.get("processes", ()), "array<string>").alias("processes"),
        _list(place.get("messages", ()), "array<array<bigint>>").alias("messages"),
        _list(place.get("positions", ()), "array<bigint>").alias("positions"),
    )


def findings(frame: "DataFrame", what: "Column", **place: Unpack[Place]) -> "DataFrame":
    """Each row of `frame`, which has a column `run`, as a finding (see there).

    Columns: run, what, group, view, processes, messages, positions.
    """
    return frame.select("run", finding(what, **place).alias("told")).select("run", "told.*")


FOUND = (
    "run string, what string, group string, view string, processes array<string>, "
    "messages array<array<bigint>>, positions array<bigint>"
)
"""The columns of findings."""


def none_found(model: Model) -> "DataFrame":
    """No findings: there is nothing that a property could speak of."""
    return model.spark.createDataFrame([], FOUND)


def either(frame: "DataFrame", *cases: "tuple[Column, Column]") -> "DataFrame":
    """For each row, the finding of each case whose condition holds: several kinds in one pass."""
    found = F.array_compact(F.array(*(F.when(condition, told) for condition, told in cases)))
    return frame.select("run", F.explode(found).alias("told")).select("run", "told.*")


def words(one: "Column | str") -> "Column":
    """A value in words: of a view, a message or a bundle its numbers with dots between; null stays null."""
    return F.translate(F.regexp_replace(_column(one).cast("string"), ", ", "."), "[]", "")


def text(pattern: str, *columns: "Column | str") -> "Column":
    """`pattern` with %s for each column, which is put in `words`; what is null is called none."""
    return F.format_string(pattern, *(F.coalesce(words(one), F.lit("none")) for one in columns))


def bundle_name(bundle: "Column | str" = "bundle") -> "Column":
    """A bundle in words, as the simulator's oracle names it."""
    numbers = _column(bundle)
    return F.coalesce(
        text("bundle %s of daemon %s in daemon view %s", numbers[2], numbers[1], numbers[0]),
        F.lit("a bundle without a name"),
    )


def _column(one: "Column | str | None") -> "Column":
    return F.lit(None).cast("string") if one is None else F.col(one) if isinstance(one, str) else one


def _list(several: "Several", kind: str) -> "Column":
    from pyspark.sql import Column

    if isinstance(several, Column):
        return F.array_compact(several.cast(kind))
    found = [_column(one) for one in several]
    return F.array_compact(F.array(*found)).cast(kind) if found else F.array().cast(kind)
