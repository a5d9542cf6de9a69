"""Parts of a page: tables, figures, facts. Whatever comes from outside is escaped here."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from msgspec import Struct

from antiphon.plots.style import CSS

WIDE_PX = 776
NARROW_PX = 328
"""The two widths in which every plot is drawn: for a desk and paper, and for a phone."""

Draw = Callable[[int], str]
"""A plot, given the width that it is to have."""


class Section(Struct, frozen=True):
    """A part of the page with a heading of its own."""

    name: str
    """For links to it."""
    title: str
    body: str


def page(title: str, intro: str, sections: Sequence[Section], made_by: str) -> str:
    """The whole page: nothing in it comes from anywhere else."""
    links = "".join(f'<li><a href="#{part.name}">{escape(part.title)}</a></li>' for part in sections)
    body = "".join(
        f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.body}</section>' for part in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>"
        f'<header><h1>{escape(title)}</h1>{intro}<nav aria-label="Sections"><ul>{links}</ul></nav></header>'
        f"<main>{body}</main><footer><p>{escape(made_by)}</p></footer></body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Plain words."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def heading(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A few numbers, large."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>'


def figure(caption: str, draw: Draw, legend: Sequence[tuple[str, str]] = ()) -> str:
    """A plot in both widths; `legend` has pairs of a class and what it stands for."""
    items = "".join(
        '<li><svg width="11" height="11" aria-hidden="true">'
        f'<rect width="11" height="11" rx="2" class="{kind}"/></svg>{escape(text)}</li>'
        for kind, text in legend
    )
    key = f'<ul class="legend">{items}</ul>' if items else ""
    return (
        f"<figure><figcaption>{escape(caption)}</figcaption>{key}"
        f'<div class="wide">{draw(WIDE_PX)}</div><div class="narrow">{draw(NARROW_PX)}</div></figure>'
    )


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 1) -> str:
    """Numbers in rows; columns from `numbers_from` on are set to the right, long texts may break."""
    head = "".join(
        f'<th scope="col"{_number(place >= numbers_from)}>{escape(name)}</th>'
        for place, name in enumerate(columns)
    )
    body = "".join(
        "<tr>" + "".join(_cell(text, place >= numbers_from) for place, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


_LONG = 36
"""Letters in a cell that may be broken into lines."""


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(text: str, is_number: bool) -> str:
    kind = ' class="long"' if len(text) > _LONG else _number(is_number)
    return f"<td{kind}>{escape(text)}</td>"
