"""2.3: view identifiers only grow; for daemons, within one incarnation (see the simulator's oracle)."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    in_order = Window.partitionBy("run", "process", "group").orderBy("position")
    views = model.views.withColumns(
        {"before": F.lag("view").over(in_order), "before_position": F.lag("position").over(in_order)}
    )
    return findings(
        views.where(F.col("view").isNull() | (F.col("before") >= F.col("view"))),
        text("view %s of %s came after view %s", "view", "group", "before"),
        group="group",
        view="view",
        processes=["process"],
        positions=["before_position", "position"],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    return findings(
        model.daemon_terms.where(F.col("view") <= F.col("previous")),
        text("daemon view %s came after %s", "view", "previous"),
        view="view",
        processes=["daemon"],
        positions=["start_position"],
    )


PROPERTIES = (
    Property(promises.LOCAL_MONOTONICITY, (Event.VIEW,), _look),
    Property(promises.LOCAL_MONOTONICITY_OF_DAEMONS, (Event.SVIEW,), _look_at_daemons),
)
