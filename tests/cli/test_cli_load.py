"""`flood` and `bench`: the shape of their reports, on runs of a fraction of a second."""

import json
import re
from io import StringIO

import pytest
from command_line import Run
from rich.console import Console

from antiphon.cli.figures import table
from antiphon.load.plan import Received, percentile


def test_flood_reports_what_arrived(antiphon: Run, addresses: list[str]) -> None:
    words = ("--count", "500", "--size", "64", "--members", "2", "--service", "safe", "--json")
    done = antiphon("flood", *words, "--address", addresses[0], "--member-address", addresses[1])
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["sent"] == report["received"] == 500
    assert (report["service"], report["size_bytes"], report["members"]) == ("safe", 64, 2)
    assert 0 < report["p50_us"] <= report["p99_us"]


def test_flood_keeps_to_a_rate(antiphon: Run, addresses: list[str]) -> None:
    done = antiphon("flood", "--rate", "200", "--seconds", "0.5", "--address", addresses[0])
    assert (done.returncode, done.stderr) == (0, "")
    report = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert 1 <= int(report["sent"]) <= 100
    assert report["sent"] == report["received"]


def test_flood_tells_people_figures_with_their_units(antiphon: Run, addresses: list[str]) -> None:
    done = antiphon("flood", "--count", "500", "--address", addresses[0])
    report = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert report["size"] == "100 B"
    assert re.fullmatch(r"[\d,.]+ messages/s", report["rate"])
    assert re.fullmatch(r"[\d.]+ [kMG]?B/s", report["throughput"])
    for key in ("p50", "p99"):
        assert re.fullmatch(r"[\d.]+ m?s", report[key])


def test_bench_throughput_prints_an_object_a_line(antiphon: Run) -> None:
    words = ("--case", "local", "--case", "hop-unbundled", "--size", "100", "--seconds", "0.2")
    done = antiphon("bench", "throughput", *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["case"], row["size_bytes"]) for row in rows] == [("local", 100), ("hop-unbundled", 100)]
    for row in rows:
        assert row["messages_per_s"] > 0
        assert row["megabytes_per_s"] > 0


@pytest.mark.long
def test_bench_latency_has_every_service_at_two_loads(antiphon: Run) -> None:
    done = antiphon("bench", "latency", "--case", "two", "--seconds", "0.2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    services = ["reliable", "fifo", "agreed", "safe"]
    assert [(row["load"], row["service"]) for row in rows] == [
        (load, service) for load in ("light", "half") for service in services
    ]
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in rows)
    assert rows[0]["rate_per_s"] == 1000


def test_bench_latency_has_an_idle_daemon_and_a_ring_among_its_cases(antiphon: Run) -> None:
    done = antiphon("bench", "latency", "--case", "three", "--case", "ring", "--seconds", "0.2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["case"] for row in rows] == ["three"] * 4 + ["ring"] * 4
    assert all(row["messages"] > 0 for row in rows)
    assert any(row["idle_per_s"] > 0 for row in rows)


def test_bench_latency_names_its_cases(antiphon: Run) -> None:
    done = antiphon("bench", "latency", "--case", "four")
    assert done.returncode == 2
    assert "unknown case 'four'; known: one, two, three, ring" in done.stderr


def test_bench_priority_compares_high_and_low_beside_floods(antiphon: Run) -> None:
    done = antiphon("bench", "priority", "--seconds", "0.3", "--flooders", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["priority"] for row in rows] == ["low", "low", "high", "ratio"]
    assert all(row["p50_us"] > 0 for row in rows)


def test_flood_tells_its_priority(antiphon: Run, addresses: list[str]) -> None:
    words = ("--count", "10", "--priority", "high", "--json", "--address", addresses[0])
    done = antiphon("flood", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["priority"] == 9
    wrong = antiphon("flood", "--priority", "urgent")
    assert wrong.returncode == 2 and "low, medium, high" in wrong.stderr


@pytest.mark.long
def test_bench_spread_measures_clients_of_the_other_protocol(antiphon: Run) -> None:
    done = antiphon("bench", "spread", "--case", "local", "--size", "100", "--seconds", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    flat_out, *paced = [json.loads(line) for line in done.stdout.splitlines()]
    assert (flat_out["case"], flat_out["service"], flat_out["size_bytes"]) == ("local", "agreed", 100)
    assert flat_out["messages_per_s"] > 0 and flat_out["of_ours"] > 0
    assert [row["service"] for row in paced] == ["reliable", "fifo", "agreed", "safe"]
    assert all(0 < row["p50_us"] <= row["p99_us"] for row in paced)


def test_bench_shows_people_a_table(antiphon: Run) -> None:
    done = antiphon("bench", "throughput", "--case", "hop", "--size", "1024", "--seconds", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "One-way" not in done.stdout and "Agreed messages" in done.stdout
    assert re.search(r" hop +1,024 B +[\d,.]+ messages/s +[\d.]+ [kMG]B/s ", done.stdout)


@pytest.mark.parametrize("width", [40, 80, 400])
def test_a_table_of_figures_is_whole_however_wide_the_terminal_is(width: int) -> None:
    rows = [{"case": f"case{n}", "core_bytes_per_s": 1_234_567.8, "p50_us": 12_700} for n in range(4)]
    out = Console(file=StringIO(), width=width)
    out.print(table("Figures", rows, out, omitted=("absent",)))
    told = out.file.getvalue()  # type: ignore[attr-defined]
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    assert (told.count("1.2 MB/s"), told.count("12.7 ms")) == (4, 4)
    assert all(f"case{n}" in told for n in range(4))


def test_a_table_that_is_too_wide_is_turned() -> None:
    rows = [{"edges": n} | {f"figure{key}_us": 1_000 for key in range(20)} for n in (5, 10)]
    out = Console(file=StringIO(), width=80)
    out.print(table("edges", rows, out))
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1].split() == ["edges", "5", "10"]
    assert lines[-1].split() == ["figure19", "1", "ms", "1", "ms"]


def test_percentiles_count_weights() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([(10, 1), (20, 1), (30, 98)], 0.5) == 30
    assert percentile([(10, 99), (20, 1)], 0.99) == 10
    assert percentile([(10, 99), (20, 1)], 1.0) == 20


def test_rates_are_between_the_first_message_and_the_last() -> None:
    report = Received(messages=101, payload_bytes=101_000, seconds=2.0, p50_us=1, p99_us=1)
    assert report.messages_per_s == 50
    assert report.megabytes_per_s == 0.05
    assert Received(messages=1, payload_bytes=10, seconds=0.0, p50_us=1, p99_us=1).messages_per_s == 0
