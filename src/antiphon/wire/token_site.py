"""The control packets of the token-site protocol, as bodies of packets (see `packet`).

SITE_ACK body:

    offset size  field
     0     8    serial         counts the passes of the token
     8     8    number         of the segment's newest bundle
    16     8    lts            the segment's next bundle is later than this
    24     2    next           the member that is the token site from now on
    26     2    to_go          the token is passed on at once so many times more
    28     8    wanted         a bit for each member, by its place, that has asked for the token
    36     2    count of members, then for each, in their order:
           8    sent           its packets up to this are at the member that sends the acknowledgement
           8    aru            it has every bundle up to this lts, as it told last

SITE_NACK body: answers (2), the member that is to answer, or EVERYBODY; count (2), then so many: the sender
of the packets (2), first packet number (8), how many (4).
CONFIRM body: serial (8) of the newest acknowledgement that its sender knows, the token site (2) that it
names.
REPAIR body: the sender (2) of the data packet that is repeated, then its items; the packet's number stands in
the head.
A member asks for the token with HURRY, which has no body (see `token`).

Follows: RMP 4.1 (figure 4.1: ACK, NACK, Confirm), which leaves the layout open.
Deviations: an acknowledgement does not name bundles. It tells the number up to which they are ordered, see
`core.links.token_site`. REPAIR is our own: RMP does not say what a packet looks like that another repeats.
"""

from struct import Struct as Layout

from msgspec import Struct, structs

from antiphon import limits
from antiphon.errors import Nonsense
from antiphon.wire import packet
from antiphon.wire.packet import Data, Fragment, Head, Item, Skip, Update

_ACK = Layout("!QQQHHQH")
_MEMBER = Layout("!QQ")
_NACK = Layout("!HH")
_RANGE = Layout("!HQI")
_CONFIRM = Layout("!QH")
_REPAIR = Layout("!H")
REPAIR_BYTES = _REPAIR.size
"""By so much a packet that another repeats is longer."""

Missing = tuple[int, int, int]
"""The sender of packets that someone lacks, the first of them, and how many."""


class SiteAck(Struct):
    """The token, handed to the next member, and what has been ordered so far."""

    serial: int
    number: int
    lts: int
    next: int
    to_go: int
    wanted: int
    sent: tuple[int, ...]
    arus: tuple[int, ...]


class SiteNack(Struct):
    """Packets that its sender lacks."""

    answers: int
    missing: tuple[Missing, ...]


class Confirm(Struct):
    """Where the token is, as far as its sender knows."""

    serial: int
    site: int


def encode_ack(ack: SiteAck) -> bytes:
    """The body of a SITE_ACK packet."""
    head = _ACK.pack(ack.serial, ack.number, ack.lts, ack.next, ack.to_go, ack.wanted, len(ack.sent))
    return head + b"".join(map(_MEMBER.pack, ack.sent, ack.arus))


def parse_ack(body: bytes) -> SiteAck:
    """The acknowledgement in a SITE_ACK packet; BadPacket if no member could have made it."""
    if len(body) < _ACK.size:
        raise Nonsense("site ack: cut short")
    serial, number, lts, following, to_go, wanted, count = _ACK.unpack_from(body)
    if count > limits.DAEMONS_PER_SITE_MAX or len(body) != _ACK.size + count * _MEMBER.size:
        raise Nonsense("site ack: wrong size")
    pairs = tuple(_MEMBER.iter_unpack(body[_ACK.size :]))
    sent, arus = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    if max(serial, number, lts, *sent, *arus) > limits.COUNTER_MAX:
        raise Nonsense("site ack: impossible counter")
    if to_go > count or wanted >> count:
        raise Nonsense("site ack: more members than there are")
    return SiteAck(serial, number, lts, following, to_go, wanted, sent, arus)


def encode_nack(nack: SiteNack) -> bytes:
    """The body of a SITE_NACK packet; the caller keeps to limits.NACK_RANGES_MAX ranges."""
    head = _NACK.pack(nack.answers, len(nack.missing))
    return head + b"".join(_RANGE.pack(*one) for one in nack.missing)


def parse_nack(body: bytes) -> SiteNack:
    """The request in a SITE_NACK packet."""
    if len(body) < _NACK.size:
        raise Nonsense("site nack: cut short")
    answers, count = _NACK.unpack_from(body)
    if count > limits.NACK_RANGES_MAX or len(body) != _NACK.size + count * _RANGE.size:
        raise Nonsense("site nack: wrong size")
    missing = tuple(_RANGE.iter_unpack(body[_NACK.size :]))
    if any(first + many > limits.COUNTER_MAX for _, first, many in missing):
        raise Nonsense("site nack: impossible number")
    return SiteNack(answers, missing)


def encode_confirm(confirm: Confirm) -> bytes:
    """The body of a CONFIRM packet."""
    return _CONFIRM.pack(confirm.serial, confirm.site)


def parse_confirm(body: bytes) -> Confirm:
    """What a CONFIRM packet tells."""
    if len(body) != _CONFIRM.size:
        raise Nonsense("confirm: wrong size")
    return Confirm(*_CONFIRM.unpack(body))


def repair_start(sender: int) -> bytes:
    """What stands before the items in the body of a REPAIR packet."""
    return _REPAIR.pack(sender)


def encode_repair(data: Data) -> bytes:
    """The body of a REPAIR packet that repeats one data packet of another member."""
    return repair_start(data.head.sender) + b"".join(part for item in data.items for part in _encoded(item))


def _encoded(item: Item) -> list[bytes | memoryview]:
    if isinstance(item, Fragment):
        return packet.fragment_item(item, 0, len(item.body))
    if isinstance(item, Update):
        return [packet.update_item(item)]
    return [packet.skip_item(item) if isinstance(item, Skip) else packet.pressure_item(item)]


def parse_repair(head: Head, body: bytes) -> Data:
    """The data packet in a REPAIR packet, as if it had come from its own sender."""
    if len(body) <= _REPAIR.size:
        raise Nonsense("repair: cut short")
    (sender,) = _REPAIR.unpack_from(body)
    return packet.joined(structs.replace(head, sender=sender), body[_REPAIR.size :])
