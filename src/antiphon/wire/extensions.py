"""Extensions of a bundle's header: typed fields for what most bundles do not need.

They stand one after the other in an area behind the names, whose size is in the header:

    offset size  field
     0     2    type           the highest bit is SKIPPABLE
     2     2    length         of the value
     4          value

Types ascend, so that each stands there once and equal extensions have equal bytes. The area has at most
`limits.EXTENSIONS_MAX_BYTES`. A reader of a bundle passes on all of its bytes, those of extensions that it
does not know, too. A type that is not known and may not be skipped makes the bundle a BadFrame: it could
change what the bundle means.

Who may write what: daemons write HISTORY (`wire.history`), SEQUENCER and AFTER (`wire.after`); clients write
RESILIENCE (`wire.resilience`) and CALL (`wire.calls`). A daemon refuses a client's bundle that has others
(`bundle.parse_from_client`).

The papers leave the layout of messages open; they need such fields for a causal history (NAVTECH), a
resilience level (RMP 3.2) and the place of a message that another daemon orders (InterGroup).
"""

from collections.abc import Iterable
from struct import Struct as Layout

from msgspec import Struct

from antiphon.errors import BadFrame

SKIPPABLE = 0x8000
"""The bit of a type that lets a receiver that does not know it go on without it."""
HISTORY = SKIPPABLE | 0x0010
"""What comes before a bundle in its sender's past; daemons read it, clients need not."""
SEQUENCER = 0x10
"""The source that gives the bundle its place, and its role number: 2 and 4 bytes (`core.ordering.adaptive`).
A bundle that has it is not born with its place."""
AFTER = 0x11
"""The bundles of passive sources that come before it (`wire.after`)."""
RESILIENCE = 0x12
"""How many daemons must hold the bundle before it is delivered (`wire.resilience`)."""
CALL = SKIPPABLE | 0x0013
"""What the message is in a call (`wire.calls`); programs that know nothing of calls see a plain message."""
KNOWN_TYPES: frozenset[int] = frozenset((HISTORY, SEQUENCER, AFTER, RESILIENCE, CALL))
"""Types that this version understands."""
CLIENT_TYPES: frozenset[int] = frozenset((RESILIENCE, CALL))
"""The known types that a client may write."""

_HEAD = Layout("!HH")
HEAD_BYTES = _HEAD.size


class Extension(Struct, frozen=True, gc=False):
    """One field."""

    type: int
    value: bytes


def encode(extensions: Iterable[Extension]) -> bytes:
    """The area of a bundle; the caller keeps to the order of types and to the limit."""
    return b"".join(
        _HEAD.pack(extension.type, len(extension.value)) + extension.value for extension in extensions
    )


def size_bytes(extensions: Iterable[Extension]) -> int:
    """How long the area of these extensions is."""
    return sum(HEAD_BYTES + len(extension.value) for extension in extensions)


def parse(area: bytes) -> tuple[Extension, ...]:
    """The extensions in an area; BadFrame with a reason otherwise."""
    found = []
    at, end, before = 0, len(area), -1
    while at < end:
        if at + HEAD_BYTES > end:
            raise BadFrame("bundle: an extension is cut short")
        kind, length = _HEAD.unpack_from(area, at)
        at += HEAD_BYTES
        if at + length > end:
            raise BadFrame("bundle: an extension does not fit")
        if kind <= before:
            raise BadFrame("bundle: extensions out of order")
        if not kind & SKIPPABLE and kind not in KNOWN_TYPES:
            raise BadFrame("bundle: unknown extension")
        found.append(Extension(kind, area[at : at + length]))
        at += length
        before = kind
    return tuple(found)
