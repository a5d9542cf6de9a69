"""Group events: joins, leaves and disconnects, which travel as agreed bundles like any message.

Follows: thesis 3.4.1 (light-weight groups: a join or leave is one Agreed message and no flush).
"""

from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import BadFrame
from antiphon.service import Service
from antiphon.wire import bundle
from antiphon.wire.bundle import Flag

Kind = Literal["join", "leave", "disconnect"]


class GroupEvent(Struct, frozen=True):
    """What a session did; who it is stands in the bundle's header and names."""

    kind: Kind
    group: str = ""
    """Empty for a disconnect, which ends every membership of the session."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupEvent).decode


def event_bundle(sender: str, event: GroupEvent) -> bytearray:
    """An unstamped bundle that carries `event`."""
    groups = [event.group] if event.group else []
    names = bundle.names_area(sender, groups)
    return bytearray(
        b"".join(bundle.encode(names, len(groups), Service.AGREED, [_encode(event)], flags=Flag.EVENT))
    )


def parse_event(data: bytes | bytearray | memoryview, header: bundle.Header) -> GroupEvent:
    """The event in a bundle with the EVENT flag."""
    try:
        return _decode(bundle.payloads(bytes(data), header)[0])
    except msgspec.MsgspecError as error:
        raise BadFrame(f"group event: {error}") from None


def late_bundle(original: bundle.Header, data: bytes | bytearray | memoryview) -> bytearray:
    """An unstamped bundle that carries another one to a site that was left out of it."""
    groups = len(bundle.parse_names(original.names)) - 1
    return bytearray(
        b"".join(bundle.encode(original.names, groups, Service.RELIABLE, [bytes(data)], flags=Flag.LATE))
    )
