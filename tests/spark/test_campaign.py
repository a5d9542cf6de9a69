"""`antiphon campaign`: seeds on executors, judged twice, and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli import main, screen
from antiphon.errors import UsageError
from antiphon.simulator.mutants import MUTANTS
from antiphon.simulator.outcome import Outcome
from antiphon.simulator.run import run_seed
from antiphon.spark.campaign.folder import Checked, Folder, Maker, code_digest
from antiphon.spark.campaign.job import Campaign, run_campaign, steps_of


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_clean_campaign_and_its_continuation(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from antiphon.spark.conformance import PROPERTIES

    monkeypatch.setattr(screen, "LINE_EVERY_S", 0.001)

    folder = tmp_path / "campaign"
    # A run that was simulated by a campaign that did not live to check it.
    left = Folder(folder)
    left.prepare(Maker(code_digest(), ""))
    left.run(2, "chain")
    steps: list[int] = []
    few = [prop for prop in PROPERTIES if prop.promise.number == "2.5"]  # all of them take a minute
    result = run_campaign(spark, Campaign("chain", (2, 5, 6), folder), steps.append, few)
    assert (result.summary.seeds, result.resumed, result.checked) == (3, 1, 3)
    assert (result.failures, result.disputes, result.is_clean) == ([], [], True)
    assert sum(steps) == 3 + len(few)
    here = [run_seed(seed, "chain") for seed in (2, 5, 6)]
    assert result.summary.counts.messages == sum(outcome.counts.messages for outcome in here)
    assert result.summary.counts.deliveries == sum(outcome.counts.deliveries for outcome in here)
    cells = [
        {("why", *cell) for cell in one.reasons} | {("what", *cell) for cell in one.events} for one in here
    ]
    assert result.growth == [(count, len(set().union(*cells[:count]))) for count in (1, 2, 3)]
    assert result.events_checked > result.summary.counts.deliveries
    assert names(folder / "traces") == names(folder / "unchecked") == set()  # clean traces are gone

    # Nothing is left to do: no seed is run, no trace is checked.
    words = ["campaign", "--seeds", "2,5-6", "--scenario", "chain", "--dir", str(folder)]
    assert main.exit_code(words) == 0
    printed = capsys.readouterr()
    assert "simulating and checking chain: " in printed.err
    told = printed.out
    assert "3 were there already" in told
    assert "0 events this time" in told
    assert "both judges agree" in told
    assert names(folder) == {
        "campaign.html", "campaign.json", "checked.jsonl", "made-by.json", "outcomes", "traces", "unchecked",
    }  # fmt: skip
    page = (folder / "campaign.html").read_text()
    assert "Every property was kept" in page
    assert "<script" not in page
    assert json.loads((folder / "campaign.json").read_text())["cells"] == result.growth[-1][1]


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_planted_bug_is_found_by_both_judges(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mutant = next(one for one in MUTANTS if one.scenario == "mixed")
    words = ["campaign", "--seeds", str(mutant.shown_by), "--scenario", mutant.scenario]
    words += ["--dir", str(tmp_path), "--mutant", mutant.name, "--json"]
    assert main.exit_code(words) == 1
    report = json.loads(capsys.readouterr().out)
    (failure,) = report["failures"]
    assert failure["seed"] == mutant.shown_by
    assert (
        f"--seeds {mutant.shown_by} --scenario {mutant.scenario} --mutant {mutant.name}" in failure["repeat"]
    )
    for judge in ("oracle", "spark"):
        assert {name.split()[0] for name in failure[judge]} & mutant.breaks, judge
    assert report["disputes"] == 0
    # The trace of a run that failed stays.
    assert names(tmp_path / "traces") == {f"{mutant.scenario}-{mutant.shown_by}.jsonl"}
    assert failure["repeat"] in (tmp_path / "campaign.html").read_text()
    # What was made by a broken protocol is not taken for the outcome of the right one.
    with pytest.raises(UsageError, match="another planted bug"):
        run_campaign(spark, Campaign(mutant.scenario, (mutant.shown_by,), tmp_path))


def test_wrong_use_is_told_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error_of(*words: str) -> str:
        assert main.exit_code(["campaign", "--dir", str(tmp_path), *words]) == 2
        return capsys.readouterr().err

    assert "is not A-B" in error_of("--seeds", "tea")
    assert "smaller than the first" in error_of("--seeds", "9-3")
    assert "unknown scenario" in error_of("--seeds", "1", "--scenario", "tea")
    assert "no planted bug" in error_of("--seeds", "1", "--mutant", "tea")


# The folder, without Spark --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.prepare(Maker("code", ""))
    return found


def test_a_run_leaves_its_trace_and_its_outcome(folder: Folder) -> None:
    folder.run(7, "chain")
    outcome = folder.outcome("chain-7")
    assert isinstance(outcome, Outcome)
    assert outcome.digest == run_seed(7, "chain").digest
    assert folder.finished() == folder.waiting() == {"chain-7"}
    assert folder.outcome("chain-8") is None


def test_verdicts_are_kept_and_a_torn_line_is_none(folder: Folder) -> None:
    for seed in (1, 2):
        folder.run(seed, "chain")
    folder.note([Checked("chain-1", ()), Checked("chain-2", ("2.5 x",))], lambda run: run == "chain-2")
    with (folder.path / "checked.jsonl").open("ab") as file:
        file.write(b'{"run":"chain-3","bro')
    assert folder.checked() == {"chain-1": Checked("chain-1", ()), "chain-2": Checked("chain-2", ("2.5 x",))}
    assert names(folder.traces) == {"chain-2.jsonl"}
    assert folder.waiting() == set()


def test_a_folder_of_other_code_is_refused(folder: Folder) -> None:
    folder.prepare(Maker("code", ""))
    with pytest.raises(UsageError, match="another version of the code"):
        folder.prepare(Maker("other", ""))


def test_an_outcome_that_ended_in_an_exception_has_no_trace_and_no_dispute(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antiphon.core.node import Node
    from antiphon.spark.campaign.job import _added_up

    def receive(*_: object) -> None:
        raise RuntimeError("a slip")

    monkeypatch.setattr(Node, "receive", receive)
    folder.run(1, "chain")
    assert folder.waiting() == set()
    result = _added_up(folder, Campaign("chain", (1,), folder.path), 0, 0)
    (failure,) = result.failures
    assert failure.oracle == ("RuntimeError",)
    assert "a slip" in failure.what
    assert failure.repeat == "antiphon simulate --seeds 1-1 --scenario chain"
    assert result.disputes == []


def test_steps_are_runs_and_properties_of_waves(tmp_path: Path) -> None:
    from antiphon.spark.conformance import PROPERTIES

    assert steps_of(Campaign("chain", tuple(range(10)), tmp_path, wave_seeds=4)) == 10 + 3 * len(PROPERTIES)
