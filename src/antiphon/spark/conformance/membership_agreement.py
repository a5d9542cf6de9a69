"""2.20: one identifier, one membership; for clients as well (see the simulator's oracle).

In an aggregation by view, all are equal if the least and the greatest are. In a merge, who has come depends
on where one comes from; all else is the same for everyone.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _look(model: Model) -> "DataFrame":
    terms = model.terms.withColumn("name", F.col("process"))
    origin = F.when(F.col("cause") == "merge", F.col("previous"))
    changed = F.struct("members", "cause", "changed")
    return _two_views(
        terms, F.struct("members", "cause"), ["run", "group", "view"], "view %s of %s"
    ).unionByName(
        _two_views(
            terms.withColumn("origin", origin),
            changed,
            ["run", "group", "view", "members", "cause", "origin"],
            "view %s of %s",
        )
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    terms = model.daemon_terms.withColumns({"name": F.col("daemon"), "group": F.lit("")})
    what = F.struct("members", "incarnations", "links")
    return _two_views(terms, what, ["run", "group", "view"], "daemon view %s%s")


def _two_views(terms: "DataFrame", what: "Column", key: list[str], name: str) -> "DataFrame":
    """Where two rows with the same key say different things."""
    witness = F.struct("name", "start_position")
    found = (
        terms.withColumn("what", what)
        .groupBy(*key)
        .agg(
            F.min("what").alias("least"),
            F.max("what").alias("greatest"),
            F.min_by(witness, "what").alias("one"),
            F.max_by(witness, "what").alias("other"),
        )
        .where(F.col("least") != F.col("greatest"))
    )
    return findings(
        found,
        text(f"{name} is not the same at two members", "view", "group"),
        group="group",
        view="view",
        processes=["one.name", "other.name"],
        positions=["one.start_position", "other.start_position"],
    )


PROPERTIES = (
    Property(promises.MEMBERSHIP_AGREEMENT, (Event.VIEW,), _look),
    Property(promises.MEMBERSHIP_AGREEMENT_OF_DAEMONS, (Event.SVIEW,), _look_at_daemons),
)
