"""What a daemon knows of the bundles of each source when its view ends, as it tells the others."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

Ranges = tuple[tuple[int, int], ...]
"""Numbers as (first, last) pairs, ascending and apart from one another."""


class SourceState(Struct, frozen=True, array_like=True):
    """One daemon's knowledge of one source's bundles."""

    source: int
    contiguous: int
    """Every bundle up to this number has come or is for other sites."""
    lts: int
    """The source's later bundles were born after this."""
    known: int
    """The greatest number that is known to exist."""
    ahead: Ranges
    """Beyond `contiguous`: numbers that have come or are for other sites."""
    held: Ranges
    """Bundles that are at hand."""


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Ascending numbers as ranges.

    >>> to_ranges([1, 2, 3, 7])
    ((1, 3), (7, 7))
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        elif not ranges or number > ranges[-1][1]:
            ranges.append((number, number))
    return tuple(ranges)


def numbers(ranges: Ranges) -> Iterator[int]:
    """Every number in the ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)
