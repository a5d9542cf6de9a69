"""`antiphon report`: the numbers of traces whose every time is known, and the page."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from page_reader import looked_at
from stories import MS, Story

from antiphon.cli import main, screen
from antiphon.cli.report import _told
from antiphon.simulator.run import run_seed
from antiphon.spark.report.figures import Link, OneWays, Report, Stage
from antiphon.spark.report.job import report_of
from antiphon.spark.report.page import page_of
from antiphon.trace import Event

NASTY = '<script>alert("tea")</script>'


def way() -> Story:
    """Messages whose every step is known."""
    story = Story("way")
    story.note(0, Event.CONNECT, "d0", "#a#d0")
    story.bundle((10, 11, 15, 40, 42), first=1, messages=3, service="safe")
    story.bundle((20, 22, 26, 26, 27), first=4, messages=1, service="reliable")
    return story


def churn() -> Story:
    """A daemon that starts, merges, loses its view, and crashes."""
    story = Story("churn")
    story.note(0, Event.RECOVER, "d0", incarnation=9)
    story.note(0, Event.SVIEW, "d0", members=("d0",), daemon_view=1)
    story.states("d0", (0, "seg", "started"), (40, "gather", "alone"), (50, "op", "nothing-new"))
    # A merge: the view works while it gathers, and again when its groups are whole.
    story.states("d0", (100, "gather", "found"), (130, "statetrans", "proposed"), (140, "evs", "state-known"))
    story.states("d0", (150, "op", "installed"))
    story.note(150, Event.SVIEW, "d0", members=("d0", "d1"), transitional=("d0",), daemon_view=2)
    story.states("d0", (150, "ggather", "merge"), (160, "gop", "merged"))
    story.states("d0", (300, "seg", "silence"))
    story.note(390, Event.CRASH, "d0", incarnation=9)
    story.note(400, Event.BUFFERS, "d1")
    return story


def killed() -> Story:
    """A daemon that ends without a word, and comes back."""
    story = Story("killed", live=True)
    for start_ms in (0, 1_000):
        story.note(start_ms, Event.RECOVER, "d0", incarnation=start_ms + 1)
        story.states("d0", (start_ms, "seg", "restarted"), (start_ms + 50, "op", "installed"))
        story.note(start_ms + 200, Event.BUFFERS, "d0")
    story.note(1_300, Event.BUFFERS, "d1")
    # Enough messages to be among the runs that are drawn.
    story.bundle((1_001, 1_002, 1_003, 1_004, 1_005), first=1, messages=5, service="causal")
    return story


def links() -> Story:
    """Samples of a link in two views, by both of its ends. Half of what was sent again in the first view came
    twice; in the second nothing was, and its sender was looked at last."""
    story = Story("links")
    for view, samples in ((1, ((10, 1, 10, 0), (100, 20, 110, 10))), (2, ((50, 0, 41, 0),))):
        for place, (packets, resent, received, duplicates) in enumerate(samples):
            sent = {"packets": packets, "resent": resent, "round_trip_us": 4_000}
            came = {"received": received, "duplicates": duplicates}
            story.note(place, Event.LINK, "d1", peer="d0", daemon_view=view, link=came)
            story.note(place + 0.9, Event.LINK, "d0", peer="d1", daemon_view=view, link=sent)
    return story


def stopped() -> Story:
    """Three ends of daemons: one was told to, and starts again; one was not; one was killed, and is back."""
    story = Story("stopped", live=True)
    for daemon, ends in (("d0", (Event.STOP, Event.CRASH)), ("d1", (Event.CRASH,)), ("d2", ())):
        story.note(0, Event.RECOVER, daemon, incarnation=1)
        story.states(daemon, (0, "seg", "started"), (10, "op", "installed"), (100, "statetrans", "leaving"))
        for end in ends:
            story.note(120, end, daemon, incarnation=1)
        story.note(200, Event.RECOVER, daemon, incarnation=2)
    return story


def clocks() -> Story:
    """A message that comes before it is sent, by the clocks, to a group with a nasty name."""
    story = Story("clocks", live=True, group=NASTY)
    story.bundle((10, 11, 6, 7, 8), first=1, messages=1, service="agreed")
    return story


def clients() -> Story:
    """A trace without any event of daemons."""
    story = Story("clients")
    message = {"message": (0, 9, 1, 1), "groups": ("tea", "#b#d1"), "service": "fifo"}
    story.note(1, Event.SEND, "d0", "#a#d0", **message)
    story.note(2, Event.DELIVER, "d1", "#b#d1", **message)
    return story


@pytest.fixture(scope="module")
def report(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """All stories in one folder: a report is many jobs, and one is enough to look at."""
    folder = tmp_path_factory.mktemp("stories")
    for story in (way(), churn(), killed(), stopped(), links(), clocks(), clients()):
        story.trace.write(folder)
    return report_of(spark, folder)


def only(rows: Iterable[Any], **wanted: Any) -> Any:
    """The one row that has these values."""
    (found,) = (row for row in rows if all(getattr(row, name) == value for name, value in wanted.items()))
    return found


@pytest.mark.timeout(300)
def test_latency_is_from_the_send_to_each_delivery(report: Report) -> None:
    assert [service.name for service in report.services] == ["reliable", "fifo", "causal", "agreed", "safe"]
    safe = only(report.services, name="safe")
    assert (safe.deliveries, safe.p50_us, safe.max_us) == (3, 32 * MS, 32 * MS)
    assert only(report.services, name="reliable").max_us == 7 * MS
    assert only(report.groups, name="tea").deliveries == 10
    assert only(report.groups, name="(private)").deliveries == 1
    pair = only(report.pairs, origin="way-oslo", target="way-perth")
    assert (report.pairs_of, pair.deliveries, pair.max_us) == ("sites", 4, 32 * MS)


def test_the_parts_of_the_way_are_told_apart(report: Report) -> None:
    safe = only(report.ways, service="safe")
    assert [stage.mean_us for stage in safe.stages] == [1 * MS, 4 * MS, 25 * MS, 2 * MS]
    assert only(report.ways, service="reliable").ordering == Stage(0.0, 0, 0)
    assert "fifo" not in {one.service for one in report.ways}  # nothing is known between


def test_traffic_is_counted(report: Report) -> None:
    run = only(report.runs, name="way")
    assert (run.sent, run.delivered, run.daemons, run.processes, run.span_us) == (4, 4, 2, 1, 42 * MS)
    assert report.events["deliver"] == 11
    talker = only(report.talkers, name="way #a#d0")
    assert (talker.sent, talker.delivered) == (4, 4)
    assert report.talkers[0].name == "killed #a#d0"
    assert only(report.busiest_groups, name="tea").sent == 10
    assert report.groups_count == 2
    rates = only(report.stories, run="way").rates
    assert sum(rate.sent for rate in rates) == sum(rate.delivered for rate in rates) == 4
    assert {rate.start_us for rate in rates if rate.sent} == {10 * MS, 20 * MS}


def test_pauses_begin_with_the_loss_of_the_view_and_end_with_whole_groups(report: Report) -> None:
    told = {
        pause.reason: (pause.start_us, pause.took_us, pause.ended)
        for pause in report.pauses
        if pause.run == "churn"
    }
    assert told == {
        "started": (0, 50 * MS, "op"),
        "found": (130 * MS, 30 * MS, "gop"),
        "silence": (300 * MS, 90 * MS, "crash"),
    }
    assert report.pauses_count == 5 + 6  # those of `churn` and `killed`, and of `stopped`
    assert only(report.pauses_by_reason, name="restarted").deliveries == 2
    view = only(report.installations, run="churn")
    assert (view.view, view.members, view.reasons, view.installed_at) == (2, ("d0", "d1"), ("found",), 1)
    assert report.installations_count == 1


def test_a_daemon_that_was_killed_is_down_from_its_last_sign_of_life(report: Report) -> None:
    spans = only(report.stories, run="killed").spans
    down = only(spans, state="down")
    assert (down.start_us, down.end_us, down.reason) == (200 * MS, 1_000 * MS, "killed")
    assert [span.is_working for span in spans] == [False, True, False, False, True]
    assert spans[-1].end_us == 1_200 * MS  # what came then, nobody knows


def test_counters_of_links_are_added_up_over_views(report: Report) -> None:
    worst = report.links[0]
    assert worst == Link("links", "d0", "d1", 150, 20, 151, 10, 0, 4_000.0)
    assert (worst.sent, worst.lost) == (170, 10)
    assert report.links_count == 2


def test_nothing_is_lost_because_the_ends_were_looked_at_one_after_the_other() -> None:
    assert Link("live", "d0", "d1", 2_100, 0, 2_028, 0, 0, 60.0).lost == 0
    assert Link("live", "d0", "d1", 2_000, 3, 2_100, 1, 0, 60.0).lost == 2
    assert Link("live", "d0", "ring d0-d1", 2_100, 0, -1, 0, 0, 60.0).lost is None


def test_a_planned_stop_is_no_crash(report: Report) -> None:
    run = only(report.runs, name="stopped")
    assert (run.stops, run.crashes) == (1, 2)
    ended = {one.daemon: one.ended for one in report.pauses if one.run == "stopped" and one.start_us}
    assert ended == {"d0": "stop", "d1": "crash", "d2": "crash"}
    assert only(report.runs, name="churn").crashes == 1
    assert "planned stop" in page_of(report)


def test_clocks_that_disagree_are_told(report: Report) -> None:
    run = only(report.runs, name="clocks")
    assert (run.early, run.earliest_us) == (1, 2 * MS)
    page = page_of(report)
    assert "own clock" in page
    assert "by up to 2 ms" in page
    simulated = tuple(run for run in report.runs if not run.live)
    assert "own clock" not in page_of(replace(report, runs=simulated, stories=()))


def test_one_way_latency_of_simulated_runs_has_no_error(report: Report) -> None:
    one = only(report.one_ways.pairs, origin="way-oslo", target="way-perth")
    assert (one.bundles, one.p50_us, one.p99_us, one.error_max_us) == (2, 4 * MS, 4 * MS, 0)
    assert one.bases == ("virtual",)
    assert report.one_ways.unknown == 2  # of live runs whose daemons said nothing of the time


def test_what_is_known_of_the_way_is_told_in_words(report: Report) -> None:
    assert "2 of 4 arrivals are left out" in page_of(report)
    assert "more than the bounds allow" not in page_of(report)
    wrong = page_of(replace(report, one_ways=replace(report.one_ways, impossible=1)))
    assert "1 arrival came before being sent" in wrong
    unknown = page_of(replace(report, one_ways=OneWays((), 0, 3, 0)))
    assert "No common time is known for any of 3 arrivals" in unknown
    assert "No daemon is known" in page_of(replace(report, one_ways=OneWays((), 0, 0, 0)))


# The page -------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_the_command_writes_one_page_that_needs_nothing_else(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "LINE_EVERY_S", 0.1)
    outcomes = [run_seed(seed, "crash", tmp_path / "traces") for seed in (1, 2, 3)][:2]
    out = tmp_path / "deep" / "page.html"
    words = ["report", str(tmp_path / "traces"), "--out", str(out), "--title", f"Tea & {NASTY}", "--json"]
    words += ["--run", "crash-1", "--run", "crash-2"]
    assert main.exit_code(words) == 0
    told = capsys.readouterr()
    assert "reporting on" in told.err and " of 9, " in told.err
    report = json.loads(told.out)
    assert sum(run["sent"] for run in report["runs"]) == sum(one.counts.messages for one in outcomes)
    assert sum(run["delivered"] for run in report["runs"]) == sum(one.counts.deliveries for one in outcomes)
    assert sum(run["crashes"] for run in report["runs"]) == sum(one.counts.crashes for one in outcomes)
    # The simulator worked out the same latencies in its own way.
    for service in report["services"]:
        told = [one.latencies[service["name"]] for one in outcomes if service["name"] in one.latencies]
        assert service["deliveries"] == sum(latency.deliveries for latency in told)
        assert service["max_us"] == max(latency.max_us for latency in told)
    assert report["links"]
    page = out.read_text()
    tags = looked_at(page)
    assert "script" not in tags.seen
    assert tags.seen["table"] > 8
    assert tags.seen["svg"] == tags.seen["desc"] > 16
    assert page.count('class="wide"') == page.count('class="narrow"') > 8


def test_one_run_is_no_runs(report: Report) -> None:
    assert _told([only(report.runs, name="way")]) == "1 run, 4 messages"
    assert _told(report.runs[:2]).startswith("2 runs, ")


def test_names_from_traces_are_only_text(report: Report) -> None:
    page = page_of(report)
    assert NASTY not in page
    assert "&lt;script&gt;" in page
    assert "script" not in looked_at(page).seen


def test_a_page_without_anything_to_show_says_so(report: Report) -> None:
    nothing = replace(
        report, services=(), groups=(), pairs=(), ways=(), talkers=(), busiest_groups=(), pauses=(),
        pauses_by_reason=(), installations=(), installations_count=0, links=(), stories=(),
    )  # fmt: skip
    assert looked_at(page_of(nothing)).seen["section"] == 9


def test_a_run_that_is_not_there_is_told(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    way().trace.write(tmp_path)
    out = str(tmp_path / "page.html")
    assert main.exit_code(["report", str(tmp_path), "--run", "story-3", "--out", out]) == 2
    assert "no run story-3" in capsys.readouterr().err
