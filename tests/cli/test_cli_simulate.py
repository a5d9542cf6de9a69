"""`antiphon simulate`: a summary for people and programs."""

import json
import re
from pathlib import Path

import pytest
from command_line import Run

from antiphon.cli import main
from antiphon.core.node import Node
from antiphon.simulator.mutants import MUTANTS


def test_a_clean_run(antiphon: Run) -> None:
    done = antiphon("simulate", "--seeds", "0-2", "--jobs", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mixed: 3 seeds of" in done.stdout
    assert "packets/s" in done.stdout
    assert "every property was kept" in done.stdout


def test_json_and_traces(antiphon: Run, tmp_path: Path) -> None:
    words = ("--seeds", "7", "--scenario", "chain", "--trace", "traces/deep", "--json")
    done = antiphon("simulate", *words)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["seeds"], report["first_seed"], report["last_seed"]) == (1, 7, 7)
    assert report["messages"] > 0
    assert report["failures"] == []
    traces = list((tmp_path / "traces" / "deep").iterdir())
    assert len(traces) == 1
    json.loads(traces[0].read_text().splitlines()[0])


def test_a_broken_protocol_is_told_with_seed_property_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = MUTANTS[0]
    words = ["simulate", "--seeds", f"0-{mutant.seeds - 1}", "--scenario", mutant.scenario, "--jobs", "1"]
    with mutant.active():
        code = main.exit_code(words)
    told = capsys.readouterr().out
    assert code == 1
    seed = re.search(r"FAILED in \d+ seeds: (\d+)", told)
    assert seed is not None
    assert f"repeat: antiphon simulate --seeds {seed[1]}-{seed[1]} --scenario {mutant.scenario}" in told
    assert any(f"property {number} " in told for number in mutant.breaks)


def test_views_have_short_names_for_people_and_whole_ones_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "first group forgotten")
    words = ["simulate", "--seeds", str(mutant.shown_by), "--scenario", mutant.scenario, "--jobs", "1"]
    with mutant.active():
        assert main.exit_code(words) == 1
        people = capsys.readouterr().out
        assert main.exit_code([*words, "--json"]) == 1
    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    told = [violation["what"] for violation in failure["violations"]]
    whole = next(found for what in told if (found := re.search(r"view \(\d+, 0, (\d+), \d+\) of g", what)))
    assert re.search(rf"view \d*{whole[1][-6:]} of g", people)
    assert whole[1] not in people


def test_an_exception_in_a_run_is_told_with_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def receive(*_: object) -> None:
        raise RuntimeError("a slip")

    monkeypatch.setattr(Node, "receive", receive)
    code = main.exit_code(["simulate", "--seeds", "3", "--jobs", "1", "--json"])
    (failure,) = json.loads(capsys.readouterr().out)["failures"]
    assert code == 1
    assert failure["seed"] == 3
    assert "RuntimeError: a slip" in failure["error"]
    assert failure["repeat"] == "antiphon simulate --seeds 3-3 --scenario mixed"
