"""The page of a soak: the verdict, and memory, descriptors and queues of every process over time."""

from collections.abc import Sequence

from antiphon.lab.experiment import Row, parts_of
from antiphon.plots.charts import Line, LineChart
from antiphon.plots.page import Block, Facts, Figure, Paragraph, Section, Table
from antiphon.plots.words import Format, count, duration, size

MOMENTS = "what happened; point at a line to read it"


def sections(rows: Sequence[Row]) -> list[Section]:
    """The verdict and what led to it, then a section for each process."""
    parts = parts_of(rows)
    looks = parts["looks"]
    return [
        Section("verdict", "Verdict", _verdict(parts)),
        *(
            Section(f"process{number}", row["process"], _process(row, looks))
            for number, row in enumerate(parts["processes"])
        ),
        Section("happened", "What happened", _happened(looks)),
    ]


def _verdict(parts: dict[str, list[Row]]) -> list[Block]:
    rules = parts["rules"]
    broken = [row for row in rules if row["verdict"] != "kept"]
    if broken:
        words, kind = f"Broken: {', '.join(row['rule'] for row in broken)}.", "note bad"
    else:
        words, kind = "Every rule was kept.", "note good"
    (traffic,) = parts["traffic"]
    facts = [
        ("sessions", count(traffic["sessions"])),
        ("messages sent", count(traffic["sent"])),
        ("payload sent", size(traffic["payload_bytes"])),
        ("deliveries", count(traffic["received"])),
        ("warnings to slow receivers", count(traffic["warned"])),
        ("slow receivers cut off", count(traffic["cut_off"])),
        ("sessions that came back", count(traffic["returned"])),
        ("records judged", count(traffic["records"])),
    ]
    return [
        Paragraph(words, kind),
        Facts(facts),
        Table(
            "Rules",
            ("rule", "promise", "verdict", "faults"),
            [(row["rule"], row["promise"], row["verdict"], row["faults"]) for row in rules],
            numbers_from=4,
        ),
        Table(
            "Processes",
            ("process", "second act", "last act", "at most", "at the end", "descriptors", "at the end"),
            [
                (
                    row["process"],
                    *(size(row[f"{key}_bytes"]) for key in ("second_act", "last_act", "limit", "rest")),
                    count(row["warm_descriptors"]),
                    count(row["end_descriptors"]),
                )
                for row in parts["processes"]
            ],
        ),
        Paragraph(
            "Memory is resident memory: the medians of the second and the last act, and at rest at the end. "
            "Descriptors are those at rest, after the warm-up and at the end.",
            "soft",
        ),
    ]


def _process(row: Row, looks: list[Row]) -> list[Block]:
    name = row["process"]
    moments = _moments(name, looks)
    figures: list[Block] = [
        _figure(f"Resident memory of {name}", "memory_bytes", "memory", size, name, looks, moments),
        _figure(f"Open descriptors of {name}", "descriptors", "descriptors", count, name, looks, moments),
    ]
    if any(name in look["waiting_bytes"] for look in looks):
        figures.append(
            _figure(
                f"Waiting in the queues of {name}", "waiting_bytes", "waiting", size, name, looks, moments
            )
        )
    return figures


def _figure(
    title: str,
    key: str,
    axis: str,
    words: Format,
    name: str,
    looks: list[Row],
    moments: list[tuple[float, str]],
) -> Block:
    points = tuple((look["second"] * 1e6, look[key][name]) for look in looks if name in look[key])
    chart = LineChart(title, (Line(axis, points),), ("time", axis), (duration, words), moments, MOMENTS)
    return Figure(title, chart)


def _moments(name: str, looks: list[Row]) -> list[tuple[float, str]]:
    """What happened to this process or to all, at the look after it."""
    return [
        (look["second"] * 1e6, words)
        for look in looks
        for words in look["happened"]
        if words.startswith((f"{name} ", "act "))
    ]


def _happened(looks: list[Row]) -> list[Block]:
    rows = [
        (duration(look["second"] * 1e6), ", ".join(look["happened"])) for look in looks if look["happened"]
    ]
    return [Table("By the look after it", ("time", "what"), rows, numbers_from=2)]
