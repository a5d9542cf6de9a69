"""Plots of the report: ranges, stacked bars, lines, heat maps and timelines.

Each is a function from values and a width to an SVG picture. The page shows one of two widths, so that the
letters keep their size on a phone.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from antiphon.plots.svg import Drawing, Linear, Logarithmic, Scale, shortened, text_width
from antiphon.plots.words import Format, count

_ROW_PX = 24
_AXIS_PX = 40
_GAP_PX = 8
_TICK_PX = 64
"""Room for a tick and its number."""


class Range(Struct, frozen=True):
    """How the values of one thing are spread."""

    label: str
    marks: tuple[float, ...]
    """From the smallest on."""


class Stack(Struct, frozen=True):
    """Parts that add up to something."""

    label: str
    parts: tuple[float, ...]


class Line(Struct, frozen=True):
    """A value over time."""

    name: str
    kind: str
    """Class that gives it its colour."""
    points: tuple[tuple[float, float], ...]


class Span(Struct, frozen=True):
    """Something that lasted."""

    start: float
    end: float
    kind: str
    hint: str


def ranges(
    title: str, names: Sequence[str], rows: Sequence[Range], axis: str, words: Format, width: int
) -> str:
    """A line for each row from its first mark to its last, and a dot for each mark, by factors."""
    left = _gutter([row.label for row in rows], width)
    height = len(rows) * _ROW_PX + _AXIS_PX
    drawing = Drawing(width, height, title, f"{len(rows)} rows with the marks {', '.join(names)}; {axis}.")
    values = [mark for row in rows for mark in row.marks if mark > 0]
    scale = Logarithmic(min(values, default=1) * 0.8, max(values, default=10) * 1.2, left, width - 14)
    _x_axis(drawing, scale, height - _AXIS_PX, axis, words, left)
    for place, row in enumerate(rows):
        y = place * _ROW_PX + _ROW_PX / 2
        _label(drawing, row.label, left, y)
        drawing.line(scale.at(row.marks[0]), y, scale.at(row.marks[-1]), y, "span")
        for number in reversed(range(len(row.marks))):
            hint = f"{row.label}: {names[number]} {words(row.marks[number])}"
            drawing.circle(scale.at(row.marks[number]), y, 5, f"mark{number}", hint)
    return drawing.finish()


def stacks(
    title: str, names: Sequence[str], rows: Sequence[Stack], axis: str, words: Format, width: int
) -> str:
    """A bar for each row, made of its parts."""
    left = _gutter([row.label for row in rows], width)
    height = len(rows) * _ROW_PX + _AXIS_PX
    drawing = Drawing(width, height, title, f"{len(rows)} bars made of {', '.join(names)}; {axis}.")
    longest = max((sum(row.parts) for row in rows), default=1)
    scale = Linear(0, longest * 1.02, left, width - 14)
    _x_axis(drawing, scale, height - _AXIS_PX, axis, words, left)
    for place, row in enumerate(rows):
        y = place * _ROW_PX + 4
        _label(drawing, row.label, left, y + _ROW_PX / 2 - 4)
        begun = 0.0
        for number, part in enumerate(row.parts):
            x = scale.at(begun)
            begun += part
            if part > 0:
                hint = f"{row.label}: {names[number]} {words(part)}"
                drawing.rectangle(x, y, max(0.5, scale.at(begun) - x), _ROW_PX - 8, f"part{number}", hint)
    return drawing.finish()


def lines(
    title: str,
    rows: Sequence[Line],
    marks: Sequence[tuple[float, str]],
    axes: tuple[str, str],
    words: tuple[Format, Format],
    width: int,
    by_factors: bool = False,
) -> str:
    """Values over time, or over counts `by_factors`; `marks` are moments that matter, each a thin upright
    line."""
    height, left, top = 240, 64, 22
    low = min((x for row in rows for x, _ in row.points), default=0)
    high = max((x for row in rows for x, _ in row.points), default=1)
    most = max((y for row in rows for _, y in row.points), default=1)
    across: Scale = (Logarithmic if by_factors else Linear)(low, high, left, width - 14)
    up = Linear(0, most or 1, height - _AXIS_PX, top)
    names = ", ".join(row.name for row in rows)
    drawing = Drawing(width, height, title, f"{names}: {axes[1]} over {axes[0]}, at most {words[1](most)}.")
    for value in up.ticks(5):
        drawing.line(left, up.at(value), width - 14, up.at(value), "grid")
        drawing.text(left - 6, up.at(value) + 4, words[1](value), "tick", "end")
    drawing.text(0, 12, axes[1], "axis")
    _x_axis(drawing, across, height - _AXIS_PX, axes[0], words[0], left, top)
    for moment, hint in marks:
        drawing.line(across.at(moment), top, across.at(moment), height - _AXIS_PX, "moment", hint)
    for row in rows:
        drawing.path([(across.at(x), up.at(y)) for x, y in row.points], f"curve {row.kind}", row.name)
    return drawing.finish()


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[tuple[str, str], float],
    words: Format,
    width: int,
    square: bool = False,
) -> str:
    """A cell for each pair that has a value; darker is more, by factors."""
    left = _gutter(rows, width)
    room = (width - left - 4) / max(1, len(columns))
    cell = min(room, 72.0)
    tall = min(cell, 34.0) if square else 24.0
    turned = any(text_width(column) > cell - 4 for column in columns)
    longest = max((text_width(column) for column in columns), default=0)
    top = min(110.0, longest + 8) if turned else 20.0
    height = top + len(rows) * tall + 6
    drawing = Drawing(
        width, height, title, f"{len(values)} cells in {len(rows)} rows and {len(columns)} columns."
    )
    most = max(values.values(), default=1)
    least = min((value for value in values.values() if value > 0), default=1)
    scale = Logarithmic(least, max(most, least * 1.01), 0.12, 0.95)
    for number, column in enumerate(columns):
        x = left + number * cell + cell / 2
        if turned:
            drawing.text(x + 4, top - 5, shortened(column, top - 6), "tick", "start", turned=True)
        else:
            drawing.text(x, top - 6, column, "tick", "middle")
    for place, row in enumerate(rows):
        y = top + place * tall
        _label(drawing, row, left, y + tall / 2)
        for number, column in enumerate(columns):
            x = left + number * cell
            value = values.get((row, column))
            if value is None:
                drawing.rectangle(x, y, cell - 1, tall - 1, "empty")
                continue
            depth = scale.at(value)
            drawing.rectangle(
                x, y, cell - 1, tall - 1, "heat", f"{row}, {column}: {words(value)}", opacity=depth
            )
            if text_width(words(value)) < cell - 3:
                kind = "on-deep" if depth > 0.8 else "on-middle" if depth > 0.6 else "on-faint"
                drawing.text(x + cell / 2 - 0.5, y + tall / 2 + 4, words(value), kind, "middle")
    return drawing.finish()


def timeline(
    title: str,
    rows: Mapping[str, Sequence[Span]],
    axis: str,
    words: Format,
    bounds: tuple[float, float],
    width: int,
) -> str:
    """What each row went through; short spans are drawn last, and wide enough to be seen."""
    left = _gutter(list(rows), width)
    height = len(rows) * 18 + _AXIS_PX
    drawing = Drawing(width, height, title, f"{len(rows)} rows of spans; {axis}.")
    scale = Linear(bounds[0], bounds[1], left, width - 14)
    _x_axis(drawing, scale, height - _AXIS_PX, axis, words, left)
    for place, (label, spans) in enumerate(rows.items()):
        y = place * 18 + 2
        _label(drawing, label, left, y + 7)
        for span in sorted(spans, key=lambda one: one.start - one.end):
            x = scale.at(span.start)
            drawing.rectangle(x, y, max(1.5, scale.at(span.end) - x), 14, span.kind, span.hint)
    return drawing.finish()


def bars(title: str, rows: Sequence[tuple[str, float]], axis: str, words: Format, width: int) -> str:
    """One bar a row, with its value."""
    return stacks(title, (axis,), [Stack(label, (value,)) for label, value in rows], axis, words, width)


def _gutter(labels: Sequence[str], width: int) -> float:
    """Room on the left for the labels: what they need, but at most a third."""
    return min(max((text_width(label) for label in labels), default=0) + _GAP_PX, width / 3)


def _label(drawing: Drawing, label: str, left: float, y: float) -> None:
    drawing.text(left - _GAP_PX, y + 4, shortened(label, left - _GAP_PX), "label", "end")


def _x_axis(
    drawing: Drawing, scale: Scale, y: float, axis: str, words: Format, left: float, top: float = 0
) -> None:
    right = drawing.width - 14
    drawing.line(left, y, right, y, "base")
    shown_to = -1.0
    for value in scale.ticks(max(2, int((right - left) / _TICK_PX))):
        x = scale.at(value)
        drawing.line(x, top, x, y, "grid")
        words_px = text_width(words(value))
        middle = min(x, drawing.width - words_px / 2)
        if middle - words_px / 2 > shown_to:
            drawing.text(middle, y + 15, words(value), "tick", "middle")
            shown_to = middle + words_px / 2 + 4
    drawing.text(right, y + 33, axis, "axis", "end")


def count_words(number: float) -> str:
    """A count, short enough for a cell.

    >>> count_words(12), count_words(1_234), count_words(56_000), count_words(3_400_000)
    ('12', '1.2k', '56k', '3.4 M')
    """
    if number < 1_000 or number >= 1_000_000:
        return count(number)
    return f"{number / 1_000:.1f}k" if number < 9_950 else f"{number / 1_000:.0f}k"
