"""Plots: values are where they belong, and what is written can be read."""

import itertools
import re
from typing import Any

import matplotlib
import pytest
from page_reader import looked_at

from antiphon.plots.charts import (
    Bar,
    BarChart,
    Chart,
    HeatMap,
    Line,
    LineChart,
    Range,
    RangeChart,
    Span,
    Timeline,
    bar_chart,
)
from antiphon.plots.drawing import draw
from antiphon.plots.page import NARROW_PX, WIDE_PX
from antiphon.plots.picture import COLOURS
from antiphon.plots.words import count, duration

MARKS = ("p50", "p90", "p99", "max")
AXES = ("time", "messages per second")
WIDTHS = (NARROW_PX, WIDE_PX)

CHARTS: dict[str, Chart] = {
    "ranges": RangeChart(
        "Latency", MARKS, [Range(f"a group with a long name {n}", (1, 50, 4e3, 9e6)) for n in range(4)],
        "time, by factors", duration,
    ),
    "bars": BarChart("Way", ("waiting", "transport"), [Bar("safe", (2e3, 6e3))], "mean time", duration),
    "lines": LineChart(
        "Throughput", (Line("sent", ((0, 1), (1e6, 9))), Line("delivered", ((0, 4), (1e6, 2)))), AXES,
        (duration, count), ((5e5, "view at 0.5 s"),), "views",
    ),
    "growth": LineChart(
        "Memory", (Line("memory", ((10, 5), (10_000, 50))),), ("groups", "memory"), (count, count),
        by_factors=True,
    ),
    "heat": HeatMap(
        "p50", ("oslo", "lima"), ("oslo", "lima"), {("oslo", "lima"): 7.0, ("lima", "lima"): 9.0}, count
    ),
    "timeline": Timeline(
        "Membership", {"d0": [Span(0, 5e5, "pale-green", "d0: op"), Span(5e5, 1e6, "red", "d0: down")]},
        "time", duration, (0, 1e6), (("pale-green", "works"), ("red", "down")),
    ),
}  # fmt: skip
EMPTY: dict[str, Chart] = {
    "ranges": RangeChart("t", (), [], "x", duration),
    "bars": BarChart("t", (), [], "x", duration),
    "lines": LineChart("t", [], AXES, (duration, duration)),
    "growth": LineChart("t", [Line("n", ((3, 0),))], AXES, (count, count), by_factors=True),
    "heat": HeatMap("t", [], [], {}, duration),
    "timeline": Timeline("t", {}, "x", duration, (0, 0), ()),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CHARTS)
def test_nothing_is_drawn_outside_of_the_picture(name: str, width: int) -> None:
    reader = looked_at(draw(CHARTS[name], width))
    (_, picture), *_ = reader.places
    assert picture["width"] == str(width)
    height = float(picture["height"] or "")
    places = [
        place for place in reader.places if place[1].get("id") is None
    ]  # those have places of their own
    points = [
        (float(x), float(y))
        for _, given in places
        for x, y in re.findall(r"[ML] (\S+) (\S+)", given.get("d") or "")
    ]
    points += [(float(given["x"] or ""), float(given["y"] or "")) for _, given in places if "x" in given]
    assert len(points) > 10
    assert all(0 <= x <= width and 0 <= y <= height for x, y in points)


@pytest.mark.parametrize("name", CHARTS)
def test_a_picture_is_told_to_those_who_do_not_see_it(name: str) -> None:
    chart = CHARTS[name]
    reader = looked_at(draw(chart, WIDE_PX))
    (_, picture), *_ = reader.places
    assert (picture["role"], picture["aria-label"]) == ("img", chart.title)
    assert reader.texts_of("title")[0] == chart.title
    assert reader.texts_of("desc") == [chart.description]


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_chart_is_the_same_picture_in_colours_of_the_page(name: str) -> None:
    drawn = draw(CHARTS[name], WIDE_PX)
    assert draw(CHARTS[name], WIDE_PX) == drawn
    assert set(re.findall(r"var\(--([\w-]+)\)", drawn)) <= set(COLOURS)
    assert not re.findall(r"#[0-9a-f]{6}\b", drawn)


@pytest.mark.parametrize("name", CHARTS)
def test_settings_of_a_user_do_not_matter(name: str) -> None:
    drawn = draw(CHARTS[name], WIDE_PX)
    own: dict[Any, object] = {
        "font.size": 30,
        "grid.color": "red",
        "text.color": "red",
        "axes.spines.top": True,
    }
    with matplotlib.rc_context(own):
        assert draw(CHARTS[name], WIDE_PX) == drawn
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize("name", EMPTY)
def test_charts_without_values_are_drawn(name: str) -> None:
    assert looked_at(draw(EMPTY[name], NARROW_PX)).seen["svg"] == 1


def test_identifiers_of_two_pictures_differ() -> None:
    found = [set(re.findall(r'id="([^"]+)"', draw(CHARTS["ranges"], width))) for width in WIDTHS]
    assert found[0] and found[1] and not found[0] & found[1]


# Values ---------------------------------------------------------------------------------------------------


def test_marks_are_at_their_values_by_factors() -> None:
    chart = RangeChart(
        "t", ("low", "high"), [Range("a", (10.0, 1_000.0)), Range("b", (100.0, 100.0))], "x", str
    )
    reader = looked_at(draw(chart, WIDE_PX))
    hints = reader.texts_of("title")[1:]
    assert hints == ["a: high 1000.0", "b: high 100.0", "a: low 10.0", "b: low 100.0"]
    across = [float(given["x"] or "") for tag, given in reader.places if tag == "use"]
    a_high, b_high, a_low, b_low = across
    assert b_high == b_low == pytest.approx((a_low + a_high) / 2, abs=0.2)


