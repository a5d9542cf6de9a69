"""Pages: names from outside are text on every one of them, and what is missing is told before the work."""

import re
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from page_reader import looked_at

from antiphon.cli import main
from antiphon.extras import how_to_get
from antiphon.lab import churn, scale
from antiphon.lab.experiment import Row
from antiphon.lab.fuzz import page as fuzz_page
from antiphon.lab.soak import page as soak_page
from antiphon.plots import page as pages
from antiphon.plots.page import Facts, Heading, Page, Paragraph, Section, Table, render
from antiphon.plots.picture import COLOURS
from antiphon.simulator.outcome import Summary
from antiphon.spark.campaign.job import Result, Verdict
from antiphon.spark.campaign.page import page_of as campaign_page_of
from antiphon.spark.report.figures import (
    Installation,
    Link,
    OneWay,
    OneWays,
    Pair,
    Pause,
    Rate,
    Report,
    Run,
    Spread,
    Stage,
    StateSpan,
    Story,
    Talker,
    Way,
)
from antiphon.spark.report.page import page_of as report_page_of

HOSTILE = """</title><script>alert("tea")</script>"'><img src=x onerror=alert(1)> $\\frac{1$ {{ 7 * 7 }} 茶"""
"""A name that would break out of HTML, of an attribute, of mathematics and of a template."""


def report_page() -> str:
    times = (1e3, 2e3, 3e3, 4e3)
    stage = Stage(1e3, 1e3, 2e3)
    spread = Spread(HOSTILE, 9, *times)
    talker = Talker(HOSTILE, 9, 9)
    span = StateSpan(HOSTILE, HOSTILE, HOSTILE, 0, 500, False)
    report = Report(
        folder=HOSTILE,
        runs=(Run(HOSTILE, True, 2, 2, 9, 0, 1_000, 9, 9, 1, 1, 1, 1),),
        groups_count=1,
        events={HOSTILE: 9},
        services=(spread,),
        groups=(spread,),
        pairs=(Pair(HOSTILE, HOSTILE, 9, *times),),
        pairs_of=HOSTILE,
        ways=(Way(HOSTILE, 9, stage, stage, stage, stage),),
        talkers=(talker,),
        busiest_groups=(talker,),
        pauses=(Pause(HOSTILE, HOSTILE, 0, 9, HOSTILE, HOSTILE),),
        pauses_count=1,
        pauses_by_reason=(spread,),
        installations=(Installation(HOSTILE, 1, 0, 9, (HOSTILE,), 1, (HOSTILE,)),),
        installations_count=1,
        links=(Link(HOSTILE, HOSTILE, HOSTILE, 9, 1, 9, 0, 0, 9.0),),
        links_count=1,
        stories=(Story(HOSTILE, 100, (Rate(0, 9, 9), Rate(100, 0, 9)), (span,), (50,)),),
        one_ways=OneWays((OneWay(HOSTILE, HOSTILE, 9, *times, 4e3, (HOSTILE,)),), 9, 1, 1),
    )
    return report_page_of(report)


def campaign_page() -> str:
    cells = Counter({(HOSTILE, HOSTILE): 3, ("op", HOSTILE): 1})
    summary = Summary(HOSTILE, seeds=2, rounds=Counter({HOSTILE: 2}), reasons=cells, events=cells)
    failure = Verdict(HOSTILE, 1, HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE)
    return campaign_page_of(Result(summary, [failure], 2, 9, [(1, 1), (2, 2)], 0))


def lab_page(sections: Callable[[list[Row]], list[Section]], *rows: Row) -> str:
    return render(Page(HOSTILE, [Paragraph(HOSTILE)], sections(list(rows)), HOSTILE))


def soak_page_of() -> str:
    amounts = {HOSTILE: 5}
    look = {"part": "looks", "second": 1.0, "happened": (f"{HOSTILE} killed", "act 2")}
    look |= dict.fromkeys(("memory_bytes", "descriptors", "waiting_bytes"), amounts)
    process: Row = {"part": "processes", "process": HOSTILE, "warm_descriptors": 9, "end_descriptors": 9}
    process |= dict.fromkeys(("second_act_bytes", "last_act_bytes", "limit_bytes", "rest_bytes"), 9)
    counts = ("sessions", "sent", "payload_bytes", "received", "warned", "returned", "cut_off", "records")
    rule = {"part": "rules", "rule": HOSTILE, "promise": HOSTILE, "verdict": HOSTILE, "faults": HOSTILE}
    traffic = {"part": "traffic", **dict.fromkeys(counts, 9)}
    return lab_page(soak_page.sections, look, look | {"second": 2.0}, process, traffic, rule)


