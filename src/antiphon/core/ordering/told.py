"""What the adaptive orders of a view tell one another: the bodies of bundles with `Flag.ORDER`.

Follows: NAVTECH 5.2 and 5.3 (tickets, goToActive, goToPassive, reassign).
Deviations: tickets are given in runs of consecutive numbers, and each has a place of its own, counted from
that of the first, which may be ahead of the sequencer's clock (`ahead`). They travel in bundles of their own,
because a sequencer may have nothing else to send.
Confirmations are ours, see `adaptive`, and so is what witnesses tell, see `resilience`. A passive source
changes its sequencer by a message in the agreed order, too.
Checked by: tests/unit/test_told.py.
"""

from collections.abc import Collection
from enum import IntEnum

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.core.ordering.entry import Entry
from antiphon.core.ordering.stability import daemon_of, number_of_round
from antiphon.errors import BadFrame
from antiphon.wire import bundle as bundles
from antiphon.wire.decoding import NOT_A_VALUE

Run = tuple[int, int, int]
"""A source, and the first and last of consecutive numbers of its bundles."""
Newest = tuple[int, int]
"""A source, and the number of a bundle of it: all that matters of it up to there is known."""


class Wish(IntEnum):
    """What a source asks for."""

    PASSIVE = 0
    """Its bundles get tickets from another source (goToPassive)."""
    ACTIVE = 1
    """It gives its bundles their places itself (goToActive)."""
    SEQUENCER = 2
    """It stays passive, and another active source gives the tickets."""


class Reason(IntEnum):
    """Why a source has its role."""

    NEW_VIEW = 0
    RARE = 1
    """It sends less often than a ticket takes."""
    SILENT = 2
    """It does not send."""
    BUSY = 3
    """It sends more often than a ticket takes."""
    ALIKE = 4
    """It sends about as often as the active sources."""
    CLOSER = 5
    """Another active source is closer."""

    @property
    def text(self) -> str:
        """As a person is told."""
        return _TEXTS[self]


_TEXTS = {
    Reason.NEW_VIEW: "the view began",
    Reason.RARE: "it sends less often than a ticket takes to come",
    Reason.SILENT: "it is silent",
    Reason.BUSY: "it sends more often than a ticket takes to come",
    Reason.ALIKE: "the active sources do not send much more often than it does",
    Reason.CLOSER: "another active source is closer",
}


class Tickets(Struct, frozen=True, array_like=True, tag=1):
    """Places for bundles of one passive source."""

    place: int
    """That of the first bundle; those that follow have the sequencer's next stamps."""
    runs: tuple[Run, ...]


class Confirmation(Struct, frozen=True, array_like=True, tag=2):
    """The sending daemon knows the places of its own bundles in these tickets."""

    newest: tuple[Newest, ...]
    is_urgent: bool = False
    """Whether all daemons must acknowledge it: a safe bundle waits for that."""


class Change(Struct, frozen=True, array_like=True, tag=3):
    """A source asks for another role; it has it from this message's place in the agreed order on."""

    wish: Wish
    sequencer: int
    """The source that is to give tickets; its own number if none is."""
    role_number: int
    """The role number of that source."""
    reason: Reason


class Reassignment(Struct, frozen=True, array_like=True, tag=4):
    """A passive source's bundles that have no ticket yet get theirs from another sequencer."""

    first: int
    """The number of the first one."""
    sequencer: int
    role_number: int


class Seen(Struct, frozen=True, array_like=True, tag=5):
    """The sending daemon has got loose bundles: what it sends from now on comes after them."""

    newest: tuple[Newest, ...]
    """By passive source, the greatest number of these."""


class Delivered(Struct, frozen=True, array_like=True, tag=6):
    """The sending daemon has delivered everything that is for it up to a place in the agreed order: whoever
    sent a resilient bundle waits for that."""

    place: int


Told = Tickets | Confirmation | Change | Reassignment | Seen | Delivered

encode_told = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Told).decode


def parse_told(entry: Entry, sources: Collection[int]) -> Told:
    """What a bundle with `Flag.ORDER` tells; BadFrame if no daemon of a view with these sources can tell
    that."""
    try:
        told: Told = _decode(bundles.payloads(bytes(entry.bundle), entry.header)[0])
    except NOT_A_VALUE as error:
        raise BadFrame(f"order: {type(error).__name__}") from None
    if not isinstance(told, Confirmation | Seen | Delivered) and entry.daemon != entry.source:
        raise BadFrame("order: not of a representative")
    if isinstance(told, Tickets):
        _check_tickets(told, entry, sources)
    elif isinstance(told, Confirmation | Seen):
        if len(told.newest) > limits.DAEMONS_MAX:
            raise BadFrame("order: too many sources")
        for source, number in told.newest:
            _check(source in sources and 0 < number <= limits.COUNTER_MAX)
    elif isinstance(told, Delivered):
        _check(0 < told.place <= limits.COUNTER_MAX)
    else:
        _check(told.sequencer in sources and 0 <= told.role_number <= limits.COUNTER_MAX)
        if isinstance(told, Reassignment):
            _check(0 < told.first <= entry.header.number)
    return told


def _check_tickets(told: Tickets, entry: Entry, sources: Collection[int]) -> None:
    """The places must be stamps of the sequencer, and not too far beyond the bundle that carries them."""
    if not 0 < len(told.runs) <= limits.TICKET_RUNS_MAX:
        raise BadFrame("order: too many tickets, or none")
    count = 0
    for source, first, last in told.runs:
        _check(source in sources and source != entry.source and 0 < first <= last <= limits.COUNTER_MAX)
        _check(source == told.runs[0][0])
        count += last - first + 1
    _check(count <= limits.TICKETS_MAX and told.place > 0 and daemon_of(told.place) == entry.daemon)
    first, sent = number_of_round(told.place), number_of_round(entry.header.lts)
    _check(first + count <= sent + limits.PLACES_AHEAD_MAX)


def _check(is_possible: bool) -> None:
    if not is_possible:
        raise BadFrame("order: impossible numbers")
