"""What an experiment of the lab is: measurements that come row by row, and the page that shows them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from antiphon.plots.page import Section

Row = dict[str, Any]
"""One measurement; `part` names the table that it belongs to, all rows of a part have the same keys."""


def _no_faults(_rows: Sequence[Row]) -> list[str]:
    """The faults of experiments that only measure: none."""
    return []


class Choices(Struct, frozen=True):
    """What the user of an experiment may choose, if it has a choice."""

    seconds: float | None = None
    door: str | None = None
    seed: int | None = None
    mutants: int | None = None
    keep: Path | None = None
    """A folder for what tells how a rule was broken."""


class Experiment(Struct, frozen=True):
    """One experiment."""

    name: str
    about: str
    """A description in one line."""
    steps: Callable[[bool], int]
    """How many rows there will be; the argument is whether it is to be quick."""
    measure: Callable[[bool], Iterator[Row]]
    """Carries it out; whatever it started is gone when it ends, also early."""
    title: str
    """The title of the page."""
    intro: str
    sections: Callable[[Sequence[Row]], list[Section]]
    lasting: Callable[[float], "Experiment"] | None = None
    """Makes this experiment with another length in seconds; None if its length cannot be chosen."""
    choose: Callable[[Choices], "Experiment"] | None = None
    """Makes this experiment with these choices; None if it has none but its length."""
    faults: Callable[[Sequence[Row]], list[str]] = _no_faults
    """What the rows show to be wrong, in words: then the command fails."""
    unlisted: frozenset[str] = frozenset()
    """Parts that have too many rows for a table in a terminal."""


def parts_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows by their part, in the order of their coming."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["part"], []).append(row)
    return found
