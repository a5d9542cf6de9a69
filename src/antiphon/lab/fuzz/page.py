"""The page of a run of the fuzzer: the verdict of each door, its spells, its processes, what was refused."""

from collections.abc import Sequence

from antiphon.lab.experiment import Row, parts_of
from antiphon.plots.page import Block, Facts, Paragraph, Section, Table
from antiphon.plots.words import count, duration, size


def sections(rows: Sequence[Row]) -> list[Section]:
    """One for each door."""
    parts = parts_of(rows)
    return [Section(row["door"], f"Door {row['door']}", _door(row, parts)) for row in parts.get("doors", ())]


def _door(door: Row, parts: dict[str, list[Row]]) -> list[Block]:
    def of(part: str) -> list[Row]:
        return [row for row in parts.get(part, ()) if row["door"] == door["door"]]

    broken = [row["rule"] for row in of("rules") if row["verdict"] != "kept"]
    words = f"Broken: {', '.join(broken)}." if broken else "Every rule was kept."
    return [
        Paragraph(words, "note bad" if broken else "note good"),
        Facts(
            [
                ("mutants", count(door["mutants"])),
                ("seed", str(door["seed"])),
                ("took", duration(door["seconds"] * 1e6)),
                ("clusters started anew", count(door["restarts"])),
            ]
        ),
        Table(
            "Rules",
            ("rule", "promise", "verdict", "faults"),
            [(row["rule"], row["promise"], row["verdict"], row["faults"]) for row in of("rules")],
            numbers_from=4,
        ),
        Table(
            "Spells",
            ("spell", "kind", "first mutant", "mutants", "took", "flow again after"),
            [
                (
                    str(row["spell"]),
                    row["kind"],
                    f"{row['first']:,}",
                    f"{row['mutants']:,}",
                    duration(row["seconds"] * 1e6),
                    "never" if row["flows_after_s"] is None else duration(row["flows_after_s"] * 1e6),
                )
                for row in of("spells")
            ],
            numbers_from=2,
        ),
        Table(
            "Processes",
            ("process", "memory at the end", "at its peak"),
            [(row["process"], size(row["memory_bytes"]), size(row["peak_bytes"])) for row in of("processes")],
            numbers_from=1,
        ),
        Table(
            "Refused by the daemons",
            ("reason", "times"),
            [(row["reason"], f"{row['times']:,}") for row in of("refused")],
            numbers_from=1,
        ),
    ]
