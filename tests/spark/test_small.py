"""Few traces: what is few, and what is known of files without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from stories import Story

from antiphon.errors import UsageError
from antiphon.spark import small
from antiphon.spark.headers import first_lines
from antiphon.spark.small import is_held, session_settings, trace_bytes
from antiphon.spark.traces import hold_traces, read_runs, read_traces
from antiphon.trace import Event


def write(folder: Path, *runs: str) -> None:
    for run in runs:
        story = Story(run)
        story.note(0, Event.CONNECT, "d0", "#a#d0")
        story.bundle((10, 11, 15, 40, 42), first=1, messages=3, service="safe")
        story.trace.write(folder)


def test_few_traces_are_held_and_many_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "one")
    size = trace_bytes(tmp_path)
    assert 0 < size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert is_held(tmp_path)
    monkeypatch.setattr(small, "HELD_BYTES", size - 1)
    assert not is_held(tmp_path)


def test_what_is_elsewhere_or_is_a_table_is_not_held(tmp_path: Path) -> None:
    assert not is_held("hdfs:///traces")
    assert not is_held(tmp_path)
    write(tmp_path, "one")
    (tmp_path / "events").mkdir()
    assert not is_held(tmp_path)


def test_java_is_quick_for_few_traces_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "one")
    options = session_settings(str(tmp_path))["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel=1" in options
    monkeypatch.setattr(small, "_QUICK_BYTES", 10)
    assert "spark.driver.extraJavaOptions" not in session_settings(str(tmp_path))
    assert "spark.driver.extraJavaOptions" not in session_settings("hdfs:///traces")


def test_headers_are_read_where_spark_looks_for_traces(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "deep" / "er", tmp_path / ".hidden", tmp_path / "_hidden"):
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, f"run-{folder.name.strip('._')}")
    (tmp_path / "._torn.jsonl").write_text("{}")
    (tmp_path / "no-header.jsonl").write_text('{"run":"x","event":"send"}\n')
    (tmp_path / "strange.jsonl").write_text('{"format":7,"version":"new"}\n{"format":\n')
    files, headers = first_lines(tmp_path)
    assert {Path(file).name for file in files} == {
        f"run-{tmp_path.name}.jsonl", "run-er.jsonl", "no-header.jsonl", "strange.jsonl",
    }  # fmt: skip
    told = sorted((header.run or "", header.live) for header in headers)
    assert told == [("", False), ("", False), ("run-er", False), (f"run-{tmp_path.name}", False)]
    er = next(header for header in headers if header.run == "run-er")
    assert (er.daemons, er.sites) == (["d0", "d1"], ["run-er-oslo", "run-er-perth"])


def rows(frame: Any) -> list[str]:
    return sorted(
        json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in frame.collect()
    )


@pytest.mark.timeout(300)
def test_what_is_held_is_what_is_read(spark: Any, tmp_path: Path) -> None:
    write(tmp_path, "one", "two")
    (tmp_path / "torn.jsonl").write_bytes((tmp_path / "one.jsonl").read_bytes().replace(b"one", b"six")[:-9])
    events, runs = hold_traces(spark, tmp_path)
    assert rows(runs) == rows(read_runs(spark, tmp_path))
    assert rows(events) == rows(read_traces(spark, tmp_path))
    assert events.rdd.getNumPartitions() == 1


@pytest.mark.timeout(300)
def test_what_is_no_trace_is_not_held(spark: Any, tmp_path: Path) -> None:
    write(tmp_path, "one")
    (tmp_path / "bad.jsonl").write_text((tmp_path / "one.jsonl").read_text().replace("\n", "\nnot json\n"))
    with pytest.raises(UsageError, match="one and the same run"):
        hold_traces(spark, tmp_path)
    (tmp_path / "bad.jsonl").write_text((tmp_path / "bad.jsonl").read_text().replace('"one"', '"six"'))
    with pytest.raises(UsageError, match=r"bad\.jsonl: not a trace: a line is not JSON"):
        hold_traces(spark, tmp_path)
    (tmp_path / "bad.jsonl").write_text('{"format":"tea","version":1}\n')
    with pytest.raises(UsageError, match=r"bad\.jsonl: not a trace of format version"):
        hold_traces(spark, tmp_path)
