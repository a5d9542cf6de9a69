"""Charts drawn by matplotlib, each in the width that it is wanted in.

The page shows one of two widths, so that the letters keep their size on a phone.
"""

from collections.abc import Callable, Sequence
from math import log10
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from antiphon.plots.charts import (
    LINE_COLOURS,
    MARK_COLOURS,
    MOMENT_COLOUR,
    PART_COLOURS,
    BarChart,
    Chart,
    HeatMap,
    LineChart,
    RangeChart,
    Timeline,
)
from antiphon.plots.picture import Colour, Picture, colour, settings
from antiphon.plots.words import Format
from antiphon.words import printable

_ROW_PX = 24
_SPAN_ROW_PX = 18
_AXIS_PX = 40
_GAP_PX = 8
_RIGHT_PX = 14
_TICK_PX = 64
"""Room for a tick and its number."""
_DOT_PX = 6
"""The dot of the first mark; that of each further one is a ring around it where both are equal."""
_RING_PX = 3.6
_CELL_MAX_PX = 72.0
_LETTER_PX = 7.2
"""Width of a letter, about: enough to know what fits."""

Box = tuple[float, float, float, float]
"""Left, right, top and bottom, in values of the axes."""


def draw(chart: Chart, width_px: int) -> str:
    """The chart as SVG, for a page whose style has the colours."""
    with settings(f"{chart.title} {width_px}"):
        return _DRAW[type(chart)](chart, width_px)


# Charts ---------------------------------------------------------------------------------------------------


def _ranges(chart: RangeChart, width: int) -> str:
    picture = _rows_picture(chart, [row.label for row in chart.rows], width)
    axes = picture.axes
    values = [mark for row in chart.rows for mark in row.marks if mark > 0]
    low = max(min(values, default=1) * 0.8, 1e-9)
    _by_factors(picture, low, max(values, default=10) * 1.2)
    _x_words(axes, chart.axis, chart.words)
    # What is too small for the axis is at its beginning.
    marks = [[max(mark, low) for mark in row.marks] for row in chart.rows]
    places = range(len(chart.rows))
    starts, ends = [row[0] for row in marks], [row[-1] for row in marks]
    axes.hlines(places, starts, ends, colors=[colour("grey")], linewidth=2)
    for number in reversed(range(len(chart.names))):
        dots = axes.scatter(
            [row[number] for row in marks],
            places,
            s=(_DOT_PX + number * _RING_PX) ** 2,
            color=[colour(MARK_COLOURS[number])],
            edgecolors=[colour("ground")],
            linewidths=0.6,
            zorder=3,
        )
        name = chart.names[number]
        picture.hint(dots, *(f"{row.label}: {name} {chart.words(row.marks[number])}" for row in chart.rows))
    return picture.finish()


def _bars(chart: BarChart, width: int) -> str:
    picture = _rows_picture(chart, [row.label for row in chart.rows], width)
    axes = picture.axes
    longest = max((sum(row.parts) for row in chart.rows), default=1) * 1.02 or 1
    _evenly(picture, 0, longest)
    _x_words(axes, chart.axis, chart.words)
    least = 0.5 * longest / picture.axes_width
    for place, row in enumerate(chart.rows):
        begun = 0.0
        for number, part in enumerate(row.parts):
            if part > 0:
                (bar,) = axes.barh(
                    place,
                    max(part, least),
                    left=begun,
                    height=1 - 8 / _ROW_PX,
                    color=colour(PART_COLOURS[number]),
                )
                picture.hint(bar, f"{row.label}: {chart.names[number]} {chart.words(part)}")
            begun += part
    return picture.finish()


