"""2.11: the order of one sender; for daemons, too, the senders are the sessions whose messages they carry."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.traffic import is_reliable
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import FIFO_SERVICES, Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    return _judge(model.deliveries, ["process"], "process")


def _look_at_daemons(model: Model) -> "DataFrame":
    return _judge(model.bundle_deliveries.where("life is not null"), ["daemon", "life"], "daemon")


def _judge(deliveries: "DataFrame", receiver: list[str], name: str) -> "DataFrame":
    """What a receiver delivered after something later from the same session, at FIFO service or better."""
    message = F.col("message")
    judged = deliveries.where(message.isNotNull() & is_reliable()).select(
        "run", *receiver, "position", "message", "service",
        message[0].alias("sender_daemon"), message[1].alias("incarnation"), message[2].alias("session"),
        message[3].alias("sequence"),
    )  # fmt: skip
    before = earlier(*receiver, "sender_daemon", "incarnation", "session")
    is_fifo = F.col("service").isin(*sorted(FIFO_SERVICES))
    newest = F.max(F.when(is_fifo, F.struct("sequence", "message", "position", "service"))).over(before)
    found = judged.withColumn("newest", newest).where(F.col("newest.sequence") > F.col("sequence"))
    return findings(
        found,
        text("the later %s message came first", "newest.service"),
        processes=[name],
        messages=[F.col("message"), F.col("newest.message")],
        positions=[F.col("newest.position"), F.col("position")],
    )


PROPERTIES = (
    Property(promises.FIFO, (Event.DELIVER,), _look),
    Property(promises.FIFO_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
