"""2.1: nothing is delivered, and no signal given, outside a view.

For clients, an event that names a view in which its process was not at that moment is one outside a view.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from antiphon.spark.conformance.model import Model, private_name
from antiphon.spark.conformance.sequences import earlier
from antiphon.spark.conformance.verdict import Property, findings, text
from antiphon.trace import Event, promises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _look(model: Model) -> "DataFrame":
    in_no_view = ~F.exists("views", lambda view: view.isNotNull())
    private = F.array_contains("groups", private_name(F.col("process")))
    homeless = findings(
        model.deliveries.where(in_no_view & ~private),
        text("delivered a message to %s while in no view of these", F.array_join("groups", ", ")),
        processes=["process"],
        messages=["message"],
        positions=["position"],
    )
    stray = findings(
        model.stray_deliveries,
        text("delivered a message in view %s of %s while not in it", "view", "group"),
        group="group",
        view="view",
        processes=["process"],
        messages=["message"],
        positions=["position"],
    )
    return homeless.unionByName(stray).unionByName(_early_signals(model))


def _early_signals(model: Model) -> "DataFrame":
    group = F.get("groups", F.lit(0))
    in_order = Window.partitionBy("run", "process", "group").orderBy("position")
    is_step = F.col("event") != Event.TRANSSIG
    marks = model.of(Event.VIEW, Event.LEFT, Event.TRANSSIG).withColumn("group", group)
    marks = marks.withColumn("step", F.last(F.when(is_step, F.col("event")), True).over(in_order))
    outside = ~is_step & ~F.col("step").eqNullSafe(Event.VIEW.value)
    return findings(
        marks.where(outside),
        text("a signal in %s while in no view of it", "group"),
        group="group",
        processes=["process"],
        positions=["position"],
    )


def _look_at_daemons(model: Model) -> "DataFrame":
    homeless = [
        table.where(F.col("term_view").isNull()).select(
            "run", "daemon", "position", F.lit(event).alias("event")
        )
        for table, event in (
            (model.bundle_sends, Event.SSEND.value),
            (model.bundle_deliveries, Event.SDELIVER.value),
        )
    ]
    is_step = F.col("event") != Event.STRANSSIG
    before = F.last(F.when(is_step, F.col("event")), True).over(earlier("daemon"))
    marks = model.daemon_marks.withColumn("step", F.coalesce(before, F.lit(Event.CRASH.value)))
    is_lost = (F.col("event") == Event.STRANSSIG) & (F.col("step") != Event.SVIEW)
    is_lost |= (F.col("event") == Event.SVIEW) & (F.col("step") == Event.CRASH)
    homeless.append(marks.where(is_lost).select("run", "daemon", "position", "event"))
    return findings(
        reduce(lambda one, other: one.unionByName(other), homeless),
        text("%s at %s, which was in no view since its start", "event", "daemon"),
        processes=["daemon"],
        positions=["position"],
    )


PROPERTIES = (
    Property(promises.INITIAL_VIEW, (Event.DELIVER, Event.TRANSSIG), _look),
    Property(
        promises.INITIAL_VIEW_OF_DAEMONS,
        (Event.SSEND, Event.SDELIVER, Event.STRANSSIG, Event.SVIEW),
        _look_at_daemons,
    ),
)