def _lines(chart: LineChart, width: int) -> str:
    picture = _picture(chart, (width, 240), (64, _RIGHT_PX, 22, _AXIS_PX))
    axes = picture.axes
    across = [x for line in chart.lines for x, _ in line.points]
    (_by_factors if chart.by_factors else _evenly)(picture, min(across, default=0), max(across, default=1))
    _x_words(axes, chart.axes[0], chart.words[0])
    axes.set_ylim(0, chart.most)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: chart.words[1](value)))
    axes.tick_params(axis="y", labelcolor=colour("soft"), pad=6)
    axes.grid(axis="y")
    picture.figure.text(0, 1 - 12 / picture.height, chart.axes[1], color=colour("soft"))
    if chart.moments:
        upright = axes.vlines(
            [moment for moment, _ in chart.moments],
            0,
            1,
            transform=axes.get_xaxis_transform(),
            colors=[colour(MOMENT_COLOUR)],
            linewidth=1,
            linestyles=(0, (2, 3)),
        )
        picture.hint(upright, *(hint for _, hint in chart.moments))
    for number, line in reversed(list(enumerate(chart.lines))):
        if line.points:
            marker = "o" if len(line.points) == 1 else None  # a line needs two points
            tint = colour(LINE_COLOURS[number])
            # A line is wider than those on top of it, so that it is seen where they are equal.
            wide, dot = 1.5 + 1.7 * number, 5 + 4 * number
            (curve,) = axes.plot(
                *zip(*line.points, strict=True), color=tint, linewidth=wide, marker=marker, markersize=dot
            )
            picture.hint(curve, line.name)
    return picture.finish()


def _heat(chart: HeatMap, width: int) -> str:
    left = _gutter(chart.rows, width)
    cell = min((width - left - 4) / max(1, len(chart.columns)), _CELL_MAX_PX)
    tall = min(cell, 34.0) if chart.is_square else _ROW_PX
    is_turned = any(_text_px(column) > cell - 4 for column in chart.columns)
    top = min(110.0, max(map(_text_px, chart.columns)) + 8) if is_turned else 20.0
    right = width - left - max(1, len(chart.columns)) * cell
    picture = _picture(chart, (width, top + max(1, len(chart.rows)) * tall + 6), (left, right, top, 6))
    axes = picture.axes
    axes.set_xlim(0, max(1, len(chart.columns)))
    _label_rows(axes, chart.rows, left)
    axes.xaxis.tick_top()
    names = [_shortened(column, top - 6 if is_turned else cell) for column in chart.columns]
    axes.set_xticks([place + 0.5 for place in range(len(names))], names, rotation=90 if is_turned else 0)
    axes.spines.bottom.set_visible(False)
    _cells(picture, chart, cell, tall)
    return picture.finish()


def _cells(picture: Picture, chart: HeatMap, cell: float, tall: float) -> None:
    depth_of = _depths(chart.values.values())
    boxes: list[Box] = []
    tints: list[Colour] = []
    hints: list[str] = []
    for place, row in enumerate(chart.rows):
        for number, column in enumerate(chart.columns):
            value = chart.values.get((row, column))
            boxes.append((number, number + 1 - 1 / cell, place - 0.5, place + 0.5 - 1 / tall))
            depth = 0.0 if value is None else depth_of(value)
            tints.append(colour("faint") if value is None else colour("blue", depth))
            words = "" if value is None else chart.words(value)
            hints.append(words and f"{row}, {column}: {words}")
            if words and _text_px(words) < cell - 3:
                ink = "deep-ink" if depth > 0.8 else "middle-ink" if depth > 0.6 else "ink"
                picture.axes.text(number + 0.5, place, words, color=colour(ink), ha="center", va="center")
    _boxes(picture, boxes, tints, hints)


def _depths(values: Any) -> Callable[[float], float]:
    """How opaque the cell of a value is, from the least to the largest value by factors."""
    least = min((value for value in values if value > 0), default=1)
    low, high = log10(least), log10(max(max(values, default=1), least * 10))

    def depth(value: float) -> float:
        part = (log10(max(value, least)) - low) / (high - low)
        return round(0.12 + part * (0.95 - 0.12), 3)

    return depth


