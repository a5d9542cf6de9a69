"""Packets between daemons as values that can be changed in every field, and as bytes again.

Everything goes through the encoders of `antiphon.wire`, so no offset stands here. What an encoder cannot
write (a number beyond its field) is folded into the field.
"""

import struct
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.errors import BadFrame, BadPacket
from antiphon.lab.fuzz.mutate import Unencodable
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire import membership, packet, streams, token
from antiphon.wire.bundle import Header
from antiphon.wire.packet import Ack, Data, Fragment, Head, Hello, Loose, Nack, PacketKind, Skip, Update
from antiphon.wire.streams import Greeting
from antiphon.wire.token import Token

UDP_KINDS = (
    "bundle", "part", "update", "skip", "unreliable", "hello", "ack", "nack",
    "beat", "proposal", "token", "hurry", "held", "probe", "probed",
)  # fmt: skip
STREAM_KINDS = ("bundle", "part", "update", "skip", "unreliable", "hello", "beat", "proposal")
"""Kinds that go over a connection between daemons."""

_PLAIN = {
    PacketKind.HELLO: "hello", PacketKind.ACK: "ack", PacketKind.NACK: "nack", PacketKind.BEAT: "beat",
    PacketKind.PROPOSAL: "proposal", PacketKind.TOKEN: "token", PacketKind.HURRY: "hurry",
    PacketKind.HELD: "held", PacketKind.PROBE: "probe", PacketKind.PROBED: "probed",
}  # fmt: skip


class Bundle(Struct, frozen=True):
    """A whole bundle."""

    header: Header
    payloads: list[bytes]


class Carried(Struct, frozen=True):
    """A fragment that is a whole bundle."""

    source: int
    number: int
    destinations: int
    total: int
    offset: int
    bundle: Bundle


class Held(Struct, frozen=True):
    """The body of a HELD packet."""

    serial: int


class Unread(Struct, frozen=True):
    """A body without a layout."""

    body: bytes


Item = Carried | Fragment | Update | Skip
Body = Hello | Ack | Nack | Token | membership.Beat | membership.Proposal | Held | Unread | list[Item]


class Genuine(Struct, frozen=True):
    """A packet, taken apart."""

    head: Head
    body: Any
    """One of `Body`; of kinds that repeat the head in it, without it."""


class _Times(Struct, frozen=True):
    clock_us: int
    echo_us: int


class _Receipt(Struct, frozen=True):
    aru: int
    highest_sent: int
    delay_us: int


class _Request(Struct, frozen=True):
    aru: int
    ranges: list[tuple[int, int]]


def sealed(data: bytes) -> bytes:
    """The packet with everything made right that follows from its other bytes: there is nothing yet."""
    return data


# Reading --------------------------------------------------------------------------------------------------


def kind_of(genuine: Genuine) -> str:
    """One of `UDP_KINDS`."""
    kind = genuine.head.kind
    if kind == PacketKind.UNRELIABLE:
        return "unreliable"
    if kind == PacketKind.DATA:
        for item in genuine.body:
            match item:
                case Update():
                    return "update"
                case Skip():
                    return "skip"
                case Carried():
                    return "bundle"
        return "part"
    return _PLAIN[PacketKind(kind)]


def take_apart(data: bytes, daemons: int) -> Genuine | None:
    """A packet of a cluster of so many daemons as a value; None if it is none."""
    try:
        found = packet.parse(memoryview(data))
        match found:
            case Data():
                return Genuine(found.head, [_item(item) for item in found.items])
            case Hello():
                return Genuine(found.head, _Times(found.clock_us, found.echo_us))
            case Ack():
                return Genuine(found.head, _Receipt(found.aru, found.highest_sent, found.delay_us))
            case Nack():
                return Genuine(found.head, _Request(found.aru, found.ranges))
            case _:
                return Genuine(found.head, _loose(found, daemons))
    except BadPacket:
        return None


def _loose(found: Loose, daemons: int) -> Any:
    match found.head.kind:
        case PacketKind.BEAT:
            return membership.parse_beat(found.body, daemons)
        case PacketKind.PROPOSAL:
            return membership.parse_proposal(found.body, daemons)
        case PacketKind.TOKEN:
            return token.parse_token(found.body)
        case PacketKind.HELD:
            return Held(token.parse_held(found.body))
        case _:
            return Unread(found.body)


def _item(item: packet.Item) -> Item:
    if isinstance(item, Fragment) and item.offset == 0 and item.total == len(item.body):
        try:
            whole = take_bundle_apart(bytes(item.body))
        except BadFrame:
            return item
        return Carried(item.source, item.number, item.destinations, item.total, item.offset, whole)
    return item


def take_bundle_apart(data: bytes) -> Bundle:
    """A bundle as a value; BadFrame if it is none."""
    header = bundles.parse(data)
    return Bundle(header, bundles.payloads(data, header))


# Writing --------------------------------------------------------------------------------------------------


def put_together(genuine: Genuine) -> bytes:
    """The bytes of a packet, sealed."""
    start = genuine.head
    prefix = folded(
        lambda kind, digest, sender, receiver, incarnation, view: packet.prefix(
            kind, digest=digest, sender=sender, receiver=receiver, incarnation=incarnation, view=view
        ),
        (start.kind, start.digest, start.sender, start.receiver, start.incarnation, start.view),
        (8, 32, 16, 16, 32, 64),
    )
    head = folded(lambda number: packet.head(prefix, number), (start.number,), (64,))
    return sealed(head + _body(genuine.body, prefix))


def folded(write: Callable[..., bytes], values: tuple[Any, ...], bits: tuple[int, ...]) -> bytes:
    """What `write` makes of the values, each folded into its field."""
    try:
        return write(*(value % (1 << size) for value, size in zip(values, bits, strict=True)))
    except (TypeError, struct.error) as error:  # no number any more
        raise Unencodable from error


