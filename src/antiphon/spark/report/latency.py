"""Latency: percentiles by service, group and pair of places, and what each part of the way added.

All percentiles come from one job: each delivery counts once for its service, for each of its groups and for
its pair of places.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from antiphon.spark.report.figures import QUANTILES, STAGES, Pair, Spread, Stage, Way

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILE_ACCURACY = 10_000
"""Percentiles are exact to one part in this many."""
PRIVATE = "(private)"
"""All messages to single sessions together: their names would be a list of all sessions."""
SERVICE_ORDER = ("unreliable", "reliable", "fifo", "causal", "agreed", "safe")


class Spreads(Struct, frozen=True):
    """How long messages took."""

    services: tuple[Spread, ...]
    groups: tuple[Spread, ...]
    """Those with most deliveries first."""
    pairs: tuple[Pair, ...]
    """Those with most deliveries first."""
    early: dict[str, tuple[int, float]]
    """By run: deliveries that happened before their message was sent, by the clocks of two machines, and by
    how many microseconds at most. In virtual time there are none."""


def spread_columns(took: "Column") -> "list[Column]":
    """How often and how long: what `spread_values` reads."""
    from pyspark.sql import functions as F

    return [
        F.count(took).alias("deliveries"),
        F.percentile_approx(took, list(QUANTILES), PERCENTILE_ACCURACY).alias("quantiles"),
        F.max(took).alias("longest"),
    ]


def spread_values(row: Any) -> tuple[int, float, float, float, float]:
    """The numbers of a `Spread`, after its name."""
    p50, p90, p99 = row.quantiles
    return row.deliveries, p50, p90, p99, row.longest


def public_name(group: "Column") -> "Column":
    """A group, or one word for all that were sent to single sessions."""
    from pyspark.sql import functions as F

    return F.when(group.startswith("#"), PRIVATE).otherwise(group)


def spreads_of(ways: "DataFrame", places: "DataFrame") -> Spreads:
    """How long messages took; `places` has run, daemon and place. A message to several groups counts for each
    of them."""
    from pyspark.sql import functions as F

    def where(end: str) -> "DataFrame":
        return F.broadcast(
            places.select("run", F.col("daemon").alias(end), F.col("place").alias(f"{end}_at"))
        )

    def one(kind: str, first: "Column", second: "Column | None" = None) -> "Column":
        other = F.lit("") if second is None else F.coalesce(second, F.lit(""))
        return F.struct(F.lit(kind).alias("kind"), first.alias("first"), other.alias("second"))

    took = F.col("delivered_us") - F.col("sent_us")
    groups = F.array_distinct(F.transform("groups", public_name))
    known = ways.where("sent_us is not null").join(where("origin"), ["run", "origin"], "left")
    rows = (
        known.join(where("target"), ["run", "target"], "left")
        .select(
            took.alias("took"),
            F.explode(
                F.concat(
                    F.array(
                        one("run", F.col("run")),
                        one("service", F.col("service")),
                        one("pair", F.col("origin_at"), F.col("target_at")),
                    ),
                    F.transform(groups, lambda group: one("group", group)),
                )
            ).alias("of"),
        )
        .groupBy("of")
        .agg(
            *spread_columns(F.col("took")),
            F.count_if(F.col("took") < 0).alias("early"),
            F.min("took").alias("shortest"),
        )
        .collect()
    )
    rows.sort(key=lambda row: (-row.deliveries, row.of.first or "", row.of.second))
    by_kind: dict[str, list[Any]] = {"run": [], "service": [], "pair": [], "group": []}
    for row in rows:
        by_kind[row.of.kind].append(row)
    services = [Spread(row.of.first, *spread_values(row)) for row in by_kind["service"]]
    return Spreads(
        services=tuple(sorted(services, key=lambda spread: _place(spread.name))),
        groups=tuple(Spread(row.of.first, *spread_values(row)) for row in by_kind["group"]),
        pairs=tuple(
            Pair(row.of.first, row.of.second, *spread_values(row)) for row in by_kind["pair"] if row.of.first
        ),
        early={row.of.first: (row.early, -row.shortest) for row in by_kind["run"] if row.early},
    )


def _place(service: str) -> int:
    return SERVICE_ORDER.index(service) if service in SERVICE_ORDER else len(SERVICE_ORDER)


def parts_of_the_way(ways: "DataFrame") -> tuple[Way, ...]:
    """What waiting, transport, ordering and the client's connection each added, by service."""
    from pyspark.sql import functions as F

    stations = ("sent_us", "placed_us", "held_us", "turned_us", "delivered_us")
    spans = ways.dropna(subset=list(stations)).select(
        "service",
        *(
            (F.col(after) - F.col(before)).alias(name)
            for name, before, after in zip(STAGES, stations, stations[1:], strict=False)
        ),
    )
    numbers = [
        number
        for name in STAGES
        for number in (
            F.mean(name).alias(f"{name}_mean"),
            F.percentile_approx(name, [0.5, 0.99], PERCENTILE_ACCURACY).alias(f"{name}_quantiles"),
        )
    ]
    rows = spans.groupBy("service").agg(F.count("*").alias("deliveries"), *numbers).collect()
    found = [Way(row.service, row.deliveries, *_stages(row)) for row in rows]
    return tuple(sorted(found, key=lambda way: _place(way.service)))


def _stages(row: Any) -> Sequence[Stage]:
    return [Stage(row[f"{name}_mean"], *row[f"{name}_quantiles"]) for name in STAGES]
