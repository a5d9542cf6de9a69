"""2.15: a member gets its own messages, however the views change.

For clients it speaks of simulated runs: at the end of a live one all sessions go away, and what a session had
not read by then it may lack.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import by_group
from antiphon.spark.conformance.traffic import is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    tables = traffic(model)
    stays = tables.stays.select("run", F.col("process").alias("sender"), "group", "settled_at")
    found = (
        by_group(
            tables.messages.where(
                is_reliable() & ~F.col("self_discard") & ~F.array_contains("receivers", F.col("sender"))
            )
        )
        .where(F.col("view").isNotNull())
        .join(stays, ["run", "sender", "group"])
        .where(F.coalesce(F.col("settled_at") < F.col("send_position"), F.lit(True)))
    )
    return findings(
        found,
        text("sent to %s as a member, and never got it back", "group"),
        group="group",
        view="view",
        processes=["sender"],
        messages=["message"],
        positions=["send_position"],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    is_own = F.col("daemon") == F.col("source")
    found = traffic(model).bundle_lacks.where(is_own & (F.col("source_end") != "cut"))
    return findings(
        found,
        text("never delivered its own %s", bundle_name()),
        view="view",
        processes=["daemon"],
        positions=["send_position"],
    )


PROPERTIES = (
    Property(promises.SELF_DELIVERY, (Event.SEND,), _look),
    Property(promises.SELF_DELIVERY_OF_DAEMONS, (Event.SSEND,), _look_at_daemons),
)
