"""Along one process or daemon: what came before an event, and what lies between its steps."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec


def earlier(*key: str) -> "WindowSpec":
    """All events of the same run and `key` before this one."""
    return Window.partitionBy("run", *key).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)


def stretches(
    marks: "DataFrame", key: list[str], is_step: "Column", step: "Column", *between: "Column"
) -> "DataFrame":
    """One row for each mark that is a step: `key`, `step`, the steps `before` and `after` it (or null), and
    `between`, aggregated over all marks from it to the next step."""
    in_order = Window.partitionBy(*key).orderBy("position")
    in_turn = Window.partitionBy(*key).orderBy("stretch")
    return (
        marks.withColumn("stretch", F.sum(is_step.cast("long")).over(in_order))
        .groupBy(*key, "stretch")
        .agg(F.max(F.when(is_step, step)).alias("step"), *between)
        .where(F.col("stretch") > 0)
        .withColumns({"before": F.lag("step").over(in_turn), "after": F.lead("step").over(in_turn)})
    )


def by_group(messages: "DataFrame", view: str = "view") -> "DataFrame":
    """Each message once for each group to which it was sent, with `group` and the `view` of it (or null) that
    is told beside it."""
    return (
        messages.withColumn("to", F.explode(F.arrays_zip("groups", "views")))
        .withColumns({"group": F.col("to.groups"), view: F.col("to.views")})
        .drop("to")
    )
