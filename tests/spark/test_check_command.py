"""The verb `check`: what it prints, and its exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checked_runs import write_some_lies
from membership_lies import not_in_its_view

from antiphon.cli.main import exit_code
from antiphon.simulator.run import run_seed
from antiphon.spark.conformance import check
from antiphon.spark.small import is_held
from antiphon.trace import Trace, read

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    run_seed(0, "swarm", trace_dir=folder)
    return folder


@pytest.fixture(autouse=True)
def same_settings(spark: Any) -> Iterator[None]:
    """The verb finds the session of the tests, and leaves it as it was."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def work_of(spark: Any, group: str) -> tuple[int, int]:
    """How many jobs a group of jobs has, and how many tasks these."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return len(jobs), sum(stage.numTasks for stage in stages)


def test_a_clean_run_is_kept(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["check", str(clean), "--property", "2.2", "--property", "2.3"]) == 0
    *lines, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "every property was kept"
    assert [line.split()[0] for line in lines] == ["2.2", "2.2", "2.3", "2.3"]
    assert all(line.endswith("kept") for line in lines)


def test_few_traces_are_checked_by_few_tasks(
    spark: Any, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sparkContext.setJobGroup("few", "")
    try:
        assert exit_code(["check", str(clean), "--property", "2.2"]) == 0
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    jobs, tasks = work_of(spark, "few")
    assert 0 < jobs <= tasks <= 12  # next to nothing is exchanged between tasks


def test_a_broken_promise_is_told_and_kept(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = read(clean / "swarm-0.jsonl")
    records, process = not_in_its_view(trace)
    Trace(trace.scenario, trace.seed, trace.daemons, records).write(tmp_path / "traces")
    words = ["check", str(tmp_path / "traces"), "--property", "2.2", "--out", str(tmp_path / "out")]
    assert exit_code(words) == 1
    text = capsys.readouterr().out
    assert f"property 2.2 self inclusion broken in {trace.run}: installed a view of" in text
    assert f"  processes: {process}\n" in text
    assert "  1 violation in 1 run\n" in text
    assert text.endswith("broken: 2.2 self inclusion\n")
    lines = (tmp_path / "out" / "verdict.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["property", "violation", "property"]
    # What was ingested need not be ingested again.
    assert exit_code(["check", str(tmp_path / "out" / "tables"), "--property", "2.2", "--json"]) == 1
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "there is no folder nowhere"),
        ([".", "--property", "2.2"], "no traces in ."),
        (["CLEAN", "--property", "9.9"], "there is no property 9.9; there are 2.1, 2.2, 2.3"),
        (["CLEAN", "--master", "spark://nowhere:7077"], "on a cluster, --out must name a folder"),
    ],
)
def test_wrong_use_is_one_line(
    clean: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["check", *(str(clean) if word == "CLEAN" else word for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("antiphon: ") and told in error and error.count("\n") == 1


@pytest.mark.long
def test_few_traces_are_judged_as_tables_are(spark: Any, tmp_path: Path) -> None:
    write_some_lies(tmp_path / "traces")
    assert is_held(tmp_path / "traces")
    held = check(spark, str(tmp_path / "traces"), str(tmp_path / "held"))
    tables = check(spark, str(tmp_path / "traces"), str(tmp_path / "tables"), keep_tables=True)
    assert not (tmp_path / "held").exists()
    assert (tmp_path / "tables" / "tables").is_dir()
    assert held == tables
    assert sum(outcome.violations > 0 for outcome in held) > 20
