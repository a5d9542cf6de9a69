"""A picture for a page: axes of matplotlib in pixels, and the SVG that comes of them.

matplotlib draws. Here its SVG becomes part of a page: colours become variables of the page's style, so that
one picture suits light and dark; shapes get hints, which a browser shows when they are pointed at; the
picture gets a title and a description; and what would only make the page larger goes.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any
from warnings import catch_warnings, simplefilter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
from matplotlib.artist import Artist
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from antiphon.words import printable

COLOURS = (
    "ground", "ink", "soft", "edge", "grey", "faint", "blue", "teal", "amber", "violet", "red", "green",
    "pale-green", "deep-ink", "middle-ink",
)  # fmt: skip
"""What the style of the page defines."""

_STAND_INS = {name: f"#0000{number:02x}" for number, name in enumerate(COLOURS, 1)}
"""matplotlib knows no variables; each gets a colour that nothing else has."""
_NAMES = {stand_in: name for name, stand_in in _STAND_INS.items()}
_PIXELS_PER_INCH = 72
"""With this value a point is a pixel, also for the size of letters."""
_TEXT_PX = 12
_SETTINGS: dict[Any, object] = {
    "axes.edgecolor": _STAND_INS["soft"],
    "axes.grid.axis": "x",
    "axes.labelcolor": _STAND_INS["soft"],
    "axes.labelpad": 6,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": _TEXT_PX,
    "grid.color": _STAND_INS["edge"],
    "grid.linewidth": 1,
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "text.color": _STAND_INS["ink"],
    "text.parse_math": False,  # a dollar in a name is a dollar
    "xtick.bottom": False,
    "xtick.labelcolor": _STAND_INS["soft"],
    "xtick.major.pad": 8,
    "xtick.major.size": 0,
    "ytick.labelcolor": _STAND_INS["ink"],
    "ytick.left": False,
    "ytick.major.pad": 8,
    "ytick.major.size": 0,
}
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
_SHAPES = {"path", "use", "text"}
_PLACES = {"d", "x", "y", "transform"}
"""Attributes that need no more than a tenth of a pixel."""
_FRACTION = re.compile(r"-?\d+\.\d+")
_STAND_IN = re.compile(r"#0000[0-9a-f]{2}")
_NEEDLESS = re.compile(r"(?:stroke-line(?:join|cap)|font(?:-size|-family)?): [^;]*(?:; |$)")
"""What the page's style says for all pictures."""

Colour = tuple[float, float, float, float]

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells about its caches


def colour(name: str, opacity: float = 1.0) -> Colour:
    """A colour of the page, for matplotlib."""
    return to_rgba(_STAND_INS[name], opacity)


@contextmanager
def settings(salt: str) -> Iterator[None]:
    """Within it matplotlib draws for our pages, whatever a user's own settings are.

    Identifiers follow from `salt`: those of two pictures on a page must not be the same.
    """
    with matplotlib.rc_context(), catch_warnings():
        simplefilter("ignore")  # letters that its own font lacks are in the reader's
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        matplotlib.rcParams["svg.hashsalt"] = salt
        yield


class Picture:
    """Axes in a picture, made within `settings`. All sizes are in pixels."""

    def __init__(
        self,
        size: tuple[float, float],
        edges: tuple[float, float, float, float],
        title: str,
        description: str,
    ) -> None:
        """`edges` is the room around the axes: left, right, top and bottom."""
        self.width, self.height = size
        left, right, top, bottom = edges
        self.axes_width = self.width - left - right
        axes_height = self.height - top - bottom
        self._title, self._description = printable(title), printable(description)
        self._hints: dict[str, tuple[str, ...]] = {}
        inches = (self.width / _PIXELS_PER_INCH, self.height / _PIXELS_PER_INCH)
        self.figure = Figure(inches, dpi=_PIXELS_PER_INCH)
        self.axes = self.figure.add_axes(
            (
                left / self.width,
                bottom / self.height,
                self.axes_width / self.width,
                axes_height / self.height,
            )
        )
        self.figure.patch.set_visible(False)
        self.axes.patch.set_visible(False)
        self.axes.set_axisbelow(True)

    def hint(self, artist: Artist, *hints: str) -> None:
        """What the shapes of an artist tell when they are pointed at, in the order of drawing."""
        name = f"hinted-{len(self._hints)}"
        artist.set_gid(name)
        self._hints[name] = tuple(map(printable, hints))

    def finish(self) -> str:
        """The picture as a part of a page."""
        text = StringIO()
        self.figure.savefig(text, format="svg", metadata=_NO_METADATA)
        size = f"{self.width:.0f}", f"{self.height:.0f}"
        picture = ElementTree.Element(
            "svg", {"role": "img", "viewBox": f"0 0 {' '.join(size)}", "width": size[0], "height": size[1]}
        )
        picture.set("aria-label", self._title)
        ElementTree.SubElement(picture, "title").text = self._title
        ElementTree.SubElement(picture, "desc").text = self._description
        picture.extend(self._shapes(ElementTree.fromstring(text.getvalue()), iter(())))
        return ElementTree.tostring(picture, encoding="unicode")

    def _shapes(self, parent: Element, hints: Iterator[str]) -> Iterator[Element]:
        """The shapes below an element in the order of drawing, without the groups around them."""
        for element in parent:
            element.tag = element.tag.rpartition("}")[2]
            if element.tag == "g":
                own = self._hints.get(element.get("id", ""))
                yield from self._shapes(element, hints if own is None else iter(own))
            elif element.tag == "defs":
                shared = list(self._shapes(element, iter(())))
                if shared:
                    element[:] = shared
                    element.text = element.tail = None
                    yield element
            elif element.tag in _SHAPES:
                hint = next(hints, "")
                if hint:
                    ElementTree.SubElement(element, "title").text = hint
                yield _tidy(element)


def _tidy(shape: Element) -> Element:
    """A shape with the page's colours, and with nothing that does not show."""
    given = {name.rpartition("}")[2]: value for name, value in shape.attrib.items()}
    given.pop("clip-path", None)  # limits follow from the values: nothing sticks out
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    for name in _PLACES & given.keys():
        given[name] = _FRACTION.sub(_tenth, " ".join(given[name].split()))
    style = _NEEDLESS.sub("", given.get("style", ""))
    given["style"] = _STAND_IN.sub(lambda found: f"var(--{_NAMES[found[0]]})", style).removesuffix("; ")
    shape.attrib = given
    shape.tail = None
    return shape


def _tenth(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")
