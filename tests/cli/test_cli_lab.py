"""`lab`: the list, a short run, and the page that it writes; crowds of idle sessions."""

import json
import os
from pathlib import Path

import pytest
from command_line import Run, is_one_line

from antiphon.cli.main import exit_code
from antiphon.client import ask_status
from antiphon.errors import AntiphonError
from antiphon.lab import EXPERIMENTS, churn, scale
from antiphon.lab.experiment import Experiment, Row, parts_of
from antiphon.lab.fuzz.plan import KINDS
from antiphon.load.crowds import crowd, process_of, resident_bytes
from antiphon.plots.page import Page, render


def made_up(part: str, count: int) -> Row:
    row: Row = {"part": part, "count": count, "memory_bytes": 50_000_000 + 1_000 * count, "grew_s": 0.25}
    for word in ("reliable", "agreed"):
        row |= {f"{word}_p50_us": 400 + count, f"{word}_p99_us": 900 + count}
    return row


def test_the_experiments_are_listed(antiphon: Run) -> None:
    done = antiphon("lab")
    assert (done.returncode, done.stderr) == (0, "")
    for name, experiment in EXPERIMENTS.items():
        assert f"{name} " in done.stdout
        assert experiment.about in done.stdout


def test_an_unknown_experiment_is_wrong_use(antiphon: Run) -> None:
    done = antiphon("lab", "alchemy")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "scale" in done.stderr


def test_a_length_for_an_experiment_without_one_is_wrong_use(antiphon: Run) -> None:
    done = antiphon("lab", "scale", "--seconds", "5")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "no length" in done.stderr


def test_a_length_that_makes_no_sense_is_wrong_use(antiphon: Run) -> None:
    done = antiphon("lab", "soak", "--seconds", "0")
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert "a week" in done.stderr