def test_equal_marks_are_rings_around_one_another() -> None:
    chart = RangeChart("t", MARKS, [Range("a", (100.0, 100.0, 100.0, 100.0))], "x", str)
    reader = looked_at(draw(chart, WIDE_PX))
    hints = reader.texts_of("title")[1:]
    assert hints == [f"a: {name} 100.0" for name in reversed(MARKS)]  # the last one is on top
    dots = [
        given["d"] or "" for tag, given in reader.places if tag == "path" and "C" in (given.get("d") or "")
    ]
    outlines = [[float(number) for number in re.findall(r"-?[\d.]+", dot)] for dot in dots]
    sizes = [max(outline) - min(outline) for outline in outlines]
    assert len(sizes) == len(MARKS)
    assert all(larger - smaller > 2 for larger, smaller in itertools.pairwise(sizes))


def test_a_line_below_another_one_is_wider() -> None:
    points = ((0.0, 1.0), (1e6, 9.0))
    chart = LineChart("t", (Line("sent", points), Line("delivered", points)), AXES, (duration, count))
    styles = [given.get("style") or "" for _, given in looked_at(draw(chart, WIDE_PX)).places]
    found = [re.search(r"stroke: var\(--(blue|amber)\).*stroke-width: ([\d.]+)", style) for style in styles]
    (below, wide), (above, thin) = [one.groups() for one in found if one]
    assert (below, above) == ("amber", "blue")
    assert float(wide) > float(thin) + 1


def test_parts_of_bars_follow_one_another() -> None:
    reader = looked_at(draw(CHARTS["bars"], WIDE_PX))
    assert reader.texts_of("title")[1:] == ["safe: waiting 2 ms", "safe: transport 6 ms"]
    bars = [given["d"] or "" for tag, given in reader.places if "fill: var(--" in (given.get("style") or "")
            and tag == "path"]  # fmt: skip
    edges = [sorted({float(x) for x in re.findall(r"[ML] (\S+)", bar)}) for bar in bars]
    (first_left, first_right), (second_left, second_right) = edges
    assert first_right == second_left
    assert second_right - second_left == pytest.approx(3 * (first_right - first_left), abs=0.5)


def test_axes_have_round_values_in_words() -> None:
    texts = looked_at(draw(CHARTS["lines"], WIDE_PX)).texts_of("text")
    assert {"0 ms", "200 ms", "400 ms", "600 ms", "800 ms", "1 s", *AXES} <= set(texts)
    assert {"10", "100", "1,000", "10,000"} <= set(
        looked_at(draw(CHARTS["growth"], WIDE_PX)).texts_of("text")
    )


def test_moments_and_lines_tell_what_they_are() -> None:
    assert looked_at(draw(CHARTS["lines"], WIDE_PX)).texts_of("title")[1:] == [
        "view at 0.5 s", "delivered", "sent",
    ]  # fmt: skip
    assert list(CHARTS["lines"].legend) == [("blue", "sent"), ("amber", "delivered"), ("violet", "views")]


def test_cells_tell_their_values() -> None:
    reader = looked_at(draw(CHARTS["heat"], WIDE_PX))
    assert reader.texts_of("title")[1:] == ["oslo, lima: 7", "lima, lima: 9"]
    assert {"7", "9", "oslo", "lima"} <= set(reader.texts_of("text"))


def test_short_spans_are_drawn_last_and_can_be_seen() -> None:
    rows = {"d0": [Span(500.0, 500.1, "red", "short"), Span(0.0, 1_000.0, "pale-green", "long")]}
    reader = looked_at(draw(Timeline("t", rows, "time", str, (0.0, 1_000.0), ()), WIDE_PX))
    assert reader.texts_of("title")[1:] == ["long", "short"]
    spans = [
        given["d"] or "" for _, given in reader.places if "fill: var(--red" in (given.get("style") or "")
    ]
    across = [float(x) for x in re.findall(r"[ML] (\S+)", spans[0])]
    assert max(across) - min(across) >= 1.4


# Labels ---------------------------------------------------------------------------------------------------


def labels(label: str, width: int) -> list[str]:
    """The texts of a chart with this label."""
    return looked_at(draw(bar_chart("widths", [(label, 1.0)], "n", str), width)).texts_of("text")


@pytest.mark.parametrize("length", range(1, 40))
def test_a_label_that_has_room_is_whole(length: int) -> None:
    assert "x" * length in labels("x" * length, 900)


def test_a_label_that_has_none_keeps_both_ends() -> None:
    (label,) = (text for text in labels("#client-" + "7" * 90 + "#oslo", 300) if "…" in text)
    assert label.startswith("#cli") and label.endswith("oslo")


@pytest.mark.parametrize("label", ["$x^2$", r"$\frac{1$", "<b>&amp;", "茶", "{{ 7 * 7 }}"])
def test_a_label_is_only_text(label: str) -> None:
    assert label in labels(label, 900)


def test_axes_and_cells_are_only_text() -> None:
    words = r"$\frac{1$"
    chart = LineChart(words, (Line(words, ((0, 1), (1, 2))),), (words, words), (lambda _: words,) * 2)
    assert set(looked_at(draw(chart, WIDE_PX)).texts_of("text")) == {words}
    heat = HeatMap(words, (words,), (words,), {(words, words): 1.0}, lambda _: words)
    assert words in looked_at(draw(heat, WIDE_PX)).texts_of("text")


def test_control_characters_in_a_label_are_shown_as_escapes() -> None:
    assert r"a\x1b\nb" in labels("a\x1b\nb", 900)
