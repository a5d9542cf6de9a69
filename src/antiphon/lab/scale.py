"""Scale: latency and memory as groups, connections, members and daemons become many.

Follows: thesis 3.4.2, figures 3.4 (latency with the number of groups: flat) and 3.5 (with the number of
connections: close to linear, because of poll).
Deviations: messages are sent at a steady rate for a while, not ten of them; one daemon for connections and
for members, so that all of them are its own; epoll, so that figure 3.5 should be flat, too; memory beside
latency; two more curves, for members of one group and for daemons.
"""

import time
from collections.abc import Iterator, Sequence

from antiphon.lab.experiment import Experiment, Row, parts_of
from antiphon.load.cluster import daemons
from antiphon.load.crowds import crowd, process_of, resident_bytes
from antiphon.load.plan import Plan
from antiphon.load.run import run
from antiphon.plots.charts import Line, LineChart
from antiphon.plots.page import Block, Figure, Paragraph, Section, Table
from antiphon.plots.words import count, duration, size
from antiphon.service import Service

SERVICES = (Service.RELIABLE, Service.AGREED)
GROUPS_EACH = 1_000
"""Groups that one idle session joins; the most that it may."""
MEASURED = "measured"
"""The group of the measured messages."""
RATE_PER_S = 100.0
CROWDED_RATE_PER_S = 20.0
"""Where each message goes to a thousand members."""
SITE_DAEMONS = 5
"""Daemons of a site, where there are many."""

COUNTS = {
    "groups": (10, 100, 1_000, 10_000),
    "connections": (10, 100, 500, 1_000, 2_000),
    "members": (1, 10, 100, 300, 1_000),
    "daemons": (1, 2, 5, 10, 20, 30),
}
QUICK_COUNTS = {
    "groups": (10, 100),
    "connections": (10, 100),
    "members": (1, 10),
    "daemons": (1, 2),
}
WORDS = {
    "groups": "Groups: two daemons, idle sessions that are members of groups of their own (figure 3.4)",
    "connections": "Connections: one daemon, each connection a member of a group of its own (figure 3.5)",
    "members": "Members: one daemon, every message goes to all members of its group",
    "daemons": f"Daemons: sites of up to {SITE_DAEMONS}, sender and receiver at the two ends",
}


def steps(quick: bool) -> int:
    """How many measurements there are."""
    return sum(map(len, (QUICK_COUNTS if quick else COUNTS).values()))


def measure(quick: bool) -> Iterator[Row]:
    """All four parts, smallest counts first."""
    counts = QUICK_COUNTS if quick else COUNTS
    seconds = 0.3 if quick else 2.0
    yield from _groups(counts["groups"], seconds)
    yield from _connections(counts["connections"], seconds)
    yield from _members(counts["members"], seconds)
    for number in counts["daemons"]:
        yield _daemons(number, seconds)


def _groups(counts: Sequence[int], seconds: float) -> Iterator[Row]:
    with daemons(2) as (sender, receiver), crowd(sender) as idle:
        made = 0
        for number in counts:
            begun_s = time.monotonic()
            while made < number:
                some = min(GROUPS_EACH, number - made)
                idle.grow(1, *(f"g{made + place}" for place in range(some)))
                made += some
            grew_s = time.monotonic() - begun_s
            yield _row("groups", number, grew_s, sender, receiver, RATE_PER_S, seconds)


def _connections(counts: Sequence[int], seconds: float) -> Iterator[Row]:
    with daemons(1) as (place,), crowd(place) as idle:
        connected = 0
        for number in counts:
            grown = idle.grow(number - connected, "own{session}")
            connected = number
            yield _row("connections", number, grown.seconds, place, place, RATE_PER_S, seconds)


def _members(counts: Sequence[int], seconds: float) -> Iterator[Row]:
    with daemons(1) as (place,), crowd(place) as others:
        joined = 1  # the one that measures
        for number in counts:
            grown = others.grow(number - joined, MEASURED)
            joined = number
            yield _row("members", number, grown.seconds, place, place, CROWDED_RATE_PER_S, seconds)


def _daemons(number: int, seconds: float) -> Row:
    per_site = min(number, SITE_DAEMONS)
    begun_s = time.monotonic()
    with daemons(number // per_site, per_site=per_site) as places:
        formed_s = time.monotonic() - begun_s
        return _row("daemons", number, formed_s, places[0], places[-1], RATE_PER_S, seconds)


def _row(
    part: str, number: int, grew_s: float, sender: str, receiver: str, rate_per_s: float, seconds: float
) -> Row:
    row: Row = {"part": part, "count": number}
    for service in SERVICES:
        plan = Plan(
            sender, (receiver,), group=MEASURED, service=service, rate_per_s=rate_per_s, seconds=seconds
        )
        received = run(plan).received[0]
        word = service.name.lower()
        row |= {f"{word}_p50_us": received.p50_us, f"{word}_p99_us": received.p99_us}
    return row | {"memory_bytes": resident_bytes(process_of(sender)), "grew_s": round(grew_s, 3)}


# The page -------------------------------------------------------------------------------------------------


def sections(rows: Sequence[Row]) -> list[Section]:
    """A section for each part: latency, memory, and the numbers."""
    return [Section(part, part.capitalize(), _section(part, some)) for part, some in parts_of(rows).items()]


def _section(part: str, rows: list[Row]) -> list[Block]:
    latency = [
        Line(f"{word}, median", tuple((row["count"], row[f"{word}_p50_us"]) for row in rows))
        for word in (service.name.lower() for service in SERVICES)
    ]
    latency_chart = LineChart(
        f"Latency with {part}", latency, (part, "one-way latency"), (count, duration), by_factors=True
    )
    memory = Line("memory", tuple((row["count"], row["memory_bytes"]) for row in rows))
    memory_chart = LineChart(
        f"Memory with {part}", (memory,), (part, "memory of the daemon"), (count, size), by_factors=True
    )
    table = Table(
        "In numbers",
        (part, "reliable p50", "p99", "agreed p50", "p99", "memory", "growing took"),
        [
            (
                f"{row['count']:,}",
                *(duration(row[f"{word}_us"]) for word in ("reliable_p50", "reliable_p99")),
                *(duration(row[f"{word}_us"]) for word in ("agreed_p50", "agreed_p99")),
                size(row["memory_bytes"]),
                duration(row["grew_s"] * 1e6),
            )
            for row in rows
        ],
        numbers_from=0,
    )
    return [
        Paragraph(WORDS[part] + "."),
        Figure("One-way latency; counts by factors", latency_chart),
        Figure("Memory of the sender's daemon", memory_chart),
        table,
    ]


EXPERIMENT = Experiment(
    name="scale",
    about="latency and memory with many groups, connections, members and daemons (thesis 3.4.2)",
    steps=steps,
    measure=measure,
    title="Scale",
    intro=(
        "Real daemons and clients in processes of their own on one machine. All sessions but two are "
        "connected and idle. Latency runs from the sending library to the receiving program."
    ),
    sections=sections,
)