def test_a_broken_rule_is_told_in_a_line_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = Experiment(
        name="fragile", about="", steps=lambda quick: 1, measure=lambda quick: iter([made_up("groups", 1)]),
        title="", intro="", sections=lambda rows: [], faults=lambda rows: ["memory: d1 grew"],
        unlisted=frozenset({"groups"}),
    )  # fmt: skip
    monkeypatch.setitem(EXPERIMENTS, "fragile", broken)
    assert exit_code(["lab", "fragile", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == f"plots: {tmp_path / 'fragile.html'}\n"
    assert told.err == "antiphon: fragile found a fault: memory: d1 grew\n"


def test_one_measurement_of_each_crowd() -> None:
    (row,) = scale._connections((3,), 0.1)
    assert (row["part"], row["count"]) == ("connections", 3)
    assert 0 < row["agreed_p50_us"] <= row["agreed_p99_us"]
    assert row["memory_bytes"] > 1_000_000


@pytest.mark.long
def test_scale_measures_every_part_and_draws_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert exit_code(["lab", "scale", "--quick", "--json", "--out", str(tmp_path / "results")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == scale.steps(quick=True)
    assert {part: tuple(row["count"] for row in some) for part, some in parts_of(rows).items()} == (
        scale.QUICK_COUNTS
    )
    for row in rows:
        assert 0 < row["reliable_p50_us"] <= row["reliable_p99_us"]
        assert 0 < row["agreed_p50_us"] <= row["agreed_p99_us"]
        assert row["memory_bytes"] > 1_000_000
    page = (tmp_path / "results" / "scale.html").read_text()
    assert "antiphon lab scale --quick" in page
    assert page.count("<svg role") == 2 * 2 * len(scale.COUNTS)


@pytest.mark.long
def test_churn_measures_every_part_and_draws_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    exit_code(["lab", "churn", "--quick", "--json", "--out", str(tmp_path)])  # a busy machine may be silent
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {part: tuple(row["count"] for row in some) for part, some in parts_of(rows).items()} == (
        churn.QUICK_COUNTS
    )
    assert all(row["silence_s"] > 0 and row["took_s"] > 0 for row in rows)
    assert (tmp_path / "churn.html").read_text().count("<svg role") == 2 * len(churn.COUNTS)


def test_long_silences_and_lost_daemons_are_faults() -> None:
    fine = {"count": 10, "silence_s": 0.1, "took_s": 0.2}
    rows = [{**fine, "part": "return", "views": 1}, {**fine, "part": "departure", "views": 0}]
    assert churn.faults(rows) == []
    rows = [
        {**fine, "part": "merge", "views": 2},
        {**fine, "part": "departure", "views": 1, "silence_s": 2.5},
    ]
    assert churn.faults(rows) == [
        "merge with 10: 2 daemon views",
        "departure with 10: 2.5 s of silence",
        "departure with 10: 1 daemon views",
    ]


def test_the_page_shows_what_was_measured() -> None:
    rows = [made_up("groups", count) for count in (10, 1_000, 10_000)]
    (section,) = scale.sections(rows)
    assert section.name == "groups"
    page = render(Page("Scale", (), (section,), ""))
    for words in ("10,000", "1.4 ms", "60 MB", "figure 3.4"):
        assert words in page


def test_a_crowd_joins_and_goes(addresses: list[str]) -> None:
    with crowd(addresses[0], "i") as idle:
        assert idle.grow(3, "one", "own{session}").sessions == 3
        assert idle.grow(2, "one").sessions == 5
        groups = ask_status(addresses[0])["groups"]
        assert len(groups["one"]) == 5
        assert groups["own2"] == ["#i2#d1"]
        with pytest.raises(AntiphonError, match="could not grow"), crowd(addresses[0], "i") as other:
            other.grow(1)  # the name is taken
    assert process_of(addresses[0]) == os.getpid()
    assert resident_bytes(os.getpid()) > 1_000_000


@pytest.mark.long
@pytest.mark.parametrize("door", ["clients", "tls", "spread", "flight"])
def test_a_short_fuzz_of_a_door_of_clients_breaks_no_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, door: str
) -> None:
    _fuzz(capsys, tmp_path, door)
    assert list((tmp_path / "kept").glob("*-end/mutants.jsonl"))


@pytest.mark.long
@pytest.mark.parametrize("door", ["udp", "tcp", "member", "stranger"])
def test_a_short_fuzz_of_a_door_of_daemons_breaks_no_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, door: str
) -> None:
    _fuzz(capsys, tmp_path, door)
    assert list((tmp_path / "kept").glob("*-end/mutants-d1.jsonl"))


@pytest.mark.parametrize(
    "door", ["config", *(pytest.param(door, marks=pytest.mark.long) for door in ("journal", "traces"))]
)
def test_a_short_fuzz_of_a_door_of_files_breaks_no_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, door: str
) -> None:
    code = exit_code(f"lab fuzz --door {door} --mutants 200 --seed 1 --json --out {tmp_path}".split())
    parts = parts_of([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert _broken(parts["rules"]) == []
    assert code == 0
    assert {row["kind"] for row in parts["spells"]} == set(KINDS[door])
    assert parts["doors"][0]["mutants"] >= 200
    assert {row["rule"] for row in parts["rules"]} == {"readers", "prompt", "processes", "memory", "trials"}
    assert sum(row["times"] for row in parts["refused"] if row["reason"].endswith("refused")) > 0


def _fuzz(capsys: pytest.CaptureFixture[str], folder: Path, door: str) -> None:
    words = f"lab fuzz --door {door} --mutants 200 --seconds 900 --seed 1 --json"
    words += f" --out {folder} --keep {folder / 'kept'}"
    code = exit_code(words.split())
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert _broken(rows) == []
    assert code == 0
    _check_fuzz_rows(rows, door, folder)


def _broken(rows: list[Row]) -> list[str]:
    return [f"{row['rule']}: {row['faults']}" for row in rows if row.get("verdict") == "broken"]


def _check_fuzz_rows(rows: list[Row], door: str, folder: Path) -> None:
    """Every kind had a spell, every rule a verdict, and the page shows them."""
    parts = parts_of(rows)
    assert {row["kind"] for row in parts["spells"]} == set(KINDS[door])
    (whole,) = parts["doors"]
    assert whole["mutants"] == sum(row["mutants"] for row in parts["spells"]) >= 100
    assert {"flow", "status", "processes", "memory", "frames"} <= {row["rule"] for row in parts["rules"]}
    assert {row["process"] for row in parts["processes"]} == {"d1", "d2", "d3", "d4", "d5", "journal"}
    page = (folder / "fuzz.html").read_text()
    assert f"antiphon lab fuzz --seconds 900 --door {door} --seed 1" in page
    assert "Every rule was kept" in page


@pytest.mark.parametrize(
    "words",
    [
        ["fuzz", "--door", "back"],
        ["fuzz", "--mutants", "0"],
        ["fuzz", "--seconds", "0"],
        ["scale", "--seed", "1"],
    ],
)
def test_choices_that_make_no_sense_are_wrong_use(antiphon: Run, words: list[str]) -> None:
    done = antiphon("lab", *words)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
