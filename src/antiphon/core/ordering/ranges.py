"""Numbers as ranges: what daemons tell of a source's bundles is compared without going through each number.

A forged packet can make a number known that is millions ahead. Whoever compares states must not pay for each
of the numbers before it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""The first and the last of consecutive numbers."""
Ranges = tuple[Range, ...]
"""Ascending and apart from one another."""
StampedRanges = tuple[tuple[int, int, int], ...]
"""The same as (first, last, lts): the bundles after `last` were born after `lts`."""


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Ascending numbers as ranges.

    >>> to_ranges([1, 2, 3, 7])
    ((1, 3), (7, 7))
    """
    ranges: list[Range] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        elif not ranges or number > ranges[-1][1]:
            ranges.append((number, number))
    return tuple(ranges)


def numbers(ranges: Ranges | StampedRanges) -> Iterator[int]:
    """Every number in the ranges.

    >>> [*numbers(((1, 3), (7, 7)))]
    [1, 2, 3, 7]
    """
    for first, last, *_ in ranges:
        yield from range(first, last + 1)


def union(ranges: Iterable[Range]) -> Ranges:
    """What is in any of the ranges, in whatever order they come.

    >>> union([(4, 6), (1, 2), (3, 3), (5, 9)])
    ((1, 9),)
    """
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


class Ranged:
    """A set of numbers.

    >>> some = Ranged(((1, 3), (7, 8)))
    >>> 3 in some, 4 in some, [*some.gaps(10)], some.first_without((2, 9))
    (True, False, [(4, 6), (9, 10)], 4)
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._firsts = [first for first, _ in ranges]

    def __contains__(self, number: int) -> bool:
        return self._end_of(number) >= number

    def _end_of(self, number: int) -> int:
        """The last number of the range that begins next before this number, or at it; 0: there is none."""
        place = bisect_right(self._firsts, number)
        return self.ranges[place - 1][1] if place else 0

    def gaps(self, highest: int) -> Iterator[Range]:
        """The ranges of the numbers from 1 up to `highest` that are not in it."""
        begins = 1
        for first, last in self.ranges:
            if first > begins:
                yield begins, min(first - 1, highest)
            begins = last + 1
        if begins <= highest:
            yield begins, highest

    def first_without(self, range_: Range) -> int | None:
        """The first number of a range that is not in it."""
        number, last = range_
        while number <= last:
            end = self._end_of(number)
            if end < number:
                return number
            number = end + 1
        return None
