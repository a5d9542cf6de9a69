"""Charts as values: ranges, bars, lines, heat maps and timelines. `drawing` makes pictures of them.

Colours are names; the style of the page gives each name a light and a dark value.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from antiphon.plots.words import Format

Legend = Sequence[tuple[str, str]]
"""Colours and what they stand for."""

MARK_COLOURS = ("blue", "teal", "amber", "red")
PART_COLOURS = ("blue", "teal", "amber", "violet")
LINE_COLOURS = ("blue", "amber")
MOMENT_COLOUR = "violet"


class Range(Struct, frozen=True):
    """How the values of one thing are spread."""

    label: str
    marks: tuple[float, ...]
    """The marks in ascending order."""


class RangeChart(Struct, frozen=True):
    """A line for each row from its first mark to its last, and a dot for each mark, by factors."""

    title: str
    names: Sequence[str]
    """The names of the marks."""
    rows: Sequence[Range]
    axis: str
    words: Format

    @property
    def description(self) -> str:
        return f"{len(self.rows)} rows with the marks {', '.join(self.names)}; {self.axis}."

    @property
    def legend(self) -> Legend:
        return list(zip(MARK_COLOURS, self.names, strict=False))


class Bar(Struct, frozen=True):
    """Parts that add up to something."""

    label: str
    parts: tuple[float, ...]


class BarChart(Struct, frozen=True):
    """A bar for each row, made of its parts."""

    title: str
    names: Sequence[str]
    """The names of the parts."""
    rows: Sequence[Bar]
    axis: str
    words: Format

    @property
    def description(self) -> str:
        return f"{len(self.rows)} bars made of {', '.join(self.names)}; {self.axis}."

    @property
    def legend(self) -> Legend:
        return list(zip(PART_COLOURS, self.names, strict=False)) if len(self.names) > 1 else ()


class Line(Struct, frozen=True):
    """A value over time, or over a count."""

    name: str
    points: tuple[tuple[float, float], ...]


class LineChart(Struct, frozen=True):
    """Lines over time, or over counts `by_factors`; the first line is the one on top."""

    title: str
    lines: Sequence[Line]
    axes: tuple[str, str]
    words: tuple[Format, Format]
    moments: Sequence[tuple[float, str]] = ()
    """When something happened, and what: each is a thin upright line."""
    moments_are: str = ""
    """What all of them are, for the legend."""
    by_factors: bool = False

    @property
    def most(self) -> float:
        """The largest value of all lines."""
        return max((y for line in self.lines for _, y in line.points), default=0) or 1

    @property
    def description(self) -> str:
        names = ", ".join(line.name for line in self.lines)
        return f"{names}: {self.axes[1]} over {self.axes[0]}, at most {self.words[1](self.most)}."

    @property
    def legend(self) -> Legend:
        found = [(colour, line.name) for colour, line in zip(LINE_COLOURS, self.lines, strict=False)]
        if self.moments_are:
            found.append((MOMENT_COLOUR, self.moments_are))
        return found if len(found) > 1 else ()


class HeatMap(Struct, frozen=True):
    """A cell for each pair of a row and a column that has a value; darker is more, by factors."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Mapping[tuple[str, str], float]
    words: Format
    is_square: bool = False

    @property
    def description(self) -> str:
        return f"{len(self.values)} cells in {len(self.rows)} rows and {len(self.columns)} columns."

    @property
    def legend(self) -> Legend:
        return ()


class Span(Struct, frozen=True):
    """Something that lasted."""

    start: float
    end: float
    colour: str
    hint: str


class Timeline(Struct, frozen=True):
    """What each row went through."""

    title: str
    rows: Mapping[str, Sequence[Span]]
    axis: str
    words: Format
    bounds: tuple[float, float]
    legend: Legend

    @property
    def description(self) -> str:
        return f"{len(self.rows)} rows of spans; {self.axis}."


Chart = RangeChart | BarChart | LineChart | HeatMap | Timeline


def bar_chart(title: str, rows: Sequence[tuple[str, float]], axis: str, words: Format) -> BarChart:
    """One bar of one part for each row."""
    return BarChart(title, (axis,), [Bar(label, (value,)) for label, value in rows], axis, words)
