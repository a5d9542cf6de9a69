"""2.2: a process is in its own views."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from antiphon.spark.conformance.model import Model
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    return findings(
        model.views.where(~F.array_contains("members", F.col("process"))),
        text("installed a view of %s without itself", "group"),
        group="group",
        view="view",
        processes=["process"],
        positions=["position"],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    is_itself = F.exists(
        F.arrays_zip("members", "incarnations"),
        lambda one: (one["members"] == F.col("daemon")) & (one["incarnations"] == F.col("incarnation")),
    )
    return findings(
        model.daemon_terms.where(~is_itself),
        text("incarnation %s of %s installed a view without itself", "incarnation", "daemon"),
        view="view",
        processes=["daemon"],
        positions=["start_position"],
    )


PROPERTIES = (
    Property(promises.SELF_INCLUSION, (Event.VIEW,), _look),
    Property(promises.SELF_INCLUSION_OF_DAEMONS, (Event.SVIEW,), _look_at_daemons),
)
