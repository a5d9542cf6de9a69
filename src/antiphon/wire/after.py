"""What must have come before a bundle is delivered in the agreed order, as an extension of its header.

The value is one array of integers in msgpack:

    is_loose                 1 if nobody waits for its source, and the bundle has its place all the same
    source number lts        three integers for each source: all of its bundles up to this number come first

Only bundles of passive sources are named, whose receivers would not wait for them otherwise: see
`core.ordering.dependencies`. The papers have nothing like it: in NAVTECH 5 all messages are totally ordered.
"""

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.wire.bundle import Header
from antiphon.wire.decoding import NOT_A_VALUE
from antiphon.wire.extensions import AFTER, Extension

_FIELDS = 3


class Loose(Struct, frozen=True, gc=False):
    """Bundles of a passive source, up to one of them."""

    source: int
    number: int
    lts: int
    """That of the last one: once it is stable, all of them have come everywhere."""


class After(Struct, frozen=True, gc=False):
    """What a bundle says of passive sources."""

    is_loose: bool
    """Whether it is itself one for which nobody waits."""
    needs: tuple[Loose, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, ...]).decode


def extension(after: After) -> Extension:
    """What a daemon writes into a bundle's header."""
    fields = [int(after.is_loose)]
    for loose in after.needs:
        fields += (loose.source, loose.number, loose.lts)
    return Extension(AFTER, _encode(fields))


def after_of(header: Header) -> After | None:
    """What a bundle's header says; None if it says nothing, BadFrame if no daemon can have written it."""
    for field in header.extensions:
        if field.type == AFTER:
            return _parse(field.value)
    return None


def _parse(value: bytes) -> After:
    try:
        fields = _decode(value)
    except NOT_A_VALUE as error:
        raise BadFrame(f"after: {type(error).__name__}") from None
    if len(fields) % _FIELDS != 1 or fields[0] not in (0, 1):
        raise BadFrame("after: impossible")
    needs = []
    for at in range(1, len(fields), _FIELDS):
        source, number, lts = fields[at : at + _FIELDS]
        if not (0 <= source < limits.DAEMONS_MAX and 0 < number <= limits.COUNTER_MAX):
            raise BadFrame("after: impossible source")
        if not 0 < lts <= limits.COUNTER_MAX:
            raise BadFrame("after: impossible source")
        needs.append(Loose(source, number, lts))
    return After(bool(fields[0]), tuple(needs))
