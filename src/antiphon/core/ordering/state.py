"""What a daemon knows of the symmetric order when its view ends, as it tells the others.

Follows: thesis 6.1.9, figure 6.12 (the STATETRANS message).
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame

Ranges = tuple[tuple[int, int], ...]
"""Numbers as (first, last) pairs, ascending and apart from one another."""
StampedRanges = tuple[tuple[int, int, int], ...]
"""The same as (first, last, lts): the bundles after `last` were born after `lts`."""


class SourceState(Struct, frozen=True, array_like=True):
    """One daemon's knowledge of one source's bundles."""

    source: int
    contiguous: int
    """Every bundle up to this number has come or is for other sites."""
    lts: int
    """The source's later bundles were born after this."""
    known: int
    """The greatest number that is known to exist."""
    ahead: StampedRanges
    """Beyond `contiguous`: numbers that have come or are for other sites."""
    retained: Ranges
    """Bundles that the daemon has and could retransmit."""


class OrderState(Struct, frozen=True, array_like=True):
    """One daemon's knowledge of the order of its view."""

    clock: int
    """Its Lamport clock."""
    delivered: int
    """The lts of the last bundle that it delivered in the agreed order."""
    stable: int
    """Its stable line."""
    sources: tuple[SourceState, ...]


encode_state = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OrderState).decode


def parse_state(body: bytes) -> OrderState:
    """What a daemon has told; BadFrame if no daemon could be in that state."""
    try:
        state = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    if max(state.clock, state.delivered, state.stable) > limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    for told in state.sources:
        _check_source(told)
    return state


def _check_source(told: SourceState) -> None:
    """Bound the work that comes of a state."""
    if not 0 <= told.contiguous <= told.known <= told.contiguous + limits.OUTSTANDING_MAX:
        raise BadFrame("state: impossible numbers")
    if told.known > limits.COUNTER_MAX or not 0 <= told.lts <= limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    if any(not 0 <= lts <= limits.COUNTER_MAX for _, _, lts in told.ahead):
        raise BadFrame("state: impossible counter")
    for ranges in (tuple((first, last) for first, last, _ in told.ahead), told.retained):
        end = 0
        for first, last in ranges:
            if not end < first <= last <= told.known:
                raise BadFrame("state: impossible numbers")
            end = last
        if ranges and end - ranges[0][0] > limits.OUTSTANDING_MAX:
            raise BadFrame("state: impossible numbers")


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


def numbers(ranges: Ranges | StampedRanges) -> Iterator[int]:
    """Every number in the ranges.

    >>> [*numbers(((1, 3), (7, 7)))]
    [1, 2, 3, 7]
    """
    for first, last, *_ in ranges:
        yield from range(first, last + 1)