def fuzz_page_of() -> str:
    door = {"door": HOSTILE}
    rule = {"part": "rules", "rule": HOSTILE, "promise": HOSTILE, "verdict": HOSTILE, "faults": HOSTILE}
    spell = {"part": "spells", "spell": 1, "kind": HOSTILE, "first": 1, "mutants": 2, "seconds": 3.0}
    process = {"part": "processes", "process": HOSTILE, "memory_bytes": 1, "peak_bytes": 2}
    return lab_page(
        fuzz_page.sections,
        {"part": "doors", **door, "mutants": 9, "seed": 1, "seconds": 2.0, "restarts": 0},
        rule | door,
        spell | door | {"flows_after_s": None},
        process | door,
        {"part": "refused", **door, "reason": HOSTILE, "times": 3},
    )


def scale_page() -> str:
    row: Row = {"part": "groups", "count": 10, "memory_bytes": 50, "grew_s": 0.1}
    row |= dict.fromkeys(("reliable_p50_us", "reliable_p99_us", "agreed_p50_us", "agreed_p99_us"), 9)
    return lab_page(scale.sections, row, row | {"count": 100})


def churn_page() -> str:
    return lab_page(
        churn.sections, {"part": "return", "count": 10, "silence_s": 0.1, "took_s": 0.2, "views": 1}
    )


PAGES: dict[str, Callable[[], str]] = {
    "report": report_page,
    "campaign": campaign_page,
    "soak": soak_page_of,
    "fuzz": fuzz_page_of,
    "scale": scale_page,
    "churn": churn_page,
}


@pytest.mark.parametrize("name", PAGES)
def test_hostile_names_are_only_text(name: str) -> None:
    page = PAGES[name]()
    reader = looked_at(page)
    assert not {"script", "img"} & reader.seen.keys()
    assert HOSTILE not in page
    # The whole name is there for those who read, and nothing of it was carried out.
    assert sum(HOSTILE in text for _, text in reader.texts) >= 3
    assert "{{ 7 * 7 }}" in page


def test_every_kind_of_block_escapes_its_texts() -> None:
    blocks = [
        Paragraph(HOSTILE, "note"),
        Heading(HOSTILE),
        Facts([(HOSTILE, HOSTILE)]),
        Table(HOSTILE, (HOSTILE, HOSTILE), [(HOSTILE, HOSTILE)]),
    ]
    reader = looked_at(render(Page(HOSTILE, blocks, [Section("a", HOSTILE, blocks)], HOSTILE)))
    assert not {"script", "img"} & reader.seen.keys()
    for tag in ("title", "h1", "h2", "h3", "p", "dt", "dd", "caption", "th", "td", "a"):
        assert HOSTILE in reader.texts_of(tag), tag
    assert [given["aria-label"] for tag, given in reader.places if given.get("role") == "region"] == (
        [HOSTILE, HOSTILE]
    )


def test_numbers_are_set_to_the_right_and_long_texts_may_break() -> None:
    table = Table("t", ("name", "times", "what"), [("a", "7", "x" * 40)], numbers_from=1)
    reader = looked_at(render(Page("", (), [Section("s", "S", [table])], "")))
    cells = [given.get("class") for tag, given in reader.places if tag == "td"]
    assert cells == [None, "number", "long"]


def test_the_style_has_every_colour_in_light_in_dark_and_on_paper() -> None:
    style = files("antiphon.plots").joinpath("templates/page.css").read_text()
    for name in COLOURS:
        assert len(re.findall(rf"--{name}: #", style)) == 3, name


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["lab", "scale"], "pages"),
        (["report", ".", "--out", "new/report.html"], "spark"),
        (["campaign", "--seeds", "0"], "spark"),
    ],
)
def test_a_missing_library_is_told_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    extra: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.jsonl").touch()
    monkeypatch.setattr(pages, "find_spec", lambda name: None if name == "jinja2" else name)
    assert main.exit_code(words) == 2
    told = capsys.readouterr().err
    assert told == f"antiphon: a page with plots needs jinja2: {how_to_get(extra)}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]
