"""2.6: only what was sent, as it was sent.

That a message was sent *before* it was delivered can be seen in simulated runs only, where all positions are
places in one order. In a live run some sessions may have no trace: what they sent is not judged.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.traffic import came_as, traffic
from antiphon.spark.conformance.verdict import Property, bundle_name, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    found = traffic(model).messages.where("deliveries > 0")
    sent_content = F.xxhash64("groups", "service")
    fault = (
        F.when(_not_sent_before(F.col("sender")), "delivered, but not sent before")
        .when(_differs("checksums", F.col("checksum")), "the payload is not the one that was sent")
        .when(
            _differs("contents", sent_content) | _differs_from_choice(),
            "its groups or its service are not those it was sent with",
        )
        .when(
            F.col("self_discard") & F.array_contains("receivers", F.col("sender")),
            "came back to a sender that did not want it",
        )
    )
    found = found.withColumn("fault", fault).where(F.col("fault").isNotNull())
    unknown = F.col("live") & F.col("sender").isNull()
    judged = found.where(~unknown).unionByName(_of_known_sessions(model, found.where(unknown)))
    return findings(
        judged,
        F.col("fault"),
        processes=F.slice("receivers", 1, 1),
        messages=["message"],
        positions=["first_position"],
    )


def _of_known_sessions(model: Model, unsent: "DataFrame") -> "DataFrame":
    """Those of live messages whose session did write down what it sent."""
    session = F.slice("message", 1, 3).alias("session")
    known = model.sends.where("live").select("run", session).distinct()
    return unsent.withColumn("session", session).join(known, ["run", "session"], "left_semi").drop("session")


def _not_sent_before(sender: "Column") -> "Column":
    too_late = ~F.col("live") & (F.col("send_position") > F.col("first_position"))
    return sender.isNull() | F.coalesce(too_late, F.lit(False))


def _differs(extremes: str, sent: "Column") -> "Column":
    """Whether not all that was delivered, of which there are the least and the greatest, is what was sent."""
    return F.coalesce((F.col(extremes)[0] != sent) | (F.col(extremes)[1] != sent), F.lit(False))


def _differs_from_choice() -> "Column":
    """Whether something came by a receiver's choice, and not as this choice makes it of what was sent."""
    groups, service = F.xxhash64("groups"), F.col("service")
    return F.exists(
        "chosen",
        lambda one: (one["content"] != groups) | (one["service"] != came_as(service, one["delivery"])),
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    first = F.array_min("takers.position")
    found = traffic(model).bundles.where(F.size("takers") > 0).withColumn("first_position", first)
    number = F.col("bundle")[1].cast("int")
    found = found.join(model.runs.select("run", "daemons"), "run").withColumn(
        "named", F.get("daemons", number)
    )
    # Where only some daemons of a live cluster were traced, no trace has what the others sent.
    traced = model.lives.groupBy("run").agg(F.collect_set("daemon").alias("traced"))
    found = found.join(traced, "run", "left").where(
        ~(F.col("live") & F.col("source").isNull() & ~F.array_contains("traced", F.col("named")))
    )
    contents = F.col("contents")
    fault = (
        F.when(
            _not_sent_before(F.col("source")), text("delivered %s, which was not sent before", bundle_name())
        )
        .when(F.col("source") != F.col("named"), text("delivered %s, which %s sent", bundle_name(), "source"))
        .when(
            (contents[1] != contents[0]) | (contents[2] != contents[0]),
            text("%s is not as it was sent", bundle_name()),
        )
    )
    found = found.withColumn("fault", fault).where(F.col("fault").isNotNull())
    named = findings(
        found,
        F.col("fault"),
        view=F.col("bundle")[0],
        processes=[F.col("takers")[0]["daemon"]],
        positions=["first_position"],
    )
    nameless = findings(
        model.bundle_deliveries.where(F.col("bundle").isNull()),
        F.lit("delivered a bundle without a name"),
        processes=["daemon"],
        positions=["position"],
    )
    return named.unionByName(nameless)


PROPERTIES = (
    Property(promises.DELIVER_INTEGRITY, (Event.DELIVER,), _look),
    Property(promises.DELIVER_INTEGRITY_OF_DAEMONS, (Event.SDELIVER,), _look_at_daemons),
)
