"""The causal history of a bundle, as an extension of its header: what its receivers deliver first.

The value is one array of integers in msgpack:

    floor stable                      two lines
    daemon session number lts sites   five integers for each cause

A cause is a bundle in the past of this one, named by its sender (daemon, session) and its number; it stands
for all earlier ones of that session, too. `lts` is how far the bundle's lts is beyond that of the cause: a
small number. `sites` is a mask of the sites that may not have delivered the cause yet.
Everything up to the two lines comes first, too. Each is one more than the bundle's lts is beyond it, or 0 if
there is none. What is up to `stable` is known to have come everywhere.

Follows: NAVTECH 4.2 (timestamps: R2, and R6 with its extended timestamping, in which only the sites that are
left of a cause's destinations are told).
"""

import msgspec
from msgspec import Struct

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.wire.bundle import Header
from antiphon.wire.decoding import NOT_A_VALUE
from antiphon.wire.extensions import HISTORY, Extension

_LINES = 2
_FIELDS = 5
_SITES_ALL = (1 << limits.SITES_MAX) - 1


class Cause(Struct, frozen=True, gc=False):
    """A bundle in the past of another one."""

    daemon: int
    session: int
    number: int
    lts: int
    sites: int


class History(Struct, frozen=True, gc=False):
    """What comes before a bundle."""

    floor: int = 0
    """Everything up to this lts comes first, everywhere; 0: there is no such line."""
    stable: int = 0
    """The same; it is known to have come everywhere."""
    causes: tuple[Cause, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, ...]).decode


def extension(lts: int, history: History) -> Extension:
    """The history of the bundle that is born with `lts`, for its header."""
    fields = [lts - line + 1 if line else 0 for line in (history.floor, history.stable)]
    for cause in history.causes:
        fields += (cause.daemon, cause.session, cause.number, lts - cause.lts, cause.sites)
    return Extension(HISTORY, _encode(fields))


def history_of(header: Header) -> History | None:
    """The history in a bundle's header; None if it has none, BadFrame if no daemon can have written it."""
    for field in header.extensions:
        if field.type == HISTORY:
            return _parse(field.value, header.lts)
    return None


def _parse(value: bytes, lts: int) -> History:
    try:
        fields = _decode(value)
    except NOT_A_VALUE as error:
        raise BadFrame(f"history: {type(error).__name__}") from None
    if len(fields) % _FIELDS != _LINES or min(fields) < 0 or max(fields[:_LINES]) > lts:
        raise BadFrame("history: impossible")
    causes = []
    for at in range(_LINES, len(fields), _FIELDS):
        daemon, session, number, before, sites = fields[at : at + _FIELDS]
        is_bundle = 0 < number <= limits.COUNTER_MAX and daemon < limits.DAEMONS_MAX
        if not is_bundle or before > lts or sites > _SITES_ALL:
            raise BadFrame("history: impossible cause")
        causes.append(Cause(daemon, session, number, lts - before, sites))
    floor, stable = (lts - line + 1 if line else 0 for line in fields[:_LINES])
    return History(floor, stable, tuple(causes))
