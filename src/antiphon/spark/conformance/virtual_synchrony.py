"""2.7: those who move together from view to view have delivered the same messages.

Reliable and FIFO messages are not tied to the views of groups (thesis 2.2.4): as in the simulator's oracle,
the property speaks of processes that stay, and whose daemons went on together from the daemon view in which
the message was sent. What a member got early, because it chose less than an order, others need not get.
Between daemons it holds as it is written, for every service.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import Traffic, daemon_of, is_in_order, is_ordered, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOVES_ON = ("view", "end")


def _look(model: Model) -> "DataFrame":
    tables = traffic(model)
    companions = F.filter("takers", lambda one: _goes_with(one) & _has_it_for_all(one))
    missing = (
        tables.lacks.where(F.col("end").isin(*_MOVES_ON) & ~F.col("is_elsewhere"))
        .withColumn("companions", companions)
        .where(F.size("companions") > 0)
    )
    has_order = F.exists("companions", lambda one: is_ordered(one["service"]))
    weak = _owed_to_those_who_stay(tables, missing.where(~has_order))
    found = missing.where(has_order).unionByName(weak.select(*missing.columns))
    witness = F.col("companions")[0]["process"]
    return findings(
        found,
        text(
            "%s delivered it in view %s of %s, %s moved on together with it and never did",
            witness, "view", "group", "process",
        ),
        group="group",
        view="view",
        processes=[witness, F.col("process")],
        messages=["message"],
        positions=["first_position"],
    )  # fmt: skip


def _goes_with(taker: "Column") -> "Column":
    """Whether one who delivered it goes on together with the one who lacks it."""
    return taker["end"].isin(*_MOVES_ON) & taker["next_view"].eqNullSafe(F.col("next_view"))


def _has_it_for_all(taker: "Column") -> "Column":
    """Whether one did not get it early, for less than an order: then others need not get it."""
    return is_in_order(taker["delivery"])


def _owed_to_those_who_stay(tables: Traffic, missing: "DataFrame") -> "DataFrame":
    """The missing reliable and FIFO messages that had to come all the same."""
    ends = tables.daemon_ends.where(F.col("end") != "cut")

    def way(role: str) -> "DataFrame":
        return ends.select(
            "run", F.col("view").alias("sent_view"), F.col("daemon").alias(role),
            F.struct("end", "next_view").alias(f"{role}_way"),
        )  # fmt: skip

    stays = tables.stays.select("run", "process", "group", "settled_at")
    return (
        missing.join(stays, ["run", "process", "group"])
        .where(F.coalesce(F.col("settled_at") < F.col("start_position"), F.lit(True)))
        .withColumns(
            {
                "sent_view": F.col("bundle")[0],
                "giver": F.explode(F.transform("companions", lambda one: daemon_of(one["process"]))),
                "asker": F.col("daemon"),
            }
        )
        .join(way("giver"), ["run", "sent_view", "giver"])
        .join(way("asker"), ["run", "sent_view", "asker"])
        .where(F.col("giver_way").eqNullSafe(F.col("asker_way")))
        .dropDuplicates(["run", "process", "group", "view", "message"])
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    found = (
        traffic(model)
        .bundle_lacks.where(F.col("end").isin(*_MOVES_ON))
        .withColumn("companions", F.filter("takers", _goes_with))
        .where(F.size("companions") > 0)
    )
    witness = F.col("companions")[0]
    return findings(
        found,
        text(
            "%s delivered %s; %s moved on from daemon view %s together with it and did not",
            witness["daemon"], bundle_name(), "daemon", "view",
        ),
        view="view",
        processes=[witness["daemon"], F.col("daemon")],
        positions=[witness["position"]],
    )  # fmt: skip


PROPERTIES = (
    Property(promises.VIRTUAL_SYNCHRONY, (Event.DELIVER,), _look),
    Property(promises.VIRTUAL_SYNCHRONY_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
