"""The resilience of a bundle, as an extension of its header: how many daemons must hold it.

The value is one number of 2 bytes, big-endian:

    1 to `limits.DAEMONS_MAX`   so many daemons
    0xFFFE                      a majority of the daemons of the view
    0xFFFF                      all of them

The sender's client writes it. Only agreed bundles of clients may have it: a bundle that does not wait for its
place in the agreed order would not wait for holders either, and a safe one waits for all of them anyway.

Follows: RMP figure 3.2, which asks for K, for a majority or for all, packet by packet.
"""

from collections.abc import Sequence
from struct import Struct as Layout

from antiphon import limits
from antiphon.errors import BadFrame
from antiphon.service import AGREED, Service
from antiphon.types import Resilience
from antiphon.wire.extensions import RESILIENCE, Extension

MAJORITY = 0xFFFE
TOTAL = 0xFFFF

_VALUE = Layout("!H")
_CODES: dict[int | str, int] = {"majority": MAJORITY, "total": TOTAL}
_WORDS: dict[int, Resilience] = {MAJORITY: "majority", TOTAL: "total"}


def extension(asked: Resilience) -> Extension:
    """What a client writes into the header of a bundle; `asked` has been checked."""
    return Extension(RESILIENCE, _VALUE.pack(asked if isinstance(asked, int) else _CODES[asked]))


def code_of(extensions: Sequence[Extension]) -> int:
    """The number that stands in the header of a checked bundle; 0 if it asks for nothing."""
    for field in extensions:
        if field.type == RESILIENCE:
            return int.from_bytes(field.value)
    return 0


def asked_of(extensions: Sequence[Extension]) -> Resilience | None:
    """What the sender of a checked bundle asked for."""
    code = code_of(extensions)
    return _WORDS.get(code, code) if code else None


def check(extensions: Sequence[Extension], service: Service, is_of_client: bool) -> None:
    """BadFrame if no client can have asked for the resilience that stands in a header."""
    for field in extensions:
        if field.type == RESILIENCE:
            code = int.from_bytes(field.value) if len(field.value) == _VALUE.size else 0
            if not 1 <= code <= limits.DAEMONS_MAX and code not in _WORDS:
                raise BadFrame("bundle: impossible resilience")
            if service is not AGREED or not is_of_client:
                raise BadFrame("bundle: resilience without agreed delivery")
