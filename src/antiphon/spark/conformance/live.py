"""What must be known of live runs before they can be judged like simulated ones.

In a live run views have names, and a name may have been borne by several sessions, one after the other. And a
session writes down what it hands to its library: if it broke off, its daemon may never have read that. The
same is done for one live run in one process by `antiphon.trace.merging`, which is the specification.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from antiphon.trace import RELIABLE_SERVICES, Event, LockState, Record
from antiphon.trace.bearers import tell_apart
from antiphon.trace.merging import ASKED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_processes(told: "DataFrame", others: "DataFrame", names: list[str]) -> "DataFrame":
    """View and lock events, those of the live runs `names` with processes instead of the names that they
    bear; `others` are the connects and lefts."""
    everything = told.unionByName(others).where(F.col("run").isin(*names))
    apart = everything.groupBy("run").applyInPandas(_told_apart, told.schema)
    return told.where(~F.col("run").isin(*names)).unionByName(apart)


def runs_with_heirs(events: "DataFrame") -> list[str]:
    """The live runs in which a name was borne by more than one session."""
    heirs = events.where((F.col("event") == Event.CONNECT) & F.col("live") & F.col("process").contains("!"))
    return [row.run for row in heirs.select("run").distinct().collect()]


def _told_apart(events: Any) -> Any:
    """Tells the sessions of one run apart; `events` and the result are frames of Pandas.

    Between the files of a run, clocks tell what came first; a clock that is set back does not change the
    order in its file.
    """
    rows = events.sort_values(["process", "position"])
    rows["happened_us"] = rows.groupby("process")["time_us"].cummax()
    rows = rows.sort_values(["happened_us", "process", "position"]).drop(columns="happened_us")
    rows = rows.reset_index(drop=True)
    records = [
        Record(
            row.position, row.time_us, Event(row.event), row.daemon, row.process,
            groups=tuple(row.groups), views=tuple(map(_view, row.views)),
            members=tuple(row.members), transitional=tuple(row.transitional), changed=tuple(row.changed),
            cause=row.cause, locks=tuple(map(_lock, row.locks)),
        )
        for row in rows.itertuples()
    ]  # fmt: skip
    tell_apart(records)
    for name in ("members", "transitional", "changed"):
        rows[name] = [list(getattr(record, name)) for record in records]
    rows["locks"] = [[dict(zip(_LOCK, lock, strict=True)) for lock in record.locks] for record in records]
    return rows[rows["event"].isin((Event.VIEW.value, Event.LOCK.value))]


_LOCK = ("name", "holder", "fence", "waiting")


def _lock(one: Any) -> LockState:
    return one["name"], one["holder"], int(one["fence"]), tuple(one["waiting"])


def _view(numbers: Any) -> Any:
    return None if numbers is None else tuple(int(number) for number in numbers)


def without_unread(sends: "DataFrame", processes: "DataFrame", deliveries: "DataFrame") -> "DataFrame":
    """Messages of live sessions, except those that no daemon is known to have read."""
    key = ["run", "message"]
    broken = processes.where(F.col("live") & ~F.col("disconnect_cause").eqNullSafe(ASKED))
    suspects = (
        sends.where(F.col("live") & F.col("bundle").isNull() & F.col("service").isin(*RELIABLE_SERVICES))
        .join(broken.select("run", "process"), ["run", "process"], "left_semi")
        .select(*key)
    )
    unread = suspects.join(deliveries.where("live").select(*key), key, "left_anti")
    return sends.join(unread, key, "left_anti")
