"""What an experiment of the lab is: measurements that come row by row, and the page that shows them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from antiphon.plots.elements import Section

Row = dict[str, Any]
"""One measurement; `part` names the table that it belongs to, all rows of a part have the same keys."""


class Experiment(Struct, frozen=True):
    """One experiment."""

    name: str
    about: str
    """In a line."""
    steps: Callable[[bool], int]
    """How many rows there will be; the argument is whether it is to be quick."""
    measure: Callable[[bool], Iterator[Row]]
    """Carries it out; whatever it started is gone when it ends, also early."""
    title: str
    """Of the page."""
    intro: str
    sections: Callable[[Sequence[Row]], list[Section]]


def parts_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows by their part, in the order of their coming."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["part"], []).append(row)
    return found
