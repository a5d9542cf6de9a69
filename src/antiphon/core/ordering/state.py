"""What a daemon knows of the symmetric order when its view ends, as it tells the others.

Follows: thesis 6.1.9, figure 6.12 (the STATETRANS message).
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.ranges import Ranges, StampedRanges, to_ranges
from antiphon.core.ordering.sources import Source
from antiphon.errors import BadFrame
from antiphon.service import CAUSAL
from antiphon.wire.decoding import NOT_A_VALUE


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
    overtook: Ranges = ()
    """Those among them that it has delivered ahead of their places, or shown to members that chose less."""


class OrderState(Struct, frozen=True, array_like=True):
    """One daemon's knowledge of the order of its view."""

    clock: int
    """Its Lamport clock."""
    delivered: int
    """The lts of the last bundle that it delivered in the agreed order."""
    stable: int
    """Its stable line."""
    sources: tuple[SourceState, ...]


def state_of(
    number: int, source: Source, lts: int, highest: int, retained: Iterable[Entry], delivered_line: int
) -> SourceState:
    """What is known of the source with a number, of which `retained` are bundles and `highest` is the number
    of the last one that is known to exist. Bundles were delivered in their places up to `delivered_line`."""
    ahead = sorted((first, last, stamp) for first, (last, stamp, _) in source.ahead.items())
    numbers = sorted((entry.header.number, _has_overtaken(entry, delivered_line)) for entry in retained)
    return SourceState(
        number, source.contiguous, lts, highest, tuple(ahead),
        to_ranges([one for one, _ in numbers]), to_ranges([one for one, overtook in numbers if overtook]),
    )  # fmt: skip


def _has_overtaken(entry: Entry, delivered_line: int) -> bool:
    """Whether a bundle was delivered ahead of its place, or shown to members that wait for no more."""
    is_ahead = entry.delivered and entry.place > delivered_line and entry.header.service is CAUSAL
    return is_ahead or (entry.is_shown and not entry.delivered)


encode_state = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OrderState).decode


def parse_state(body: bytes) -> OrderState:
    """What a daemon has told; BadFrame if no daemon could be in that state."""
    try:
        state = _decode(body)
    except NOT_A_VALUE as error:
        raise BadFrame(f"state: {type(error).__name__}") from None
    check_state(state)
    return state


def check_state(state: OrderState) -> None:
    """BadFrame if no daemon could be in that state."""
    if max(state.clock, state.delivered, state.stable) > limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    for told in state.sources:
        _check_source(told)


def _check_source(told: SourceState) -> None:
    """Bound the work that comes of a state."""
    if not 0 <= told.contiguous <= told.known <= told.contiguous + limits.OUTSTANDING_MAX:
        raise BadFrame("state: impossible numbers")
    if told.known > limits.COUNTER_MAX or not 0 <= told.lts <= limits.COUNTER_MAX:
        raise BadFrame("state: impossible counter")
    if any(not 0 <= lts <= limits.COUNTER_MAX for _, _, lts in told.ahead):
        raise BadFrame("state: impossible counter")
    for ranges in (tuple((first, last) for first, last, _ in told.ahead), told.retained, told.overtook):
        end = 0
        for first, last in ranges:
            if not end < first <= last <= told.known:
                raise BadFrame("state: impossible numbers")
            end = last
        if ranges and end - ranges[0][0] > limits.OUTSTANDING_MAX:
            raise BadFrame("state: impossible numbers")
