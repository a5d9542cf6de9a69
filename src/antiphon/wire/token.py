"""The token of a ring, and the control packets around it, as bodies of packets (see `packet`).

TOKEN body:

    offset size  field
     0     8    serial         counts the passes of the token
     8     8    link_sequence       number of the newest packet on the ring
    16     8    link_aru       every member has every packet up to this one
    24     2    link_modifier  the member that last lowered link_aru; NOBODY: none in the last round
    26     2    site_modifier  the member that last lowered site_aru, or NOBODY
    28     4    flow           packets sent in the last round
    32     8    site_sequence       number of the newest bundle of this segment
    40     8    site_lts       the segment's next bundle is later than this
    48     8    site_aru       every member has every bundle up to this lts
    56     2    count of requests, then so many: daemon (2), first packet number (8), how many (4)

HURRY body: empty. HELD body: serial (8) of the token that rests at its sender.

Follows: Spread paper 3.2 and thesis 4.1 for the fields of the token; they leave the layout open.
Deviations: a serial tells copies of a token apart; requests name ranges and the member that lacks them.
HURRY and HELD are our own.
"""

from struct import Struct as Layout

from msgspec import Struct

from antiphon import limits
from antiphon.errors import Nonsense

NOBODY = 0xFFFF

_TOKEN = Layout("!QQQHHIQQQ")
_COUNT = Layout("!H")
_REQUEST = Layout("!HQI")
_HELD = Layout("!Q")

Request = tuple[int, int, int]
"""The member that lacks packets, the first of them, and how many."""


class Token(Struct):
    """The token of a ring: the member that has it may send."""

    serial: int
    link_sequence: int
    link_aru: int
    link_modifier: int
    site_modifier: int
    flow: int
    site_sequence: int
    site_lts: int
    site_aru: int
    requests: tuple[Request, ...] = ()


def encode_token(token: Token) -> bytes:
    """The body of a TOKEN packet; the caller keeps to the limits of its lists."""
    return b"".join(
        (
            _TOKEN.pack(
                token.serial, token.link_sequence, token.link_aru, token.link_modifier, token.site_modifier,
                token.flow, token.site_sequence, token.site_lts, token.site_aru,
            ),
            _COUNT.pack(len(token.requests)),
            *(_REQUEST.pack(*request) for request in token.requests),
        )
    )  # fmt: skip


def parse_token(body: bytes) -> Token:
    """The token in a TOKEN packet; BadPacket if no ring could have made it."""
    if len(body) < _TOKEN.size + _COUNT.size:
        raise Nonsense("token: cut short")
    fields = _TOKEN.unpack_from(body)
    (count,) = _COUNT.unpack_from(body, _TOKEN.size)
    requests = body[_TOKEN.size + _COUNT.size :]
    if len(requests) != count * _REQUEST.size or count > limits.RING_REQUESTS_MAX:
        raise Nonsense("token: wrong size")
    token = Token(*fields)
    token.requests = tuple(_REQUEST.iter_unpack(requests))
    if max(fields[:3] + fields[6:]) > limits.COUNTER_MAX or token.link_aru > token.link_sequence:
        raise Nonsense("token: impossible counter")
    return token


def encode_held(serial: int) -> bytes:
    """The body of a HELD packet."""
    return _HELD.pack(serial)


def parse_held(body: bytes) -> int:
    """The serial in a HELD packet."""
    if len(body) != _HELD.size:
        raise Nonsense("held: wrong size")
    return int(_HELD.unpack(body)[0])
