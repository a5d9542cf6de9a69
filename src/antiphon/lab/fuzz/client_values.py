"""What clients send, as values that can be changed in every field, and as bytes again."""

import struct
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.lab.fuzz.mutate import Unencodable
from antiphon.lab.fuzz.packets import Bundle, bundle_bytes, folded, take_bundle_apart
from antiphon.spreadwire import layout
from antiphon.wire import bundle as bundles
from antiphon.wire import frames

_SPREAD_HEADER = struct.Struct("<I32sI4sI")


class SpreadFrame(Struct, frozen=True):
    """A frame of Spread's protocol."""

    kind: int
    sender: bytes
    hint: bytes
    names: list[bytes]
    body: bytes
    more_names: int = 0
    """How many more are announced than there are."""
    more_bytes: int = 0
    """How much longer the body is said to be than it is."""


class SpreadHello(Struct, frozen=True):
    """The first words of a Spread client."""

    major: int
    minor: int
    patch: int
    flags: int
    name: bytes
    more_bytes: int = 0
    """How much longer the name is said to be than it is."""


class SpreadChoice(Struct, frozen=True):
    """How a Spread client wants to prove who it is."""

    methods: list[bytes]


def client_value(kind: str, frame: bytes) -> Any:
    """A frame of our own client as a value."""
    if kind in ("bundle", "batch"):
        return take_bundle_apart(frame)
    return frames.decode_from_client(frame)


def owned_bundle(whole: Bundle, name: bytes) -> Bundle:
    """The bundle as the session with this private name would send it."""
    _, *groups = bundles.parse_names(whole.header.names)
    names = bundles.names_area(name.decode("ascii") or "#", groups)
    return Bundle(structs.replace(whole.header, names=names), whole.payloads)


def client_bytes(value: Any) -> bytes:
    """The frame of such a value."""
    if hasattr(value, "header"):
        return bundle_bytes(value)
    try:
        return frames.encode_control(value)
    except (OverflowError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Unencodable from error


def spread_value(kind: str, data: bytes) -> Any:
    """A piece of a Spread client's conversation as a value."""
    if kind == "hello":
        return SpreadHello(data[0], data[1], data[2], data[3], data[5:])
    if kind == "choice":
        return SpreadChoice([data[at : at + _METHOD_BYTES] for at in range(0, len(data), _METHOD_BYTES)])
    kind_bits, sender, count, hint, _ = layout.parse_header(data, 0)
    body_at = layout.HEADER_BYTES + layout.NAME_BYTES * count
    places = range(layout.HEADER_BYTES, body_at, layout.NAME_BYTES)
    names = [data[at : at + layout.NAME_BYTES] for at in places]
    return SpreadFrame(kind_bits, sender, hint, names, data[body_at:])


def spread_bytes(value: Any) -> bytes:
    """The bytes of such a value."""
    try:
        match value:
            case SpreadHello():
                start = folded(
                    lambda *numbers: bytes(numbers),
                    (value.major, value.minor, value.patch, value.flags, len(value.name) + value.more_bytes),
                    (8, 8, 8, 8, 8),
                )
                return start + bytes(value.name)
            case SpreadChoice():
                return b"".join(
                    bytes(one)[:_METHOD_BYTES].ljust(_METHOD_BYTES, b"\0") for one in value.methods
                )
            case SpreadFrame():
                names = [
                    bytes(name)[: layout.NAME_BYTES].ljust(layout.NAME_BYTES, b"\0") for name in value.names
                ]
                header = _SPREAD_HEADER.pack(
                    (value.kind | layout.LITTLE) % 2**32,
                    bytes(value.sender),
                    (len(names) + value.more_names) % 2**32,
                    bytes(value.hint),
                    (len(value.body) + value.more_bytes) % 2**32,
                )
                return header + b"".join(names) + bytes(value.body)
    except (TypeError, struct.error) as error:
        raise Unencodable from error
    raise Unencodable


_METHOD_BYTES = 30