def _timeline(chart: Timeline, width: int) -> str:
    picture = _rows_picture(chart, list(chart.rows), width, _SPAN_ROW_PX)
    start, end = chart.bounds
    _evenly(picture, start, end)
    _x_words(picture.axes, chart.axis, chart.words)
    least = 1.5 * ((end - start) or 1) / picture.axes_width
    half = 0.5 - 2 / _SPAN_ROW_PX
    spans = [(place, span) for place, row in enumerate(chart.rows.values()) for span in row]
    spans.sort(key=lambda one: one[1].start - one[1].end)  # short ones are drawn last
    _boxes(
        picture,
        [
            (span.start, max(span.end, span.start + least), place - half, place + half)
            for place, span in spans
        ],
        [colour(span.colour) for _, span in spans],
        [span.hint for _, span in spans],
    )
    return picture.finish()


_DRAW: dict[type, Callable[[Any, int], str]] = {
    RangeChart: _ranges,
    BarChart: _bars,
    LineChart: _lines,
    HeatMap: _heat,
    Timeline: _timeline,
}


# Their parts ----------------------------------------------------------------------------------------------


def _picture(chart: Chart, size: tuple[float, float], edges: tuple[float, float, float, float]) -> Picture:
    return Picture(size, edges, chart.title, chart.description)


def _rows_picture(chart: Chart, labels: Sequence[str], width: int, row_px: int = _ROW_PX) -> Picture:
    """A picture with a row for each label, from the top, above an axis."""
    left = _gutter(labels, width)
    height = max(1, len(labels)) * row_px + _AXIS_PX
    picture = _picture(chart, (width, height), (left, _RIGHT_PX, 0, _AXIS_PX))
    _label_rows(picture.axes, labels, left)
    return picture


def _label_rows(axes: Axes, labels: Sequence[str], left: float) -> None:
    axes.set_ylim(max(1, len(labels)) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), [_shortened(label, left - _GAP_PX) for label in labels])


def _evenly(picture: Picture, low: float, high: float) -> None:
    """Equal steps across are equally far apart."""
    picture.axes.set_xlim(low, high if high > low else low + 1)
    picture.axes.xaxis.set_major_locator(MaxNLocator(_ticks_max(picture), steps=[1, 2, 5, 10]))


def _by_factors(picture: Picture, low: float, high: float) -> None:
    """Equal factors across are equally far apart: for times from microseconds to seconds."""
    low = max(low, 1e-9)
    high = max(high, low * 10)
    picture.axes.set_xscale("log")
    picture.axes.set_xlim(low, high)
    most = _ticks_max(picture)
    each = most / (log10(high) - log10(low))
    factors = (1, 2, 5) if each >= 3 else (1, 3) if each >= 2 else (1,)
    picture.axes.xaxis.set_major_locator(LogLocator(subs=factors, numticks=most))
    picture.axes.xaxis.set_minor_locator(NullLocator())


def _ticks_max(picture: Picture) -> int:
    return max(2, int(picture.axes_width / _TICK_PX))


def _x_words(axes: Axes, axis: str, words: Format) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: words(value)))
    axes.set_xlabel(axis, loc="right")
    axes.grid(axis="x")


def _boxes(picture: Picture, boxes: Sequence[Box], tints: Sequence[Colour], hints: Sequence[str]) -> None:
    corners = [
        ((left, top), (right, top), (right, bottom), (left, bottom)) for left, right, top, bottom in boxes
    ]
    drawn = PolyCollection(corners, facecolors=tints, linewidths=0)
    picture.axes.add_collection(drawn, autolim=False)
    picture.hint(drawn, *hints)


def _gutter(labels: Sequence[str], width: int) -> float:
    """Room on the left for the labels: what they need, but at most a third."""
    return min(max(map(_text_px, labels), default=0) + _GAP_PX, width / 3)


def _text_px(text: str) -> float:
    """How wide a text is drawn, about."""
    return len(printable(text)) * _LETTER_PX


def _shortened(text: str, width_px: float) -> str:
    """As much of a text as fits, without control characters; the end of a name tells more than its middle.

    >>> _shortened("#client-17#oslo", 60)
    '#cli…slo'
    """
    text = printable(text)
    if _text_px(text) < width_px + 1:  # sums of widths are not exact, and a pixel is not visible
        return text
    room = max(3, int(width_px / _LETTER_PX))
    if len(text) <= room:
        return text
    tail = (room - 1) // 2
    return text[: room - 1 - tail] + "…" + text[len(text) - tail :]
