"""Spread's frames as bytes: one header for both directions, names of fixed size, then the body.

    offset size  field
     0     4    type         what it is, as the bits below, and the byte order of type, count and size
     4     32   sender       of messages: the sender's private name; of membership: the group
    36     4    count        of names
    40     4    hint         the message's number by its application, in an order of its own: see `Hint`
    44     4    size         of the body
    48          names        count x 32 bytes, each ends at its first NUL
    ...         body

A little-endian writer sets both bits of `LITTLE`, which read the same in either order. Clients write
in any order, we always write little-endian: some clients do not look.
"""

from struct import Struct as Layout
from typing import Literal

from antiphon.errors import BadFrame
from antiphon.service import Service

HEADER_BYTES = 48
SIZE_AT = 44
NAME_BYTES = 32
NAMES_MAX = 100
NAMES_AND_BODY_MAX_BYTES = 143_952
"""The most names and body that a client may send, as in Spread's daemon."""
LITTLE = 0x8000_0080

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = (1 << number for number in range(6))
SERVICES = 0x3F
SELF_DISCARD = 0x40
BY_JOIN, BY_LEAVE, BY_DISCONNECT, BY_NETWORK = 0x100, 0x200, 0x400, 0x800
REGULAR_VIEW, TRANSITION = 0x1000, 0x2000
JOIN, LEAVE, KILL = 0x1_0000, 0x2_0000, 0x4_0000
ACTIONS = SERVICES | JOIN | LEAVE | KILL
DAEMONS_ONLY = 0x3F00 | 0x38_0000 | 0x40_0000
"""Membership, messages between daemons, and rejections: only daemons may send these."""

SERVICE_OF = {
    UNRELIABLE: Service.UNRELIABLE,
    RELIABLE: Service.RELIABLE,
    FIFO: Service.FIFO,
    CAUSAL: Service.CAUSAL,
    AGREED: Service.AGREED,
    SAFE: Service.SAFE,
}
BIT_OF = {service: bit for bit, service in SERVICE_OF.items()}

_LITTLE_HEADER = Layout("<I32si4si")
_BIG_HEADER = Layout(">I32si4si")
_TYPE = Layout("<I")
_HINT_LITTLE = Layout("<I")
_HINT_BIG = Layout(">I")
_HINT_NUMBER = 0x00FF_FF00
assert _LITTLE_HEADER.size == HEADER_BYTES

NO_HINT = _HINT_LITTLE.pack(LITTLE)


def parse_header(data: bytes | memoryview, at: int) -> tuple[int, bytes, int, bytes, int]:
    """Type, sender, count, hint and size in the header at an offset; the type without its marker.

    BadFrame for counts and sizes that no client may send: nothing is allocated for them.
    """
    (marked,) = _TYPE.unpack_from(data, at)
    header = _LITTLE_HEADER if marked & LITTLE == LITTLE else _BIG_HEADER
    kind, sender, count, hint, size = header.unpack_from(data, at)
    if not 0 <= count <= NAMES_MAX:
        raise BadFrame("spread: impossible number of names")
    if not 0 <= size <= NAMES_AND_BODY_MAX_BYTES - NAME_BYTES * count:
        raise BadFrame("spread: impossible size")
    return kind & ~LITTLE, sender, count, hint, size


def order_of(start: bytes) -> Literal["little", "big"]:
    """The byte order in which the numbers of a header are written."""
    (marked,) = _TYPE.unpack_from(start)
    return "little" if marked & LITTLE == LITTLE else "big"


def pack_header(kind: int, sender: bytes, count: int, hint: bytes, size: int) -> bytes:
    """A header as we write it."""
    return _LITTLE_HEADER.pack(kind | LITTLE, sender, count, hint, size)


def parse_name(field: bytes) -> str:
    """The name in a field, up to its NUL; what stands behind that is of no interest."""
    name = ascii_name(field)
    if name is None:
        raise BadFrame("spread: a name is not ASCII")
    return name


def ascii_name(field: bytes) -> str | None:
    """The same; None where it is not ASCII."""
    name, end, _ = field.partition(b"\0")
    if not end:
        raise BadFrame("spread: a name does not end")
    return name.decode("ascii") if name.isascii() else None


def pack_name(name: str) -> bytes:
    """The field for a name that has been checked."""
    return name.encode("ascii").ljust(NAME_BYTES, b"\0")


def pack_names(names: tuple[str, ...]) -> bytes:
    """The fields for names, one after the other."""
    return b"".join(map(pack_name, names))


def parse_hint(hint: bytes) -> tuple[int, bool]:
    """The application's number for a message, and whether its sender writes little-endian."""
    (word,) = _HINT_LITTLE.unpack(hint)
    is_little = word & LITTLE == LITTLE
    if is_little:
        word &= ~LITTLE
    else:
        (word,) = _HINT_BIG.unpack(hint)
    if word & ~_HINT_NUMBER:
        raise BadFrame("spread: impossible hint")
    number = word >> 8
    return number - 0x1_0000 if number & 0x8000 else number, is_little


def pack_hint(number: int, is_little: bool) -> bytes:
    """The hint that `parse_hint` makes these of."""
    word = (number & 0xFFFF) << 8
    return _HINT_LITTLE.pack(word | LITTLE) if is_little else _HINT_BIG.pack(word)
