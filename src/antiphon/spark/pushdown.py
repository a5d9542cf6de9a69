"""The conditions of a query on offset, group and time, as a journal can look them up.

Spark shows them to `pushFilters` before it asks where to read. Nothing is taken off Spark's hands: it tests
every row that comes all the same, so a range here may be too wide and must not be too narrow.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET, _GROUP, _TIME = ("offset",), ("group",), ("delivered",)


class Span(Struct, frozen=True):
    """The whole numbers from `first` up to `last`; None: no bound there."""

    first: int | None = None
    last: int | None = None

    def within(self, other: "Span") -> "Span":
        """What is in both.

        >>> Span(3).within(Span(1, 9))
        Span(first=3, last=9)
        """
        firsts = [one.first for one in (self, other) if one.first is not None]
        lasts = [one.last for one in (self, other) if one.last is not None]
        return Span(max(firsts, default=None), min(lasts, default=None))


class Conditions(Struct, frozen=True):
    """What rows must be like to be of use."""

    offsets: Span = Span()
    times_us: Span = Span()
    """When they were delivered."""
    groups: frozenset[str] | None = None
    """What the column `group` may be; None: anything."""

    def groups_among(self, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The groups to ask a journal for, where the option `groups` is `wanted`.

        A journal gives what was sent to one of these *among others*, and the column has the first of them
        that it records. So a condition narrows the option only where it stays within it.

        >>> tea = Conditions(groups=frozenset(["tea"]))
        >>> tea.groups_among(None), tea.groups_among(("news", "tea")), tea.groups_among(("news",))
        (('tea',), ('tea',), ('news',))
        """
        if self.groups is None or (wanted is not None and not self.groups <= set(wanted)):
            return wanted
        return tuple(sorted(self.groups))


def conditions_of(filters: Iterable[Filter]) -> Conditions:
    """What can be looked up of these filters, all of which a row must pass."""
    found = Conditions()
    for one in filters:
        path, value = getattr(one, "attribute", None), getattr(one, "value", None)
        if path == _OFFSET:
            span = _span(one, value, _whole)
            found = Conditions(found.offsets.within(span), found.times_us, found.groups)
        elif path == _TIME:
            span = _span(one, value, _microseconds)
            found = Conditions(found.offsets, found.times_us.within(span), found.groups)
        elif path == _GROUP:
            found = Conditions(found.offsets, found.times_us, _both(found.groups, _names(one, value)))
    return found


def _span(one: Filter, value: Any, number: Callable[[Any], int | None]) -> Span:
    """The numbers that pass a filter, at least."""
    values = value if isinstance(one, In) else (value,)
    numbers = [number(each) for each in values or ()]
    known = [each for each in numbers if each is not None]
    if not known or len(known) < len(numbers):
        return Span()
    match one:
        case EqualTo() | EqualNullSafe() | In():
            return Span(min(known), max(known))
        case GreaterThan():
            return Span(known[0] + 1)
        case GreaterThanOrEqual():
            return Span(known[0])
        case LessThan():
            return Span(None, known[0] - 1)
        case LessThanOrEqual():
            return Span(None, known[0])
    return Span()


def _names(one: Filter, value: Any) -> frozenset[str] | None:
    values = value if isinstance(one, In) else (value,)
    if isinstance(one, EqualTo | EqualNullSafe | In) and all(isinstance(each, str) for each in values):
        return frozenset(values)
    return None


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    """A time as the journal counts; a time without a zone is of no use."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


class Pushing:
    """Stands where a reader has the method `pushFilters`, and says that it is the inherited one.

    A reader with a method of its own is refused by sessions that do not push filters, which is how they are
    by default. With this one they read all the same, only more than they need.
    """

    def __init__(self) -> None:
        # Of the object: a function of the class would be a method of it.
        self.__func__ = DataSourceReader.pushFilters
        self.conditions = Conditions()

    def __call__(self, filters: Sequence[Filter]) -> Sequence[Filter]:
        """Note what can be looked up; Spark tests everything itself as well."""
        self.conditions = conditions_of(filters)
        return filters
