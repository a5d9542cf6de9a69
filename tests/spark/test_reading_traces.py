"""Traces as tables: what is read, and what is refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import UsageError
from antiphon.simulator.run import run_seed
from antiphon.spark.traces import ingest_traces, is_ingested, read_runs, read_traces
from antiphon.trace import Event, read

pytestmark = pytest.mark.timeout(300)

RUN = "swarm-1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    traces = tmp_path_factory.mktemp("traces")
    run_seed(1, "swarm", trace_dir=traces)
    return traces


@pytest.fixture(scope="module")
def tables(spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables")
    ingest_traces(spark, folder, out)
    return out


def counts(frame: Any) -> dict[str, int]:
    return {row.event: row["count"] for row in frame.groupBy("event").count().collect()}


def test_every_record_is_a_row_with_its_values(spark: Any, folder: Path, tables: Path) -> None:
    trace = read(folder / f"{RUN}.jsonl")
    events = read_traces(spark, tables)
    assert counts(events) == {event.value: len(trace.of(event)) for event in Event if trace.of(event)}
    first = trace.of(Event.DELIVER)[0]
    (row,) = events.where(f"position = {first.position}").collect()
    assert (row.run, row.scenario, row.seed, row.live) == (RUN, "swarm", 1, False)
    assert (row.process, tuple(row.groups), tuple(row.message), row.service, row.checksum, row.lts) == (
        first.process, first.groups, first.message, first.service, first.checksum, first.lts,
    )  # fmt: skip
    assert tuple(view and tuple(view) for view in row.views) == first.views
    (view,) = events.where(f"position = {trace.of(Event.SVIEW)[-1].position}").collect()
    assert [tuple(link) for link in view.links] == list(trace.of(Event.SVIEW)[-1].links)


def test_what_a_record_leaves_out_has_its_default(spark: Any, tables: Path) -> None:
    lonely = read_traces(spark, tables).where("event = 'connect'").first()
    assert (lonely["count"], lonely.views_wanted, lonely.self_discard, lonely.groups) == (1, True, False, [])


def test_files_and_tables_are_the_same(spark: Any, folder: Path, tables: Path) -> None:
    assert counts(read_traces(spark, folder)) == counts(read_traces(spark, tables))
    assert not is_ingested(spark, folder) and is_ingested(spark, tables)
    (run,) = read_runs(spark, tables).collect()
    assert run.daemons == list(read(folder / f"{RUN}.jsonl").daemons)


def test_a_torn_last_line_is_ignored_and_any_other_is_not(spark: Any, folder: Path, tmp_path: Path) -> None:
    lines = (folder / f"{RUN}.jsonl").read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "killed.jsonl").write_bytes(b"".join(lines[:100]) + lines[100][:30])
    assert sum(counts(read_traces(spark, torn)).values()) == 99
    (torn / "killed.jsonl").write_bytes(b"".join(lines[:100]) + lines[100][:30] + b"\n" + lines[101])
    with pytest.raises(UsageError, match=r"killed\.jsonl: not a trace: a line is not JSON"):
        read_traces(spark, torn)


def test_what_is_no_trace_is_refused_by_name(spark: Any, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        read_traces(spark, tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no traces in"):
        read_traces(spark, tmp_path)
    (tmp_path / "letters.jsonl").write_text('{"dear":"reader"}\n')
    with pytest.raises(UsageError, match=r"letters\.jsonl: not a trace of format version"):
        read_traces(spark, tmp_path)


def test_one_run_in_two_files_is_refused(spark: Any, folder: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / f"{name}.jsonl").write_bytes((folder / f"{RUN}.jsonl").read_bytes())
    with pytest.raises(UsageError, match=rf"one\.jsonl, other\.jsonl: .*same run, {RUN}"):
        read_traces(spark, tmp_path)
