"""*access*: nobody does what the access list of their daemon forbids.

The same rule as the simulator's oracle has, which is the specification.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, none_found, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    forbidden = (
        model.of(Event.CONNECT)
        .where(F.size("groups") > 0)
        .select("run", F.col("process").alias("user"), F.col("groups").alias("forbidden"))
    )
    if forbidden.limit(1).count() == 0:
        return none_found(model)
    return _members(model, forbidden).unionByName(_senders(model, forbidden))


def _members(model: Model, forbidden: "DataFrame") -> "DataFrame":
    seen = model.views.select("run", "group", "position", "process", F.explode("members").alias("user"))
    found = seen.join(forbidden, ["run", "user"]).where(F.array_contains("forbidden", F.col("group")))
    return findings(
        found,
        text("%s is a member of %s, which it may not join", "user", "group"),
        group="group",
        processes=["process"],
        positions=["position"],
    )


def _senders(model: Model, forbidden: "DataFrame") -> "DataFrame":
    sent = model.of(Event.SEND).where(F.col("message").isNotNull())
    sent = sent.select("run", "message", F.col("process").alias("user"))
    sent = sent.join(forbidden, ["run", "user"])
    got = model.deliveries.select("run", "message", "process", "position", "groups")
    found = got.join(sent, ["run", "message"]).where(F.arrays_overlap("groups", "forbidden"))
    return findings(
        found,
        text("%s got a message of %s to a group where it may not send", "process", "user"),
        processes=["process"],
        messages=["message"],
        positions=["position"],
    )


PROPERTIES = (Property(promises.ACCESS, (Event.CONNECT,), _look),)
