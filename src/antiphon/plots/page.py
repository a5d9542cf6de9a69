"""What stands on a page, as values, and the page that comes of them.

The HTML is in `templates`, one file for each kind of block. Whatever comes from outside is escaped there, by
jinja2, or by the writer of the pictures.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import ClassVar

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.extras import how_to_get
from antiphon.plots.charts import Chart

WIDE_PX = 776
NARROW_PX = 328
"""The two widths in which every chart is drawn: for a desk and paper, and for a phone."""
_LONG_LETTERS = 36
"""A longer text in a table may be broken into lines."""
_LIBRARIES = ("jinja2", "matplotlib")


class Paragraph(Struct, frozen=True):
    """Plain words."""

    template: ClassVar[str] = "paragraph.html"
    text: str
    kind: str = ""
    """Class of the style: `soft`, `note`, `note good`, `note bad`."""


class Heading(Struct, frozen=True):
    """A heading within a section."""

    template: ClassVar[str] = "heading.html"
    text: str


class Facts(Struct, frozen=True):
    """A few numbers, large, each with its name."""

    template: ClassVar[str] = "facts.html"
    pairs: Sequence[tuple[str, str]]


class Figure(Struct, frozen=True):
    """A chart, with its legend if it has one."""

    template: ClassVar[str] = "figure.html"
    caption: str
    chart: Chart


class Table(Struct, frozen=True):
    """Texts in rows; columns from `numbers_from` on are set to the right."""

    template: ClassVar[str] = "table.html"
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 1


Block = Paragraph | Heading | Facts | Figure | Table


class Section(Struct, frozen=True):
    """A part of the page with a heading of its own."""

    name: str
    """The name under which links refer to it."""
    title: str
    blocks: Sequence[Block]


class Page(Struct, frozen=True):
    """A whole page."""

    title: str
    intro: Sequence[Block]
    sections: Sequence[Section]
    made_by: str


def need_libraries(extra: str = "pages") -> None:
    """A UsageError if no page can be made here: to be asked before work that takes long.

    `extra` is what brings them, and whatever else the asking command needs.
    """
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise UsageError(f"a page with plots needs {' and '.join(missing)}: {how_to_get(extra)}")


def render(page: Page) -> str:
    """The page as HTML: nothing in it comes from anywhere else."""
    need_libraries()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from antiphon.plots.drawing import draw

    environment = Environment(
        loader=PackageLoader("antiphon.plots"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        page=page,
        draw=lambda chart, width_px: Markup(draw(chart, width_px)),
        wide_px=WIDE_PX,
        narrow_px=NARROW_PX,
        long_letters=_LONG_LETTERS,
    )
