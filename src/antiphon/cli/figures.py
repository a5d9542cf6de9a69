"""Measured figures for people, each with its unit. Programs get the same rows with raw figures, by `--json`.

The name of a figure ends in its unit, as everywhere (`p50_us`, `size_bytes`): so it is known how to say it.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table

from antiphon.plots.words import size
from antiphon.words import rounded, span

Row = dict[str, Any]
_ROOM = 10_000
"""Columns, more than any table has."""


def _rate_of(noun: str) -> Callable[[float], str]:
    return lambda count: f"{rounded(count)} {noun}/s"


def _bytes_rate(count: float) -> str:
    return f"{size(count)}/s"


_WHOLE: dict[str, tuple[str, Callable[[float], str]]] = {
    "messages_per_s": ("rate", _rate_of("messages")),
    "rate_per_s": ("messages", lambda count: f"{rounded(count)}/s"),
    "idle_per_s": ("idle packets", lambda count: f"{rounded(count)}/s"),
    "megabytes_per_s": ("throughput", lambda megabytes: _bytes_rate(megabytes * 1_000_000)),
    "size_bytes": ("size", lambda count: f"{count:,} B"),
    "seconds": ("time", lambda seconds: span(seconds * 1_000_000)),
}
"""Figures that are called otherwise for people."""
_ENDINGS: dict[str, Callable[[float], str]] = {
    "_bytes_per_s": _bytes_rate,
    "_packets_per_s": _rate_of("packets"),
    "_per_s": lambda count: f"{rounded(count)}/s",
    "_bytes": size,
    "_us": span,
    "_s": lambda seconds: span(seconds * 1_000_000),
}
"""Units, those first that end in others."""


def _told(key: str) -> tuple[str, Callable[[float], str]]:
    """What a figure is called, and how it is said."""
    if key in _WHOLE:
        return _WHOLE[key]
    for ending, words in _ENDINGS.items():
        if key.endswith(ending):
            return key.removesuffix(ending).replace("_", " "), words
    return key.replace("_", " "), rounded


def title(key: str) -> str:
    """What a figure is called, without its unit.

    >>> title("agreed_p50_us"), title("messages_per_s"), title("of_hop")
    ('agreed p50', 'rate', 'of hop')
    """
    return _told(key)[0]


def figure(key: str, value: str | int | float | None) -> str:
    """A figure with its unit; words are left as they are.

    >>> figure("p50_us", 12_700), figure("megabytes_per_s", 1_234.5), figure("messages_per_s", 1_457_123.4)
    ('12.7 ms', '1.2 GB/s', '1,457,000 messages/s')
    >>> figure("count", 10_000), figure("of_hop", 0.98), figure("size_bytes", 1_024), figure("case", "hop")
    ('10,000', '0.98', '1,024 B', 'hop')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and key not in _WHOLE and not key.endswith(tuple(_ENDINGS)):
        return f"{value:,}"
    return _told(key)[1](value)


def table(name: str, rows: Sequence[Row], out: Console, *, omitted: Collection[str] = ()) -> RenderableType:
    """The rows under their titles; if they are too wide for the terminal, a line for each figure, unless that
    is wider still. What is too wide in either way goes over several lines, and is never cut off."""
    keys = [key for key in rows[0] if key not in omitted]
    upright = _upright(name, rows, keys)
    width = _width(upright, out)
    if width <= out.width:
        return upright
    turned = _turned(name, rows, keys)
    return turned if _width(turned, out) < width else upright


def _width(found: Table, out: Console) -> int:
    """How wide it is where there is room."""
    return Measurement.get(out, out.options.update(max_width=_ROOM), found).maximum


def _empty(name: str, **options: Any) -> Table:
    return Table(title=name, box=box.SIMPLE, show_edge=False, title_justify="left", **options)


def _upright(name: str, rows: Sequence[Row], keys: Sequence[str]) -> Table:
    found = _empty(name)
    for key in keys:
        found.add_column(
            title(key), justify="left" if isinstance(rows[0][key], str) else "right", no_wrap=True
        )
    for row in rows:
        found.add_row(*(figure(key, row[key]) for key in keys))
    return found


def _turned(name: str, rows: Sequence[Row], keys: Sequence[str]) -> Table:
    first, *others = keys
    found = _empty(name)
    found.add_column(title(first), overflow="fold")
    for row in rows:
        found.add_column(figure(first, row[first]), justify="right", overflow="fold")
    for key in others:
        found.add_row(title(key), *(figure(key, row[key]) for row in rows))
    return found
