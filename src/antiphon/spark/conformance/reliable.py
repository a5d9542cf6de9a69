"""2.10: every member that stays gets every message.

A message belongs to the daemon view in which its bundle was sent. It is owed to the processes at those
daemons of that view that go on together with the sender's daemon. For the others it may be lost, and virtual
synchrony (2.7) says what is owed among them.

For clients it speaks of simulated runs: at the end of a live one all sessions go away, and what a session had
not read by then it may lack. There 2.13 finds what is missing between other messages.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import by_group
from antiphon.spark.conformance.traffic import Traffic, is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    tables = traffic(model)
    sent = (
        by_group(tables.messages.where(is_reliable() & F.col("bundle").isNotNull() & ~F.col("live")))
        .select(
            "run", "message", "sender", "send_position", "self_discard", "receivers",
            F.col("bundle")[0].alias("sent_view"), F.col("sender_daemon").alias("daemon"), "group", "view",
        )
    )  # fmt: skip
    ways = tables.daemon_ends.where(F.col("end") != "cut").select(
        "run", "daemon", F.col("view").alias("sent_view"), _next_view().alias("next_view")
    )
    views = tables.group_views.select("run", "group", "view", "members")
    owed = (
        sent.join(ways, ["run", "daemon", "sent_view"])
        .join(_audiences(tables), ["run", "sent_view", "next_view", "group"])
        .join(views, ["run", "group", "view"], "left")
        .withColumn("missing", F.filter("audience", _is_missing))
        .where(F.size("missing") > 0)
        .withColumn("process", F.explode("missing.process"))
    )
    return findings(
        owed,
        text("sent to %s; %s was a member, stayed one and never delivered it", "group", "process"),
        group="group",
        view="view",
        processes=["sender", "process"],
        messages=["message"],
        positions=["send_position"],
    )


def _next_view() -> "Column":
    """Where a daemon went from a view; to the end of the run if nowhere."""
    return F.coalesce("next_view", F.lit(0))


def _audiences(tables: Traffic) -> "DataFrame":
    """For daemons that leave a view together, the processes there that are in a group for good."""
    ends = tables.daemon_ends.where(F.col("end") != "cut")
    return (
        ends.select("run", "daemon", F.col("view").alias("sent_view"), _next_view().alias("next_view"))
        .join(tables.stays, ["run", "daemon"])
        .groupBy("run", "sent_view", "next_view", "group")
        .agg(F.collect_list(F.struct("process", "entered_at", "joined_once")).alias("audience"))
    )


def _is_missing(one: "Column") -> "Column":
    """Whether a process lacks a message: it was a member by its own word when it was sent, or by the
    sender's."""
    by_own_word = F.coalesce(one["entered_at"] < F.col("send_position"), F.lit(False))
    by_senders = one["joined_once"] & F.coalesce(F.array_contains("members", one["process"]), F.lit(False))
    is_kept = F.col("self_discard") & (one["process"] == F.col("sender"))
    return (by_own_word | by_senders) & ~is_kept & ~F.array_contains("receivers", one["process"])


def _look_at_daemons(model: Model) -> "DataFrame":
    goes_with = (F.col("end") == F.col("source_end")) & F.col("next_view").eqNullSafe(
        F.col("source_next_view")
    )
    found = traffic(model).bundle_lacks.where(goes_with & (F.col("end") != "cut"))
    return findings(
        found,
        text(
            "%s sent %s; %s went on together with it and never delivered it",
            "source", bundle_name(), "daemon",
        ),
        view="view",
        processes=["source", "daemon"],
        positions=["send_position"],
    )  # fmt: skip


PROPERTIES = (
    Property(promises.RELIABLE, (Event.SEND,), _look),
    Property(promises.RELIABLE_OF_DAEMONS, (Event.SSEND,), _look_at_daemons),
)
