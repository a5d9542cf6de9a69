"""Packets between daemons as values that can be changed in every field, and as bytes again.

Everything goes through the encoders of `antiphon.wire`, so no offset stands here. What an encoder cannot
write (a number beyond its field) is folded into the field.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from antiphon.errors import BadFrame, BadPacket
from antiphon.lab.fuzz.mutate import Unencodable
from antiphon.service import Service
from antiphon.wire import bundle as bundles
from antiphon.wire import clock, membership, packet, streams, token, token_site
from antiphon.wire.bundle import Header
from antiphon.wire.extensions import Extension
from antiphon.wire.packet import (
    Ack,
    Data,
    Fragment,
    Head,
    Hello,
    Loose,
    Nack,
    PacketKind,
    Piece,
    Pressure,
    Skip,
    Update,
)
from antiphon.wire.streams import Greeting
from antiphon.wire.token import Token
from antiphon.wire.token_site import Confirm, SiteAck, SiteNack

UDP_KINDS = (
    "bundle", "part", "update", "skip", "pressure", "unreliable", "hello", "ack", "nack",
    "beat", "proposal", "token", "hurry", "held", "probe", "probed", "piece", "clock",
)  # fmt: skip
SITE_KINDS = ("site-ack", "site-nack", "confirm", "repair")
"""Kinds that only a site with the token-site protocol sends; the cluster of the experiment has none."""
STREAM_KINDS = (
    "bundle",
    "part",
    "update",
    "skip",
    "pressure",
    "unreliable",
    "hello",
    "beat",
    "proposal",
    "clock",
)
"""Kinds that go over a connection between daemons."""
GREETING, BREAKING = "greeting", "breaking"
"""Kinds of such a connection that are no packets: greetings of callers, and frames that end it."""

_PLAIN = {
    PacketKind.HELLO: "hello", PacketKind.ACK: "ack", PacketKind.NACK: "nack", PacketKind.BEAT: "beat",
    PacketKind.PROPOSAL: "proposal", PacketKind.TOKEN: "token", PacketKind.HURRY: "hurry",
    PacketKind.HELD: "held", PacketKind.PROBE: "probe", PacketKind.PROBED: "probed",
    PacketKind.PIECE: "piece", PacketKind.CLOCK: "clock", PacketKind.SITE_ACK: "site-ack",
    PacketKind.SITE_NACK: "site-nack", PacketKind.CONFIRM: "confirm", PacketKind.REPAIR: "repair",
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


class Repair(Struct, frozen=True):
    """The body of a REPAIR packet."""

    sender: int
    items: list[Any]


class Unread(Struct, frozen=True):
    """A body without a layout."""

    body: bytes


_Value = TypeVar("_Value", bound=Struct)
Item = Carried | Fragment | Update | Skip | Pressure


class Genuine(Struct, frozen=True):
    """A packet, taken apart."""

    head: Head
    body: Any
    """Items as a list, or the value of a kind that has one."""


class _Times(Struct, frozen=True):
    clock_us: int
    echo_us: int


class Part(Struct, frozen=True):
    """The body of a PIECE packet."""

    total: int
    offset: int
    body: bytes


class _Receipt(Struct, frozen=True):
    aru: int
    highest_sent: int
    delay_us: int
    newest: int
    arrived: int


class _Request(Struct, frozen=True):
    aru: int
    ranges: list[tuple[int, int]]


def sealed(data: bytes) -> bytes:
    """A whole packet of what was put together: with the checksum that follows from its other bytes."""
    return data + packet.check((data,))


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
                case Pressure():
                    return "pressure"
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
            case Piece():
                return Genuine(found.head, Part(found.total, found.offset, found.body))
            case Ack():
                receipt = _Receipt(found.aru, found.highest_sent, found.delay_us, found.newest, found.arrived)
                return Genuine(found.head, receipt)
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
        case PacketKind.CLOCK:
            return clock.parse(found.body, daemons)
        case PacketKind.SITE_ACK:
            return token_site.parse_ack(found.body)
        case PacketKind.SITE_NACK:
            return token_site.parse_nack(found.body)
        case PacketKind.CONFIRM:
            return token_site.parse_confirm(found.body)
        case PacketKind.REPAIR:
            repaired = token_site.parse_repair(found.head, found.body)
            return Repair(repaired.head.sender, [_item(item) for item in repaired.items])
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
    """The bytes of a packet, not yet sealed."""
    start = genuine.head
    prefix = folded(
        lambda kind, digest, sender, receiver, incarnation, view: packet.prefix(
            kind, digest=digest, sender=sender, receiver=receiver, incarnation=incarnation, view=view
        ),
        (start.kind, start.digest, start.sender, start.receiver, start.incarnation, start.view),
        (8, 32, 16, 16, 32, 64),
    )
    head = folded(
        lambda counter, number: packet.head(prefix, number, counter=counter),
        (start.counter, start.number),
        (64, 64),
    )
    return head + _encoded(lambda: _body(genuine.body, prefix))


def folded(write: Callable[..., bytes], values: tuple[Any, ...], bits: tuple[int, ...]) -> bytes:
    """What `write` makes of the values, each folded into its field."""
    return _encoded(lambda: write(*(value % (1 << size) for value, size in zip(values, bits, strict=True))))


def _encoded(write: Callable[[], bytes]) -> bytes:
    """The bytes of an encoder, which may refuse a value that is of another type or too large."""
    try:
        return write()
    except (
        AttributeError,
        OverflowError,
        TypeError,
        ValueError,
        struct.error,
        msgspec.MsgspecError,
    ) as error:
        raise Unencodable from error


_BITS: dict[type[Struct], dict[str, int]] = {
    clock.ClockPacket: {"basis": 8, "flags": 8, "root": 16, "wanted_s": 8},
    clock.Arrival: {"daemon": 16, "incarnation": 32, "ago_us": 32},
    Update: {"source": 16, "serial": 32},
    Skip: {"source": 16},
    Pressure: {"source": 16, "daemon": 16, "serial": 32},
    Token: {"link_modifier": 16, "site_modifier": 16, "flow": 32},
    _Receipt: {"delay_us": 32},
    SiteAck: {"next": 16, "to_go": 16},
    Confirm: {"site": 16},
}
"""The bits of fields that have fewer than 64."""


def _narrowed(value: _Value) -> _Value:
    """The value with every number folded into its field."""
    bits = _BITS.get(type(value), {})
    numbers = {
        name: number % (1 << bits.get(name, 64))
        for name in value.__struct_fields__
        if isinstance(number := getattr(value, name), int) and not isinstance(number, bool)
    }
    return msgspec.structs.replace(value, **numbers)


def _body(body: Any, prefix: bytes) -> bytes:
    """What stands behind the head."""
    match body:
        case list():
            return b"".join(map(_item_bytes, body))
        case _Times():
            times = _narrowed(body)
            return _behind_head(packet.hello(prefix, times.clock_us, times.echo_us, counter=0), 16)
        case Part():
            return packet.piece_body(body.total % 2**32, body.offset % 2**32, bytes(body.body))
        case _Receipt():
            told = _narrowed(body)
            written = packet.ack(
                prefix,
                told.aru,
                told.highest_sent,
                told.delay_us,
                newest=told.newest,
                arrived=told.arrived,
                counter=0,
            )
            return _behind_head(written, 36)
        case _Request():
            ranges = [(first % 2**64, count % 2**32) for first, count in body.ranges]
            written = packet.nack(prefix, body.aru % 2**64, ranges, counter=0)
            return _behind_head(written, 10 + 12 * len(ranges))
        case Token():
            requests = tuple(
                (daemon % 2**16, first % 2**64, count % 2**32) for daemon, first, count in body.requests
            )
            return token.encode_token(msgspec.structs.replace(_narrowed(body), requests=requests))
        case membership.Beat() | membership.Proposal():
            return membership.encode(body)
        case Held():
            return token.encode_held(body.serial % 2**64)
        case clock.ClockPacket():
            arrivals = tuple(map(_narrowed, body.arrivals))
            return clock.encode(msgspec.structs.replace(_narrowed(body), arrivals=arrivals))
        case SiteAck():
            columns = {name: tuple(one % 2**64 for one in getattr(body, name)) for name in ("sent", "arus")}
            return token_site.encode_ack(msgspec.structs.replace(_narrowed(body), **columns))
        case SiteNack():
            missing = tuple((who % 2**16, first % 2**64, count % 2**32) for who, first, count in body.missing)
            return token_site.encode_nack(SiteNack(body.answers % 2**16, missing))
        case Confirm():
            return token_site.encode_confirm(_narrowed(body))
        case Repair():
            return token_site.repair_start(body.sender % 2**16) + b"".join(map(_item_bytes, body.items))
        case Unread():
            return bytes(body.body)
    raise Unencodable


def _behind_head(whole: bytes, size: int) -> bytes:
    """The body of a packet; whatever seals it is left out."""
    return whole[packet.HEAD_BYTES : packet.HEAD_BYTES + size]


def _item_bytes(item: Item) -> bytes:
    match item:
        case Update():
            return packet.update_item(_narrowed(item))
        case Skip():
            return packet.skip_item(_narrowed(item))
        case Pressure():
            sessions = tuple((number % 2**32, name) for number, name in item.sessions)
            return packet.pressure_item(msgspec.structs.replace(_narrowed(item), sessions=sessions))
        case Carried():
            body = bundle_bytes(item.bundle)
            return _fragment(item, body, item.total or len(body))
        case Fragment():
            return _fragment(item, bytes(item.body), item.total)
    raise Unencodable


def _fragment(item: Carried | Fragment, body: bytes, total: int) -> bytes:
    fragment = Fragment(
        item.source % 2**16,
        item.number % 2**64,
        item.destinations % 2**64,
        total % 2**32,
        item.offset % 2**32,
        body,
    )
    return b"".join(packet.fragment_item(fragment, 0, len(body)))


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
                flags=header.flags % 2**16,
                tag=(header.tag + 2**15) % 2**16 - 2**15,
                sent_us=header.sent_us % 2**64,
                marks=header.marks % 2**32,
                extensions=[
                    Extension(extension.type % 2**16, bytes(extension.value))
                    for extension in header.extensions
                ],
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
    return min(max(1, count), 2**16)


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
    """The packet with fragments whose heads agree with their bundles."""
    if not isinstance(genuine.body, list):
        return genuine
    items = [
        msgspec.structs.replace(item, number=item.bundle.header.number, total=0)
        if isinstance(item, Carried)
        else item
        for item in genuine.body
    ]
    return Genuine(genuine.head, items)
