"""What a mutant is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct

Original = Callable[..., Any]


class Mutant(Struct, frozen=True):
    """One broken protocol."""

    name: str
    wrong: str
    """What it does wrong, in words."""
    breaks: frozenset[str]
    """Numbers of the properties of which at least one must be found broken."""
    owner: type | ModuleType
    method: str
    make: Callable[[Any], Any]
    """The broken method, property or function, given the right one."""
    scenario: str = "mixed"
    seeds: int = 10
    """Seeds, from 0, among which at least one must show it."""
    shown_by: int = 0
    """The seed among them that is known to show it, to be tried first."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """While this lasts, every node is broken in this way."""
        original = getattr(self.owner, self.method)
        setattr(self.owner, self.method, self.make(original))
        try:
            yield
        finally:
            setattr(self.owner, self.method, original)
