"""2.12: nothing overtakes its own causes.

The simulator's oracle follows real causality with a vector for every process. Here the timestamps stand for
it: `one_order` checks every delivery against them, so causes come first if a message is stamped later than
all that its sender had sent and delivered (definition 2.6), at whatever service. This asks for a little more
than 2.12: a stamp that is too early is found even where no process received both messages in the wrong order.

Messages of the causal service are delivered ahead of their places, and those of loose bundles have none. So
of these the oracle alone sees whether they come after their causes and before their effects; here they are
held to the order of their session (2.11) and to the views of their groups (2.9).

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
    # Where places are given later, an unreliable message may wait for those of what its session sent before,
    # and is stamped when it goes; what follows it does not come after that stamp.
    is_bar = is_reliable() | ~F.col("has_places")
    sends = sent.join(model.runs.select("run", "has_places"), "run").select(
        "run", F.col("sender").alias("process"), F.col("send_position").alias("position"), "message",
        F.least(F.col("lts"), F.col("stamps")[0]).alias("lts"), F.lit(True).alias("is_send"),
        is_reliable().alias("is_reliable"), is_bar.alias("is_bar"),
    )  # fmt: skip
    deliveries = model.deliveries.select(
        "run", "process", "position", "message", "lts", F.lit(False).alias("is_send"),
        is_reliable().alias("is_reliable"), F.lit(True).alias("is_bar"),
    )  # fmt: skip
    is_send = F.col("is_send")
    # Messages of one bundle have one stamp, so that of an earlier send may be the same.
    bar = F.struct(
        F.when(is_send, F.col("lts") - 1).otherwise(F.col("lts")).alias("lts"), "message", "position"
    )
    cause = F.max(F.when(F.col("is_bar"), bar)).over(earlier("process"))
    seen = model.parts(sends.unionByName(deliveries)).withColumn("cause", cause)
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
    columns = [F.col(name) for name in ("run", "daemon", "life", "position", "bundle")]
    columns.append(F.col("lts").alias("stamp"))
    sends = model.bundle_sends.where("life is not null").select(*columns, F.lit(True).alias("is_send"))
    deliveries = model.bundle_deliveries.where("life is not null").select(
        *columns, F.lit(False).alias("is_send")
    )
    seen = with_newest(model.parts(sends.unionByName(deliveries)))
    found = seen.where(F.col("is_send") & (F.col("stamp") <= F.col("newest.stamp")))
    return after_newest(found, "sent %s with lts %s after %s with lts %s")


PROPERTIES = (
    Property(promises.CAUSAL, (Event.SEND, Event.DELIVER), _look),
    Property(promises.CAUSAL_OF_DAEMONS, (Event.SSEND, Event.SDELIVER), _look_at_daemons),
)
