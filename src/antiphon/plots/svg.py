"""Small pictures in the page itself: shapes, text and scales of an SVG drawing.

Colours are classes, never values: the page's style gives each a light and a dark one. Every text that comes
from outside is escaped here, once.
"""

import math
from html import escape
from typing import Protocol

TEXT_PX = 12
"""Size of the letters; a drawing is shown at the width that it was made for, so this is what is seen."""
_LETTER_PX = 7.2
"""Width of a letter, about: enough to know what fits."""


def text_width(text: str) -> float:
    """How wide a text is drawn, about."""
    return len(text) * _LETTER_PX


def shortened(text: str, width_px: float) -> str:
    """As much of a text as fits; the end of a name tells more than its middle.

    >>> shortened("#client-17#oslo", 60)
    '#cli…slo'
    """
    if text_width(text) < width_px + 1:  # sums of widths are not exact, and nobody sees a pixel
        return text
    room = max(3, int(width_px / _LETTER_PX))
    if len(text) <= room:
        return text
    tail = (room - 1) // 2
    return text[: room - 1 - tail] + "…" + text[len(text) - tail :]


class Scale(Protocol):
    """From a value to a place on an axis."""

    def at(self, value: float) -> float:
        """The place of a value, in pixels."""

    def ticks(self, most: int) -> list[float]:
        """Round values along the axis, not many more than `most`."""


class Linear:
    """Equal steps are equally far apart."""

    def __init__(self, low: float, high: float, start_px: float, end_px: float) -> None:
        self.low = low
        self.high = high if high > low else low + 1
        self.start_px = start_px
        self.end_px = end_px

    def at(self, value: float) -> float:
        """The place of a value, in pixels."""
        part = (value - self.low) / (self.high - self.low)
        return self.start_px + min(1.0, max(0.0, part)) * (self.end_px - self.start_px)

    def ticks(self, most: int) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        step = nice_step((self.high - self.low) / max(1, most))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


class Logarithmic:
    """Equal factors are equally far apart: for times from microseconds to seconds."""

    def __init__(self, low: float, high: float, start_px: float, end_px: float) -> None:
        self.low = max(low, 1e-9)
        self.high = max(high, self.low * 10)
        self._inner = Linear(math.log10(self.low), math.log10(self.high), start_px, end_px)

    def at(self, value: float) -> float:
        """The place of a value; what is too small for the axis is at its beginning."""
        return self._inner.at(math.log10(max(value, self.low)))

    def ticks(self, most: int) -> list[float]:
        """Powers of ten, and 2 and 5 times those where there is room."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        exponents = range(first, last + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [
                factor * 10.0**exponent
                for exponent in exponents
                for factor in factors
                if self.low * 0.999 <= factor * 10.0**exponent <= self.high * 1.001
            ]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def nice_step(rough: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `rough`.

    >>> nice_step(3), nice_step(0.11), nice_step(700)
    (5, 0.2, 1000)
    """
    if rough <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999999)
    return int(step) if step >= 1 else step


class Drawing:
    """An SVG picture that is being drawn."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        self.width = width
        self.height = height
        self._parts = [f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"]
        self._title = title

    def rectangle(
        self, x: float, y: float, width: float, height: float, kind: str, hint: str = "", opacity: float = 1.0
    ) -> None:
        """A box; `hint` is shown when it is pointed at."""
        faint = f' fill-opacity="{opacity:.3g}"' if opacity < 1 else ""
        self._shape(
            f'rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{faint}', kind, hint
        )

    def circle(self, x: float, y: float, radius: float, kind: str, hint: str = "") -> None:
        """A dot."""
        self._shape(f'circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"', kind, hint)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str, hint: str = "") -> None:
        """A straight line."""
        self._shape(f'line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"', kind, hint)

    def path(self, points: list[tuple[float, float]], kind: str, hint: str = "") -> None:
        """A line through points."""
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._shape(f'polyline points="{steps}"', kind, hint)

    def text(
        self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", turned: bool = False
    ) -> None:
        """Words at a place; `turned` ones go upwards."""
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{escape(kind)}"{turn}>'
            f"{escape(text)}</text>"
        )

    def _shape(self, shape: str, kind: str, hint: str) -> None:
        inner = f"><title>{escape(hint)}</title></{shape.split(' ', 1)[0]}>" if hint else "/>"
        self._parts.append(f'<{shape} class="{escape(kind)}"{inner}')

    def finish(self) -> str:
        """The picture as a part of a page."""
        return (
            f'<svg role="img" aria-label="{escape(self._title)}" viewBox="0 0 {self.width:.0f} '
            f'{self.height:.0f}" width="{self.width:.0f}" height="{self.height:.0f}">'
            f"{''.join(self._parts)}</svg>"
        )
