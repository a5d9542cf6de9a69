"""2.12: nothing overtakes its own causes.

The simulator's oracle follows real causality with a vector for every process. Here the timestamps stand for
it: `one_order` checks every delivery against them, so causes come first if a message is stamped later than
all that its sender had sent and delivered (definition 2.6), at whatever service. This asks for a little more
than 2.12: a stamp that is too early is found even where no process received both messages in the wrong order.

Messages of the causal service are delivered ahead of their places, so of these the oracle alone sees whether
their causes came first; here they are held to the order of their session (2.11) and to the views of their
groups (2.9).

Between daemons it is the same, with bundles.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.stamps import after_newest, with_newest
from antiphon.spark.conformance.traffic import is_reliable, traffic
from antiphon.spark.conformance.verdict import Property, findings
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    sent = traffic(model).messages.where("sender is not null and lts > 0")
    sends = sent.select(
        "run", F.col("sender").alias("process"), F.col("send_position").alias("position"), "message", "lts",
        F.lit(True).alias("is_send"), is_reliable().alias("is_reliable"),
    )  # fmt: skip
    deliveries = model.deliveries.select(
        "run", "process", "position", "message", "lts", F.lit(False).alias("is_send"),
        is_reliable().alias("is_reliable"),
    )  # fmt: skip
    is_send = F.col("is_send")
    # Messages of one bundle have one stamp, so that of an earlier send may be the same.
    bar = F.struct(
        F.when(is_send, F.col("lts") - 1).otherwise(F.col("lts")).alias("lts"), "message", "position"
    )
    seen = model.parts(sends.unionByName(deliveries)).withColumn("cause", F.max(bar).over(earlier("process")))
    # An unreliable message takes no place of its own: it has the stamp of the newest thing in its past.
    least = F.col("cause.lts") + F.col("is_reliable").cast("long")
    found = seen.where(is_send & (F.col("lts") < least))
    return findings(
        found,
        F.lit("sent with a timestamp that is not later than that of a message in its past"),
        processes=["process"],
        messages=[F.col("cause.message"), F.col("message")],
        positions=[F.col("cause.position"), F.col("position")],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    columns = ["run", "daemon", "life", "position", "bundle", "lts"]
    sends = model.bundle_sends.where("life is not null").select(*columns, F.lit(True).alias("is_send"))
    deliveries = model.bundle_deliveries.where("life is not null").select(
        *columns, F.lit(False).alias("is_send")
    )
    seen = with_newest(model.parts(sends.unionByName(deliveries)))
    found = seen.where(F.col("is_send") & (F.col("lts") <= F.col("newest.lts")))
    return after_newest(found, "sent %s with lts %s after %s with lts %s")


PROPERTIES = (
    Property(promises.CAUSAL, (Event.SEND, Event.DELIVER), _look),
    Property(promises.CAUSAL_OF_DAEMONS, (Event.SSEND, Event.SDELIVER), _look_at_daemons),
)