def _body(body: Any, prefix: bytes) -> bytes:
    """What stands behind the head."""
    head_bytes = packet.HEAD_BYTES
    match body:
        case list():
            return b"".join(map(_item_bytes, body))
        case _Times():
            write = lambda clock_us, echo_us: packet.hello(prefix, clock_us, echo_us)[head_bytes:]  # noqa: E731
            return folded(write, (body.clock_us, body.echo_us), (64, 64))
        case _Receipt():
            return folded(
                lambda aru, highest, delay_us: packet.ack(prefix, aru, highest, delay_us)[head_bytes:],
                (body.aru, body.highest_sent, body.delay_us),
                (64, 64, 32),
            )
        case _Request():
            return _nack(body, prefix)[head_bytes:]
        case Token():
            return _token(body)
        case membership.Beat() | membership.Proposal():
            return _encoded(lambda: membership.encode(body))
        case Held():
            return folded(token.encode_held, (body.serial,), (64,))
        case Unread():
            return bytes(body.body)
    raise Unencodable


def _encoded(write: Callable[[], bytes]) -> bytes:
    """For encoders that refuse what is beyond their numbers."""
    try:
        return write()
    except (OverflowError, TypeError, ValueError, struct.error, msgspec.MsgspecError) as error:
        raise Unencodable from error


def _nack(body: _Request, prefix: bytes) -> bytes:
    return _encoded(
        lambda: packet.nack(
            prefix,
            body.aru % 2**64,
            [(first % 2**64, count % 2**32) for first, count in body.ranges],
        )
    )


def _token(body: Token) -> bytes:
    def write() -> bytes:
        wide = {name: getattr(body, name) % 2**64 for name in _TOKEN_WIDE}
        return token.encode_token(
            Token(
                **wide,
                link_modifier=body.link_modifier % 2**16,
                site_modifier=body.site_modifier % 2**16,
                flow=body.flow % 2**32,
                holds=tuple(hold % 2**16 for hold in body.holds),
                requests=tuple(
                    (daemon % 2**16, first % 2**64, count % 2**32) for daemon, first, count in body.requests
                ),
            )
        )

    return _encoded(write)


_TOKEN_WIDE = ("serial", "link_sequence", "link_aru", "site_sequence", "site_lts", "site_aru")


def _item_bytes(item: Item) -> bytes:
    match item:
        case Update():
            return _encoded(
                lambda: packet.update_item(
                    Update(
                        item.source % 2**16,
                        item.hold,
                        item.serial % 2**32,
                        item.number % 2**64,
                        item.lts % 2**64,
                        item.aru % 2**64,
                    )
                )
            )
        case Skip():
            numbers = (value % 2**64 for value in (item.first, item.last, item.lts, item.aru))
            return _encoded(lambda: packet.skip_item(Skip(item.source % 2**16, *numbers)))
        case Carried():
            return _fragment(item, bundle_bytes(item.bundle))
        case Fragment():
            return _fragment(item, bytes(item.body))
    raise Unencodable


def _fragment(item: Carried | Fragment, body: bytes) -> bytes:
    def write() -> bytes:
        fragment = Fragment(
            item.source % 2**16,
            item.number % 2**64,
            item.destinations % 2**64,
            (len(body) if isinstance(item, Carried) and item.total == 0 else item.total) % 2**32,
            item.offset % 2**32,
            body,
        )
        return b"".join(packet.fragment_item(fragment, 0, len(body)))

    return _encoded(write)


def bundle_bytes(whole: Bundle) -> bytes:
    """A bundle with this header and these payloads; its lengths follow from them."""
    header = whole.header

    def write() -> bytes:
        names = bytes(header.names)
        written = bytearray().join(
            bundles.encode(
                names,
                _names_in(names) - 1,
                Service(int(header.service)),
                [bytes(payload) for payload in whole.payloads],
                flags=header.flags % 2**8,
                tag=(header.tag + 2**15) % 2**16 - 2**15,
                sent_us=header.sent_us % 2**64,
                marks=header.marks % 2**32,
            )
        )
        bundles.stamp(written, _stampable(header))
        return bytes(written)

    return _encoded(write)


def _stampable(header: Header) -> Header:
    wide = ("sequence", "number", "previous", "lts", "aru", "destinations")
    return msgspec.structs.replace(
        header,
        daemon=header.daemon % 2**16,
        session=header.session % 2**32,
        incarnation=header.incarnation % 2**32,
        **{name: getattr(header, name) % 2**64 for name in wide},
    )


def _names_in(area: bytes) -> int:
    """How many names a names area has, as far as it can be read; at least the sender's."""
    count, place = 0, 0
    while place < len(area):
        place += 1 + area[place]
        count += 1
    return min(max(1, count), 255)


# Connections between daemons ------------------------------------------------------------------------------


def greeting_bytes(said: Greeting) -> bytes:
    """The frame of a greeting, with every number folded into its field."""
    return folded(
        lambda digest, sender, receiver, incarnation: streams.greeting(
            Greeting(digest, sender, receiver, incarnation, said.answer)
        ),
        (said.digest, said.sender, said.receiver, said.incarnation),
        (32, 16, 16, 32),
    )


def framed(data: bytes) -> bytes:
    """A packet as it stands on a connection."""
    return streams.length(len(data)) + data


def consistent(genuine: Genuine) -> Genuine:
    """With fragments that say of their bundles what these say of themselves."""
    if not isinstance(genuine.body, list):
        return genuine
    items = [
        msgspec.structs.replace(item, number=item.bundle.header.number, total=0)
        if isinstance(item, Carried)
        else item
        for item in genuine.body
    ]
    return Genuine(genuine.head, items)
